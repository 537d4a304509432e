use std::cell::Cell;
use std::future::poll_fn;

use prost::Message;
use spechop_proto::AskEvent;
use tokio::time::timeout;

use super::*;

fn id(tenant: &str, name: &str) -> QuestionId {
    Owned::new(&Tenant::new(tenant).unwrap(), Tenant::new(name).unwrap())
}

fn event(sequence: u64) -> AskEvent {
    AskEvent {
        sequence,
        at_ms: 1.0,
        ..AskEvent::default()
    }
}

fn over(questions: &Arc<Questions>, id: QuestionId) {
    let opened = questions.open(id).unwrap();
    opened.question.log.push(event(1), true);
    opened.keep();
}

fn is_unknown(questions: &Questions, id: &QuestionId) -> bool {
    matches!(questions.find(id), Err(AskError::NotOpen(_)))
}

#[tokio::test(start_paused = true)]
async fn a_name_is_free_again_when_its_question_is_over() {
    let questions = Questions::new(Duration::from_secs(60), 1 << 20);
    let open = questions.open(id("a", "q")).unwrap();
    let error = questions.open(id("a", "q")).err().unwrap();
    assert!(error.to_string().contains("still open"), "{error}");
    let error = questions.is_free(&id("a", "q")).unwrap_err();
    assert!(error.to_string().contains("still open"), "{error}");
    // Another tenant's question is another question.
    drop(questions.open(id("b", "q")).unwrap());
    assert!(is_unknown(&questions, &id("b", "q")));
    assert!(questions.find(&id("a", "q")).is_ok());
    drop(open);
    assert!(is_unknown(&questions, &id("a", "q")));
    over(&questions, id("a", "q"));
    // Looking takes nothing away.
    questions.is_free(&id("a", "q")).unwrap();
    assert!(questions.find(&id("a", "q")).is_ok());
    let second = questions.open(id("a", "q")).unwrap();
    assert!(!questions.find(&id("a", "q")).unwrap().log.is_over());
    // The first one's time passes, and the second one stays.
    tokio::time::advance(Duration::from_secs(61)).await;
    assert!(questions.find(&id("a", "q")).is_ok());
    drop(second);
    assert_eq!(questions.sizes(), (0, 0));
}

/// Its client may go before anything is done for it.
#[tokio::test]
async fn whoever_follows_a_question_that_never_began_hears_that_it_is_over() {
    let questions = Questions::new(Duration::from_secs(60), 1 << 20);
    let open = questions.open(id("a", "q")).unwrap();
    let question = questions.find(&id("a", "q")).unwrap();
    let reader = question.log.attach(0).unwrap();
    drop(open);
    let end = poll_fn(|cx| question.log.poll_next(reader, cx)).await;
    assert!(matches!(end, Found::Failed(error) if matches!(*error, AskError::Cancelled)));
}

