//! Bars for long work, on the standard error. Where that is no terminal, nothing is drawn.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar of this look.
pub(crate) fn bar(length: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template);
    debug_assert!(style.is_ok(), "{template}");
    ProgressBar::new(length).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
