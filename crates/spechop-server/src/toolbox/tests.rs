//! Which calls the eligibility policy lets through ahead of need.

use std::fs;
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use spechop_agent::{Agent, Settings};
use spechop_config::Engine;
use spechop_ports::{Call, GuessRequest, Lane, PortError, TextKind};
use spechop_sched::Millicores;
use spechop_speculate::IndexGuesser;
use spechop_testkit::{Script, ScriptedPorts, TextVectors};
use spechop_types::{Chance, Owned, Passage, Question, SubQuestion, Tenant};
use tokio::time::{sleep, timeout};

use super::*;
use crate::backends::Backends;
use crate::cores;
use crate::metrics::Metrics;
use crate::server_state::scripted;
use crate::tuning::Tunings;

/// A configuration with this policy; nothing that it names is ever opened.
fn config(policy: &str) -> Config {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), policy).unwrap();
    scripted::config(&format!("[scheduler]\npolicy = {:?}", file.path()))
}

/// A policy of four grades.
fn policy(planner: &str, retriever: &str, reader: &str, speculator: &str) -> String {
    let tools = [
        ("planner", planner),
        ("retriever", retriever),
        ("reader", reader),
        ("speculator", speculator),
    ];
    tools
        .map(|(tool, grade)| format!("{tool} = {{ grade = {grade:?}, idempotence = \"safe\" }}\n"))
        .concat()
}

fn question() -> Question {
    Question::new("What comes of it?").unwrap()
}

/// Whether the hot subset guesses under this policy, and how many calls it makes.
async fn guesses(policy: &str) -> (bool, usize) {
    let config = config(policy);
    let script = ScriptedPorts::new(Script::instant(1));
    let parts = Arc::new(script.clone());
    let mut backends = Backends::new(&config);
    let own_reader = backends.reader(None);
    let guess = backends.guess();
    let subset = backends.retrieves(parts.clone(), &guess);
    let reader = backends.reads(parts, &own_reader, &guess);
    let hot = IndexGuesser::new(subset, reader, NonZeroUsize::MIN);
    let request = GuessRequest {
        question: question(),
        hops: Vec::new(),
        sub_question: SubQuestion::new("q0 after nothing?"),
        passages: NonZeroUsize::MIN,
        limit: NonZeroUsize::MIN,
    };
    let call = Call::new(Lane::Speculative, Chance::EVEN);
    let guessed = match hot.guess(&call, request).await {
        Ok(guessed) => !guessed.guesses.is_empty(),
        Err(PortError::NotSpeculated { .. }) => false,
        Err(error) => panic!("{error}"),
    };
    (guessed, script.started())
}

#[tokio::test]
async fn the_hot_subset_is_a_speculator_by_its_rule_and_by_those_of_its_parts() {
    for (retriever, reader, speculator, expected) in [
        ("full", "full", "full", (true, 2)),
        ("full", "full", "warmup", (false, 0)),
        ("full", "full", "never", (false, 0)),
        ("full", "never", "full", (false, 0)),
        ("never", "full", "full", (false, 0)),
    ] {
        let policy = policy("full", retriever, reader, speculator);
        assert_eq!(guesses(&policy).await, expected, "{policy}");
    }
    // What the policy does not name may not be called ahead.
    let unnamed = "reader = { grade = \"full\", idempotence = \"safe\" }";
    assert_eq!(guesses(unnamed).await, (false, 0));
}

/// Cores that a needed call takes at each backend, in thousandths; `None` if there are none to take.
async fn taken(config: &Config) -> Option<[u32; 5]> {
    let mut backends = Backends::new(config);
    let mut at_each = [0; 5];
    let opened = [
        backends.generator(None),
        backends.reader(None),
        backends.speculator(None),
        backends.index(),
        backends.ranking(),
    ];
    let cores = backends.opened().1?;
    for (taken, backend) in at_each.iter_mut().zip(opened) {
        let call = Call::authoritative();
        let look = async { Ok::<_, PortError>(cores.taken().needed.0) };
        *taken = backend.run(&call, 1.0, look).await.unwrap();
    }
    Some(at_each)
}

