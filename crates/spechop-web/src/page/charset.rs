//! Bytes to characters.
//!
//! The order of the web: byte order mark, HTTP header, `<meta>`, then a guess. But headers lie, and
//! here nobody can switch the encoding by hand:
//!
//! * Bytes that are UTF-8 beyond doubt are UTF-8, whatever is said of them.
//! * Bytes that are said to be UTF-8 and are not are guessed at.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// Where a page may declare its encoding.
const META_BYTES: usize = 1024;
/// What a guess is made from. More changes it seldom.
const GUESS_BYTES: usize = 64 << 10;
/// So many characters outside ASCII are valid UTF-8 by design; fewer may be by chance.
const WIDE_CHARS_MIN: usize = 4;
/// Begins a change of characters in ISO-2022-JP, which is ASCII to the eye.
const ESCAPE: u8 = 0x1b;
/// Text of which a larger share has no meaning is no text: one character in so many.
const BROKEN_SHARE: usize = 20;

/// The characters of a page. `header` is the encoding that its HTTP header names; `whole` says
/// whether the bytes are complete. `None` if they are no text.
pub fn decode<'a>(
    bytes: &'a [u8],
    header: Option<&str>,
    html: bool,
    whole: bool,
) -> Option<Cow<'a, str>> {
    let (encoding, bom) =
        Encoding::for_bom(bytes).unwrap_or_else(|| (encoding_of(bytes, header, html), 0));
    let mut bytes = &bytes[bom..];
    if !whole && encoding == UTF_8 {
        bytes = without_torn_end(bytes);
    }
    let (text, _) = encoding.decode_without_bom_handling(bytes);
    is_text(&text).then_some(text)
}

fn encoding_of(bytes: &[u8], header: Option<&str>, html: bool) -> &'static Encoding {
    let header = header.and_then(|label| Encoding::for_label(label.as_bytes()));
    // In UTF-16, each end of a line and each mark of HTML has a zero.
    let header = header.filter(|encoding| !is_utf16(encoding) || bytes.contains(&0));
    let declared = header.or_else(|| if html { of_markup(bytes) } else { None });
    let utf8 = Utf8::of(bytes);
    match declared {
        // What is UTF-16 in truth may look like ASCII with gaps, which is UTF-8, too.
        Some(encoding) if is_utf16(encoding) => encoding,
        _ if utf8.broken == 0 && utf8.wide >= WIDE_CHARS_MIN => UTF_8,
        Some(encoding) if encoding == UTF_8 && utf8.is_other() => guess(bytes),
        Some(encoding) => encoding,
        None => guess(bytes),
    }
}

fn is_utf16(encoding: &Encoding) -> bool {
    encoding == UTF_16BE || encoding == UTF_16LE
}

fn guess(bytes: &[u8]) -> &'static Encoding {
    let utf8 = Utf8::of(bytes);
    if !utf8.is_other() && (utf8.wide > 0 || !bytes.contains(&ESCAPE)) {
        return UTF_8;
    }
    // ISO-2022-JP: nothing on a page is run, so what a browser must fear is no danger here.
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    let sample = &bytes[..bytes.len().min(GUESS_BYTES)];
    detector.feed(sample, sample.len() == bytes.len());
    match detector.guess(None, Utf8Detection::Allow) {
        // What speaks against UTF-8 stands behind the sample.
        encoding if encoding == UTF_8 && utf8.is_other() => WINDOWS_1252,
        encoding => encoding,
    }
}

/// What bytes look like if they are taken for UTF-8.
struct Utf8 {
    /// Characters outside ASCII.
    wide: usize,
    /// Places that are not UTF-8.
    broken: usize,
}

impl Utf8 {
    fn of(bytes: &[u8]) -> Self {
        let (mut wide, mut broken) = (0, 0);
        for chunk in without_torn_end(bytes).utf8_chunks() {
            // Each character outside ASCII has one byte that begins it.
            wide += chunk.valid().bytes().filter(|byte| *byte >= 0xc0).count();
            broken += usize::from(!chunk.invalid().is_empty());
        }
        Self { wide, broken }
    }

    /// Whether it is something else rather than UTF-8 with faults.
    fn is_other(&self) -> bool {
        self.broken > self.wide
    }
}

/// Without the beginning of a last character that is not there as a whole.
fn without_torn_end(bytes: &[u8]) -> &[u8] {
    let continues = |byte: &u8| (0x80..0xc0).contains(byte);
    let Some(begin) = bytes.iter().rposition(|byte| !continues(byte)) else {
        return bytes;
    };
    match std::str::from_utf8(&bytes[begin..]) {
        Err(error) if error.error_len().is_none() => &bytes[..begin],
        _ => bytes,
    }
}

