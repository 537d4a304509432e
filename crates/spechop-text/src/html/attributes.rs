//! Tags with so many attributes that the tokeniser would take hours.
//!
//! For every attribute html5ever compares its name with those of all attributes before it in the tag,
//! so a tag of a million attributes costs 10^12 comparisons. Tags are therefore counted through
//! beforehand, by the rules of the HTML standard for where tags begin and end.

use super::RAW;

/// Most attributes of a tag. Those of real pages have a few dozen.
pub const ATTRIBUTES_MAX: usize = 256;

/// Whether no tag of the page has too many attributes. Linear in the size of the page.
pub(super) fn fit(text: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        rest = match rest.as_bytes() {
            [b'!', b'-', b'-', ..] => after_comment(&rest[1..]),
            [b'!' | b'?', ..] => after(rest, ">"),
            [b'/', c, ..] if c.is_ascii_alphabetic() => {
                let tag = Tag::read(&rest[1..]);
                if tag.attributes > ATTRIBUTES_MAX {
                    return false;
                }
                tag.rest
            }
            [b'/', ..] => after(rest, ">"),
            [c, ..] if c.is_ascii_alphabetic() => {
                let tag = Tag::read(rest);
                if tag.attributes > ATTRIBUTES_MAX {
                    return false;
                }
                match tag.closed || !is_raw(tag.name) {
                    true => tag.rest,
                    false => end_of_raw(tag.rest, tag.name),
                }
            }
            _ => rest,
        };
    }
    true
}

/// Whether what follows the start tag of that name is no markup.
pub fn is_raw(name: &str) -> bool {
    RAW.iter().any(|raw| raw.eq_ignore_ascii_case(name))
}

struct Tag<'a> {
    name: &'a str,
    attributes: usize,
    /// Whether it ends in `/>`.
    closed: bool,
    /// What follows it.
    rest: &'a str,
}

impl<'a> Tag<'a> {
    /// Reads a tag from its name on.
    fn read(text: &'a str) -> Self {
        let (name, mut rest) = until(text, |c| is_gap(c) || c == '/' || c == '>');
        let (mut attributes, mut closed) = (0, false);
        loop {
            let mut chars = rest.chars();
            match chars.next() {
                Some('>') => {
                    rest = chars.as_str();
                    break;
                }
                None => break,
                Some(c) if is_gap(c) || c == '/' => {
                    closed = c == '/';
                    rest = chars.as_str();
                }
                Some(_) => {
                    closed = false;
                    attributes += 1;
                    rest = after_attribute(chars.as_str());
                }
            }
        }
        Self {
            name,
            attributes,
            closed,
            rest,
        }
    }
}

/// What follows an attribute, whose first character is read already.
fn after_attribute(text: &str) -> &str {
    let (_, rest) = until(text, |c| is_gap(c) || matches!(c, '/' | '>' | '='));
    let Some(value) = rest.trim_start_matches(is_gap).strip_prefix('=') else {
        return rest;
    };
    let value = value.trim_start_matches(is_gap);
    match value.chars().next() {
        Some(quote @ ('"' | '\'')) => after(&value[1..], if quote == '"' { "\"" } else { "'" }),
        _ => until(value, |c| is_gap(c) || c == '>').1,
    }
}

fn is_gap(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0c')
}

fn until(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

/// What follows the first `end`.
fn after<'a>(text: &'a str, end: &str) -> &'a str {
    text.find(end).map_or("", |at| &text[at + end.len()..])
}

/// What follows the end of a comment: `-->`, or `--!>` by mistake.
fn after_comment(text: &str) -> &str {
    let mut rest = text;
    while let Some(at) = rest.find("--") {
        let behind = &rest[at + 2..];
        if let Some(rest) = behind.strip_prefix('>').or(behind.strip_prefix("!>")) {
            return rest;
        }
        rest = &rest[at + 1..];
    }
    ""
}

/// From the end tag on that ends an element without markup.
fn end_of_raw<'a>(text: &'a str, name: &str) -> &'a str {
    let mut rest = text;
    while let Some(at) = rest.find("</") {
        let (found, behind) = rest[at + 2..]
            .split_at_checked(name.len())
            .unwrap_or_default();
        if found.eq_ignore_ascii_case(name)
            && behind.starts_with(|c| is_gap(c) || c == '/' || c == '>')
        {
            return &rest[at..];
        }
        rest = &rest[at + 2..];
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_attributes_of_tags_count() {
        let many = |n: usize| " a".repeat(n);
        let (full, over) = (many(ATTRIBUTES_MAX), many(ATTRIBUTES_MAX + 1));
        for (page, fits) in [
            (format!("<p{full}>{over}<p>"), true),
            (format!("text {over} < {over}"), true),
            (format!("<p{over}>"), false),
            (format!("<p{over}"), false),
            (format!("</p{over}>"), false),
            (format!("<p title='{over}' b=\"{over}\">"), true),
            (format!("<p title=x{over}>"), false),
            (format!("<p title = '>'{over}>"), false),
            (format!("<!--><p{over}>"), false),
            (format!("<!-- --!><p{over}>"), false),
            (format!("<!-- - -> <p{over}> -->"), true),
            (format!("<!doctype{over}><p>"), true),
            (format!("<?xml{over}?></ {over}>"), true),
            (
                format!("<script>if (a<b{over}) '</scriptx'</SCRIPT ><p>"),
                true,
            ),
            (format!("<Style></style><p{over}>"), false),
            (format!("<script/><p{over}>"), false),
            (format!("<script src=x/><p{over}></script>"), true),
            (format!("<script><é{over}></scripté"), true),
        ] {
            assert_eq!(
                fit(&page),
                fits,
                "{}",
                page.replace(&over, "…").replace(&full, "…")
            );
        }
    }
}
