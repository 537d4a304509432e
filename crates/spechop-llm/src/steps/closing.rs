//! How a question may end, guessed from its hops: the lines that such a model writes once it knows enough.
//!
//! They are drafts of the text, as sub-questions are that somebody foresees: a model that writes such a line
//! reads its tokens several at a time, and one that writes another line loses a call or two. The form of the
//! lines is that of `eval/train/FORMAT.md`.

use std::borrow::Cow;
use std::sync::Arc;

use spechop_ports::{KnownHop, PlanRequest};

use super::{ANSWER, NOTE, countries, has_found, plain, sub_answer};

/// The lines that may come next if nothing more is asked. Of one beginning, the likeliest first.
pub(super) fn lines(request: &PlanRequest) -> Vec<Arc<str>> {
    let found: Vec<&KnownHop> = request.hops.iter().filter(|hop| has_found(hop)).collect();
    let Some(last) = found.last() else {
        return Vec::new();
    };
    let mut lines = vec![answer(&sub_answer(&last.answer))];
    lines.extend(notes(&found, &plain(request.question.as_str())));
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

/// The answer that follows from a note, which is a line that the model has written.
pub(super) fn answer_after(note: &str, request: &PlanRequest) -> Option<Arc<str>> {
    let note = note.strip_prefix(NOTE)?.trim();
    if note.ends_with(": same") {
        return Some(answer("yes"));
    }
    if note.ends_with(": different") {
        return Some(answer("no"));
    }
    // What was asked for, the date, and whose it is.
    let subject = note.splitn(3, ' ').nth(2)?;
    let question = plain(request.question.as_str());
    if question.contains(subject) {
        return Some(answer(subject));
    }
    // The question names what the subject was found by.
    let by = |hop: &&KnownHop| sub_answer(&hop.answer) == subject;
    let asked = plain(request.hops.iter().find(by)?.sub_question.as_str());
    Some(answer(common_name(&asked, &question)?))
}

fn answer(answer: &str) -> Arc<str> {
    format!("{ANSWER} {answer}\n").into()
}

/// What the model may note before it compares the two things that were found and led no further.
fn notes(found: &[&KnownHop], question: &str) -> Vec<Arc<str>> {
    let leads_on = |at: usize| {
        let answer = sub_answer(&found[at].answer);
        found[at + 1..]
            .iter()
            .any(|later| later.sub_question.as_str().contains(&answer))
    };
    let ends: Vec<usize> = (0..found.len()).filter(|at| !leads_on(*at)).collect();
    let [.., left, right] = ends[..] else {
        return Vec::new();
    };
    let shown = |at: usize| sub_answer(&found[at].answer);
    let (of_left, of_right) = (shown(left), shown(right));
    match (year(&of_left), year(&of_right)) {
        (None, None) => {
            let same = countries::same(&of_left, &of_right).unwrap_or(of_left == of_right);
            let verdict = verdict(same);
            vec![format!("{NOTE} {of_left} / {of_right}: {verdict}\n").into()]
        }
        // Months and days, which the model writes if the years are equal, are not guessed.
        (Some(of_left), Some(of_right)) if of_left != of_right => {
            let mut by_time = [(of_left, left), (of_right, right)];
            by_time.sort_unstable();
            let wanted = ["first", "last"].into_iter().zip(by_time);
            let note = |(wanted, (year, at))| {
                let subject = subject(&found[..at], found[at], question)?;
                Some(format!("{NOTE} {wanted} {year} {subject}\n").into())
            };
            wanted.filter_map(note).collect()
        }
        _ => Vec::new(),
    }
}

/// The last four digits in a row.
fn year(text: &str) -> Option<&str> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    numbers.rfind(|number| number.len() == 4)
}

/// Whom a hop asks about: something that was found before it, or else named in the question.
fn subject(before: &[&KnownHop], hop: &KnownHop, question: &str) -> Option<String> {
    let asked = plain(hop.sub_question.as_str());
    let found = before.iter().rev().map(|hop| sub_answer(&hop.answer));
    found
        .filter(|answer| asked.contains(answer.as_str()))
        .max_by_key(String::len)
        .or_else(|| common_name(&asked, question).map(str::to_owned))
}

