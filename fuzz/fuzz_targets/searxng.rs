//! Answers of a SearXNG.
#![no_main]

libfuzzer_sys::fuzz_target!(|body: &[u8]| {
    spechop_fuzz::check(spechop_web::search::searxng::parse(body));
});
