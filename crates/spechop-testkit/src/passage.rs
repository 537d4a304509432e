//! Passages that come from nowhere.

use std::sync::Arc;

use spechop_types::Passage;

/// A passage without an address, as near as can be.
pub fn passage(id: &str, title: &str, text: impl Into<Arc<str>>) -> Passage {
    Passage {
        id: id.into(),
        title: title.into(),
        text: text.into(),
        url: None,
        score: 1.0,
    }
}