/// The longest run of words of a sub-question that stands in the question, too, from a word on that begins as
/// names do. The first word is none: it says what is asked.
fn common_name<'a>(asked: &'a str, question: &str) -> Option<&'a str> {
    let words: Vec<&str> = asked.split(' ').skip(1).collect();
    let begin = |word: &str| word.as_ptr() as usize - asked.as_ptr() as usize;
    let run = |from: usize, to: usize| {
        let end = words[to].trim_end_matches(['?', ',']);
        &asked[begin(words[from])..begin(end) + end.len()]
    };
    let is_name = |word: &&str| word.starts_with(|c: char| c.is_uppercase() || c.is_numeric());
    let mut longest = "";
    let mut from = 0;
    for to in 0..words.len() {
        while from <= to && !question.contains(run(from, to)) {
            from += 1;
        }
        let Some(name) = words[from..=to].iter().position(is_name) else {
            continue;
        };
        let name = run(from + name, to);
        if name.len() > longest.len() {
            longest = name;
        }
    }
    (!longest.is_empty()).then_some(longest)
}

#[cfg(test)]
mod tests {
    use spechop_types::{Question, SubQuestion};

    use super::*;

    fn request(question: &str, hops: &[(&str, &str)]) -> PlanRequest {
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
            (
                OLDER,
                &BORN,
                &[
                    "Answer: 8 October 1848\n",
                    "Compare: first 1848 Pierre De Geyter\n",
                    "Compare: last 1990 Halcón Suriano Jr.\n",
                ],
            ),
            (
                FILM,
                &DIED,
                &[
                    "Answer: 3 May 1999, in Hull\n",
                    "Compare: first 1999 Ben Birk\n",
                    "Compare: last 2001 Amy Dunne\n",
                ],
            ),
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
        for (question, hops, note, expected) in [
            (
                OLDER,
                &BORN[..],
                "Compare: first 1848 Pierre De Geyter",
                Some("Answer: Pierre De Geyter\n"),
            ),
            (
                FILM,
                &DIED,
                "Compare: last 2001-03-04 Amy Dunne",
                Some("Answer: The Blue Kite\n"),
            ),
            (
                FILM,
                &DIED,
                "Compare: first 1999 Ben Birk",
                Some("Answer: Kangaroo\n"),
            ),
            (FILM, &DIED, "Compare: first 1999 Carl Cole", None),
            (
                FILM,
                &DIED,
                "Compare: France / Peru: different",
                Some("Answer: no\n"),
            ),
            (
                FILM,
                &DIED,
                "Compare: France / Peru: same",
                Some("Answer: yes\n"),
            ),
            (FILM, &DIED, "Compare: 1990 >", None),
            (FILM, &DIED, "Compare:", None),
            (FILM, &DIED, "Who is she?", None),
        ] {
            let line = answer_after(note, &request(question, hops));
            assert_eq!(line.as_deref(), expected, "{note}");
        }
    }

    #[test]
    fn the_name_is_the_longest_one_in_common() {
        for (asked, question, expected) in [
            (
                "Who directed Blue Kite?",
                "Blue Kite or Kite?",
                Some("Blue Kite"),
            ),
            (
                "Who is the director of Ed?",
                "Is the director of it Ed?",
                Some("Ed"),
            ),
            (
                "When was Ann, Lady Ash born?",
                "Is Ann, Lady Ash old?",
                Some("Ann, Lady Ash"),
            ),
            (
                "Who wrote 1984?",
                "When did the author of 1984 die?",
                Some("1984"),
            ),
            ("When was Élan born?", "Who is Élan?", Some("Élan")),
            ("Who is she?", "Who is she?", None),
            ("Who", "Who", None),
            ("", "", None),
        ] {
            assert_eq!(common_name(asked, question), expected, "{asked}");
        }
    }
}
