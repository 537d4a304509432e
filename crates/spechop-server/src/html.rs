//! Pages that need no script: they share the style sheet of the page at `/`.

use axum::http::StatusCode;
use axum::http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};

/// How a page is sent.
pub(crate) struct Page<'a> {
    pub(crate) status: StatusCode,
    /// What it may load and do.
    pub(crate) policy: &'static str,
    /// From its address to that of the server: as many `../` as there are.
    pub(crate) up: &'a str,
}

impl Page<'_> {
    /// A page of this title; `body` is HTML already.
    pub(crate) fn of(&self, title: &str, body: &str) -> Response {
        let (title, up) = (escaped(title), self.up);
        let html = format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <meta name=\"color-scheme\" content=\"light dark\">\
             <link rel=\"stylesheet\" href=\"{up}page/page.css\"></head>\
             <body class=\"plain\"><h1 dir=\"auto\">{title}</h1>{body}</body></html>"
        );
        let head = [
            (CONTENT_TYPE, "text/html; charset=utf-8"),
            (CONTENT_SECURITY_POLICY, self.policy),
            (REFERRER_POLICY, "same-origin"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ];
        (self.status, head, html).into_response()
    }
}

/// A text as HTML shows it, also within quotation marks.
pub(crate) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html += "&amp;",
            '<' => html += "&lt;",
            '>' => html += "&gt;",
            '"' => html += "&quot;",
            '\'' => html += "&#39;",
            c => html.push(c),
        }
    }
    html
}

/// Whether a browser may be led there: other schemes could be scripts.
pub(crate) fn is_web(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}
