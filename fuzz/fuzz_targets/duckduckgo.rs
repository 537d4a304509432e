//! Pages of DuckDuckGo.
#![no_main]

libfuzzer_sys::fuzz_target!(|body: &[u8]| {
    spechop_fuzz::check(spechop_web::search::duckduckgo::parse(body));
});
