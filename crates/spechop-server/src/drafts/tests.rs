//! What a drafter may say, and what survives a restart.

use parking_lot::{Condvar, Mutex};
use spechop_types::{Chance, CommitKind, Observation, SubQuestion, Tokens};

use super::*;

/// Longer than any machine stands still.
const LONG: Duration = Duration::from_secs(120);

/// Says this, or panics; at once if the last is true.
struct Says(Option<Vec<&'static str>>, Mutex<u32>, bool);

impl Drafter for Says {
    fn ends_at_once(&self) -> bool {
        self.2
    }

    fn draft(&self, _: &DraftRequest<'_>) -> Vec<Draft> {
        *self.1.lock() += 1;
        let texts = self.0.as_ref().expect("a drafter that panics");
        let draft = |text: &&str| Draft {
            sub_question: SubQuestion::new(text),
            chance: Chance::EVEN,
        };
        texts.iter().map(draft).collect()
    }
}

fn question() -> Question {
    Question::new("Who is the mother of the director of film Polish-Russian War?").unwrap()
}

fn drafts(drafter: &dyn Drafter, question: &Question, limit: usize) -> Vec<String> {
    let drafts = drafter.draft(&DraftRequest {
        tenant: &Tenant::default(),
        question,
        hops: &[],
        limit,
    });
    let text = |draft: Draft| draft.sub_question.as_str().to_owned();
    drafts.into_iter().map(text).collect()
}

fn guarded(says: Option<Vec<&'static str>>, ends_at_once: bool) -> Guarded<Says> {
    Guarded::patient(Says(says, Mutex::new(0), ends_at_once), true, LONG).unwrap()
}

#[test]
fn what_no_planner_writes_is_left_out() {
    let endless: &'static str = "who ".repeat(200).leak();
    let asked = "Who is the mother of the director of film Polish-Russian War?";
    for in_place in [false, true] {
        let says = vec!["", " ", endless, asked, "A?", "B?", "C?"];
        let drafter = guarded(Some(says), in_place);
        assert_eq!(drafts(&drafter, &question(), 2), ["A?", "B?"]);
        assert_eq!(drafter.jobs.is_none(), in_place);
    }
}

#[test]
fn a_drafter_that_panics_is_not_asked_again() {
    for in_place in [false, true] {
        let drafter = guarded(None, in_place);
        for _ in 0..3 {
            assert_eq!(drafts(&drafter, &question(), 2), [""; 0]);
        }
        assert_eq!(*drafter.drafter.1.lock(), 1);
    }
}

/// Answers once it may, and counts who asks and what it is told.
#[derive(Default)]
struct Hangs {
    asked: Mutex<u32>,
    told: Mutex<u32>,
    may: Mutex<bool>,
    bell: Condvar,
}

impl Hangs {
    fn wait(&self) {
        self.bell.wait_while(&mut self.may.lock(), |may| !*may);
    }

    fn let_go(&self) {
        *self.may.lock() = true;
        self.bell.notify_all();
    }
}

impl Drafter for Hangs {
    fn draft(&self, _: &DraftRequest<'_>) -> Vec<Draft> {
        *self.asked.lock() += 1;
        self.wait();
        vec![Draft {
            sub_question: SubQuestion::new("A?"),
            chance: Chance::EVEN,
        }]
    }

    fn learn(&self, _: &Tenant, _: &Question, _: &[Hop], _: bool) {
        *self.told.lock() += 1;
        self.wait();
    }
}

/// No question waits for it, and in the end nobody asks, not even when it has come back.
#[test]
fn a_drafter_that_hangs_is_left_behind_and_not_asked_again() {
    for learning in [false, true] {
        let drafter = Guarded::new(Hangs::default(), true).unwrap();
        if learning {
            drafter.learn(&Tenant::default(), &question(), &[], true);
        }
        let began = Instant::now();
        while !drafter.health.is_broken() {
            assert_eq!(drafts(&drafter, &question(), 2), [""; 0]);
            assert!(began.elapsed() < LONG);
        }
        assert!(began.elapsed() > TIME_MAX, "it may only have been busy");
        assert!(drafter.hangs(), "what it knows cannot be told");
        drafter.drafter.let_go();
        while drafter.hangs() {
            assert!(began.elapsed() < LONG);
        }
        drafter.learn(&Tenant::default(), &question(), &[], true);
        assert_eq!(drafts(&drafter, &question(), 2), [""; 0]);
        let (asked, told) = (*drafter.drafter.asked.lock(), *drafter.drafter.told.lock());
        assert_eq!((asked, told), if learning { (0, 1) } else { (1, 0) });
    }
}

/// Who has left is not answered.
#[test]
fn a_drafter_that_was_late_is_asked_again() {
    let drafter = Guarded::new(Hangs::default(), true).unwrap();
    assert_eq!(drafts(&drafter, &question(), 2), [""; 0]);
    drafter.drafter.let_go();
    let began = Instant::now();
    while drafts(&drafter, &question(), 2) != ["A?"] {
        assert!(began.elapsed() < LONG);
    }
    assert!(!drafter.health.is_broken());
}

/// Takes longer than anybody waits.
struct Slow;

impl Drafter for Slow {
    fn draft(&self, _: &DraftRequest<'_>) -> Vec<Draft> {
        let began = Instant::now();
        while began.elapsed() <= PATIENCE {
            std::hint::spin_loop();
        }
        Vec::new()
    }
}

#[test]
fn a_drafter_that_is_always_late_is_not_asked_again() {
    let drafter = Guarded::patient(Slow, true, LONG).unwrap();
    for _ in 0..LATE_MAX {
        drafts(&drafter, &question(), 2);
    }
    // The last call is counted when it has ended.
    let began = Instant::now();
    while !drafter.health.is_broken() {
        assert!(began.elapsed() < LONG);
    }
}

/// Writes this; or panics.
struct Writes(Option<&'static str>);

#[async_trait]
impl DraftWriter for Writes {
    async fn write_draft(
        &self,
        _: &Call,
        _: PlanRequest,
        _: u32,
    ) -> Result<WrittenDraft, PortError> {
        Ok(WrittenDraft {
            draft: Some(Draft {
                sub_question: SubQuestion::new(self.0.expect("a writer that panics")),
                chance: Chance::EVEN,
            }),
            tokens: Tokens {
                prompt: 3,
                completion: 1,
            },
        })
    }
}

#[tokio::test]
async fn what_a_model_drafts_is_left_out_if_no_planner_writes_it_and_is_paid_all_the_same() {
    let asked = question();
    let endless: &'static str = "who ".repeat(200).leak();
    for (text, expected) in [
        ("Who is Dorota?", Some("Who is Dorota?")),
        ("", None),
        (" ", None),
        (endless, None),
        (
            "Who is the mother of the director of film Polish-Russian War?",
            None,
        ),
    ] {
        let writer = GuardedWriter::new(Arc::new(Writes(Some(text))));
        let request = PlanRequest {
            question: asked.clone(),
            hops: Vec::new(),
            must_answer: false,
            drafts: Vec::new(),
        };
        let call = Call::authoritative();
        let written = writer.write_draft(&call, request.clone(), 0).await.unwrap();
        let draft = written.draft.map(|draft| draft.sub_question);
        assert_eq!(draft.as_ref().map(SubQuestion::as_str), expected);
        assert_eq!(written.tokens.total(), 4);

        let panics = GuardedWriter::new(Arc::new(Writes(None)));
        let written = panics.write_draft(&call, request, 0).await;
        assert!(matches!(written, Err(PortError::Malformed { .. })));
    }
}

fn drafting(patterns: PatternSource) -> Drafting {
    Drafting {
        patterns,
        learns: true,
        file: None,
        writer: None,
        samples: 1,
    }
}

#[test]
fn a_file_of_patterns_that_is_none_says_what_to_do() {
    assert!(
        open(&drafting(PatternSource::None), false)
            .unwrap()
            .is_none()
    );
    assert!(
        open(&drafting(PatternSource::Shipped), false)
            .unwrap()
            .is_some()
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("patterns.json");
    let failure = |file: &Path| {
        let drafting = drafting(PatternSource::File(file.to_owned()));
        open(&drafting, false).err().expect("an error").to_string()
    };
    assert!(
        failure(&file).contains("spechop patterns mine"),
        "{}",
        failure(&file)
    );
    for text in ["", "{}", "[1, 2", "{\"format\": 99}"] {
        fs::write(&file, text).unwrap();
        assert!(failure(&file).contains("holds no patterns"), "{text}");
    }
    fs::write(&file, Patterns::shipped().unwrap().to_json().unwrap()).unwrap();
    assert!(
        open(&drafting(PatternSource::File(file)), false)
            .unwrap()
            .is_some()
    );
}

fn hop(asked: &str, answer: &str) -> Hop {
    Hop {
        sub_question: SubQuestion::new(asked),
        answer: answer.into(),
        kind: CommitKind::Observed,
        guess: None,
        observation: Arc::new(Observation::read(Some(answer.into()), Vec::new())),
    }
}

#[tokio::test]
async fn what_was_learnt_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("drafts.json");
    let opened = || {
        let drafter = PatternDrafter::new(Patterns::shipped().unwrap());
        Arc::new(Guarded::patient(drafter, true, LONG).unwrap())
    };
    let asked = |name: &str| Question::new(&format!("Quem fundou a cidade de {name}?")).unwrap();
    let drafter = opened();
    let keeper = DraftKeeper::open(Some(&drafter), Some(&file), &Writing::default()).await;
    for name in ["Porto Alegre", "Santa Rosa", "Vila Nova", "Monte Belo"] {
        let sub_question = format!("Fundador de {name}?");
        drafter.learn(
            &Tenant::default(),
            &asked(name),
            &[hop(&sub_question, "Ana Ruiz")],
            true,
        );
    }
    let expected = ["Fundador de Campo Verde?"];
    assert_eq!(drafts(&*drafter, &asked("Campo Verde"), 1), expected);
    keeper.save().await;
    let again = opened();
    assert_eq!(drafts(&*again, &asked("Campo Verde"), 1), [""; 0]);
    DraftKeeper::open(Some(&again), Some(&file), &Writing::default()).await;
    assert_eq!(drafts(&*again, &asked("Campo Verde"), 1), expected);
    // A damaged one is put aside.
    fs::write(&file, "damaged").unwrap();
    let anew = opened();
    DraftKeeper::open(Some(&anew), Some(&file), &Writing::default())
        .await
        .save()
        .await;
    assert_eq!(drafts(&*anew, &asked("Campo Verde"), 1), [""; 0]);
    assert!(folder.path().join("drafts.json.damaged").exists());
}

#[test]
fn what_one_tenant_asks_teaches_no_other() {
    let drafter = PatternDrafter::new(Patterns::shipped().unwrap());
    let drafter = Guarded::patient(drafter, true, LONG).unwrap();
    let asked = |name: &str| Question::new(&format!("Quem fundou a cidade de {name}?")).unwrap();
    let other = Tenant::new("other").unwrap();
    for name in ["Porto Alegre", "Santa Rosa", "Vila Nova", "Monte Belo"] {
        let sub_question = format!("Fundador de {name}?");
        drafter.learn(
            &other,
            &asked(name),
            &[hop(&sub_question, "Ana Ruiz")],
            true,
        );
    }
    assert_eq!(drafts(&drafter, &asked("Campo Verde"), 1), [""; 0]);
}
