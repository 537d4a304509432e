//! What the hops of a comparison found, and what the question calls that which it is about.

use spechop_ports::{KnownHop, PlanRequest};
use spechop_verifier::Date;

use super::{has_found, plain, sub_answer};

/// A date that was found.
pub(super) struct Dated {
    pub(super) date: Date,
    /// What it is the date of, as the question calls it. A question about the directors of two films names the films.
    pub(super) name: String,
}

/// The dates that led no further, in the order in which they were found. `None` if the question does not name what each
/// is the date of.
pub(super) fn dated(request: &PlanRequest) -> Option<Vec<Dated>> {
    let found: Vec<&KnownHop> = request.hops.iter().filter(|hop| has_found(hop)).collect();
    let question = plain(request.question.as_str());
    let dates = ends(&found).into_iter().filter_map(|at| {
        let date = Date::of(&sub_answer(&found[at].answer))?;
        Some((at, date))
    });
    let named = dates.map(|(at, date)| {
        let name = named(&found[..at], found[at], &question)?;
        Some(Dated { date, name })
    });
    named.collect()
}

/// The hops of which no later one asks on.
pub(super) fn ends(found: &[&KnownHop]) -> Vec<usize> {
    let leads_on = |at: usize| {
        let answer = sub_answer(&found[at].answer);
        let mut later = found[at + 1..].iter();
        later.any(|later| later.sub_question.as_str().contains(&answer))
    };
    (0..found.len()).filter(|at| !leads_on(*at)).collect()
}

/// What the question calls that which a hop asks about: by its name, or by what it was found by.
fn named(before: &[&KnownHop], hop: &KnownHop, question: &str) -> Option<String> {
    let asked = plain(hop.sub_question.as_str());
    let found = before.iter().rev();
    let about = found
        .filter(|hop| asked.contains(&sub_answer(&hop.answer)))
        .max_by_key(|hop| sub_answer(&hop.answer).len());
    match about {
        Some(hop) if !question.contains(&sub_answer(&hop.answer)) => {
            common_name(&plain(hop.sub_question.as_str()), question).map(str::to_owned)
        }
        _ => common_name(&asked, question).map(str::to_owned),
    }
}

/// What follows a name in questions about dates.
const VERBS: &[&str] = &[
    "born",
    "die",
    "died",
    "released",
    "published",
    "live",
    "lived",
];

/// Whether a name of the question may be longer to the left: a name can begin with a small letter, as `de Vries`.
fn is_cut(name: &str, question: &str) -> bool {
    #[rustfmt::skip]
    const BEFORE_NAMES: &[&str] = &[
        "or", "and", "of", "than", "between", "both", "the", "after", "before", "is", "are", "was", "were", "do", "does", "did", "film", "movie",
        "song", "album", "book", "magazine", "newspaper",
    ];
    let before = question.split_once(name).map_or("", |(before, _)| before);
    let is_small = |word: &&str| word.starts_with(char::is_lowercase);
    let last = before.trim_end().rsplit(' ').next().filter(is_small);
    last.is_some_and(|word| !word.ends_with(',') && !BEFORE_NAMES.contains(&word))
}

/// The longest run of words of a sub-question that stands in the question, too, from a word on that begins as
/// names do.
fn common_name<'a>(asked: &'a str, question: &str) -> Option<&'a str> {
    let words: Vec<&str> = asked.split(' ').collect();
    let begin = |word: &str| word.as_ptr() as usize - asked.as_ptr() as usize;
    let run = |from: usize, to: usize| {
        let shown = words[to].trim_end_matches(['?', ',']);
        let bare = ["'s", "’s", "'", "’"]
            .iter()
            .find_map(|own| shown.strip_suffix(own));
        let ends = [Some(shown), bare].into_iter().flatten();
        let runs = ends.map(|end| &asked[begin(words[from])..begin(end) + end.len()]);
        runs.into_iter().find(|run| question.contains(run))
    };
    let is_name = |at: &usize| words[*at].starts_with(|c: char| c.is_uppercase() || c.is_numeric());
    let mut longest = "";
    let mut from = 0;
    for to in 0..words.len() {
        while from <= to && run(from, to).is_none() {
            from += 1;
        }
        // Behind the name the question can go on as the sub-question does.
        let named = !VERBS.contains(&words[to].trim_end_matches('?'));
        let name = (from..=to).find(is_name).filter(|_| named);
        if let Some(name) = name.and_then(|name| run(name, to))
            && name.len() > longest.len()
            // Both may begin with what is asked.
            && !(asked.starts_with(name) && question.starts_with(name))
        {
            longest = name;
        }
    }
    (!longest.is_empty() && !is_cut(longest, question)).then_some(longest)
}

#[cfg(test)]
mod tests {
    use super::super::closing::tests::request;
    use super::*;

    #[test]
    fn a_date_is_that_of_what_the_question_names() {
        let hops = [
            (
                "Who is the director of the film The Blue Kite?",
                "Amy Dunne",
            ),
            ("When did Amy Dunne die?", "2001"),
            ("Where is Amy Dunne?", "No relevant information found"),
            ("Who directed Kangaroo?", "Ben Birk,"),
            ("When did Ben Birk die?", "3 May 1999, in Hull"),
            ("Which country is Up from?", "Peru"),
        ];
        let names = |question: &str, hops: &[(&str, &str)]| {
            let dated = dated(&request(question, hops))?;
            Some(
                dated
                    .into_iter()
                    .map(|one| format!("{} {}", one.name, one.date))
                    .collect::<Vec<_>>(),
            )
        };
        let film = "Which film has the director who died later, The Blue Kite or Kangaroo?";
        let named = ["The Blue Kite 2001", "Kangaroo 1999-05-03"].map(str::to_owned);
        assert_eq!(names(film, &hops), Some(named.to_vec()));
        assert_eq!(names(film, &hops[..1]), Some(Vec::new()));
        assert_eq!(names("Who died later, Carl Cole or Dan Dunn?", &hops), None);
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
                "Is the director of Ed old?",
                Some("Ed"),
            ),
            (
                "Who Is It? was directed by whom?",
                "Who is older, Up or Who Is It?",
                Some("Who Is It"),
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
            (
                "When was Jan de Vries born?",
                "Is Jan de Vries old?",
                Some("Jan de Vries"),
            ),
            // Who knows where it begins?
            (
                "When was de Vries born?",
                "Who is older, de Vries or Up?",
                None,
            ),
            ("Who is she?", "Who is she?", None),
            ("Who", "Who", None),
            ("", "", None),
        ] {
            assert_eq!(common_name(asked, question), expected, "{asked}");
        }
    }
}
