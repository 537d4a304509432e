//! An engine in front of the local web: all pages that it finds are broken in the way that its address names.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::Uri;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use url::form_urlencoded::byte_serialize;

use crate::served::Served;

/// A running engine; dropping it ends it.
pub(crate) struct Detour {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Detour {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Detour {
    pub(crate) async fn over(web: &Arc<Served>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new()
            .route("/{trouble}/search", get(search))
            .with_state(Arc::clone(web));
        #[expect(clippy::disallowed_methods, reason = "aborted by Drop")]
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, task }
    }

    /// Where a provider of SearXNG's form finds pages that have this trouble.
    pub(crate) fn url(&self, trouble: &str) -> String {
        format!("http://{}/{trouble}", self.address)
    }
}

/// What the local web finds, in the same order; only the pages' addresses are others.
async fn search(
    State(web): State<Arc<Served>>,
    Path(trouble): Path<String>,
    asked: Uri,
) -> Response {
    let query = asked.query().unwrap_or_default();
    let mut found = web.get(&format!("/search?{query}")).await.json();
    for result in found["results"].as_array_mut().unwrap() {
        let path = web.path(result["url"].as_str().unwrap());
        let to: String = byte_serialize(path.as_bytes()).collect();
        result["url"] = format!("http://{}/trouble/{trouble}?to={to}", web.address).into();
    }
    ([(CONTENT_TYPE, "application/json")], found.to_string()).into_response()
}