/// What computes within this process shares its cores, and nothing else does.
#[tokio::test]
async fn what_computes_here_takes_cores_and_what_waits_takes_none() {
    let mut config = config(&policy("full", "full", "full", "full"));
    config.scheduler.cores = Some(Millicores::cores(8));
    let Engine::Local(local) = &mut config.generator.engine else {
        panic!("a model of its own");
    };
    local.workers = NonZeroU32::MIN;
    local.threads = NonZeroU32::new(2);
    let spans = spechop_config::Reader::Spans {
        dir: "reader".into(),
        threads: NonZeroUsize::new(3).unwrap(),
    };
    config.reader = spans.clone();
    assert_eq!(taken(&config).await, Some([2000, 3000, 0, 1000, 1000]));
    // No call takes more than there is.
    config.scheduler.cores = Some(Millicores(500));
    assert_eq!(taken(&config).await, Some([500, 500, 0, 500, 500]));
    config.scheduler.cores = Some(Millicores::cores(8));
    config.reader = spechop_config::Reader::Generator;
    config.speculator.model = spans;
    config.injected_latency = Some(spechop_config::InjectedLatency {
        mean_ms: 1000.0,
        sigma_ms: 0.0,
        seed: 1,
    });
    assert_eq!(taken(&config).await, Some([2000, 0, 3000, 0, 1000]));
    let endpoint = spechop_llm::ChatEndpoint::new("http://127.0.0.1:1/v1", "m");
    config.generator.engine = Engine::OpenAi(endpoint);
    assert_eq!(taken(&config).await, Some([0, 0, 3000, 0, 1000]));
    // Of ports that are given nobody knows where they compute.
    assert!(Toolbox::of(bare(), &config).cores.is_none());
}

/// A look-up on the web waits for nobody's core, but to rank what it has found it takes one.
#[tokio::test]
async fn passages_of_pages_are_ranked_ahead_of_need_on_idle_cores_only() {
    let mut config = config(&policy("full", "full", "full", "full"));
    config.scheduler.cores = Some(Millicores::ONE);
    let mut backends = Backends::new(&config);
    let target = backends.target();
    let encoder = backends.ranks(Arc::new(TextVectors::alike()), &target);
    let generator = backends.generator(None);
    let needed = Call::authoritative();
    let (write, written) = tokio::sync::oneshot::channel::<()>();
    let writing = generator.run(&needed, 1.0, async {
        let _ = written.await;
        Ok(())
    });
    let of_pages = |call: Call| {
        let encoder = Arc::clone(&encoder);
        async move {
            let texts = vec!["a passage".to_owned()];
            encoder.encode(&call, TextKind::Passage, texts).await
        }
    };
    let check = async {
        let ahead = Call::new(Lane::Speculative, Chance::EVEN);
        let mut ranking = std::pin::pin!(of_pages(ahead.clone()));
        let soon = Duration::from_millis(50);
        assert!(
            timeout(soon, &mut ranking).await.is_err(),
            "no core is idle"
        );
        assert_eq!(
            of_pages(Call::authoritative()).await.unwrap().vectors.len(),
            1
        );
        ahead.promote();
        assert_eq!(ranking.await.unwrap().vectors.len(), 1);
        let ahead = Call::new(Lane::Speculative, Chance::EVEN);
        let mut ranking = std::pin::pin!(of_pages(ahead));
        assert!(
            timeout(soon, &mut ranking).await.is_err(),
            "no core is idle"
        );
        write.send(()).unwrap();
        assert!(ranking.await.is_ok());
    };
    let (written, ()) = tokio::join!(writing, check);
    written.unwrap();
}

