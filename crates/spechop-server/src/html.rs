//! Pages that need no script: they share the style sheet of the page at `/`.
//!
//! They are templates, which escape what is put into them.

use askama::Template;
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

/// What all pages have around their bodies.
#[derive(Template)]
#[template(path = "plain.html")]
struct Plain<'a> {
    title: &'a str,
    up: &'a str,
    /// HTML, as a template has made it.
    body: &'a str,
}

/// The body of a page that says one thing.
#[derive(Template)]
#[template(source = "<p>{{ text }}</p>", ext = "html")]
pub(crate) struct Sentence<'a> {
    pub(crate) text: &'a str,
}

impl Page<'_> {
    /// A page of this title.
    pub(crate) fn of(&self, title: &str, body: &impl Template) -> Response {
        let page = |body: String| {
            let (up, body) = (self.up, &*body);
            Plain { title, up, body }.render()
        };
        let html = match body.render().and_then(page) {
            Ok(html) => html,
            Err(why) => {
                return (StatusCode::INTERNAL_SERVER_ERROR, why.to_string()).into_response();
            }
        };
        let head = [
            (CONTENT_TYPE, "text/html; charset=utf-8"),
            (CONTENT_SECURITY_POLICY, self.policy),
            (REFERRER_POLICY, "same-origin"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ];
        (self.status, head, html).into_response()
    }
}
