//! The title of a page without the name of its site: "Ana Ruiz", not "Ana Ruiz - The Daily News".
//!
//! Every passage carries the title of its page, to the encoder and to the reader. A name of a site there
//! is one more name that may be taken for the answer.

use dom_query::Document;
use spechop_text::folded;
use spechop_types::canonical;

/// What parts the name of a page from the name of its site.
const SEPARATORS: &[&str] = &[
    " - ", " – ", " — ", " | ", "｜", " « ", " » ", " · ", " • ", " :: ", " › ", " / ",
];
/// Those that are part of no name: what follows the last one is the site.
const STRONG: &[&str] = &[" | ", "｜", " « ", " » ", " · ", " • ", " :: ", " › "];
/// More headings of a page are not looked at.
const HEADINGS_MAX: usize = 20;
/// What is longer is no heading that a title repeats.
const HEADING_BYTES_MAX: usize = 1_000;

/// What a page calls itself and its site, apart from its title.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// [`canonical`].
    headings: Vec<String>,
    /// [`canonical`]; empty if it does not say.
    site: String,
}

impl Names {
    /// Of its first headings, and of what it says for those who link to it (`og:site_name`).
    pub(super) fn of(document: &Document) -> Self {
        let site = document.select_single("meta[property='og:site_name']");
        let headings = document.select("h1, h2").iter().take(HEADINGS_MAX);
        let headings = headings.map(|node| node.text());
        let headings = headings.filter(|text| text.len() <= HEADING_BYTES_MAX);
        Self {
            headings: headings.map(|text| canonical(&text)).collect(),
            site: canonical(&folded(&site.attr_or("content", ""))),
        }
    }
}

/// The part of the title that the page itself has; the whole title if none can be told.
///
/// In this order: the longest beginning or end of the title that is a heading of the page; what is left
/// without the name that the site gives itself; what stands before a sign that hardly any name contains.
pub(super) fn of_page<'a, 'h>(
    title: &'a str,
    names: &Names,
    headings: impl Iterator<Item = &'h str>,
) -> &'a str {
    let cuts = cuts(title, SEPARATORS);
    if cuts.is_empty() {
        return title;
    }
    let mut known: Vec<String> = headings.take(HEADINGS_MAX).map(canonical).collect();
    known.extend(names.headings.iter().cloned());
    let halves = |(begin, end): &(usize, usize)| [&title[..*begin], &title[*end..]];
    let mut parts: Vec<&str> = cuts.iter().flat_map(halves).collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
    let is_heading = |part: &&str| {
        let part = canonical(part);
        !part.is_empty() && known.contains(&part)
    };
    if let Some(part) = parts.into_iter().find(is_heading) {
        return part.trim();
    }
    let site = |part: &str| !names.site.is_empty() && canonical(part) == names.site;
    for (begin, end) in &cuts {
        let (left, right) = (&title[..*begin], &title[*end..]);
        if site(right) && says_something(left) {
            return left.trim();
        }
        if site(left) && says_something(right) {
            return right.trim();
        }
    }
    let last = self::cuts(title, STRONG).pop();
    match last.map(|(begin, _)| title[..begin].trim()) {
        Some(left) if says_something(left) => left,
        _ => title,
    }
}

fn says_something(part: &str) -> bool {
    part.chars().any(char::is_alphanumeric)
}

/// Where separators stand, in order.
fn cuts(title: &str, separators: &[&str]) -> Vec<(usize, usize)> {
    let of = |separator: &&str| -> Vec<(usize, usize)> {
        let found = title.match_indices(*separator);
        found.map(|(at, sign)| (at, at + sign.len())).collect()
    };
    let mut cuts: Vec<(usize, usize)> = separators.iter().flat_map(of).collect();
    cuts.sort_unstable();
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_site_is_no_part_of_a_title() {
        let page = |site: &str, headings: &[&str]| {
            let headings: String = headings.iter().map(|h| format!("<h1>{h}</h1>")).collect();
            Names::of(&Document::from(format!(
                "<meta property=og:site_name content='{site}'>{headings}"
            )))
        };
        for (title, site, headings, expected) in [
            (
                "Ana Ruiz - The Daily News",
                "",
                &["Ana  Ruiz"][..],
                "Ana Ruiz",
            ),
            (
                "The Daily News – Ana Ruiz",
                "",
                &["Home", "Ana Ruiz"],
                "Ana Ruiz",
            ),
            ("Ana - Eva - News", "", &["Ana", "Ana - Eva"], "Ana - Eva"),
            ("Ana - Eva - News", "news", &[], "Ana - Eva"),
            ("News: Ana - Eva", "News", &[], "News: Ana - Eva"),
            ("News | Ana Ruiz", "NEWS", &[], "Ana Ruiz"),
            (
                "On Ana Ruiz « notes of a reader",
                "",
                &["Another"],
                "On Ana Ruiz",
            ),
            ("Ana - Eva | Films | News", "", &[], "Ana - Eva | Films"),
            // Nothing tells which half is the site's.
            ("Ana - Eva", "", &[], "Ana - Eva"),
            ("| News", "", &[], "| News"),
            (" | News", "", &[], " | News"),
            ("Ana Ruiz", "Ana Ruiz", &["Ana"], "Ana Ruiz"),
            ("", "", &[""], ""),
            ("日本 | 新聞", "", &[], "日本"),
            ("日本｜世界 ｜新聞", "", &[], "日本｜世界"),
            ("日本｜新聞", "", &["新聞"], "新聞"),
        ] {
            let found = of_page(title, &page(site, headings), std::iter::empty());
            assert_eq!(found, expected, "{title} {site} {headings:?}");
        }
        // Headings of the article alone count, too.
        let found = of_page("Ana - Eva", &Names::default(), ["Eva"].into_iter());
        assert_eq!(found, "Eva");
    }
}
