//! How likely an answer is to be right, told from how sure planner and reader were on the way.
//!
//! Neither says it of the whole answer: a reader is sure of a sub-answer to a question that nobody should
//! have asked, and a planner is sure of its words. So both are weighed together, by weights that were fitted
//! on questions whose answers are known (`eval/train/fit_confidence.py`).
//!
//! Only the committed trajectory counts. It is the same at every k, and so is the confidence, but for its last
//! digits: a local planner may read several tokens in one call, and then the bits of its logits differ.

use spechop_types::{Chance, Question, SubQuestion, canonical, canonical_name};

use crate::{Report, Stopped};

/// What an answer is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confidence {
    /// How likely it is to be right. `None` if planner or reader cannot tell how sure they were, as language
    /// models behind an endpoint.
    pub chance: Option<Chance>,
    /// How likely the question is to be of a form that the planner was trained on: a greeting, a sum or an
    /// instruction is not. `None` as `chance`.
    pub of_form: Option<Chance>,
    /// Whether it was found: a committed hop found something, and the answer stands in the evidence of such a
    /// hop, or chooses among what the question offers (one of its names, yes, no). To a question of yes or no nothing
    /// else is an answer.
    pub supported: bool,
}

/// What is weighed both times: logarithms of how sure the planner was of its first, its last and its least
/// certain step, of how likely the least likely reading was and the readings were on average, and the share of
/// hops that found nothing.
type Signs = [f64; 6];

/// Logistic regression over signs, and over what else there is to see (`MORE` things, 0 to 1).
#[derive(Clone, Copy, Debug, PartialEq)]
struct Weights<const MORE: usize> {
    intercept: f64,
    of: Signs,
    more: [f64; MORE],
}

/// How likely an answer is to be right. Of the embedded planner and reader: 520 questions that neither was
/// trained on and 167 that are none (`eval/datasets/off_form`).
///
/// Beside the signs:
///
/// * Whether it chooses among what the question offers. Who has two names to choose from is right more often than
///   who must find one.
/// * Whether the last hop asks when something was. A date is written in one way, a place in several.
/// * The share of hops whose sub-question names several of the passages found: one of them is meant.
const RIGHT: Weights<3> = Weights {
    intercept: 0.962,
    of: [0.352, 0.209, 0.356, -0.019, 1.529, 0.118],
    more: [1.222, 1.262, -1.064],
};

/// How likely a question is to be of a form that the planner was trained on, of the same questions. Right and
/// wrong are another matter: most questions of three hops are answered wrongly, and are questions.
///
/// Beside the signs: whether it names nothing, and whether it asks nothing.
const OF_FORM: Weights<2> = Weights {
    intercept: 5.289,
    of: [0.925, 0.317, 0.874, -0.662, 1.831, 0.192],
    more: [-1.422, -3.449],
};

/// Less than this is not told apart: the logarithm of nothing has no end.
const LEAST: f64 = 1e-3;

/// `segments`: how sure the planner was of each step, the answer last. `readings`: how likely each hop's best reading
/// was, and whether it was taken. `None` if a step or a reading that was taken is somebody's who does not say: a
/// fallback may have stepped in for one of them.
fn signs(segments: &[Option<Chance>], readings: &[(Option<Chance>, bool)]) -> Option<Signs> {
    let ln = |chance: Option<Chance>| chance.map_or(LEAST, Chance::share).max(LEAST).ln();
    let lowest = |all: &mut dyn Iterator<Item = f64>| all.fold(0.0, f64::min);
    let tells = segments.iter().all(Option::is_some);
    let reads = readings
        .iter()
        .all(|(sure, found)| sure.is_some() || !found);
    let any_reads = readings.iter().any(|(sure, _)| sure.is_some());
    if !tells || !reads || !any_reads {
        return None;
    }
    let hops = readings.len() as f64;
    let not_found = readings.iter().filter(|(_, found)| !found).count() as f64;
    Some([
        segments.first().map_or(0.0, |first| ln(*first)),
        segments.last().map_or(0.0, |last| ln(*last)),
        lowest(&mut segments.iter().map(|sure| ln(*sure))),
        lowest(&mut readings.iter().map(|(sure, _)| ln(*sure))),
        readings.iter().map(|(sure, _)| ln(*sure)).sum::<f64>() / hops,
        not_found / hops,
    ])
}

/// The signs of a planner that does not stand by its answer, although it is sure of its words.
fn doubted(signs: Signs) -> Signs {
    let [first, _, _, least_read, reads, not_found] = signs;
    [first, LEAST.ln(), LEAST.ln(), least_read, reads, not_found]
}

impl<const MORE: usize> Weights<MORE> {
    fn chance(self, signs: Signs, more: [f64; MORE]) -> Chance {
        let weighed = |weights: &[f64], seen: &[f64]| -> f64 {
            weights.iter().zip(seen).map(|(of, sign)| of * sign).sum()
        };
        let sum = self.intercept + weighed(&self.of, &signs) + weighed(&self.more, &more);
        Chance::of(1.0 / (1.0 + (-sum).exp()))
    }
}

