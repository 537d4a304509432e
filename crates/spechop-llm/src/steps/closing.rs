//! How a question may end, guessed from its hops: the lines that such a model writes once it knows enough.
//!
//! They are drafts of the text, as sub-questions are that somebody foresees: a model that writes such a line
//! reads its tokens several at a time, and one that writes another line loses a call or two. The form of the
//! lines is that of `eval/train/FORMAT.md`. What two dates end in is [concluded](super::concluded), not written.

use std::borrow::Cow;
use std::sync::Arc;

use spechop_ports::{KnownHop, PlanRequest};
use spechop_verifier::Date;

use super::compared::ends;
use super::{ANSWER, NOTE, countries, has_found, sub_answer};

/// The lines that may come next if nothing more is asked. Of one beginning, the likeliest first.
pub(super) fn lines(request: &PlanRequest) -> Vec<Arc<str>> {
    let found: Vec<&KnownHop> = request.hops.iter().filter(|hop| has_found(hop)).collect();
    let Some(last) = found.last() else {
        return Vec::new();
    };
    let mut lines = vec![answer(&sub_answer(&last.answer))];
    lines.extend(note(&found));
    lines
}

/// The note with the verdict that follows from the countries that it compares, if both are known.
///
/// The form of the note is what the model knows best. The verdict it guesses: the shipped one took American and
/// Australian for one country in every order.
pub(super) fn judged(note: &str) -> Cow<'_, str> {
    let verdict_of = |note: &str| {
        let (compared, said) = note.strip_prefix(NOTE)?.rsplit_once(": ")?;
        let (left, right) = compared.split_once(" / ")?;
        let right_is = verdict(countries::same(left, right)?);
        (said != right_is).then(|| format!("{NOTE}{compared}: {right_is}"))
    };
    verdict_of(note).map_or(Cow::Borrowed(note), Cow::Owned)
}

fn verdict(same: bool) -> &'static str {
    match same {
        true => "same",
        false => "different",
    }
}

/// The answer that follows from a note about two countries, which is a line that the model has written.
pub(super) fn answer_after(note: &str) -> Option<Arc<str>> {
    let (_, verdict) = note.strip_prefix(NOTE)?.rsplit_once(": ")?;
    match verdict {
        "same" => Some(answer("yes")),
        "different" => Some(answer("no")),
        _ => None,
    }
}

fn answer(answer: &str) -> Arc<str> {
    format!("{ANSWER} {answer}\n").into()
}

/// What the model may note before it compares the two things that were found and led no further.
fn note(found: &[&KnownHop]) -> Option<Arc<str>> {
    let [.., left, right] = ends(found)[..] else {
        return None;
    };
    let [left, right] = [left, right].map(|at| sub_answer(&found[at].answer));
    if Date::of(&left).is_some() || Date::of(&right).is_some() {
        return None;
    }
    let same = countries::same(&left, &right).unwrap_or(left == right);
    Some(format!("{NOTE} {left} / {right}: {}\n", verdict(same)).into())
}

#[cfg(test)]
pub(super) mod tests {
    use spechop_types::{Question, SubQuestion};

    use super::*;

    pub(in super::super) fn request(question: &str, hops: &[(&str, &str)]) -> PlanRequest {
        PlanRequest {
            question: Question::new(question).unwrap(),
            hops: hops
                .iter()
                .map(|(asked, answer)| KnownHop {
                    sub_question: SubQuestion::new(asked),
                    answer: (*answer).into(),
                })
                .collect(),
            must_answer: false,
            drafts: Vec::new(),
        }
    }

    const OLDER: &str = "Who is older, Halcón Suriano Jr. or Pierre De Geyter?";
    const BORN: [(&str, &str); 2] = [
        ("When was Halcón Suriano Jr. born?", "19 August 1990"),
        ("When was Pierre De Geyter born?", "8 October 1848"),
    ];
    const FILM: &str = "Which film has the director who died later, The Blue Kite or Kangaroo?";
    const DIED: [(&str, &str); 4] = [
        (
            "Who is the director of the film The Blue Kite?",
            "Amy Dunne",
        ),
        ("When did Amy Dunne die?", "2001"),
        ("Who directed Kangaroo?", "Ben Birk,"),
        ("When did Ben Birk die?", "3 May 1999, in Hull"),
    ];

    #[test]
    fn the_lines_follow_from_the_hops() {
        let countries = [
            ("Which country is A from?", "France"),
            ("Which country is B from?", "Peru"),
        ];
        let same = [countries[0], ("Which country is B from?", "France")];
        let undated = [BORN[0], ("When was Pierre De Geyter born?", "Ghent")];
        let equal = [BORN[0], ("When was Pierre De Geyter born?", "1990")];
        for (question, hops, expected) in [
            (OLDER, &[][..], &[][..]),
            (OLDER, &[("Who?", "No relevant information found")], &[]),
            (OLDER, &[("Who?", " ,")], &[]),
            (OLDER, &BORN[..1], &["Answer: 19 August 1990\n"]),
            (OLDER, &BORN, &["Answer: 8 October 1848\n"]),
            (FILM, &DIED, &["Answer: 3 May 1999, in Hull\n"]),
            (
                "Are A and B from one country?",
                &countries,
                &["Answer: Peru\n", "Compare: France / Peru: different\n"],
            ),
            (
                "Are A and B from one country?",
                &same,
                &["Answer: France\n", "Compare: France / France: same\n"],
            ),
            (OLDER, &undated, &["Answer: Ghent\n"]),
            (OLDER, &equal, &["Answer: 1990\n"]),
            // One leads to the other.
            (FILM, &DIED[..2], &["Answer: 2001\n"]),
        ] {
            let lines = lines(&request(question, hops));
            let lines: Vec<&str> = lines.iter().map(|line| &**line).collect();
            assert_eq!(lines, expected, "{hops:?}");
        }
    }

    #[test]
    fn what_a_note_concludes_of_two_countries_is_computed() {
        for (note, expected) in [
            (
                "Compare: American / Australian: same",
                "Compare: American / Australian: different",
            ),
            (
                "Compare: Canadian / Canada: different",
                "Compare: Canadian / Canada: same",
            ),
            (
                "Compare: French / Bolivia: different",
                "Compare: French / Bolivia: different",
            ),
            (
                "Compare: American / Atlantis: same",
                "Compare: American / Atlantis: same",
            ),
            (
                "Compare: first 1848 Ben Birk",
                "Compare: first 1848 Ben Birk",
            ),
            ("Compare:", "Compare:"),
        ] {
            assert_eq!(judged(note), expected, "{note}");
        }
    }

    #[test]
    fn a_note_leads_to_its_answer() {
        for (note, expected) in [
            ("Compare: France / Peru: different", Some("Answer: no\n")),
            ("Compare: France / Peru: same", Some("Answer: yes\n")),
            ("Compare: first 1999 Ben Birk", None),
            ("Compare: 1990 >", None),
            ("Compare:", None),
            ("Who is she?", None),
        ] {
            assert_eq!(answer_after(note).as_deref(), expected, "{note}");
        }
    }
}
