use std::sync::atomic::AtomicUsize;

use spechop_ports::{Record, contract};
use spechop_testkit::TextVectors;
use spechop_types::{CommitKind, Observation, Passage, Question, Refusal};

use super::entry::TEXT_BYTES_MAX;
use super::*;

/// Texts are as near as the letters that they have in common. So many calls fail, the first ones, and why.
/// All are counted.
fn letters(fails: usize, why: fn() -> PortError) -> (impl Encoder, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let encoder = TextVectors::letters().after(move |call, _| {
        assert_eq!(call.lane(), Lane::Speculative);
        match counted.fetch_add(1, Relaxed) < fails {
            true => Err(why()),
            false => Ok(Duration::ZERO),
        }
    });
    (encoder, calls)
}

fn unavailable() -> PortError {
    PortError::unavailable("the encoder", "it is broken")
}

pub(super) fn preempted() -> PortError {
    PortError::NotSpeculated {
        what: "the encoder".to_owned(),
        why: Refusal::Preempted,
    }
}

fn options(most: usize) -> MemoryOptions {
    MemoryOptions {
        most: NonZeroUsize::new(most).unwrap(),
        similarity: 0.95,
    }
}

fn memory() -> Memory {
    Memory::new(Arc::new(letters(0, unavailable).0), options(8))
}

fn tenant(name: &str) -> Tenant {
    Tenant::new(name).unwrap()
}

/// Empty: nothing was found. What was guessed of it is never what is remembered.
fn hop(asked: &str, observed: &str) -> Hop {
    let found = Some(observed).filter(|observed| !observed.is_empty());
    Hop {
        sub_question: SubQuestion::new(asked),
        answer: "a mere guess".into(),
        kind: CommitKind::Accepted,
        guess: Some("a mere guess".into()),
        observation: Arc::new(Observation::read(
            found.map(Into::into),
            Vec::<Passage>::new(),
        )),
    }
}

fn same(a: &str, b: &str) -> bool {
    a == b
}

impl Memory {
    fn learn(&self, asked: &str, observed: &str) {
        self.committed(&tenant("a"), &hop(asked, observed), same);
    }

    /// The guesses for a tenant, with what each says of itself.
    async fn guesses_for(&self, of: &str, asked: &str, limit: usize) -> Vec<(String, f64)> {
        let call = Call::of(tenant(of), Lane::Speculative, Chance::EVEN);
        let request = GuessRequest {
            question: Question::new("Whose mother?").unwrap(),
            hops: Vec::new(),
            sub_question: SubQuestion::new(asked),
            passages: NonZeroUsize::MIN,
            limit: limit.try_into().unwrap(),
        };
        let guessed = self.guess(&call, request).await.unwrap();
        assert_eq!(guessed.tokens, Tokens::default());
        let told = |guess: Guess| (guess.text.to_string(), guess.confidence.unwrap().share());
        guessed.guesses.into_iter().map(told).collect()
    }

    async fn best(&self, asked: &str) -> Option<String> {
        let guesses = self.guesses_for("a", asked, 1).await;
        guesses.into_iter().next().map(|(text, _)| text)
    }

    /// The record of an entry as a neighbour.
    fn as_neighbour(&self, asked: &str) -> Record {
        let entries = self.entries();
        let entry = entries.iter().find(|entry| &*entry.asked == asked);
        entry.unwrap().neighbour
    }
}

/// Two sub-questions that name the same.
const ALIKE: (&str, &str) = (
    "Who directed the film Kanał?",
    "Who has directed the film Kanał?",
);

/// Neither the same words nor a neighbour.
#[tokio::test]
async fn a_sign_makes_another_name() {
    let memory = memory();
    memory.learn("Who made C++?", "Bjarne Stroustrup");
    memory.encode().await;
    assert_eq!(memory.best("Who made C#?").await, None);
    let known = memory.best("who made C++").await;
    assert_eq!(known.as_deref(), Some("Bjarne Stroustrup"));
}

#[tokio::test]
async fn the_same_words_are_found_without_a_model() {
    let (encoder, encoded) = letters(0, unavailable);
    let memory = Memory::new(Arc::new(encoder), options(8));
    assert_eq!(memory.best("Who directed Kanał?").await, None);
    memory.learn("Who directed Kanał?", "Andrzej Wajda");
    for asked in ["Who directed Kanał?", "who  directed “Kanal”"] {
        assert_eq!(memory.best(asked).await.as_deref(), Some("Andrzej Wajda"));
    }
    assert_eq!(memory.best("Who directed Popiół?").await, None);
    assert_eq!(encoded.load(Relaxed), 0);
}

