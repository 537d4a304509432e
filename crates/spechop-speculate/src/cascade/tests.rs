use std::time::Duration;

use spechop_ports::{Lane, Metered, contract};
use spechop_types::{Observation, Question, SubQuestion, Tokens};
use tokio::time::{Instant, sleep};

use super::*;

/// Guesses after so many milliseconds; without guesses it fails.
struct After(u64, Option<&'static [(&'static str, f64)]>);

fn tokens(completion: u64) -> Tokens {
    Tokens {
        prompt: 0,
        completion,
    }
}

#[async_trait]
impl Speculator for After {
    async fn guess(&self, call: &Call, request: GuessRequest) -> Result<Guessed, PortError> {
        // What it takes is told at once, and it takes one for each millisecond.
        Metered::new(call).tell(tokens(self.0));
        sleep(Duration::from_millis(self.0)).await;
        let Some(guesses) = self.1 else {
            return Err(PortError::unavailable("a member", "it is broken"));
        };
        let guess = |(text, share): &(&str, f64)| Guess {
            confidence: Some(Chance::of(*share)).filter(|share| *share > Chance::NONE),
            ..Guess::from(*text)
        };
        Ok(Guessed {
            guesses: guesses
                .iter()
                .map(guess)
                .take(request.limit.get())
                .collect(),
            tokens: tokens(self.0),
        })
    }
}

struct Told {
    /// Each with the time at which it was told.
    early: Vec<(String, u128)>,
    all: Result<Vec<String>, PortError>,
    took: u128,
    tokens: u64,
    spent: u64,
}

