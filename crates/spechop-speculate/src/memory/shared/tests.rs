use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use spechop_ports::{Guess, Record, Remembered, Version, contract};
use spechop_testkit::{SharedMap, TextVectors};
use spechop_types::{CommitKind, Observation, Question};

use super::*;
use crate::memory::tests::preempted;

fn server(entries: &SharedMap) -> SharedMemory {
    server_of(Arc::new(entries.clone()), 8)
}

fn server_of(entries: Arc<dyn SharedEntries>, most: usize) -> SharedMemory {
    server_with(TextVectors::letters(), entries, most)
}

fn server_with(
    encoder: impl Encoder + 'static,
    entries: Arc<dyn SharedEntries>,
    most: usize,
) -> SharedMemory {
    let options = MemoryOptions {
        most: NonZeroUsize::new(most).unwrap(),
        similarity: 0.95,
    };
    SharedMemory::new(entries, Arc::new(encoder), options)
}

impl SharedMemory {
    /// Empty: nothing was found.
    fn hears(&self, of: &str, asked: &str, observed: &str) {
        let found = Some(observed).filter(|observed| !observed.is_empty());
        let hop = Hop {
            sub_question: SubQuestion::new(asked),
            answer: "a mere guess".into(),
            kind: CommitKind::Accepted,
            guess: None,
            observation: Arc::new(Observation::read(found.map(Into::into), Vec::new())),
        };
        self.committed(&Tenant::new(of).unwrap(), &hop, Arc::new(|a, b| a == b));
    }

    async fn learns(&self, of: &str, asked: &str, observed: &str) {
        self.hears(of, asked, observed);
        self.write().await.unwrap();
    }

    async fn best(&self, of: &str, asked: &str) -> Option<String> {
        let guessed = self.guess(&call(of), request(asked)).await.unwrap();
        let text = |guess: Guess| guess.text.to_string();
        guessed.guesses.into_iter().next().map(text)
    }
}

fn call(of: &str) -> Call {
    Call::of(Tenant::new(of).unwrap(), Lane::Speculative, Chance::EVEN)
}

fn request(asked: &str) -> GuessRequest {
    GuessRequest {
        question: Question::new("Whose mother?").unwrap(),
        hops: Vec::new(),
        sub_question: SubQuestion::new(asked),
        passages: NonZeroUsize::MIN,
        limit: NonZeroUsize::MIN,
    }
}

const ASKED: &str = "Who directed the film Kanał?";
const NEARLY: &str = "Who has directed the film Kanał?";

#[tokio::test]
async fn one_server_guesses_what_another_has_verified() {
    let entries = SharedMap::default();
    let (one, other) = (server(&entries), server(&entries));
    one.learns("a", ASKED, "Wajda").await;
    for server in [&one, &other] {
        for asked in [ASKED, "who directed the film “Kanal”", NEARLY] {
            assert_eq!(server.best("a", asked).await.as_deref(), Some("Wajda"));
            assert_eq!(server.best("b", asked).await, None, "b has asked nothing");
        }
        let another = server.best("a", "Who directed the film Kanar?").await;
        assert_eq!(another, None);
    }
}

#[tokio::test]
async fn what_was_wrong_for_one_server_falls_silent_for_all() {
    let entries = SharedMap::default();
    let (one, other) = (server(&entries), server(&entries));
    one.learns("a", ASKED, "Wajda").await;
    // As a neighbour: the record of the guess is kept by the server that gave it, and written for all.
    assert_eq!(one.best("a", NEARLY).await.as_deref(), Some("Wajda"));
    one.learns("a", NEARLY, "Ford").await;
    let third = "Who has directed that film Kanał?";
    assert_eq!(other.best("a", third).await.as_deref(), Some("Ford"));
    // For its own words: the answer changes all the time.
    other.learns("a", ASKED, "Ford").await;
    other.learns("a", ASKED, "Munk").await;
    assert_eq!(one.best("a", ASKED).await, None);
    let wrong = |entry: &Remembered| (entry.own, entry.neighbour);
    let all = entries.all();
    let entry = all.iter().find(|entry| &*entry.asked == ASKED).unwrap();
    assert_eq!(
        wrong(entry),
        (Record { right: 0, wrong: 2 }, Record::default())
    );
}

#[tokio::test]
async fn a_neighbour_is_silent_until_its_own_words_were_right_again() {
    let entries = SharedMap::default();
    let one = server(&entries);
    // It is not remembered, so that the other words have no entry of their own.
    let long = "x".repeat(600);
    for (asked, observed, guess) in [
        (ASKED, "Wajda", Some("Wajda")),
        (ASKED, "Wajda", Some("Wajda")),
        // Nothing was found: that is no other answer.
        (NEARLY, "", Some("Wajda")),
        (NEARLY, long.as_str(), None),
        (ASKED, "", None),
        (ASKED, "Wajda", Some("Wajda")),
    ] {
        one.learns("a", asked, observed).await;
        assert_eq!(one.best("a", NEARLY).await.as_deref(), guess, "{asked}");
    }
}