#[tokio::test]
async fn the_nearest_words_are_found_if_they_name_the_same() {
    let memory = memory();
    memory.learn("Who directed the film Kanał?", "Andrzej Wajda");
    memory.learn("Who directed the films Kanał?", "Wajda, Andrzej");
    memory.learn("Who directed that film Kanał?", "Andrzej Wajda");
    let asked = "Who has directed the film Kanał?";
    assert_eq!(memory.best(asked).await, None, "they have no vectors yet");
    memory.encode().await;
    let guesses = memory.guesses_for("a", asked, 3).await;
    assert!(guesses.is_sorted_by(|a, b| a.1 >= b.1), "the nearest first");
    let mut texts: Vec<_> = guesses.iter().map(|(text, _)| text.as_str()).collect();
    texts.sort_unstable();
    assert_eq!(
        texts,
        ["Andrzej Wajda", "Wajda, Andrzej"],
        "no answer twice"
    );
    assert!(
        guesses
            .iter()
            .all(|(_, chance)| (0.47..0.5).contains(chance))
    );
    assert_eq!(memory.guesses_for("a", asked, 1).await.len(), 1);
    // One letter, and another film.
    assert_eq!(memory.best("Who directed the film Kanar?").await, None);
    // The same film, and quite another question.
    assert_eq!(memory.best("When was Kanał shown first?").await, None);
}

#[tokio::test]
async fn what_was_observed_is_remembered_and_nothing_else() {
    let memory = memory();
    memory.learn("Who directed it?", "");
    let long = "x".repeat(TEXT_BYTES_MAX + 1);
    memory.learn("What is long?", &long);
    memory.learn(&long, "short");
    memory.learn("?!", "short");
    memory.learn("Who is blank?", " ");
    assert_eq!(memory.entries(), []);
    assert_eq!(memory.changes(), 0);
    memory.learn("Who directed it?", "Wajda");
    assert_eq!(
        memory.best("Who directed it?").await.as_deref(),
        Some("Wajda")
    );
    // Of a sub-question that is known the old answer stays, and was wrong once.
    memory.learn("Who directed it?", &long);
    assert_eq!(memory.best("Who directed it?").await, None);
    memory.learn("Who directed it?", "Wajda");
    assert_eq!(
        memory.best("Who directed it?").await.as_deref(),
        Some("Wajda")
    );
}

#[tokio::test]
async fn an_entry_that_was_wrong_more_often_than_right_is_silent_until_it_is_right_again() {
    let memory = memory();
    let asked = "Who is the mayor?";
    for (observed, guess, chance) in [
        ("Ana", Some("Ana"), 0.5),
        ("Ana", Some("Ana"), 2.0 / 3.0),
        // Out of date once: the new answer is guessed, with less confidence.
        ("Eva", Some("Eva"), 0.5),
        ("Ida", None, 0.0),
        ("", None, 0.0),
        ("Ida", None, 0.0),
        ("Ida", Some("Ida"), 0.5),
    ] {
        memory.learn(asked, observed);
        let guesses = memory.guesses_for("a", asked, 1).await;
        let expected: Vec<_> = guess
            .map(|guess| (guess.to_owned(), chance))
            .into_iter()
            .collect();
        assert_eq!(guesses.len(), expected.len(), "{observed}");
        for (guess, expected) in guesses.iter().zip(&expected) {
            assert_eq!(guess.0, expected.0);
            assert!(
                (guess.1 - expected.1).abs() < 1e-5,
                "{observed}: {}",
                guess.1
            );
        }
    }
}

#[tokio::test]
async fn a_neighbour_that_was_wrong_is_silent_and_its_own_words_are_not() {
    let memory = memory();
    let (own, other) = ALIKE;
    memory.learn(own, "Wajda");
    memory.encode().await;
    assert_eq!(memory.best(other).await.as_deref(), Some("Wajda"));
    memory.learn(other, "somebody else");
    let third = "Who had directed the film Kanał?";
    memory.encode().await;
    // Both are near to the third, and one of them has been wrong as a neighbour.
    assert_eq!(memory.best(third).await.as_deref(), Some("somebody else"));
    assert_eq!(memory.best(own).await.as_deref(), Some("Wajda"));
    // What is never committed, because its branch was rolled back, counts for nothing.
    memory.learn(third, "somebody else");
    assert_eq!(memory.as_neighbour(own), Record { right: 0, wrong: 1 });
    assert_eq!(memory.as_neighbour(other), Record { right: 1, wrong: 0 });
    // With a new answer it gets another chance.
    memory.learn(own, "somebody else");
    assert_eq!(memory.as_neighbour(own), Record::default());
}

#[tokio::test]
async fn a_neighbour_is_silent_until_its_own_words_were_right_again() {
    let memory = memory();
    let (own, other) = ALIKE;
    // It is not remembered, so that the other words have no entry of their own.
    let long = "x".repeat(TEXT_BYTES_MAX + 1);
    for (asked, observed, guess) in [
        (own, "Wajda", Some("Wajda")),
        (own, "Wajda", Some("Wajda")),
        (own, "Wajda", Some("Wajda")),
        // Nothing was found: that is no other answer.
        (other, "", Some("Wajda")),
        (other, long.as_str(), None),
        (own, "", None),
        (own, "Wajda", Some("Wajda")),
    ] {
        memory.learn(asked, observed);
        memory.encode().await;
        assert_eq!(memory.best(other).await.as_deref(), guess, "{asked}");
    }
}

