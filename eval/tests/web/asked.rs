//! Whole questions over the local web: our providers, pages and ranking, behind a server. Who plans and reads
//! follows rules, so that plain tests need no model.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use spechop_config::{Config, Env, Written};
use spechop_ports::{
    Call, PlanRequest, Planned, Planner, PortError, ReadRequest, Reader, Reading, SearchProvider,
};
use spechop_proto::options::Width;
use spechop_proto::{AskRequest, AskResponse};
use spechop_server::{App, Bare, Toolbox};
use spechop_testkit::{TextVectors, fill_home};
use spechop_types::{Step, SubQuestion, Tokens};
use spechop_web::page::{HttpPageReader, PageOptions};
use spechop_web::search::{Breaker, BreakerOptions, Chain, EngineKind, SearchEngine};
use spechop_web::{HttpEndpoint, WebRetriever, WebRetrieverOptions};

use crate::served::passage;
use spechop_eval::dataset::CorpusPassage;

pub(crate) const QUESTION: &str = "Where was the designer of Brackwater Bridge born?";
pub(crate) const ANSWER: &str = "Quillhaven";

/// Longer than any page takes, however busy the machine is.
pub(crate) const PATIENT: Duration = Duration::from_secs(60);

/// The pages that hold the answer, with these words in the middle of each.
pub(crate) fn gold(between: &str) -> Vec<CorpusPassage> {
    let bridge = "Brackwater Bridge is a stone bridge over the Lower Wend, with seven arches and a toll house.";
    let engineer =
        "Odalind Ferrow was an engineer of the nineteenth century, known for bridges and harbours.";
    vec![
        passage(
            "Brackwater Bridge",
            &format!("{bridge} {between} Brackwater Bridge was designed by Odalind Ferrow."),
        ),
        passage(
            "Odalind Ferrow",
            &format!("{engineer} {between} Odalind Ferrow was born in Quillhaven."),
        ),
    ]
}

/// Asks who designed the bridge, then where that person was born, and answers with the last hop's answer.
struct Walker;

#[async_trait]
impl Planner for Walker {
    async fn plan(&self, _: &Call, request: PlanRequest) -> Result<Planned, PortError> {
        let known = request.hops.last().map(|hop| &hop.answer);
        let step = match (request.hops.len(), known) {
            (0, _) => Step::Ask(SubQuestion::new("Who designed Brackwater Bridge?")),
            (1, Some(name)) => Step::Ask(SubQuestion::new(&format!("Where was {name} born?"))),
            (_, known) => Step::Answer(known.map_or("nothing".into(), Arc::clone)),
        };
        Ok(Planned {
            step,
            certainty: None,
            tokens: Tokens::default(),
        })
    }
}

/// Points at what stands behind `designed by` or `born in`, in the first passage that says it of the right one.
struct Pointer;

impl Pointer {
    fn find(request: &ReadRequest) -> Option<Arc<str>> {
        let asked = request.sub_question.as_str();
        let (of, says) = match asked.strip_prefix("Who designed ") {
            Some(what) => (what.strip_suffix('?')?, "designed by "),
            None => {
                let who = asked.strip_prefix("Where was ")?;
                (who.strip_suffix(" born?")?, "born in ")
            }
        };
        let fact = format!("{of} was {says}");
        let mut texts = request.passages.iter().map(|passage| &passage.text);
        let told = texts.find_map(|text| text.split_once(&fact))?.1;
        told.split('.').next().map(Into::into)
    }
}

#[async_trait]
impl Reader for Pointer {
    async fn read(&self, _: &Call, request: ReadRequest) -> Result<Reading, PortError> {
        Ok(Reading {
            answer: Self::find(&request),
            confidence: None,
            tokens: Tokens::default(),
        })
    }
}

const WIDTH: usize = 256;

/// Texts are as near as they share words.
fn vector(text: &str) -> Vec<f32> {
    let mut vector = vec![0.0; WIDTH];
    for word in spechop_types::canonical(text).split(' ') {
        let hash = word.bytes().fold(7_usize, |hash, byte| {
            hash.wrapping_mul(31).wrapping_add(usize::from(byte))
        });
        vector[hash % WIDTH] = 1.0;
    }
    let length = vector.iter().sum::<f32>().sqrt();
    vector.iter_mut().for_each(|part| *part /= length);
    vector
}

/// A provider of SearXNG's form that waits so long for an answer.
pub(crate) fn searxng(name: &str, url: String, time_limit: Duration) -> Arc<dyn SearchProvider> {
    let endpoint = HttpEndpoint {
        time_limit,
        ..HttpEndpoint::new(name, url)
    };
    let kind = EngineKind::Searxng {
        engines: None,
        language: None,
    };
    SearchEngine { endpoint, kind }.open().unwrap()
}

/// A server that asks these providers in their order, as the service puts them together, and reads pages of
/// `web` alone.
pub(crate) fn server(
    providers: Vec<Arc<dyn SearchProvider>>,
    web: SocketAddr,
    page_time: Duration,
) -> App {
    let guarded = |provider| Arc::new(Breaker::new(provider, BreakerOptions::default()));
    let mut providers = providers.into_iter().map(|one| guarded(one) as Arc<_>);
    let first: Arc<dyn SearchProvider> = providers.next().unwrap();
    let chain = Chain::new(first, providers.collect());
    let pages = PageOptions {
        limit: page_time,
        ports: Vec::new(),
        allow: vec![web.to_string().parse().unwrap()],
        ..PageOptions::default()
    };
    let options = WebRetrieverOptions {
        pages_time: page_time + Duration::from_millis(100),
        ..WebRetrieverOptions::default()
    };
    let pages = Arc::new(HttpPageReader::new(pages).unwrap());
    let encoder = Arc::new(TextVectors::new("words", WIDTH, vector));
    let retriever = WebRetriever::new(Arc::new(chain), pages, encoder, options);
    let bare = Bare {
        planner: Arc::new(Walker),
        drawing: Vec::new(),
        reader: Arc::new(Pointer),
        retriever: Arc::new(retriever),
        speculators: BTreeMap::new(),
    };
    let config = config();
    let toolbox = Toolbox::of(bare, &config);
    App::with_toolbox(config, toolbox)
}

/// A configuration whose models need not be real.
fn config() -> Config {
    let home = tempfile::tempdir().unwrap();
    let env: Env = [fill_home(home.path())].into_iter().collect();
    let style = [["generator.style", "--set", "tagged"]
        .map(str::to_owned)
        .into()];
    let written = Written {
        file: None,
        flags: style.into(),
    };
    Config::read(written, &env).unwrap()
}

/// The question, one thing after the other.
pub(crate) fn question(text: &str) -> AskRequest {
    let request = AskRequest {
        question: text.to_owned(),
        ..AskRequest::default()
    };
    request.with(|asked| asked.width = Some(Width::K(1)))
}

/// What was asked and found, hop by hop, and the answer.
pub(crate) fn path(answer: &AskResponse) -> Vec<(String, String)> {
    let hops = answer.hops.iter();
    let hops = hops.map(|hop| (hop.sub_question.clone(), hop.sub_answer.clone()));
    hops.chain([(String::new(), answer.answer.clone())])
        .collect()
}

/// The texts that were read for each hop, each with what it is a part of.
pub(crate) fn evidence(answer: &AskResponse) -> Vec<Vec<(&str, &str)>> {
    let read = answer.hops.iter().map(|hop| {
        let evidence = hop.observation.iter().flat_map(|seen| &seen.evidence);
        evidence.map(|one| (&*one.passage_id, &*one.text)).collect()
    });
    read.collect()
}
