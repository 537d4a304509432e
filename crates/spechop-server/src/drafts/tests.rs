//! What a drafter may say, and what survives a restart.

use std::sync::Mutex;

use spechop_types::{Chance, CommitKind, Observation, SubQuestion};

use super::*;

/// Says this; or panics.
struct Says(Option<Vec<&'static str>>, Mutex<u32>);

impl Drafter for Says {
    fn draft(&self, _: &DraftRequest<'_>) -> Vec<Draft> {
        *self.1.lock().unwrap() += 1;
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

fn guarded(says: Option<Vec<&'static str>>) -> Guarded<Says> {
    Guarded {
        drafter: Says(says, Mutex::new(0)),
        learns: true,
        is_broken: AtomicBool::new(false),
    }
}

#[test]
fn what_no_planner_writes_is_left_out() {
    let endless: &'static str = "who ".repeat(200).leak();
    let asked = "Who is the mother of the director of film Polish-Russian War?";
    let drafter = guarded(Some(vec!["", " ", endless, asked, "A?", "B?", "C?"]));
    assert_eq!(drafts(&drafter, &question(), 2), ["A?", "B?"]);
}

#[test]
fn a_drafter_that_panics_is_not_asked_again() {
    let drafter = guarded(None);
    for _ in 0..3 {
        assert_eq!(drafts(&drafter, &question(), 2), [""; 0]);
    }
    assert_eq!(*drafter.drafter.1.lock().unwrap(), 1);
}

fn drafting(patterns: PatternSource) -> Drafting {
    Drafting {
        patterns,
        learns: true,
        file: None,
    }
}

#[test]
fn a_file_of_patterns_that_is_none_says_what_to_do() {
    assert!(open(&drafting(PatternSource::None)).unwrap().is_none());
    assert!(open(&drafting(PatternSource::Shipped)).unwrap().is_some());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("patterns.json");
    let failure = |file: &Path| {
        let drafting = drafting(PatternSource::File(file.to_owned()));
        open(&drafting).err().expect("an error").to_string()
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
        open(&drafting(PatternSource::File(file)))
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
    let opened = || open(&drafting(PatternSource::Shipped)).unwrap().unwrap();
    let asked = |name: &str| Question::new(&format!("Quem fundou a cidade de {name}?")).unwrap();
    let drafter = opened();
    let keeper = DraftKeeper::open(Some(&drafter), Some(&file)).await;
    for name in ["Porto Alegre", "Santa Rosa", "Vila Nova", "Monte Belo"] {
        let sub_question = format!("Fundador de {name}?");
        drafter.learn(
            &Tenant::default(),
            &asked(name),
            &[hop(&sub_question, "Ana Ruiz")],
        );
    }
    let expected = ["Fundador de Campo Verde?"];
    assert_eq!(drafts(&*drafter, &asked("Campo Verde"), 1), expected);
    keeper.save().await;
    let again = opened();
    assert_eq!(drafts(&*again, &asked("Campo Verde"), 1), [""; 0]);
    DraftKeeper::open(Some(&again), Some(&file)).await;
    assert_eq!(drafts(&*again, &asked("Campo Verde"), 1), expected);
    // A damaged one is put aside.
    fs::write(&file, "damaged").unwrap();
    let anew = opened();
    DraftKeeper::open(Some(&anew), Some(&file))
        .await
        .save()
        .await;
    assert_eq!(drafts(&*anew, &asked("Campo Verde"), 1), [""; 0]);
    assert!(folder.path().join("drafts.json.damaged").exists());
}

#[test]
fn what_one_tenant_asks_teaches_no_other() {
    let drafter = open(&drafting(PatternSource::Shipped)).unwrap().unwrap();
    let asked = |name: &str| Question::new(&format!("Quem fundou a cidade de {name}?")).unwrap();
    let other = Tenant::new("other").unwrap();
    for name in ["Porto Alegre", "Santa Rosa", "Vila Nova", "Monte Belo"] {
        let sub_question = format!("Fundador de {name}?");
        drafter.learn(&other, &asked(name), &[hop(&sub_question, "Ana Ruiz")]);
    }
    assert_eq!(drafts(&*drafter, &asked("Campo Verde"), 1), [""; 0]);
}