#[tokio::test]
async fn a_neighbour_whose_answer_has_changed_is_not_charged_with_the_old_one() {
    let memory = memory();
    let (own, other) = ALIKE;
    memory.learn(own, "Wajda");
    memory.encode().await;
    assert_eq!(memory.best(other).await.as_deref(), Some("Wajda"));
    memory.learn(own, "somebody else");
    memory.learn(other, "somebody else");
    assert_eq!(memory.as_neighbour(own), Record::default());
}

#[tokio::test]
async fn it_is_bounded_and_forgets_what_was_not_used() {
    let memory = memory();
    for n in 0..100 {
        memory.learn(&format!("Who is number {n}?"), &n.to_string());
        memory.encode().await;
        assert_eq!(memory.best("Who is number 0?").await.as_deref(), Some("0"));
    }
    let entries = memory.entries();
    assert_eq!(entries.len(), 8);
    assert!(entries.iter().all(|entry| entry.vector.is_some()));
    let kept = memory.kept.lock();
    assert_eq!(kept.vectors.len(), 1);
    assert!(kept.unencoded.is_empty());
}

#[tokio::test]
async fn a_tenant_finds_nothing_of_another() {
    let memory = memory();
    let asked = "Who directed the film Kanał?";
    memory.learn(asked, "Wajda");
    memory.encode().await;
    for asked in [asked, "Who has directed the film Kanał?"] {
        assert_eq!(memory.guesses_for("b", asked, 1).await, []);
        assert_eq!(memory.guesses_for("a", asked, 1).await.len(), 1);
    }
    // Nor does it learn from another's mistakes.
    for _ in 0..3 {
        memory.committed(&tenant("b"), &hop(asked, "Munk"), same);
    }
    assert_eq!(memory.best(asked).await.as_deref(), Some("Wajda"));
    assert_eq!(memory.guesses_for("b", asked, 1).await[0].0, "Munk");
}

#[tokio::test]
async fn what_was_kept_is_taken_up_again() {
    let first = memory();
    for (asked, answer) in [
        ("Who directed the film Kanał?", "Wajda"),
        ("Who shot the film Kanał?", "Lipman"),
        ("Who shot the film Kanał?", "Lipman"),
    ] {
        first.learn(asked, answer);
    }
    first.encode().await;
    let mut kept = first.entries();
    // Of another encoder, perhaps.
    kept[0].vector = Some(vec![1; 3]);
    let broken = Remembered {
        answer: "".into(),
        ..kept[0].clone()
    };
    let (encoder, encoded) = letters(0, unavailable);
    let second = Memory::new(Arc::new(encoder), options(8));
    second.resume(broken);
    kept.into_iter().for_each(|entry| second.resume(entry));
    second.encode().await;
    assert_eq!(encoded.load(Relaxed), 1, "one vector was of no use");
    assert_eq!(second.entries(), first.entries());
}

#[tokio::test]
async fn an_encoder_that_fails_leaves_the_same_words() {
    let (encoder, _) = letters(usize::MAX, unavailable);
    let memory = Memory::new(Arc::new(encoder), options(8));
    memory.learn("Who directed Kanał?", "Wajda");
    memory.encode().await;
    assert_eq!(
        memory.best("Who directed Kanał?").await.as_deref(),
        Some("Wajda")
    );
    // Without any vector nobody asks for one.
    assert_eq!(memory.best("Who has directed Kanał?").await, None);
}

#[tokio::test(start_paused = true)]
async fn an_entry_whose_encoding_made_room_is_encoded_later() {
    let (encoder, _) = letters(1, preempted);
    let memory = Memory::new(Arc::new(encoder), options(8));
    memory.learn("Who directed Kanał?", "Wajda");
    let encoded = tokio::time::timeout(2 * PAUSE, memory.encode());
    encoded.await.unwrap();
    assert!(memory.entries()[0].vector.is_some());
}

#[tokio::test]
async fn an_entry_whose_encoding_failed_is_encoded_when_its_words_are_heard_again() {
    let (encoder, _) = letters(1, unavailable);
    let memory = Memory::new(Arc::new(encoder), options(8));
    for has_vector in [false, true] {
        memory.learn("Who directed Kanał?", "Wajda");
        memory.encode().await;
        assert_eq!(memory.entries()[0].vector.is_some(), has_vector);
    }
}

#[tokio::test]
async fn new_entries_get_their_vectors_meanwhile() {
    let memory = memory();
    memory.learn("Who directed the film Kanał?", "Wajda");
    let asked = async {
        loop {
            if memory
                .best("Who has directed the film Kanał?")
                .await
                .is_some()
            {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        never = memory.keep_up() => match never {},
        () = asked => {}
    }
}

#[tokio::test]
async fn keeps_the_contract() {
    let memory = memory();
    contract::speculator(&memory).await;
    let asked = "Who directed the film Polish-Russian War?";
    memory.committed(&Tenant::default(), &hop(asked, "Żuławski"), same);
    contract::speculator(&memory).await;
    let memory = self::memory();
    for asked in [
        "Who has directed the film Polish-Russian War?",
        "Who directed a film Polish-Russian War?",
    ] {
        memory.committed(&Tenant::default(), &hop(asked, asked), same);
    }
    memory.encode().await;
    contract::speculator(&memory).await;
}
