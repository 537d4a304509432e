//! A cascade of speculators that were recorded one by one: what they would have said if they had been asked
//! together.

use spechop_sim::Clock;
use spechop_types::Observation;

use crate::asked::{guessed, number};
use crate::brought::{Brought, BroughtGuess, ByHop};
use crate::stage::{Output, RecordedGuess, Stage};
use crate::{Bundle, Injected, Variant, play};

/// The name of its rows, and of a server's speculator of this kind.
pub const CASCADE: &str = "cascade";
/// As a server has it unless it is told otherwise (`speculator.cascade_confidence`). Who says nothing of himself is
/// as sure as that.
const CONFIDENT: f32 = 0.5;
/// How long others are waited for, as by a server.
const PATIENCE_MS: f64 = 2000.0;

impl Brought {
    /// Takes in what a cascade of these recorded speculators says of each hop of the bundle. One that was not recorded
    /// at a hop says nothing there. Of a question whose sequential agent was not recorded whole nothing is played, so
    /// it says nothing of it.
    pub fn add_cascade(&mut self, members: &[String], bundle: &Bundle, injected: Option<Injected>) {
        let (mut clock, usual) = (Clock::new(), Variant::standard());
        let mut said = ByHop::new();
        for question in bundle.questions() {
            let Ok(row) = play(&mut clock, bundle, question, &usual, injected) else {
                continue;
            };
            let together = |at| {
                let stages = members.iter();
                let stages = stages.filter_map(|name| guessed(bundle, question, &row, at, name));
                Some((number(at), first(stages.map(heard).collect())?))
            };
            let hops = (0..row.hops.len()).filter_map(together).collect();
            said.insert(question.id.clone(), hops);
        }
        self.add_guesses(CASCADE, said);
    }
}

/// When a speculator had said all, and its best guess.
type Heard = (f64, Option<RecordedGuess>);

fn heard(stage: &Stage) -> Heard {
    let best = match &stage.output {
        Output::Guesses(guesses) => guesses.first().cloned(),
        _ => None,
    };
    (stage.ms, best)
}

/// The first confident guess; else, once all are heard or patience is over, the surest. It is what
/// `spechop_speculate::Cascade` does where one guess is wanted.
fn first(mut all: Vec<Heard>) -> Option<BroughtGuess> {
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let sure = |guess: &RecordedGuess| guess.confidence.unwrap_or(CONFIDENT);
    let (mut ms, mut end, mut unsure) = (0.0, f64::INFINITY, Vec::new());
    for (at, guess) in all {
        if at > end {
            ms = end;
            break;
        }
        ms = at;
        let Some(guess) = guess else { continue };
        // That nothing will be found is said of many a hop at once: another may know better.
        let is_something = !Observation::is_nothing(&guess.text);
        if is_something && sure(&guess) >= CONFIDENT {
            return Some(BroughtGuess { guess, ms });
        }
        if is_something {
            end = end.min(at + PATIENCE_MS);
        }
        unsure.push(guess);
    }
    // Of equally sure ones the first that came.
    let surest = unsure.into_iter().rev();
    let guess = surest.max_by(|a, b| sure(a).total_cmp(&sure(b)))?;
    Some(BroughtGuess { guess, ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(ms: f64, text: &str, confidence: Option<f32>) -> Heard {
        let text = text.into();
        (ms, Some(RecordedGuess { text, confidence }))
    }

    #[test]
    fn the_first_confident_guess_is_taken_or_else_the_surest() {
        let silent = |ms| (ms, None);
        let nothing = Observation::NOTHING;
        for (all, expected) in [
            (vec![], None),
            (vec![silent(5.0)], None),
            // Whoever is listed first, the faster one is heard first.
            (
                vec![says(90.0, "slow", None), says(10.0, "fast", Some(0.6))],
                Some(("fast", 10.0)),
            ),
            // Who is unsure waits for others.
            (
                vec![says(10.0, "fast", Some(0.2)), says(90.0, "slow", None)],
                Some(("slow", 90.0)),
            ),
            (
                vec![
                    says(10.0, "fast", Some(0.3)),
                    says(90.0, "slow", Some(0.3)),
                    silent(200.0),
                ],
                Some(("fast", 200.0)),
            ),
            // But not for ever.
            (
                vec![says(10.0, "fast", Some(0.2)), says(2011.0, "slow", None)],
                Some(("fast", 2010.0)),
            ),
            // Who says that nothing will be found may be wrong, and hurries nobody.
            (
                vec![says(10.0, nothing, Some(0.9)), says(5000.0, "slow", None)],
                Some(("slow", 5000.0)),
            ),
            (
                vec![says(10.0, nothing, Some(0.9)), silent(20.0)],
                Some((nothing, 20.0)),
            ),
        ] {
            let said = first(all.clone());
            let said = said.as_ref().map(|said| (&*said.guess.text, said.ms));
            assert_eq!(said, expected, "{all:?}");
        }
    }
}