#[tokio::test]
async fn a_neighbour_whose_answer_has_changed_is_not_charged_with_the_old_one() {
    let entries = SharedMap::default();
    let (one, other) = (server(&entries), server(&entries));
    one.learns("a", ASKED, "Wajda").await;
    assert_eq!(one.best("a", NEARLY).await.as_deref(), Some("Wajda"));
    other.learns("a", ASKED, "Ford").await;
    one.learns("a", NEARLY, "Ford").await;
    let all = entries.all();
    let entry = all.iter().find(|entry| &*entry.asked == ASKED).unwrap();
    assert_eq!(entry.neighbour, Record::default());
}

/// Entries that give trouble so many times.
#[derive(Default)]
struct Troubled {
    entries: SharedMap,
    /// Another server writes between a look and a write.
    raced: AtomicU64,
    /// A trim fails, and nothing else.
    untrimmed: AtomicU64,
    /// An entry cannot be read.
    unreadable: AtomicU64,
    /// A look takes for ever.
    hanging: AtomicU64,
}

fn takes(left: &AtomicU64) -> bool {
    let before = left.load(SeqCst);
    left.store(before.saturating_sub(1), SeqCst);
    before > 0
}

#[async_trait]
impl SharedEntries for Troubled {
    async fn find(
        &self,
        call: &Call,
        key: &Owned<Arc<str>>,
    ) -> Result<Option<(Remembered, Version)>, PortError> {
        if takes(&self.unreadable) {
            return Err(PortError::malformed("the shared memory", "it is no entry"));
        }
        if takes(&self.hanging) {
            std::future::pending::<()>().await;
        }
        let found = self.entries.find(call, key).await;
        if takes(&self.raced) {
            server(&self.entries).learns("a", ASKED, "Wajda").await;
        }
        found
    }

    async fn near(
        &self,
        call: &Call,
        tenant: &Tenant,
        vector: &[i8],
        least: f32,
        most: NonZeroUsize,
    ) -> Result<Vec<(f32, Remembered)>, PortError> {
        self.entries.near(call, tenant, vector, least, most).await
    }

    async fn replace(
        &self,
        call: &Call,
        key: &Owned<Arc<str>>,
        entry: &Remembered,
        before: Option<&Version>,
    ) -> Result<bool, PortError> {
        self.entries.replace(call, key, entry, before).await
    }

    async fn trim(&self, call: &Call, most: NonZeroUsize) -> Result<u64, PortError> {
        if takes(&self.untrimmed) {
            return Err(PortError::unavailable("the shared memory", "it is slow"));
        }
        self.entries.trim(call, most).await
    }
}

#[tokio::test]
async fn servers_that_write_the_same_entry_lose_no_count() {
    let entries = SharedMap::default();
    let raced = Troubled {
        entries: entries.clone(),
        raced: AtomicU64::new(3),
        ..Troubled::default()
    };
    let raced = server_of(Arc::new(raced), 8);
    raced.learns("a", ASKED, "Wajda").await;
    // The first to hear it makes the entry; the other three confirm it.
    let own = entries.all()[0].own;
    assert_eq!(own, Record { right: 3, wrong: 0 });
}

#[tokio::test]
async fn a_hop_is_counted_once_if_nothing_but_the_trim_fails() {
    let entries = SharedMap::default();
    let untrimmed = Troubled {
        entries: entries.clone(),
        untrimmed: AtomicU64::new(2),
        ..Troubled::default()
    };
    let one = server_of(Arc::new(untrimmed), 1);
    one.hears("a", ASKED, "Wajda");
    one.hears("a", "Who was Munk?", "another");
    for _ in 0..2 {
        one.write().await.unwrap();
    }
    let own: Vec<_> = entries.all().iter().map(|entry| entry.own).collect();
    assert_eq!(own, [Record::default(); 2]);
    // The next new entry makes up for it.
    one.learns("a", "Who was Ford?", "a director").await;
    assert_eq!(entries.all().len(), 1);
}

#[tokio::test]
async fn a_hop_whose_entry_cannot_be_read_keeps_no_other_waiting() {
    let entries = SharedMap::default();
    let unreadable = Troubled {
        entries: entries.clone(),
        unreadable: AtomicU64::new(1),
        ..Troubled::default()
    };
    let one = server_of(Arc::new(unreadable), 8);
    one.hears("a", ASKED, "Wajda");
    one.hears("a", "Who was Munk?", "another");
    one.write().await.unwrap();
    let all = entries.all();
    let asked: Vec<_> = all.iter().map(|entry| &*entry.asked).collect();
    assert_eq!((asked, one.waiting()), (vec!["Who was Munk?"], 0));
}

