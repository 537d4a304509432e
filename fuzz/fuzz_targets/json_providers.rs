//! Answers of the other providers, and of a retriever over HTTP.
#![no_main]

use std::collections::HashSet;

use spechop_web::http_retriever;
use spechop_web::search::{brave, mediawiki, serper, tavily};

libfuzzer_sys::fuzz_target!(|body: &[u8]| {
    for parse in [brave::parse, tavily::parse, serper::parse, mediawiki::parse] {
        spechop_fuzz::check(parse(body));
    }
    for limit in [1, 5] {
        if let Ok(found) = http_retriever::parse(body, limit) {
            assert!(found.len() <= limit);
            assert!(found.is_sorted_by(|a, b| a.score >= b.score));
            let ids: HashSet<_> = found.iter().map(|passage| &passage.id).collect();
            assert_eq!(ids.len(), found.len());
        }
    }
});
