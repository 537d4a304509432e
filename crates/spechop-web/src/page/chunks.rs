//! A page to passages, ready to be ranked.

use std::sync::Arc;

use spechop_text::{Block, passages};
use spechop_types::Passage;

use super::Page;

/// The page in passages of about a hundred words, in order, each with the page's title and without a
/// score yet. Their ids, `https://example.org/page#1` and so on, stay the same as long as the page does.
pub fn chunks(page: &Page) -> Vec<Passage> {
    let block = |text: &str| Block {
        text: text.to_owned(),
        heading: false,
    };
    let blocks: Vec<Block> = page
        .text
        .lines()
        .map(block)
        .filter(|block| !block.text.is_empty())
        .collect();
    let passage = |(n, text): (usize, String)| Passage {
        id: format!("{}#{n}", page.url).into(),
        title: Arc::clone(&page.title),
        text: text.into(),
        url: Some(page.url.as_str().into()),
        score: 0.0,
    };
    (1..).zip(passages::cut(&blocks)).map(passage).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Version;

    #[test]
    fn a_page_becomes_passages_with_stable_ids() {
        let sentence = "Ten words of text stand in this one short sentence. ";
        let page = Page {
            url: "https://example.org/wiki/Ana_Ruiz?a=1".parse().unwrap(),
            title: "Ana Ruiz".into(),
            text: format!(
                "{}\n{}",
                sentence.repeat(12).trim(),
                sentence.repeat(7).trim()
            )
            .into(),
            whole: true,
            version: Version::default(),
        };
        let passages = chunks(&page);
        let ids: Vec<&str> = passages.iter().map(|passage| &*passage.id).collect();
        let base = "https://example.org/wiki/Ana_Ruiz?a=1";
        assert_eq!(ids, [format!("{base}#1"), format!("{base}#2")]);
        for passage in &passages {
            assert_eq!(&*passage.title, "Ana Ruiz");
            assert!(passage.text.ends_with("sentence."), "{passage:?}");
            assert!(
                (60..=150).contains(&passage.text.split_whitespace().count()),
                "{passage:?}"
            );
        }
        assert_eq!(chunks(&page), passages);
        assert_eq!(
            chunks(&Page {
                text: "".into(),
                ..page
            }),
            []
        );
    }
}