async fn ask(members: Vec<After>, limit: usize) -> Told {
    const NAMES: [&str; 3] = ["first", "second", "third"];
    let members = NAMES.into_iter().zip(members);
    let members = members.map(|(name, member)| (name, Arc::new(member) as Arc<dyn Speculator>));
    let cascade = Cascade::new(members.collect(), Chance::EVEN);
    let request = GuessRequest {
        question: Question::new("Whose mother?").unwrap(),
        hops: Vec::new(),
        sub_question: SubQuestion::new("Who directed it?"),
        passages: 5.try_into().unwrap(),
        limit: limit.try_into().unwrap(),
    };
    let call = Call::new(Lane::Speculative, Chance::EVEN);
    let start = Instant::now();
    let mut early = Vec::new();
    let name = |guess: &Guess| format!("{} by {}", guess.text, guess.by.unwrap_or("nobody"));
    let mut tell = |guess| early.push((name(&guess), start.elapsed().as_millis()));
    let guessed = cascade.guess_streaming(&call, request, &mut tell).await;
    Told {
        tokens: guessed.as_ref().map_or(0, |guessed| guessed.tokens.total()),
        all: guessed.map(|guessed| guessed.guesses.iter().map(name).collect()),
        early,
        took: start.elapsed().as_millis(),
        spent: call.spent().total(),
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_confident_guess_goes_ahead_and_a_better_one_beside_it() {
    let members = || {
        vec![
            After(30, Some(&[("Wajda", 0.7), ("Munk", 0.2)])),
            After(10, Some(&[("Kutz", 0.3)])),
            After(50, Some(&[("Hoffman", 0.9), ("wajda", 0.1)])),
        ]
    };
    let told = ask(members(), 1).await;
    assert_eq!(told.early, [("Wajda by first".to_owned(), 30)]);
    assert_eq!(told.all.unwrap(), ["Wajda by first"]);
    assert_eq!((told.took, told.tokens), (30, 40));
    assert_eq!(
        told.spent, 90,
        "the third one was dropped, and had told of its cost"
    );

    let told = ask(members(), 2).await;
    let early = [
        ("Wajda by first".to_owned(), 30),
        ("Hoffman by third".to_owned(), 50),
    ];
    assert_eq!(told.early, early);
    assert_eq!(told.all.unwrap(), ["Wajda by first", "Hoffman by third"]);

    let told = ask(members(), 4).await;
    assert_eq!(told.early, early);
    let all = [
        "Wajda by first",
        "Hoffman by third",
        "Kutz by second",
        "Munk by first",
    ];
    assert_eq!(told.all.unwrap(), all);
    assert_eq!((told.took, told.tokens), (50, 90));
}

#[tokio::test(start_paused = true)]
async fn who_finds_nothing_does_not_keep_others_from_knowing_better() {
    let members = |chance| {
        vec![
            After(10, Some(&[(Observation::NOTHING, 0.5)][..])),
            After(30, Some(chance)),
        ]
    };
    let told = ask(members(&[("Wajda", 0.6)]), 1).await;
    assert_eq!(told.early, [("Wajda by second".to_owned(), 30)]);
    assert_eq!(told.all.unwrap(), ["Wajda by second"]);
    // Nobody does: then it is the likeliest.
    let told = ask(members(&[("Wajda", 0.2)]), 1).await;
    assert_eq!(told.early, []);
    let nothing = format!("{} by first", Observation::NOTHING);
    assert_eq!(told.all.unwrap(), [nothing]);
}

#[tokio::test(start_paused = true)]
async fn no_later_one_goes_ahead_unless_it_is_better_and_another() {
    let members = vec![
        After(10, Some(&[("Wajda", 0.7)])),
        After(20, Some(&[("WAJDA", 0.9)])),
        After(30, Some(&[("Munk", 0.6)])),
    ];
    let told = ask(members, 3).await;
    assert_eq!(told.early.len(), 1);
    assert_eq!(told.all.unwrap(), ["Wajda by first", "Munk by third"]);
}

#[tokio::test(start_paused = true)]
async fn without_a_confident_guess_all_are_waited_for() {
    // One that says nothing of itself is as good as even.
    for (shares, best) in [([0.2, 0.4, 0.3], "b"), ([0.2, 0.4, 0.0], "c")] {
        let guesses: [&'static [(&str, f64)]; 3] = match shares {
            [_, _, 0.0] => [&[("a", 0.2)], &[("b", 0.4)], &[("c", 0.0)]],
            _ => [&[("a", 0.2)], &[("b", 0.4)], &[("c", 0.3)]],
        };
        let members = [30, 20, 10].into_iter().zip(guesses);
        let members = members.map(|(after, guesses)| After(after, Some(guesses)));
        let told = ask(members.collect(), 1).await;
        assert!(told.all.unwrap()[0].starts_with(best));
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_fails_is_no_failure_unless_all_do() {
    let told = ask(vec![After(10, None), After(20, Some(&[("Wajda", 0.3)]))], 1).await;
    assert_eq!(told.all.unwrap(), ["Wajda by second"]);
    let told = ask(vec![After(10, None), After(20, Some(&[]))], 1).await;
    assert_eq!(told.all.unwrap(), [""; 0]);
    let told = ask(vec![After(10, None), After(20, None)], 1).await;
    assert!(told.all.is_err());
    assert_eq!(told.spent, 30);
}

#[tokio::test]
async fn keeps_the_contract() {
    let members: Vec<(_, Arc<dyn Speculator>)> = vec![
        (
            "first",
            Arc::new(After(0, Some(&[("Wajda", 0.3), ("Munk", 0.2)]))),
        ),
        (
            "second",
            Arc::new(After(0, Some(&[("wajda", 0.8), ("Kutz", 0.7)]))),
        ),
    ];
    contract::speculator(&Cascade::new(members, Chance::EVEN)).await;
    contract::speculator(&Cascade::new(Vec::new(), Chance::EVEN)).await;
}

#[tokio::test(start_paused = true)]
async fn who_hangs_does_not_keep_an_unsure_guess_back() {
    let unsure: &'static [(&'static str, f64)] = &[("Ann", 0.2)];
    let told = ask(vec![After(5, Some(unsure)), After(60_000, Some(unsure))], 1).await;
    assert_eq!(told.all.unwrap(), ["Ann by first"]);
    assert_eq!(told.took, 2_005);
    // As long as nothing is known there is nothing to keep back.
    let told = ask(vec![After(5, None), After(60_000, Some(unsure))], 1).await;
    assert_eq!(told.took, 60_000);
}