/// Quotas and affinities change while a server runs; a number in the configuration does not.
#[tokio::test(start_paused = true)]
async fn cores_that_come_or_go_are_noticed_unless_a_number_is_written() {
    let mut config = config(&policy("full", "full", "full", "full"));
    for (named, expected) in [(None, cores::found()), (Some(Millicores(7)), Millicores(7))] {
        config.scheduler.cores = named;
        let cores = Cores::new(Millicores(7));
        let keep = cores::keep(Some(&cores), &config);
        assert!(timeout(Duration::from_secs(1), keep).await.is_err());
        assert_eq!(cores.count(), expected);
    }
}

/// Operators see what is taken of the cores.
#[tokio::test]
async fn the_metrics_say_how_many_cores_are_taken() {
    let cores = Cores::new(Millicores(1500));
    let metrics = Metrics::new(Vec::new(), Some(cores.clone()));
    let demand = spechop_sched::Demand {
        each: Millicores::ONE,
        alone: Millicores::ONE,
        guess: Millicores::ONE,
        at_once: 1,
        yields: true,
    };
    let limits = spechop_sched::Limits {
        capacity: NonZeroUsize::MIN,
        rate: None,
        speculative_max: 1,
    };
    let backend = Backend::on(&cores, demand, "a model", limits);
    for (lane, needed, guessed) in [
        (Lane::Authoritative, "1.0", "0.0"),
        (Lane::Speculative, "0.0", "1.0"),
    ] {
        let call = Call::new(lane, Chance::EVEN);
        let look = async { Ok::<_, PortError>(metrics.text()) };
        let text = backend.run(&call, 1.0, look).await.unwrap();
        for line in [
            "spechop_cores 1.5".to_owned(),
            format!("spechop_cores_authoritative {needed}"),
            format!("spechop_cores_speculative {guessed}"),
        ] {
            assert!(text.lines().any(|is| is == line), "{line}: {text}");
        }
    }
    assert!(
        !Metrics::new(Vec::new(), None)
            .text()
            .contains("spechop_cores")
    );
}

/// Ports of which nobody will hear anything.
fn bare() -> Bare {
    scripted::bare(&ScriptedPorts::new(Script::instant(1)))
}

/// `auto` feels what is needed by others: all cores at work, or a queue at an endpoint.
#[tokio::test(start_paused = true)]
async fn auto_falls_to_one_while_the_machine_is_full_and_comes_back() {
    let mut config = config(&policy("full", "full", "full", "full"));
    config.scheduler.cores = Some(Millicores::ONE);
    config.scheduler.generator.capacity = NonZeroUsize::MIN;
    let endpoint = spechop_llm::ChatEndpoint::new("http://127.0.0.1:1/v1", "m");
    for engine in [
        config.generator.engine.clone(),
        Engine::OpenAi(endpoint.clone()),
    ] {
        config.generator.engine = engine;
        let mut backends = Backends::new(&config);
        let generator = backends.generator(None);
        let (backends, cores) = backends.opened();
        let toolbox = Toolbox {
            backends,
            cores,
            ..Toolbox::of(bare(), &config)
        };
        let tunings = Tunings::new(config.scheduler.tuner, config.scheduler.history);
        let of = Owned::new(&Tenant::default(), SpeculatorKind::Llm);
        let k = || tunings.choose(&of, toolbox.load()).k.get();
        assert_eq!(k(), 3);
        let call = Call::authoritative();
        let writes = || {
            generator.run(&call, 1.0, async {
                sleep(Duration::from_secs(5)).await;
                Ok(())
            })
        };
        let look = async {
            let mut seen = Vec::new();
            for second in 0..14 {
                seen.push((second, k()));
                sleep(Duration::from_secs(1)).await;
            }
            seen
        };
        let (first, second, seen) = tokio::join!(writes(), writes(), look);
        assert!(first.is_ok() && second.is_ok());
        let ones: Vec<_> = seen.iter().filter(|at| at.1 == 1).map(|at| at.0).collect();
        // One runs at a time: the cores are taken for ten seconds, and somebody waits for five.
        let computes = matches!(config.generator.engine, Engine::Local(_));
        let last = if computes { 10 } else { 5 };
        assert_eq!(ones, (3..=last).collect::<Vec<_>>(), "{seen:?}");
    }
}

