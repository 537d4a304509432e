//! A page to passages, ready to be ranked.

use std::sync::Arc;

use spechop_text::{Block, passages};
use spechop_types::{Passage, canonical};

use super::Page;

/// The page in passages of about a hundred words, in order, without a score yet. No passage is of two
/// sections: what stands under a heading is often about something else. So its title is that of the page
/// and the heading. Their ids, `https://example.org/page#1` and so on, stay the same as long as the page does.
/// An address that is very long, as after a redirect, is neither in them nor beside the text.
pub fn chunks(page: &Page) -> Vec<Passage> {
    let sections = sections(page).into_iter();
    let titled = sections.flat_map(|section| {
        let title = match section.link {
            true => section.heading.into(),
            false => title(&page.title, section.heading),
        };
        let texts = passages::cut(&section.blocks).into_iter();
        texts.map(move |text| (Arc::clone(&title), text))
    });
    let url: Arc<str> = page.url.as_str().into();
    let is_short = url.len() <= Passage::URL_BYTES_MAX;
    let name = match is_short {
        true => Arc::clone(&url),
        false => Passage::id_of_text(&page.title, &url),
    };
    let url = is_short.then_some(url);
    let passage = |(n, (title, text)): (usize, (Arc<str>, String))| Passage {
        id: format!("{name}#{n}").into(),
        title,
        text: text.into(),
        url: url.clone(),
        score: 0.0,
    };
    (1..).zip(titled).map(passage).collect()
}

#[derive(Default)]
struct Section<'a> {
    heading: &'a str,
    /// Whether the heading is a link to another page.
    link: bool,
    blocks: Vec<Block>,
}

fn sections(page: &Page) -> Vec<Section<'_>> {
    let block = |text: &str| Block {
        text: text.to_owned(),
        heading: false,
        link: false,
    };
    let mut sections = vec![Section::default()];
    let mut headings = page.headings.iter().peekable();
    for (number, line) in page.text.lines().enumerate() {
        let heading = headings.next_if(|heading| heading.line == number);
        match (sections.last_mut(), heading) {
            (Some(open), None) => open.blocks.push(block(line)),
            // A heading with nothing below it is a line like others, so that nothing is lost.
            (Some(open), Some(heading)) if open.blocks.is_empty() && !open.heading.is_empty() => {
                open.blocks.push(block(open.heading));
                (open.heading, open.link) = (line, heading.link);
            }
            (_, heading) => sections.push(Section {
                heading: line,
                link: heading.is_some_and(|heading| heading.link),
                blocks: Vec::new(),
            }),
        }
    }
    if let Some(last) = sections.last_mut()
        && last.blocks.is_empty()
        && !last.heading.is_empty()
    {
        last.blocks.push(block(last.heading));
    }
    sections
}

/// The heading first, which says more of the passage. A page that names it already says it all.
fn title(page: &Arc<str>, heading: &str) -> Arc<str> {
    let words = |text: &str| format!(" {} ", canonical(text));
    if heading.is_empty() || words(page).contains(&words(heading)) {
        return Arc::clone(page);
    }
    match page.is_empty() {
        true => heading.into(),
        false => format!("{heading} ({page})").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{Heading, Version};

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
            headings: Arc::default(),
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

    #[test]
    fn the_address_of_a_page_is_kept_once_unless_it_is_very_long() {
        let read = |url_bytes: usize| -> Vec<Passage> {
            let begin = "https://h/";
            let url = format!("{begin}{}", "a".repeat(url_bytes - begin.len()));
            let heading = |line| Heading { line, link: false };
            chunks(&Page {
                headings: [0, 2, 4].map(heading).into(),
                ..Page::of_text(
                    &url.parse().unwrap(),
                    &"T".into(),
                    &"甲\n乙\n丙\n丁\n戊\n己".into(),
                )
            })
        };
        let passages = read(Passage::URL_BYTES_MAX);
        assert_eq!(passages.len(), 3);
        let of_first = passages[0].url.as_ref().unwrap();
        assert_eq!(of_first.len(), Passage::URL_BYTES_MAX);
        for passage in &passages {
            let url = passage.url.as_ref().unwrap();
            assert!(Arc::ptr_eq(url, of_first) && passage.id.starts_with(&**url));
        }
        let passages = read(Passage::URL_BYTES_MAX + 1);
        let ids: Vec<&str> = passages.iter().map(|passage| &*passage.id).collect();
        assert!(ids.iter().all(|id| id.len() < 100), "{ids:?}");
        let (base, _) = ids[0].split_once('#').unwrap();
        assert_eq!(ids, [1, 2, 3].map(|n| format!("{base}#{n}")));
        assert!(passages.iter().all(|passage| passage.url.is_none()));
    }

    #[test]
    fn no_passage_is_of_two_sections_and_nothing_is_lost() {
        let page = |text: &str, headings: &[usize]| Page {
            headings: headings
                .iter()
                .map(|line| Heading {
                    line: *line,
                    // Of those below.
                    link: text.lines().nth(*line) == Some("Teaser"),
                })
                .collect(),
            ..Page::of_text(
                &"https://h/".parse().unwrap(),
                &"Ana Ruiz - Films".into(),
                &text.into(),
            )
        };
        let read = |text: &str, headings: &[usize]| -> Vec<String> {
            let passages = chunks(&page(text, headings)).into_iter();
            passages
                .map(|p| format!("{}|{}", p.title, p.text))
                .collect()
        };
        for (text, headings, expected) in [
            (
                "Ana Ruiz\nShe films.\nEva Ruiz\nShe paints.\nAlways.",
                &[0, 2][..],
                &[
                    "Ana Ruiz - Films|She films.",
                    "Eva Ruiz (Ana Ruiz - Films)|She paints.\nAlways.",
                ][..],
            ),
            (
                "Begin.\nLife\nEarly life\nBorn.\nNotes",
                &[1, 2, 4],
                &[
                    "Ana Ruiz - Films|Begin.",
                    "Early life (Ana Ruiz - Films)|Life\nBorn.",
                    "Notes (Ana Ruiz - Films)|Notes",
                ],
            ),
            (
                "Films\nShe films.\nTeaser\nShe paints.",
                &[0, 2],
                &["Ana Ruiz - Films|She films.", "Teaser|She paints."],
            ),
            ("One.\nTwo.", &[], &["Ana Ruiz - Films|One.\nTwo."]),
            ("Only", &[0], &["Only (Ana Ruiz - Films)|Only"]),
            ("", &[], &[]),
        ] {
            assert_eq!(read(text, headings), expected, "{text}");
        }
    }
}