#[tokio::test(start_paused = true)]
async fn what_is_over_is_kept_for_a_time() {
    let questions = Questions::new(Duration::from_secs(60), 1 << 20);
    over(&questions, id("a", "q"));
    tokio::time::advance(Duration::from_secs(59)).await;
    assert!(questions.find(&id("a", "q")).unwrap().log.is_over());
    assert!(is_unknown(&questions, &id("b", "q")));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(is_unknown(&questions, &id("a", "q")));
    assert_eq!(questions.sizes(), (0, 0));
    // Nothing is kept if the operator says so.
    let questions = Questions::new(Duration::ZERO, 1 << 20);
    over(&questions, id("a", "q"));
    assert_eq!(questions.sizes(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_oldest_leaves_if_there_is_too_much() {
    // An event has eleven bytes.
    let questions = Questions::new(Duration::from_secs(60), 40);
    for name in ["q1", "q2", "q3", "q4", "q5"] {
        over(&questions, id("a", name));
    }
    let (known, bytes) = questions.sizes();
    assert!(known == 3 && bytes <= 40, "{known} of {bytes} bytes");
    assert!(is_unknown(&questions, &id("a", "q2")));
    assert!(questions.find(&id("a", "q3")).is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_a_reader_holds_is_not_forgotten_in_vain() {
    // An event has eleven bytes.
    let questions = Questions::new(Duration::from_secs(60), 40);
    let names = ["q1", "q2", "q3", "q4"].map(|name| id("a", name));
    over(&questions, names[0].clone());
    over(&questions, names[1].clone());
    let slow = questions.find(&names[0]).unwrap();
    let reader = slow.log.attach(0).unwrap();
    over(&questions, names[2].clone());
    over(&questions, names[3].clone());
    let is_known = |id: &QuestionId| !is_unknown(&questions, id);
    // To forget the oldest would have freed nothing, and so would the others have had to go after it.
    assert_eq!(names.each_ref().map(is_known), [true, false, true, true]);
    assert_eq!(questions.sizes(), (3, 33));
    // Without its reader it is the oldest again.
    slow.log.detach(reader);
    drop(slow);
    over(&questions, id("a", "q5"));
    assert_eq!(names.each_ref().map(is_known), [false, false, true, true]);
    assert_eq!(questions.sizes(), (3, 33));
}

/// They are longer there than its own task, and than its name.
#[tokio::test(start_paused = true)]
async fn whoever_comes_after_the_end_and_takes_nothing_is_cut_off() {
    let unread = Duration::from_secs(60);
    let questions = Questions::new(Duration::from_secs(60), 1 << 20);
    let name = id("a", "q");
    over(&questions, name.clone());
    let question = questions.find(&name).unwrap();
    assert!(!question.log.read_up(unread).await, "its task ends");
    let reader = question.log.attach(0).unwrap();
    // The log hears of it once.
    let told = Cell::new(0);
    for _ in 0..2 {
        let sweep = questions.sweep(|| told.set(told.get() + 1));
        let sweep = timeout(Duration::from_secs(61), sweep);
        assert!(sweep.await.is_err(), "it has no end");
        assert_eq!(told.get(), 1);
    }
    let found = poll_fn(|cx| question.log.poll_next(reader, cx)).await;
    assert!(matches!(found, Found::Unread));
    // Its stream may still be there.
    assert_eq!(questions.sizes(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn whoever_came_after_the_end_makes_room() {
    // An event has eleven bytes.
    let questions = Questions::new(Duration::from_secs(60), 44);
    let names = ["q1", "q2", "q3", "q4"].map(|name| id("a", name));
    // The first one's reader was there before the end: it has a place.
    let opened = questions.open(names[0].clone()).unwrap();
    let first = Arc::clone(&opened.question);
    let its_reader = first.log.attach(0).unwrap();
    first.log.push(event(1), true);
    opened.keep();
    let mut late = Vec::new();
    for name in &names[1..] {
        over(&questions, name.clone());
        let question = questions.find(name).unwrap();
        let reader = question.log.attach(0).unwrap();
        late.push((question, reader));
    }
    questions.make_room(11);
    let is_known = |id: &QuestionId| !is_unknown(&questions, id);
    assert_eq!(names.each_ref().map(is_known), [true, false, false, true]);
    assert_eq!(questions.sizes(), (2, 22));
    for (at, (question, reader)) in late.iter().enumerate() {
        let found = poll_fn(|cx| question.log.poll_next(*reader, cx)).await;
        let is_forgotten = matches!(found, Found::Off(OffTheLog::Forgotten));
        assert_eq!(is_forgotten, at < 2);
    }
    let found = poll_fn(|cx| first.log.poll_next(its_reader, cx)).await;
    assert!(matches!(found, Found::Event(_)));
}

/// Many that are over must not take the past of one that is open.
#[tokio::test(start_paused = true)]
async fn what_is_over_makes_room_for_what_is_open() {
    // An event has eleven bytes, and a question may have an eighth of all.
    let questions = Questions::new(Duration::from_secs(60), 24 * 11);
    let names: Vec<_> = (0..24).map(|n| id("a", &format!("q{n}"))).collect();
    names.iter().for_each(|name| over(&questions, name.clone()));
    assert_eq!(questions.sizes(), (24, 24 * 11));
    let open = questions.open(id("b", "q")).unwrap();
    for event in (1..=3).map(event) {
        questions.make_room(event.encoded_len());
        open.question.log.push(event, false);
    }
    assert!(open.question.log.attach(0).is_ok(), "all of it is there");
    let gone = names.iter().filter(|id| is_unknown(&questions, id));
    assert!(gone.eq(&names[..3]), "the oldest");
    assert_eq!(questions.sizes(), (22, 24 * 11));
}

#[test]
fn made_names_differ_and_are_names() {
    let questions = Questions::new(Duration::ZERO, 0);
    let tenant = Tenant::default();
    let one = questions.make_name(&tenant).unwrap();
    let other = questions.make_name(&tenant).unwrap();
    assert_ne!(one, other);
    assert!(one.item.as_str().starts_with("q-"));
}
