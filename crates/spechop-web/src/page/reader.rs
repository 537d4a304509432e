//! Pages over HTTP.

use std::sync::Arc;

use async_trait::async_trait;
use reqwest::dns::Resolve;
use spechop_ports::Call;
use spechop_types::Activity;
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::extract::{Extract, extract};
use super::fetch::{Fetched, Web};
use super::options::{PageOptions, PageSetupError};
use super::pool::{Broken, Pool};
use super::robots::Robots;
use super::{Page, PageFailure, PageReader, Renewed, shown};
use crate::resolve::{Names, System};

/// The last part of a page's time is kept for its text: one in so many.
const SHARE_OF_TEXT: u32 = 10;
/// The first part of it at most is spent on `robots.txt`: one in so many.
const SHARE_OF_ROBOTS: u32 = 3;

/// Of a page that came in part, so many characters of text are enough.
const PART_CHARS_MIN: usize = 200;

/// Fetches pages and reads them, within one limit of time for everything.
///
/// A body that does not end in time, or that breaks off, is used as far as it came if that is enough
/// to read. A body that is too large is refused.
pub struct HttpPageReader {
    web: Web,
    robots: Option<Robots>,
    pool: Pool,
    options: PageOptions,
}

impl HttpPageReader {
    /// A reader that asks the operating system for addresses. Connects to nothing yet.
    pub fn new(options: PageOptions) -> Result<Self, PageSetupError> {
        Self::asking(options, Names::System(System::default()))
    }

    /// A reader that asks `names` for addresses. They are checked all the same.
    pub fn with_names(
        options: PageOptions,
        names: Arc<dyn Resolve>,
    ) -> Result<Self, PageSetupError> {
        Self::asking(options, Names::Given(names))
    }

    fn asking(options: PageOptions, names: Names) -> Result<Self, PageSetupError> {
        options.check()?;
        let robots = Robots::new(options.token(), options.limit / SHARE_OF_ROBOTS);
        Ok(Self {
            web: Web::new(&options, names)?,
            robots: options.robots.then_some(robots),
            pool: Pool::new(options.threads.get()).map_err(PageSetupError::Threads)?,
            options,
        })
    }

    async fn text_of(&self, call: &Call, fetched: Fetched) -> Result<Page, PageFailure> {
        let Fetched {
            url,
            kind,
            charset,
            body,
            cut,
            version,
        } = fetched;
        let (whole, chars_max) = (cut.is_none(), self.options.text_chars_max);
        let _waiting = call.doing(Activity::Queue);
        let reading = call.clone();
        let work = move || {
            let _extracting = reading.doing(Activity::Extract);
            extract(&body, kind, charset.as_deref(), whole, chars_max)
        };
        let extract = self.pool.run(call, work).await;
        let extract = extract.unwrap_or_else(|Broken| Err("its reader broke down".to_owned()));
        let enough = |extract: &Extract| extract.text.chars().nth(PART_CHARS_MIN - 1).is_some();
        match (extract, cut) {
            (extract, Some(cut)) if !extract.as_ref().is_ok_and(enough) => Err(cut),
            (Ok(extract), _) => Ok(Page {
                url,
                title: extract.title.into(),
                text: extract.text.into(),
                headings: extract.headings.into(),
                whole,
                version,
            }),
            (Err(detail), _) => Err(PageFailure::Unreadable {
                url: shown(&url),
                detail,
            }),
        }
    }
}

#[async_trait]
impl PageReader for HttpPageReader {
    async fn read(&self, call: &Call, url: &Url) -> Result<Page, PageFailure> {
        match self.fetch(call, url, None).await? {
            Renewed::Other(page) => Ok(page),
            // Nobody asked for that.
            Renewed::Same => Err(PageFailure::Unreachable {
                url: shown(url),
                detail: "status 304".to_owned(),
            }),
        }
    }

    async fn renew(&self, call: &Call, url: &Url, known: &Page) -> Result<Renewed, PageFailure> {
        self.fetch(call, url, Some(known)).await
    }
}

impl HttpPageReader {
    async fn fetch(
        &self,
        call: &Call,
        url: &Url,
        known: Option<&Page>,
    ) -> Result<Renewed, PageFailure> {
        let limit = self.options.limit;
        let end = Instant::now() + limit;
        let until = end - limit / SHARE_OF_TEXT;
        let body_bytes_max = self.options.body_bytes_max;
        let fetching = call.doing(Activity::Fetch);
        let fetched = self
            .web
            .fetch(
                call,
                url,
                known,
                self.robots.as_ref(),
                body_bytes_max,
                until,
            )
            .await?;
        drop(fetching);
        let Some(fetched) = fetched else {
            return Ok(Renewed::Same);
        };
        let late = PageFailure::Timeout {
            url: shown(url),
            limit,
        };
        timeout_at(end, self.text_of(call, fetched))
            .await
            .unwrap_or(Err(late))
            .map(Renewed::Other)
    }
}
