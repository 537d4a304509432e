//! Which calls the eligibility policy lets through ahead of need.

use std::fs;
use std::sync::Mutex;

use async_trait::async_trait;
use spechop_agent::{Agent, Settings};
use spechop_ports::{Call, GuessRequest, Lane, PortError};
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::{Chance, Passage, Question, SubQuestion};

use super::*;
use crate::Env;
use crate::config::Written;

/// A configuration with this policy; nothing that it names is ever opened.
fn config(policy: &str) -> Config {
    let home = tempfile::tempdir().unwrap();
    let models = [
        "models/e5-small-v2",
        "models/onnxruntime/libonnxruntime.so",
        "indexes/default",
        "models/model.gguf",
    ];
    for file in models {
        fs::create_dir_all(home.path().join(file)).unwrap();
    }
    let policy_file = home.path().join("policy.toml");
    fs::write(&policy_file, policy).unwrap();
    let generator = home.path().join("models/model.gguf");
    let file = format!(
        "[scheduler]\npolicy = {policy_file:?}\n[generator]\nstyle = \"tagged\"\nfile = {generator:?}"
    );
    let env: Env = [("SPECHOP_DATA_DIR", home.path().to_str().unwrap())]
        .into_iter()
        .collect();
    let written = Written {
        file: Some(("c.toml".into(), file)),
        flags: Vec::new(),
    };
    Config::read(written, &env).unwrap()
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
    let own_reader = backends.reader();
    let guess = backends.guess();
    let subset = backends.retrieves(parts.clone(), &guess);
    let reader = backends.reads(parts, &own_reader, &guess);
    let hot = IndexGuesser::new(subset, reader, NonZeroUsize::MIN);
    let request = GuessRequest {
        question: question(),
        hops: Vec::new(),
        sub_question: SubQuestion::new("q0 after nothing?"),
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
        self.retrieved.lock().unwrap().push(call.lane());
        self.inner.retrieve(call, query, limit).await
    }

    async fn warm(&self, call: &Call, _: &str) -> Result<(), PortError> {
        self.warmed.lock().unwrap().push(call.lane());
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
            planner: Arc::new(script.clone()),
            reader: Arc::new(script.clone()),
            retriever: Arc::clone(&noting) as Arc<dyn Retriever>,
            speculators: BTreeMap::from([(SpeculatorKind::Llm, Arc::new(script.clone()) as _)]),
        };
        let policy = policy("full", retriever, reader, "full");
        let toolbox = Toolbox::of(bare, &config(&policy));
        let agent = Agent::new(toolbox.ports(SpeculatorKind::Llm));
        let (question, settings) = (question(), Settings::default());
        let report = agent.answer(&question, &settings, &mut |_| {}).await;
        // The head's look-ups are made in full all the same.
        assert_eq!(*report.unwrap().answer, *"so fact 2", "{policy}");
        let ahead = |lanes: &Mutex<Vec<Lane>>| lanes.lock().unwrap().contains(&Lane::Speculative);
        assert_eq!(ahead(&noting.retrieved), retrieves, "{policy}");
        assert_eq!(ahead(&noting.warmed), warms, "{policy}");
    }
}