impl Report {
    /// What the answer to `question` is worth.
    pub fn confidence(&self, question: &Question) -> Confidence {
        let segments = self.hops.iter().map(|hop| hop.certainty);
        let segments: Vec<_> = segments.chain([self.final_certainty]).collect();
        let observations = self.hops.iter().map(|hop| &hop.hop.observation);
        let readings = observations.map(|seen| (seen.confidence, seen.found));
        let readings: Vec<_> = readings.collect();
        let supported = self.is_supported(question);
        // What was not looked up has nothing that speaks for it.
        let nothing = self.final_certainty.map(|_| Chance::NONE);
        let (chance, of_form) = match signs(&segments, &readings) {
            _ if readings.is_empty() => (nothing, nothing),
            None => (None, None),
            Some(signs) => {
                let form = [names_nothing(question), asks_nothing(question)];
                let last = self.hops.last();
                let asks_when = last.is_some_and(|hop| asks_when(&hop.hop.sub_question));
                let right = [
                    f64::from(self.chooses(question)),
                    f64::from(asks_when),
                    self.names_several(),
                ];
                let form = OF_FORM.chance(signs, form.map(f64::from));
                let signs = match self.is_answer_to(question) {
                    true => signs,
                    false => doubted(signs),
                };
                (Some(RIGHT.chance(signs, right)), Some(form))
            }
        };
        Confidence {
            chance,
            of_form,
            supported,
        }
    }

    /// Whether the planner says that this is the answer, and it can be one. An answer that had to be written because
    /// there was no room for another look-up is the last thing found, mostly; and to a question of yes or no nothing else
    /// is an answer.
    fn is_answer_to(&self, question: &Question) -> bool {
        let is_cut_short = matches!(self.stopped, Stopped::HopBudget | Stopped::Budget);
        !is_cut_short && (!question.asks_yes_or_no() || self.is_yes_or_no())
    }

    /// Whether the answer is one of what the question offers: a name in it, yes, no.
    fn chooses(&self, question: &Question) -> bool {
        if question.asks_yes_or_no() {
            return self.is_yes_or_no();
        }
        let answer = words(&self.answer);
        let offered = !answer.trim().is_empty() && words(question.as_str()).contains(&answer);
        offered && question.offers_a_choice()
    }

    fn is_yes_or_no(&self) -> bool {
        matches!(words(&self.answer).trim(), "yes" | "no")
    }

    /// The share of hops whose sub-question names several of their passages.
    fn names_several(&self) -> f64 {
        let hops = self.hops.iter().map(|hop| &hop.hop);
        let so = hops.filter(|hop| {
            let titles = hop.observation.evidence.iter().map(|seen| &*seen.title);
            names_several(&hop.sub_question, titles)
        });
        so.count() as f64 / self.hops.len().max(1) as f64
    }

    fn is_supported(&self, question: &Question) -> bool {
        let answer = words(&self.answer);
        if answer.trim().is_empty() {
            return false;
        }
        let mut found = (self.hops.iter().map(|hop| &hop.hop.observation))
            .filter(|seen| seen.found)
            .peekable();
        if found.peek().is_none() {
            return false;
        }
        if question.asks_yes_or_no() {
            return self.is_yes_or_no();
        }
        self.chooses(question)
            || found.any(|seen| {
                words(&seen.answer).contains(&answer)
                    || (seen.evidence.iter()).any(|passage| words(&passage.text).contains(&answer))
            })
    }
}

/// Whether more than one of the passages with these titles is named by what was asked.
fn names_several<'a>(asked: &SubQuestion, titles: impl Iterator<Item = &'a str>) -> bool {
    let asked = words(asked.as_str());
    // What stands in brackets tells namesakes apart.
    let bare = titles.map(|title| words(title.split(" (").next().unwrap_or(title)));
    let named = bare.filter(|title| !title.trim().is_empty() && asked.contains(title));
    named.count() > 1
}

fn asks_when(asked: &SubQuestion) -> bool {
    let asked = asked.as_str().to_lowercase();
    asked.starts_with("when") || asked.contains("what year")
}

/// Whether no word but the first begins with a capital.
fn names_nothing(question: &Question) -> bool {
    let mut behind = question.as_str().split_whitespace().skip(1);
    !behind.any(|word| {
        let word = word.trim_start_matches(['"', '\'', '“', '‘', '(']);
        word.starts_with(char::is_uppercase)
    })
}

/// Whether there is neither a question mark nor a word that asks.
fn asks_nothing(question: &Question) -> bool {
    #[rustfmt::skip]
    const ASK: &[&str] = &[
        "who", "whom", "whose", "what", "which", "when", "where", "why", "how", "is", "are", "was", "were", "be",
        "do", "does", "did", "can", "could", "has", "have", "had",
    ];
    let text = question.as_str();
    !text.contains('?') && !canonical(text).split(' ').any(|word| ASK.contains(&word))
}

