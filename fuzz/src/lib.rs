//! What holds of everything that a reader of answers makes, whatever it was given.

use std::collections::HashSet;

use spechop_ports::{SearchResult, SearchTrouble};

/// Results have addresses that can be fetched, each once, and titles of one line. Trouble is told in a
/// few words, whatever the answer said.
pub fn check(found: Result<Vec<SearchResult>, SearchTrouble>) {
    let found = match found {
        Ok(found) => found,
        Err(trouble) => {
            let told = trouble.to_string();
            assert!(told.len() < 2000 && !told.contains('\n'), "{told:?}");
            return;
        }
    };
    assert!(found.len() <= 100);
    let mut urls = HashSet::new();
    for result in &found {
        assert!(matches!(result.url.scheme(), "http" | "https"));
        assert!(result.url.host_str().is_some() && result.url.fragment().is_none());
        assert!(urls.insert(&result.url), "{} is there twice", result.url);
        assert!(result.title.chars().count() <= 300 && !result.title.contains('\n'));
        assert!(result.snippet.chars().count() <= 2000);
        assert!(result.text.as_deref().is_none_or(|text| !text.trim().is_empty()));
    }
}
