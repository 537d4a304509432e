//! Characters of a page, whatever is said of them.
#![no_main]

use spechop_web::page::charset::decode;

const LABELS: [Option<&str>; 8] = [
    None,
    Some("utf-8"),
    Some("utf-16"),
    Some("shift_jis"),
    Some("windows-1252"),
    Some("iso-2022-jp"),
    Some("replacement"),
    Some("nonsense"),
];

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    // The first byte is what the headers would say.
    let Some((&said, bytes)) = input.split_first() else {
        return;
    };
    let label = LABELS[usize::from(said & 7)];
    let (html, whole) = (said & 8 == 0, said & 16 == 0);
    let text = decode(bytes, label, html, whole);
    assert_eq!(text, decode(bytes, label, html, whole));
    // What is UTF-8 beyond doubt stays as it is.
    if let Ok(utf8) = std::str::from_utf8(bytes)
        && let Some(text) = &text
        && !utf8.starts_with('\u{feff}')
        && utf8.chars().filter(|c| !c.is_ascii()).count() >= 4
        && label != Some("utf-16")
        && !utf8[..utf8.floor_char_boundary(1024)].to_ascii_lowercase().contains("utf-16")
    {
        assert_eq!(text, utf8);
    }
});