#[tokio::test]
async fn a_hop_whose_writing_is_dropped_still_waits() {
    let entries = SharedMap::default();
    let hanging = Troubled {
        entries: entries.clone(),
        hanging: AtomicU64::new(1),
        ..Troubled::default()
    };
    let one = server_of(Arc::new(hanging), 8);
    one.hears("a", ASKED, "Wajda");
    tokio::select! {
        biased;
        written = one.write() => panic!("{written:?}"),
        () = async {} => {}
    }
    assert_eq!((one.waiting(), entries.all().len()), (1, 0));
    one.write().await.unwrap();
    assert_eq!((one.waiting(), entries.all().len()), (0, 1));
}

#[tokio::test]
async fn an_entry_whose_encoding_made_room_is_written_later_with_its_vector() {
    let entries = SharedMap::default();
    let makes_room = AtomicU64::new(1);
    let encoder = TextVectors::letters().after(move |_, _| match takes(&makes_room) {
        true => Err(preempted()),
        false => Ok(Duration::ZERO),
    });
    let one = server_with(encoder, Arc::new(entries.clone()), 8);
    one.hears("a", ASKED, "Wajda");
    let written = one.write().await;
    assert!(matches!(written, Err(PortError::NotSpeculated { .. })));
    assert_eq!((one.waiting(), entries.all()), (1, Vec::new()));
    one.write().await.unwrap();
    assert!(entries.all()[0].vector.is_some());
}

#[tokio::test]
async fn while_it_is_out_of_reach_guesses_fail_and_news_wait() {
    let entries = SharedMap::default();
    let (one, other) = (server(&entries), server(&entries));
    one.learns("a", ASKED, "Wajda").await;
    entries.set_down(true);
    let failed = other.guess(&call("a"), request(ASKED)).await;
    assert!(matches!(failed, Err(PortError::Unavailable { .. })));
    one.hears("a", "Who was Ford?", "a director");
    one.hears("a", "Who was Munk?", "another");
    assert!(one.write().await.is_err());
    assert_eq!(one.waiting(), 2);
    // However long it takes, the line does not grow without end.
    for number in 0..2 * NEWS_MAX {
        other.hears("b", &format!("Who is number {number}?"), "somebody");
        assert!(number % 500 > 0 || other.write().await.is_err());
    }
    assert_eq!(other.waiting(), NEWS_MAX);
    entries.set_down(false);
    one.write().await.unwrap();
    assert_eq!(one.waiting(), 0);
    let known = other.best("a", "Who was Munk?").await;
    assert_eq!(known.as_deref(), Some("another"));
}

#[tokio::test(start_paused = true)]
async fn it_keeps_up_by_itself_and_again_after_an_outage() {
    let entries = SharedMap::default();
    let one = server(&entries);
    entries.set_down(true);
    let written = async {
        one.hears("a", ASKED, "Wajda");
        tokio::time::sleep(3 * PAUSE).await;
        let asked = entries.asked();
        assert!((2..=4).contains(&asked), "not at every moment: {asked}");
        entries.set_down(false);
        tokio::time::sleep(2 * PAUSE).await;
        one.hears("a", "Who was Munk?", "another");
        while entries.all().len() < 2 {
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::select! {
        never = one.keep_up() => match never {},
        () = written => {}
    }
}

#[tokio::test]
async fn entries_are_bounded_for_all_servers_together() {
    let entries = SharedMap::default();
    let shared: Arc<dyn SharedEntries> = Arc::new(entries.clone());
    let (one, other) = (server_of(Arc::clone(&shared), 3), server_of(shared, 3));
    for number in 0..4 {
        let asked = format!("Who is number {number}?");
        one.learns("a", &asked, "somebody").await;
        other.learns("b", &asked, "somebody else").await;
    }
    let asked: Vec<_> = entries.all().iter().map(|e| e.asked.to_string()).collect();
    assert_eq!(
        asked,
        ["Who is number 2?", "Who is number 3?", "Who is number 3?"]
    );
}

#[tokio::test]
async fn what_is_too_long_is_not_shared() {
    let entries = SharedMap::default();
    let one = server(&entries);
    one.learns("a", &"x".repeat(600), "short").await;
    one.learns("a", "What is long?", &"x".repeat(600)).await;
    assert_eq!(entries.all(), []);
}

#[tokio::test]
async fn keeps_the_contracts() {
    let entries = SharedMap::default();
    let memory = server(&entries);
    contract::speculator(&memory).await;
    contract::cache(async |tenant: Tenant| {
        let name = tenant.to_string();
        let guess = memory.best(&name, ASKED).await;
        memory.learns(&name, ASKED, "Wajda").await;
        // What is not guessed is waited for.
        u64::from(guess.is_none())
    })
    .await;
}