/// In blanks, so that words are compared as wholes.
fn words(text: &str) -> String {
    format!(" {} ", canonical_name(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEIGHTS: Weights<1> = Weights {
        intercept: 1.0,
        of: [0.5, 0.25, 2.0, 1.0, 0.5, -3.0],
        more: [1.0],
    };

    fn chance(segments: &[f64], readings: &[(f64, bool)]) -> f64 {
        let segments: Vec<_> = segments.iter().map(|s| Some(Chance::of(*s))).collect();
        let readings: Vec<_> = (readings.iter())
            .map(|(sure, found)| (Some(Chance::of(*sure)), *found))
            .collect();
        let signs = signs(&segments, &readings).expect("signs");
        WEIGHTS.chance(signs, [0.0]).share()
    }

    #[test]
    fn what_is_so_counts() {
        let signs =
            signs(&[Some(Chance::CERTAIN)], &[(Some(Chance::CERTAIN), true)]).expect("signs");
        assert!(WEIGHTS.chance(signs, [1.0]) > WEIGHTS.chance(signs, [0.0]));
    }

    #[test]
    fn a_question_names_something_and_asks_for_something() {
        for (text, names, asks) in [
            ("Who directed Titanic?", true, true),
            ("who is the son of “Ann”", true, true),
            ("Director of Titanic's birthplace?", true, true),
            ("Write a poem about the sea.", false, false),
            ("hello", false, false),
            ("Translate it into Spanish", true, false),
        ] {
            let question = Question::new(text).expect("a question");
            assert_eq!(names_nothing(&question), !names, "{text}");
            assert_eq!(asks_nothing(&question), !asks, "{text}");
        }
    }

    #[test]
    fn a_sub_question_may_name_several_passages() {
        for (asked, titles, several) in [
            (
                "Who directed Blue Kite?",
                &["Blue Kite", "Red Kite"][..],
                false,
            ),
            (
                "Who directed Blue Kite?",
                &["Blue Kite (1948 film)", "Blue Kite (1993 film)"],
                true,
            ),
            ("When was Ann of Hull born?", &["Ann of Hull", "Hull"], true),
            (
                "When was Ann of Hull born?",
                &["", "(1948)", "Hulls", "Hull"],
                false,
            ),
            ("When was Ann of Hull born?", &[], false),
        ] {
            let asked = SubQuestion::new(asked);
            let said = names_several(&asked, titles.iter().copied());
            assert_eq!(said, several, "{asked:?} {titles:?}");
            assert_eq!(asks_when(&asked), asked.as_str().starts_with("When"));
        }
    }

    #[test]
    fn who_is_sure_of_everything_is_believed() {
        let sure = chance(&[1.0, 1.0], &[(1.0, true)]);
        assert!((sure - 1.0 / (1.0 + (-1.0_f64).exp())).abs() < 1e-6);
    }

    #[test]
    fn every_doubt_counts() {
        let sure = chance(&[1.0, 1.0], &[(1.0, true)]);
        for doubt in [
            chance(&[0.8, 1.0], &[(1.0, true)]),
            chance(&[1.0, 0.8], &[(1.0, true)]),
            chance(&[1.0, 1.0], &[(0.5, true)]),
            chance(&[1.0, 1.0], &[(1.0, false)]),
            chance(&[1.0, 1.0, 1.0], &[(1.0, true), (0.5, true)]),
        ] {
            assert!(doubt < sure, "{doubt}");
        }
        assert!(
            chance(&[0.5], &[(0.0, false)]) > 0.0,
            "nothing is impossible"
        );
    }

    #[test]
    fn a_doubted_answer_is_as_one_that_the_planner_is_not_sure_of() {
        let sure = Some(Chance::CERTAIN);
        let of = |last| signs(&[sure, last], &[(sure, true)]).expect("signs");
        assert_eq!(doubted(of(sure)), of(Some(Chance::NONE)));
    }

    #[test]
    fn who_cannot_tell_is_not_asked() {
        let sure = Some(Chance::CERTAIN);
        assert_eq!(signs(&[None, None], &[(sure, true)]), None);
        assert_eq!(signs(&[sure, sure], &[(None, true)]), None);
        assert_eq!(signs(&[sure], &[]), None);
        // A fallback stepped in for one of them.
        assert_eq!(signs(&[sure, None, sure], &[(sure, true)]), None);
        assert_eq!(signs(&[sure, sure], &[(sure, true), (None, true)]), None);
        // Nothing to read is a doubt of its own.
        let doubted = signs(&[sure, sure], &[(sure, true), (None, false)]).expect("signs");
        assert!((doubted[3] - LEAST.ln()).abs() < 1e-12);
    }
}
