//! Opens the targets that are elsewhere: the web, somebody else's retriever, tools of MCP servers, and
//! Qdrant.

use std::sync::Arc;

use spechop_config::{Target, Web};
use spechop_mcp::Ahead;
use spechop_ports::{Encoder, Retriever, SearchProvider};
use spechop_web::page::{HttpPageReader, PageReader};
use spechop_web::search::{Breaker, Chain};
use spechop_web::{HttpRetriever, KeptPages, KeptSearches, WebRetriever};

use crate::backends::{Backends, LookUp};
use crate::toolbox::OpenError;

/// Who looks up; `None` if the index does. What may not be called ahead of need is noted in the rules.
pub(crate) fn target(
    target: &Target,
    encoder: &Arc<dyn Encoder>,
    backends: &mut Backends,
    look_up: &mut LookUp,
) -> Result<Option<Arc<dyn Retriever>>, OpenError> {
    Ok(match target {
        Target::Index => None,
        Target::Web(web) => Some(the_web(web, encoder, backends, look_up)?),
        Target::Http(options) => {
            let retriever = HttpRetriever::new(options).map_err(OpenError::of("target"))?;
            Some(Arc::new(retriever))
        }
        Target::Qdrant(qdrant) => Some(crate::qdrant::open(qdrant, encoder)?),
        Target::Mcp(options) => {
            let tool = crate::mcp::open(options)?;
            if !tool.may_run_ahead() {
                look_up.only_when_needed();
                // If the operator has said so, nobody need hear it.
                if options.ahead == Ahead::Annotated {
                    tracing::warn!(
                        tool = options.tool,
                        "the tool is not known to only read, so no look-up runs ahead; \
                         if it does only read, set target.mcp.ahead = \"always\""
                    );
                }
            }
            Some(Arc::new(tool))
        }
    })
}

/// cache ─▶ chain ─▶ (turn ─▶ circuit breaker ─▶ provider), for each provider.
fn the_web(
    web: &Web,
    encoder: &Arc<dyn Encoder>,
    backends: &mut Backends,
    look_up: &LookUp,
) -> Result<Arc<dyn Retriever>, OpenError> {
    let mut providers = Vec::new();
    for provider in &web.providers {
        let engine = provider.engine.open();
        let engine = engine.map_err(OpenError::of("search provider"))?;
        let guarded = Arc::new(Breaker::new(engine, web.breaker));
        providers.push(backends.searches(guarded, provider.lanes, look_up));
    }
    let mut providers = providers.into_iter();
    let Some(first) = providers.next() else {
        let problem = "web.providers names none";
        return Err(OpenError::of("search provider")(problem));
    };
    let chain = Arc::new(Chain::new(first, providers.collect()));
    let pages = HttpPageReader::new(web.pages.clone()).map_err(OpenError::of("page reader"))?;
    let search: Arc<dyn SearchProvider> = Arc::new(KeptSearches::new(chain, web.kept));
    let pages: Arc<dyn PageReader> = Arc::new(KeptPages::new(Arc::new(pages), web.kept));
    let encoder = backends.ranks(Arc::clone(encoder), look_up);
    Ok(Arc::new(WebRetriever::new(
        search,
        pages,
        encoder,
        web.options,
    )))
}

#[cfg(test)]
mod tests;
