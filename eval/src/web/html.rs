//! What stands on a page, and around it.

use askama::Template;

use super::pages::{Look, Page, Pages};

/// Other articles that a page shows in full, and those that it only links to.
const SHOWN: usize = 4;
const LINKED: usize = 7;

/// An article of a page.
struct Article<'a> {
    title: &'a str,
    path: &'a str,
    paragraphs: &'a [String],
}

/// What every look shows, each in its own way.
struct View<'a> {
    article: Article<'a>,
    /// Articles about similar things, in full.
    shown: Vec<Article<'a>>,
    /// Further ones, by their titles.
    linked: Vec<Article<'a>>,
}

#[derive(Template)]
#[template(path = "web/encyclopedia.html")]
struct Encyclopedia<'a> {
    page: View<'a>,
}

#[derive(Template)]
#[template(path = "web/news.html")]
struct News<'a> {
    page: View<'a>,
}

#[derive(Template)]
#[template(path = "web/blog.html")]
struct Blog<'a> {
    page: View<'a>,
}

#[derive(Template)]
#[template(path = "web/archive.html")]
struct Archive<'a> {
    page: View<'a>,
}

impl<'a> From<&'a Page> for Article<'a> {
    fn from(page: &'a Page) -> Self {
        Self {
            title: &page.title,
            path: &page.path,
            paragraphs: &page.paragraphs,
        }
    }
}

/// The page as HTML.
pub(super) fn render(pages: &Pages, page: &Page) -> Result<String, askama::Error> {
    let mut shown: Vec<Article<'_>> = pages
        .related(page, SHOWN + LINKED)
        .into_iter()
        .map(Article::from)
        .collect();
    let linked = shown.split_off(SHOWN.min(shown.len()));
    let view = View {
        article: page.into(),
        shown,
        linked,
    };
    match page.look {
        Look::Encyclopedia => Encyclopedia { page: view }.render(),
        Look::News => News { page: view }.render(),
        Look::Blog => Blog { page: view }.render(),
        Look::Archive => Archive { page: view }.render(),
    }
}

/// How a page travels: its bytes, and the charset that it says. The old look says ISO 8859-1 if it can.
pub(super) fn encoded(page: &Page, html: String) -> (Vec<u8>, &'static str) {
    let latin = |c: char| {
        u8::try_from(c)
            .ok()
            .filter(|byte| !(0x80..0xa0).contains(byte))
    };
    if page.look == Look::Archive
        && let Some(bytes) = html.chars().map(latin).collect()
    {
        return (bytes, "iso-8859-1");
    }
    (html.into_bytes(), "utf-8")
}