/// What the first bytes of a page say, by the rules of HTML as far as pages need them.
fn of_markup(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = bytes[..bytes.len().min(META_BYTES)].to_ascii_lowercase();
    let encoding =
        declared(&head, b"<?xml", b"encoding").or_else(|| declared(&head, b"<meta", b"charset"));
    match encoding? {
        // It could be read, so it is not that.
        encoding if is_utf16(encoding) => Some(UTF_8),
        encoding if encoding == encoding_rs::X_USER_DEFINED => Some(WINDOWS_1252),
        encoding => Some(encoding),
    }
}

/// The first known label behind `key=` in a tag that begins so, comments aside.
fn declared(head: &[u8], tag: &[u8], key: &[u8]) -> Option<&'static Encoding> {
    let mut rest = head;
    loop {
        let at = rest.iter().position(|byte| *byte == b'<')?;
        rest = &rest[at..];
        if let Some(comment) = rest.strip_prefix(b"<!--") {
            rest = &comment[find(comment, b"-->")?..];
            continue;
        }
        let inside = rest.strip_prefix(tag);
        rest = &rest[1..];
        if let Some(inside) = inside {
            let end = inside
                .iter()
                .position(|byte| *byte == b'>')
                .unwrap_or(inside.len());
            if let Some(encoding) = labelled(&inside[..end], key) {
                return Some(encoding);
            }
        }
    }
}

