//! What survives a restart, and what damage does.

use std::fs;
use std::num::NonZeroUsize;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use spechop_agent::StageTimes;
use spechop_config::{Config, Env, Written};
use spechop_sim::PastGuess;
use spechop_testkit::damage::{Damage, Trace};
use spechop_types::{Activities, CommitKind, Hop, Observation, SubQuestion};
use tempfile::TempDir;

mod bounds;

use super::kept::{Kept, PURPOSE};
use super::*;
use crate::state::{Useless, Writing};

/// A data folder, and servers that have it one after the other.
struct Home {
    folder: TempDir,
    registry: Registry,
    writing: Writing,
}

impl Home {
    fn new() -> Self {
        let mut registry = Registry::default();
        let home = Self {
            folder: tempfile::tempdir().unwrap(),
            writing: Writing::new(&mut registry),
            registry,
        };
        for file in [
            "models/e5-small-v2-int8/model.onnx",
            "models/onnxruntime/libonnxruntime.so",
            "models/m.gguf",
            "indexes/default/manifest.json",
            "other/manifest.json",
        ] {
            let file = home.path(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        home
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// What is told of its file.
    fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }

    fn state(&self) -> PathBuf {
        self.path("tuning.json")
    }

    fn config(&self, toml: &str) -> Config {
        let variables = [
            ("SPECHOP_DATA_DIR", self.path("").display().to_string()),
            (
                "SPECHOP_GENERATOR_FILE",
                self.path("models/m.gguf").display().to_string(),
            ),
        ];
        let written = Written {
            file: Some(("c.toml".into(), toml.to_owned())),
            ..Written::default()
        };
        Config::read(written, &variables.into_iter().collect::<Env>()).unwrap()
    }

    /// Starts a server that keeps what it learns.
    async fn start(&self, toml: &str) -> (Arc<Tunings>, Keeper) {
        let config = self.config(toml);
        let tunings = Tunings::new(config.scheduler.tuner, config.scheduler.history);
        let tunings = Arc::new(tunings);
        let keeper = Keeper::open(&config, &tunings, &self.writing).await;
        (tunings, keeper)
    }

    /// Starts one that learns so much and keeps it.
    async fn taught(&self, toml: &str, count: u32) -> (Arc<Tunings>, Keeper) {
        let (tunings, keeper) = self.start(toml).await;
        teach(&tunings, count);
        keeper.save().await;
        (tunings, keeper)
    }
}

fn llm(tenant: &str) -> TuningOf {
    let tenant = Tenant::try_from(tenant.to_owned()).unwrap();
    Owned::new(&tenant, SpeculatorKind::Llm)
}

/// `count` questions of two hops of the default tenant, with times that take all their digits.
fn teach(tunings: &Tunings, count: u32) {
    teach_of(tunings, &llm(""), count);
}

fn teach_of(tunings: &Tunings, of: &TuningOf, count: u32) {
    for n in 0..count {
        let time = Duration::from_nanos(1_234_567 + u64::from(n) * 7_919);
        let hops = [n % 3 == 0, true].map(|accepted| Stages {
            segment: Some(time.as_secs_f64()),
            target: Some(time.as_secs_f64() * 9.7),
            speculation: Some(time.as_secs_f64() / 3.0),
            accepted: Some(accepted),
        });
        let hop = |hop: &Stages| PastHop {
            draft_held: None,
            segment_ms: hop.segment.unwrap() * 1000.0,
            target_ms: hop.target.unwrap() * 1000.0,
            guess: PastGuess::Compared {
                ms: hop.speculation.unwrap() * 1000.0,
                accepted: hop.accepted.unwrap(),
                confidence: Some(0.1 + 0.2),
            },
            depends_on: Some([].into()),
        };
        let past = Past {
            hops: hops.iter().map(hop).collect(),
            final_ms: 1.0 / 3.0,
        };
        tunings.learn(
            of.clone(),
            NonZeroUsize::MAX,
            &hops,
            past,
            Some(hops.len() as u64 + 1),
            [("index", true)],
        );
    }
}

/// All that `GetTuning` and `WhatIf` look at for the default tenant.
fn known(tunings: &Tunings) -> String {
    known_to(tunings, &llm(""))
}

fn known_to(tunings: &Tunings, of: &TuningOf) -> String {
    let say = |known: &Known| {
        let (choice, members) = (&known.choice, &known.members);
        format!(
            "{:?} {choice:?} {} {members:?}",
            known.speculator, known.hops
        )
    };
    let known: Vec<String> = tunings
        .known(&of.tenant, 0.0, false)
        .iter()
        .map(say)
        .collect();
    let chance = tunings.guess_chance(of);
    format!("{known:?} {chance} {:?}", tunings.history(of))
}

/// Hops that the default tenant's estimates come from, by speculator.
fn hops(tunings: &Tunings) -> Vec<u64> {
    let known = tunings.known(&Tenant::default(), 0.0, false);
    known.iter().map(|known| known.hops).collect()
}

#[tokio::test]
async fn what_was_learnt_is_known_after_a_restart() {
    let home = Home::new();
    let (before, _) = home.taught("", 40).await;
    let mode = fs::metadata(home.state()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "nobody else's business");

    let (after, keeper) = home.start("").await;
    assert_eq!(known(&after), known(&before));
    // Both learn on alike.
    for tunings in [&before, &after] {
        teach(tunings, 3);
    }
    assert_eq!(known(&after), known(&before));
    keeper.save().await;
    assert_eq!(known(&home.start("").await.0), known(&before));
}

#[tokio::test]
async fn another_history_or_half_life_takes_up_what_fits() {
    let home = Home::new();
    home.taught("", 40).await;
    let (after, _) = home.start("[tuning]\nhistory = 5\nhalf_life = 10.0").await;
    assert_eq!(after.history(&llm("")).len(), 5);
    assert_eq!(hops(&after), [80]);
}

#[tokio::test]
async fn what_others_have_taught_is_not_taken_over() {
    let home = Home::new();
    home.taught("", 40).await;
    let other = home.path("other").display().to_string();
    let openai = "kind = \"openai\"\nbase_url = \"http://h/v1\"\nmodel = \"m\"";
    for toml in [
        format!("[generator]\n{openai}"),
        format!("[reader]\n{openai}"),
        format!("[fallback]\n{openai}"),
        format!("[index]\ndir = {other:?}"),
        format!("[encoder]\ndir = {other:?}"),
        format!("[speculator.model]\n{openai}"),
        "[target.injected_latency]\nmean_ms = 5".to_owned(),
        "[target]\nkind = \"web\"".to_owned(),
        "[target]\nkind = \"http\"\nurl = \"http://h/retrieve\"".to_owned(),
        "[target]\nkind = \"qdrant\"".to_owned(),
    ] {
        assert!(hops(&home.start(&toml).await.0).is_empty(), "{toml}");
    }
    for toml in ["[generator]\nthreads = 7", "[question]\nk = 5"] {
        assert_eq!(hops(&home.start(toml).await.0), [80], "{toml}");
    }
    // The same name, another model.
    fs::write(home.path("models/m.gguf"), "another one").unwrap();
    assert!(hops(&home.start("").await.0).is_empty());
}

#[tokio::test]
async fn the_web_is_another_one_if_others_search_it() {
    let home = Home::new();
    let web =
        |provider: &str| format!("[target]\nkind = \"web\"\n[web]\nproviders = [{provider:?}]");
    home.taught(&web("mediawiki"), 1).await;
    assert!(!hops(&home.start(&web("mediawiki")).await.0).is_empty());
    assert!(hops(&home.start(&web("duckduckgo")).await.0).is_empty());
}

#[tokio::test]
async fn no_file_is_kept_where_none_is_wanted() {
    let home = Home::new();
    home.taught("[tuning]\nstate = \"none\"", 1).await;
    assert!(!home.state().exists());
}

#[tokio::test(start_paused = true)]
async fn it_is_written_once_a_minute_if_anything_was_learnt() {
    let home = Home::new();
    let (tunings, keeper) = home.start("").await;
    let minute = Duration::from_secs(60);
    let wait = async |minutes: u32| {
        let enough = minute * minutes + Duration::from_secs(1);
        let _ = tokio::time::timeout(enough, keeper.keep()).await;
    };
    wait(2).await;
    assert!(!home.state().exists());
    teach(&tunings, 1);
    wait(1).await;
    let kept: Option<Kept> = PURPOSE.read(&home.state()).unwrap();
    let kept = kept.unwrap().tunings;
    assert_eq!((kept.len(), kept[0].hops), (1, 2));
    fs::remove_file(home.state()).unwrap();
    wait(2).await;
    assert!(!home.state().exists(), "nothing new");
}

/// What is wrong with a file, and what becomes of it.
#[tokio::test]
async fn a_file_that_is_of_no_use_is_put_aside_and_learning_begins_anew() {
    let home = Home::new();
    home.taught("", 10).await;
    let whole = fs::read_to_string(home.state()).unwrap();
    let aside = home.path("tuning.json.damaged");
    for (damage, reason) in [
        (String::new(), "damaged"),
        (whole[..whole.len() / 2].to_owned(), "damaged"),
        (whole.replace("\"hops\": 20", "\"hops\": 21"), "damaged"),
        // As the first version wrote it, for all tenants together.
        (whole.replace("\"format\": 2", "\"format\": 1"), "format 1"),
        (whole.replace("\"format\": 2", "\"form\": 2"), "damaged"),
        (
            whole.replace("\"tenant\": \"\"", "\"tenant\": \"a b\""),
            "damaged",
        ),
        ("what is this?\n".to_owned(), "damaged"),
        ("[".repeat(100_000), "damaged"),
        (" ".repeat(65 << 20), "more than"),
    ] {
        fs::write(home.state(), &damage).unwrap();
        let read = PURPOSE.read::<Kept>(&home.state());
        let useless = read.unwrap_err().to_string();
        assert!(useless.contains(reason), "{useless}");
        let (tunings, keeper) = home.start("").await;
        assert!(hops(&tunings).is_empty());
        assert!(!home.state().exists());
        assert_eq!(fs::read_to_string(&aside).unwrap(), damage);
        // And it is written anew.
        teach(&tunings, 1);
        keeper.save().await;
        assert_eq!(hops(&home.start("").await.0), [2]);
    }
}

#[tokio::test]
async fn what_is_not_a_file_is_left_alone() {
    let home = Home::new();
    fs::create_dir(home.state()).unwrap();
    let read = PURPOSE.read::<Kept>(&home.state());
    assert!(matches!(read, Err(Useless::NotAFile)));
    home.taught("", 1).await;
    assert!(home.state().is_dir());
    assert!(!home.path("tuning.json.damaged").exists());
    let device = "[tuning]\nstate = \"/dev/null\"";
    assert!(hops(&home.start(device).await.0).is_empty());
}

/// As on a full disk: what cannot be written leaves what was there, and stops nobody.
#[tokio::test]
async fn what_cannot_be_written_leaves_the_old_file() {
    let home = Home::new();
    let (tunings, keeper) = home.taught("", 1).await;
    let old = fs::read(home.state()).unwrap();
    // Nobody, not even root, writes into a folder.
    fs::create_dir(home.path("tuning.json.new")).unwrap();
    teach(&tunings, 1);
    assert!(home.metrics().contains("{key=\"tuning.state\"} 1"));
    keeper.save().await;
    assert!(home.metrics().contains("{key=\"tuning.state\"} 0"));
    assert_eq!(fs::read(home.state()).unwrap(), old);
    fs::remove_dir(home.path("tuning.json.new")).unwrap();
    keeper.save().await;
    assert_ne!(fs::read(home.state()).unwrap(), old, "tried again");
    assert!(home.metrics().contains("{key=\"tuning.state\"} 1"));
}

#[tokio::test]
async fn every_bit_counts() {
    let home = Home::new();
    home.taught("", 1).await;
    let whole = fs::read(home.state()).unwrap();
    let json = |kept: Kept| serde_json::to_string(&kept).unwrap();
    let right = json(PURPOSE.parse(&whole).unwrap());
    for at in 0..whole.len() {
        assert!(
            PURPOSE.parse::<Kept>(&whole[..at]).is_err() || at == whole.len() - 1,
            "{at}"
        );
        for bit in 0..8 {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << bit;
            if let Ok(kept) = PURPOSE.parse(&flipped) {
                assert_eq!(json(kept), right, "bit {bit} of byte {at}");
            }
        }
    }
}

/// Damages drawn from seeds: what was learnt is taken up as it was, or learning begins anew and the
/// file is put aside.
async fn sweep(seeds: std::ops::Range<u64>) {
    let home = Home::new();
    let (whole, _) = home.taught("", 5).await;
    let (right, anew) = (
        known(&whole),
        known(&home.start("[tuning]\nstate = \"none\"").await.0),
    );
    let whole = fs::read(home.state()).unwrap();
    let aside = home.path("tuning.json.damaged");
    for seed in seeds {
        fs::write(home.state(), &whole).unwrap();
        let _ = fs::remove_file(&aside);
        // Swapped: with a model's file, say.
        let damage = Damage::draw(seed, &["tuning.json", "tuning.json", "models/m.gguf"]);
        let damage = Damage {
            file: "tuning.json".into(),
            ..damage
        };
        damage.apply(home.folder.path(), Trace::Hidden);
        let there = home.state().exists();
        let found = known(&home.start("").await.0);
        let taken_up = found == right;
        assert!(taken_up || found == anew, "seed {seed}: {damage:?}");
        // White space may change: it says nothing.
        assert_eq!(
            aside.exists(),
            !taken_up && there,
            "seed {seed}: {damage:?}"
        );
    }
}

#[tokio::test]
async fn no_damaged_memory_is_believed() {
    sweep(0..200).await;
}

#[tokio::test]
#[ignore = "the long form; `make attack` runs it"]
async fn attack_kept_damages() {
    sweep(1_000..2_000).await;
    // A row of the attack's table; the harness has begun the line.
    eprintln!(
        "\n| – | 1,000 damages of the tuner's file | each put aside and begun anew, or harmless |"
    );
}

#[tokio::test]
async fn a_tenant_finds_nothing_of_another() {
    let home = Home::new();
    let (tunings, keeper) = home.start("").await;
    let fresh = Tunings::new(tunings.options, tunings.history);
    let [a, b] = ["a", "b"].map(llm);
    teach_of(&tunings, &a, 40);
    let k_of = |tunings: &Tunings, of: &TuningOf| format!("{:?}", tunings.choose(of, 0.0));
    for of in [&b, &llm("")] {
        assert_eq!(known_to(&tunings, of), known_to(&fresh, of));
        assert_eq!(k_of(&tunings, of), k_of(&fresh, of));
    }
    assert_ne!(known_to(&tunings, &a), known_to(&fresh, &a));
    assert_ne!(k_of(&tunings, &a), k_of(&fresh, &a));
    // What b teaches is as if it were alone, and a learns nothing from it.
    let before = known_to(&tunings, &a);
    teach_of(&tunings, &b, 3);
    teach_of(&fresh, &b, 3);
    assert_eq!(known_to(&tunings, &b), known_to(&fresh, &b));
    assert_eq!(known_to(&tunings, &a), before);
    // And so it stays over a restart.
    keeper.save().await;
    let (after, _) = home.start("").await;
    for of in [&a, &b, &llm("")] {
        assert_eq!(known_to(&after, of), known_to(&tunings, of));
    }
}

/// A hop whose observation came, and no guess before it.
fn unguessed() -> HopReport {
    let hop = Hop {
        sub_question: SubQuestion::new("Which city?"),
        answer: "Paris".into(),
        kind: CommitKind::Observed,
        guess: None,
        observation: Arc::new(Observation::read(Some("Paris".into()), Vec::new())),
    };
    HopReport {
        hop,
        verdict: None,
        guess_held: None,
        right_guess: None,
        times: StageTimes {
            target: Duration::from_millis(40),
            ..StageTimes::default()
        },
        stall: Duration::ZERO,
        activities: Activities::default(),
        salvaged: false,
        draft_held: None,
        draft_right: None,
        foreseen: Duration::ZERO,
        guess_refused: false,
        silent: false,
        certainty: None,
        confidence: None,
        guess_by: None,
        best_by: None,
    }
}

#[test]
fn only_a_guess_that_could_have_been_in_time_is_late() {
    let teaches = |hop: &HopReport, by| stages(hop, by).target.is_some();
    let learnt = |hop: &HopReport| {
        let by = SpeculatorKind::Index;
        (guess(hop, NonZeroUsize::MAX), teaches(hop, by))
    };
    assert_eq!(learnt(&unguessed()), (PastGuess::Late, true));
    let refused = HopReport {
        guess_refused: true,
        ..unguessed()
    };
    let salvaged = HopReport {
        salvaged: true,
        ..unguessed()
    };
    let mut foreseen = HopReport {
        foreseen: Duration::from_millis(5),
        ..unguessed()
    };
    for hop in [&refused, &salvaged, &foreseen] {
        assert_eq!(learnt(hop), (PastGuess::Untried, false), "{hop:?}");
    }
    // If nobody guesses, its look-up tells what any does.
    assert!(teaches(&foreseen, SpeculatorKind::None));
    // It came before the observation all the same.
    foreseen.times.speculation = Some(Duration::from_millis(3));
    foreseen.guess_held = Some(true);
    let compared = PastGuess::Compared {
        ms: 3.0,
        accepted: true,
        confidence: None,
    };
    assert_eq!(learnt(&foreseen), (compared, true));
}
