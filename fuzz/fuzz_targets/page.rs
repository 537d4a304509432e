//! Pages of the web: their bytes to title and text.
#![no_main]

use spechop_web::page::extract::{Kind, extract};

const CHARS_MAX: usize = 200;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    // The first byte is what the headers would say.
    let Some((&said, body)) = input.split_first() else {
        return;
    };
    let kind = if said & 1 == 0 { Kind::Html } else { Kind::Text };
    let charset = [None, Some("utf-8"), Some("utf-16"), Some("windows-1252")][usize::from(said >> 1 & 3)];
    let whole = said & 8 == 0;
    match extract(body, kind, charset, whole, CHARS_MAX) {
        Ok(page) => {
            assert!((1..=CHARS_MAX).contains(&page.text.chars().count()), "{page:?}");
            assert!(page.title.chars().count() <= 300 && !page.title.contains('\n'), "{page:?}");
            assert!(page.text.lines().all(|line| !line.trim().is_empty()), "{page:?}");
        }
        Err(why) => assert!(why.len() < 200 && !why.contains('\n'), "{why:?}"),
    }
});