fn labelled(tag: &[u8], key: &[u8]) -> Option<&'static Encoding> {
    let mut rest = tag;
    loop {
        rest = &rest[find(rest, key)? + key.len()..];
        let Some(value) = rest.trim_ascii_start().strip_prefix(b"=") else {
            continue;
        };
        let value = value.trim_ascii_start();
        let value = match value.first() {
            Some(b'"' | b'\'') => &value[1..],
            _ => value,
        };
        let end =
            |byte: &u8| matches!(byte, b'"' | b'\'' | b';' | b'/') || byte.is_ascii_whitespace();
        let end = value.iter().position(end).unwrap_or(value.len());
        if let Some(encoding) = Encoding::for_label(&value[..end]) {
            return Some(encoding);
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// Whether nearly all characters mean something.
fn is_text(text: &str) -> bool {
    let means_nothing =
        |c: &char| *c == char::REPLACEMENT_CHARACTER || (c.is_control() && !c.is_whitespace());
    let broken = text.chars().filter(means_nothing).count();
    broken * BROKEN_SHARE <= text.chars().count()
}

#[cfg(test)]
mod tests {
    use encoding_rs::{EUC_KR, GBK, ISO_8859_2, SHIFT_JIS, WINDOWS_1251};

    use super::*;

    const FRENCH: &str =
        "Où étaient-ils passés ? À la forêt, où l'été s'achève déjà, près du château.";
    const JAPANESE: &str = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。";
    const RUSSIAN: &str = "Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива по-своему.";
    const KOREAN: &str = "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.";
    const POLISH: &str =
        "Zażółć gęślą jaźń. Wszyscy ludzie rodzą się wolni i równi pod względem swej godności.";

    fn encoded(text: &str, encoding: &'static Encoding) -> Vec<u8> {
        let (bytes, _, unmappable) = encoding.encode(text);
        assert!(!unmappable, "{text}");
        bytes.into_owned()
    }

    fn utf16(text: &str, big: bool) -> Vec<u8> {
        let bytes = |unit: u16| {
            if big {
                unit.to_be_bytes()
            } else {
                unit.to_le_bytes()
            }
        };
        text.encode_utf16().flat_map(bytes).collect()
    }

    #[track_caller]
    fn check(bytes: &[u8], header: Option<&str>, expected: &str) {
        assert_eq!(decode(bytes, header, true, true).as_deref(), Some(expected));
    }

    #[test]
    fn every_way_to_say_it_is_understood() {
        let french = encoded(FRENCH, WINDOWS_1252);
        check(&french, Some("ISO-8859-1"), FRENCH);
        check(&french, Some("latin1"), FRENCH);
        for meta in [
            "<meta charset=windows-1252>",
            "<META CHARSET = 'Windows-1252' >",
            "<!-- <meta charset=utf-8> --><meta charset=\"cp1252\"/>",
            "<meta http-equiv=content-type content='text/html; charset=iso-8859-1'>",
            "<meta name=charset content=charset><meta charset=nonsense charset=latin1>",
            "<?xml version=\"1.0\" encoding=\"windows-1252\"?>",
        ] {
            let page = [meta.as_bytes(), &french].concat();
            check(&page, None, &format!("{meta}{FRENCH}"));
        }
        check(&utf16(FRENCH, false), Some("utf-16"), FRENCH);
        check(&utf16(FRENCH, true), Some("utf-16be"), FRENCH);
        // A mark outdoes the header.
        check(
            &[&[0xff, 0xfe], &utf16(JAPANESE, false)[..]].concat(),
            Some("utf-8"),
            JAPANESE,
        );
        check(
            &[&[0xfe, 0xff], &utf16(JAPANESE, true)[..]].concat(),
            None,
            JAPANESE,
        );
        check(
            &[b"\xef\xbb\xbf", FRENCH.as_bytes()].concat(),
            Some("latin1"),
            FRENCH,
        );
        check(&encoded(JAPANESE, SHIFT_JIS), Some("Shift_JIS"), JAPANESE);
        check(b"plain", None, "plain");
        check(b"", None, "");
    }

    /// One byte, which nobody would guess to be Greek or Russian.
    #[test]
    fn the_header_goes_before_the_page_and_the_page_before_a_guess() {
        let greek = "<meta charset=iso-8859-7>";
        for (markup, header, letter) in [
            ("", None, 'á'),
            (greek, None, 'α'),
            (greek, Some("windows-1251"), 'б'),
            // A header that names nothing.
            (greek, Some("nonsense"), 'α'),
            ("<?xml version=\"1.0\" encoding=\"iso-8859-7\"?>", None, 'α'),
            (
                "<!-- <meta charset=windows-1251> --><meta charset='iso-8859-7'>",
                None,
                'α',
            ),
            (
                "<meta http-equiv=content-type content='text/html; charset=iso-8859-7'>",
                None,
                'α',
            ),
        ] {
            let page = [markup.as_bytes(), b"\xe1 x"].concat();
            check(&page, header, &format!("{markup}{letter} x"));
        }
    }

    #[test]
    fn what_nobody_says_is_guessed() {
        for (text, encoding) in [
            (FRENCH, WINDOWS_1252),
            (JAPANESE, SHIFT_JIS),
            (JAPANESE, encoding_rs::EUC_JP),
            (JAPANESE, encoding_rs::ISO_2022_JP),
            (RUSSIAN, WINDOWS_1251),
            (RUSSIAN, encoding_rs::KOI8_R),
            (KOREAN, EUC_KR),
            (POLISH, ISO_8859_2),
            (
                "数学是研究数量、结构以及空间等概念及其变化的一门学科。",
                GBK,
            ),
            (JAPANESE, UTF_8),
        ] {
            let text = text.repeat(3);
            check(&encoded(&text, encoding), None, &text);
        }
    }

    #[test]
    fn a_lie_is_found_out() {
        // Said to be UTF-8, and not.
        check(&encoded(FRENCH, WINDOWS_1252), Some("utf-8"), FRENCH);
        check(&encoded(JAPANESE, SHIFT_JIS), Some("utf-8"), JAPANESE);
        let page = format!("<meta charset=utf-8>{RUSSIAN}");
        check(&encoded(&page, WINDOWS_1251), None, &page);
        // UTF-8, and said to be something else.
        check(FRENCH.as_bytes(), Some("latin1"), FRENCH);
        check(JAPANESE.as_bytes(), Some("shift_jis"), JAPANESE);
        let page = format!("<meta charset=windows-1252>{RUSSIAN}");
        check(page.as_bytes(), None, &page);
        // A header that says UTF-16, whatever it calls it.
        for header in ["utf-16", "unicode", "utf-16be"] {
            check(FRENCH.as_bytes(), Some(header), FRENCH);
            check(b"<p>plain</p>", Some(header), "<p>plain</p>");
            check(page.as_bytes(), Some(header), &page);
        }
        // One fault makes nothing else of it.
        let torn = [FRENCH.as_bytes(), b" \xff ", FRENCH.as_bytes()].concat();
        check(&torn, Some("utf-8"), &format!("{FRENCH} \u{fffd} {FRENCH}"));
        check(&torn, None, &format!("{FRENCH} \u{fffd} {FRENCH}"));
        // Too little to be sure: the header holds.
        check("é".as_bytes(), Some("latin1"), "Ã©");
    }

    #[test]
    fn a_part_loses_nothing_but_its_torn_end() {
        let bytes = JAPANESE.as_bytes();
        for length in 0..bytes.len() {
            let part = decode(&bytes[..length], Some("utf-8"), true, false).unwrap();
            assert!(
                JAPANESE.starts_with(&*part) && length - part.len() < 3,
                "{length}"
            );
        }
    }

    #[test]
    fn what_is_no_text_is_said_to_be_none() {
        let picture: Vec<u8> = (0..4000_u32)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        assert_eq!(decode(&[0; 100], None, true, true), None);
        assert_eq!(decode(&picture, Some("utf-8"), true, true), None);
        assert_eq!(decode(&picture, None, true, true), None);
        // UTF-16 of which nobody says so.
        assert_eq!(decode(&utf16(FRENCH, false), None, true, true), None);
    }
}