/// The index guesses over the passages that the target's look-up retrieves: both ask at the same time, and
/// the index is asked once.
#[tokio::test]
async fn a_guess_over_the_target_s_own_index_retrieves_nothing_again() {
    let config = config(&policy("full", "full", "full", "full"));
    let script = ScriptedPorts::new(Script::steady(&[true], 1, 20, 1));
    let parts = Arc::new(script.clone());
    let mut backends = Backends::new(&config);
    let (target, guess) = (backends.target(), backends.guess());
    let retriever = backends.retrieves(parts, &target);
    let near = backends.shares(&retriever, &guess);
    let needed = Call::authoritative();
    let ahead = Call::new(Lane::Speculative, Chance::EVEN);
    let query = "q0 after nothing?";
    let (found, guessed_from) = tokio::join!(
        retriever.retrieve(&needed, query, 1),
        near.retrieve(&ahead, query, 1)
    );
    assert_eq!(found.unwrap(), guessed_from.unwrap());
    assert_eq!(script.started(), 1);
}

/// Notes the lane of every retrieval that is begun, and of every warming up.
struct Noting {
    inner: ScriptedPorts,
    retrieved: Mutex<Vec<Lane>>,
    warmed: Mutex<Vec<Lane>>,
}

#[async_trait]
impl Retriever for Noting {
    async fn retrieve(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        self.retrieved.lock().push(call.lane());
        self.inner.retrieve(call, query, limit).await
    }

    async fn warm(&self, call: &Call, _: &str) -> Result<(), PortError> {
        self.warmed.lock().push(call.lane());
        Ok(())
    }
}

#[tokio::test]
async fn no_look_up_retrieves_ahead_of_a_reading_that_is_denied() {
    // Every guess is right: with k = 3 the later hops are looked up ahead of need, if they may be.
    for (retriever, reader, retrieves, warms) in [
        ("full", "full", true, false),
        ("full", "never", false, true),
        ("full", "warmup", false, true),
        ("warmup", "never", false, true),
        ("never", "never", false, false),
    ] {
        let script = ScriptedPorts::new(Script::steady(&[true, true, true], 2, 60, 2));
        let noting = Arc::new(Noting {
            inner: script.clone(),
            retrieved: Mutex::default(),
            warmed: Mutex::default(),
        });
        let bare = Bare {
            retriever: Arc::clone(&noting) as Arc<dyn Retriever>,
            ..scripted::bare(&script)
        };
        let policy = policy("full", retriever, reader, "full");
        let toolbox = Toolbox::of(bare, &config(&policy));
        let agent = Agent::new(toolbox.ports(SpeculatorKind::Llm));
        let (question, settings) = (question(), Settings::default());
        let report = agent.answer(&question, &settings, &mut |_| {}).await;
        // The head's look-ups are made in full all the same.
        assert_eq!(*report.unwrap().answer, *"so fact 2", "{policy}");
        let ahead = |lanes: &Mutex<Vec<Lane>>| lanes.lock().contains(&Lane::Speculative);
        assert_eq!(ahead(&noting.retrieved), retrieves, "{policy}");
        assert_eq!(ahead(&noting.warmed), warms, "{policy}");
    }
}

/// What it reads next continues what it has written, and of no other model is that so.
#[test]
fn a_planner_in_steps_asks_for_what_clients_have_left() {
    let mut model = config(&policy("full", "full", "full", "full")).generator;
    let left = ToolCache::open(8);
    let asks = |model: &spechop_config::Model, left: Option<&Arc<ToolCache>>| {
        let Engine::Local(options) = opening::asking(model, left).engine else {
            panic!("it is in this process");
        };
        options.tools.is_some()
    };
    assert!(!asks(&model, left.as_ref()));
    model.style = spechop_config::Style::Steps;
    assert!(asks(&model, left.as_ref()) && !asks(&model, None));
}
