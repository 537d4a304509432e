//! The answer that follows from the hops, so that no model has to find it.
//!
//! The planner was trained on questions of several hops: of a question that one look-up has answered it asks on. And so
//! small a model does not reckon: it takes 44 BC for later than 14 AD, and knows of two dates of one year, or of four that
//! bound two lives, only by chance which way they lie.

use std::cmp::Ordering;
use std::ops::RangeInclusive;
use std::sync::Arc;

use spechop_ports::{KnownHop, PlanRequest};
use spechop_types::{Question, SubQuestion, canonical_name};

use super::compared::{Dated, dated, ends};
use super::{countries, has_found, plain, sub_answer};

/// The answer, if it needs no model.
pub(super) fn answer(request: &PlanRequest) -> Option<Arc<str>> {
    let question = &request.question;
    let last = request.hops.last().filter(|hop| has_found(hop))?;
    if is_all(question, &last.sub_question) {
        return Some(sub_answer(&last.answer).into());
    }
    let text = plain(question.as_str());
    if question.asks_yes_or_no() {
        let holds = same_country(&text, request).or_else(|| holds(&text, &dated(request)?))?;
        return Some(if holds { "yes" } else { "no" }.into());
    }
    let is_choice = question.offers_a_choice();
    let chosen = dated(request).filter(|_| is_choice)?;
    chosen_of_two(&text, &chosen).or_else(|| longest_life(&text, &chosen))
}

/// Whether the sub-question asks for all that the question asks for: by the same kind of question word, and with the same
/// other words, whatever the form of each (`directed`, `director`).
fn is_all(question: &Question, asked: &SubQuestion) -> bool {
    if question.offers_a_choice() {
        return false;
    }
    let (question, asked) = (
        canonical_name(question.as_str()),
        canonical_name(asked.as_str()),
    );
    let wanted: Vec<&str> = telling(&question).collect();
    let mut there: Vec<&str> = telling(&asked).collect();
    let all = wanted.iter().all(|wanted| {
        let at = there.iter().position(|word| is_like(wanted, word));
        at.map(|at| there.swap_remove(at)).is_some()
    });
    all && there.is_empty() && !wanted.is_empty() && asks(&question) == asks(&asked)
}

/// The words of a question that tell it from others.
fn telling(text: &str) -> impl Iterator<Item = &str> {
    #[rustfmt::skip]
    const OTHERS: &[&str] = &[
        "a", "an", "the", "is", "are", "was", "were", "be", "been", "being", "am", "do", "does", "did", "has", "have",
        "had", "of", "in", "on", "at", "by", "to", "for", "from", "with", "and", "as", "that", "this", "what", "who",
        "whom", "whose", "which", "when", "where", "how", "why", "it", "s", "name", "called",
        // The planner says of what kind a thing is, also of itself.
        "film", "movie", "song", "album", "book", "novel", "magazine", "newspaper",
    ];
    text.split(' ')
        .filter(|word| !word.is_empty() && !OTHERS.contains(word))
}

/// Two forms of one word have a long beginning in common.
fn is_like(one: &str, other: &str) -> bool {
    let common = one
        .chars()
        .zip(other.chars())
        .take_while(|(a, b)| a == b)
        .count();
    let shorter = one.chars().count().min(other.chars().count());
    one == other || common >= 5 && common + 3 >= shorter
}

/// What a question asks for, by its first question word.
fn asks(text: &str) -> Option<&str> {
    text.split(' ').find_map(|word| match word {
        "who" | "whom" | "whose" => Some("who"),
        "what" | "which" => Some("what"),
        "when" | "where" | "how" | "why" => Some(word),
        _ => None,
    })
}

/// Whether two countries are one, if that is what is asked.
fn same_country(question: &str, request: &PlanRequest) -> Option<bool> {
    let found: Vec<&KnownHop> = request.hops.iter().filter(|hop| has_found(hop)).collect();
    let [left, right] = <[usize; 2]>::try_from(ends(&found)).ok()?;
    let [left, right] = [left, right].map(|at| sub_answer(&found[at].answer));
    let same = countries::same(&left, &right)?;
    question.contains(" same ").then_some(same)
}

/// Whether that is so which a question says of two dates.
fn holds(question: &str, dates: &[Dated]) -> Option<bool> {
    let [left, right] = dates else {
        return None;
    };
    if question.contains("same year") {
        return Some(left.date.year() == right.date.year());
    }
    let place = |one: &Dated| question.find(&one.name);
    let (named_first, other) = match place(left).cmp(&place(right)) {
        Ordering::Less => (left, right),
        Ordering::Greater => (right, left),
        Ordering::Equal => return None,
    };
    let is_before = named_first.date.is_before(other.date)?;
    Some(is_before == wants_the_first(question)?)
}

/// Whose date of two is the earlier one, or the later one, as the question wants.
fn chosen_of_two(question: &str, dates: &[Dated]) -> Option<Arc<str>> {
    let [left, right] = dates else {
        return None;
    };
    let is_left = left.date.is_before(right.date)? == wants_the_first(question)?;
    let chosen = if is_left { left } else { right };
    (left.name != right.name).then(|| chosen.name.as_str().into())
}

/// Who lived longer, of two whose births and deaths are known.
fn longest_life(question: &str, dates: &[Dated]) -> Option<Arc<str>> {
    let says = |word: &str| {
        question
            .split(' ')
            .any(|said| said.trim_matches(',') == word)
    };
    let asks = says("longer") && (says("lived") || says("live"));
    let first = dates.first().filter(|_| asks)?;
    let (ones, others): (Vec<&Dated>, Vec<&Dated>) =
        dates.iter().partition(|one| one.name == first.name);
    let (one, other) = (life(&ones)?, life(&others)?);
    if other.end() < one.start() {
        Some(first.name.as_str().into())
    } else if one.end() < other.start() {
        Some(others.first()?.name.as_str().into())
    } else {
        None
    }
}

/// The fewest and the most days of a life that two dates bound.
fn life(dates: &[&Dated]) -> Option<RangeInclusive<i32>> {
    let [one, other] = dates else {
        return None;
    };
    if one.name != other.name {
        return None;
    }
    let (born, died) = match one.date.is_before(other.date)? {
        true => (one, other),
        false => (other, one),
    };
    Some(born.date.days_until(died.date))
}

/// Whether a comparison in time asks for what is first; `None` if it does not say, or says both.
fn wants_the_first(question: &str) -> Option<bool> {
    const FIRST: &[&str] = &[
        "first", "earlier", "earliest", "older", "oldest", "elder", "before",
    ];
    #[rustfmt::skip]
    const LAST: &[&str] = &[
        "last", "later", "latest", "younger", "youngest", "newer", "newest", "after", "recently", "recent",
    ];
    // Names have capitals.
    let mut words = question.split(|c: char| !c.is_alphanumeric());
    let says = words.clone().any(|word| FIRST.contains(&word));
    let says_last = words.any(|word| LAST.contains(&word));
    (says != says_last).then_some(says)
}

#[cfg(test)]
mod tests {
    use super::super::closing::tests::request;
    use super::*;

    #[test]
    fn a_question_that_one_look_up_answers_is_answered_by_it() {
        for (question, asked, is_answer) in [
            (
                "Who directed The Goose Woman?",
                "Who is the director of the film The Goose Woman?",
                true,
            ),
            (
                "The Goose Woman was directed by whom?",
                "Who directed The Goose Woman?",
                true,
            ),
            ("When was Ann Ash born?", "When was Ann Ash born?", true),
            (
                "What was Jim Bob's real name?",
                "What is Jim Bob's real name?",
                true,
            ),
            // There is more to it.
            (
                "Who is the mother of the director of Up?",
                "Who directed Up?",
                false,
            ),
            ("Who is Ann Ash?", "Who is the father of Ann Ash?", false),
            ("Where was Ann Ash born?", "When was Ann Ash born?", false),
            (
                "Who is the paternal grandfather of Ann Ash?",
                "Who is the father of Ann Ash?",
                false,
            ),
            (
                "Who is Ann Ash's grandmother?",
                "Who is the grandfather of Ann Ash?",
                false,
            ),
            (
                "Who is older, Ann Ash or Ben Birk?",
                "Who is older, Ann Ash or Ben Birk?",
                false,
            ),
            ("Who is she?", "Who is she?", true),
            ("Who is it?", "Who is it?", false),
        ] {
            let hops = [("Who is Carl Cole?", "Ed"), (asked, "This,")];
            let answered = answer(&request(question, &hops));
            assert_eq!(
                answered.as_deref(),
                is_answer.then_some("This"),
                "{question}"
            );
        }
        let asked = "Who directed Up?";
        assert_eq!(answer(&request(asked, &[])), None);
        assert_eq!(
            answer(&request(asked, &[(asked, "No relevant information found")])),
            None
        );
    }

    #[test]
    fn whether_one_date_is_before_another_is_reckoned() {
        let born = [
            ("When was Ann Ash born?", "3 May 1999"),
            ("When was Ben Birk born?", "44 BC"),
        ];
        let same = [born[0], ("When was Ben Birk born?", "1 June 1999")];
        let died = [
            ("Who directed Blue Kite?", "Ann Ash"),
            ("When did Ann Ash die?", "3 May 1999"),
            ("Who directed Kangaroo?", "Ben Birk"),
            ("When did Ben Birk die?", "1 June 1999"),
        ];
        for (question, hops, expected) in [
            ("Is Ann Ash older than Ben Birk?", &born[..], Some("no")),
            ("Is Ben Birk older than Ann Ash?", &born, Some("yes")),
            ("Is Ben Birk younger than Ann Ash?", &born, Some("no")),
            ("Was Ann Ash born after Ben Birk?", &born, Some("yes")),
            (
                "Were Ann Ash and Ben Birk born in the same year?",
                &born,
                Some("no"),
            ),
            (
                "Were Ann Ash and Ben Birk born in the same year?",
                &same,
                Some("yes"),
            ),
            ("Was Ann Ash born before Ben Birk?", &same, Some("yes")),
            (
                "Did the director of Kangaroo die before the director of Blue Kite?",
                &died,
                Some("no"),
            ),
            (
                "Did the director of Kangaroo die after the director of Blue Kite?",
                &died,
                Some("yes"),
            ),
            // Nothing follows.
            ("Who is older than Ben Birk?", &born, None),
            ("Were Ann Ash and Ben Birk friends?", &born, None),
            ("Is Ann Ash older than Ben Birk?", &born[..1], None),
            ("Is Ann Ash older than Ben Birk?", &died[..2], None),
            ("Is Carl Cole older than Dan Dunn?", &born, None),
        ] {
            let answered = answer(&request(question, hops));
            assert_eq!(answered.as_deref(), expected, "{question}");
        }
    }

    #[test]
    fn who_is_first_or_last_is_reckoned() {
        let born = [
            ("When was Ann Ash born?", "AD 14"),
            ("When was Ben Birk born?", "44 BC"),
        ];
        let year = [born[0], ("When was Ben Birk born?", "14")];
        let died = [
            ("Who directed Blue Kite?", "Ann Ash"),
            ("When did Ann Ash die?", "3 May 1999"),
            ("Who directed Kangaroo?", "Ben Birk"),
            ("When did Ben Birk die?", "1 June 1999"),
        ];
        for (question, hops, expected) in [
            (
                "Who is older, Ann Ash or Ben Birk?",
                &born[..],
                Some("Ben Birk"),
            ),
            (
                "Who was born later, Ann Ash or Ben Birk?",
                &born,
                Some("Ann Ash"),
            ),
            (
                "Was Ann Ash or Ben Birk born first?",
                &born,
                Some("Ben Birk"),
            ),
            (
                "Who was born first out of Ann Ash and Ben Birk?",
                &born,
                Some("Ben Birk"),
            ),
            (
                "Which film has the director who died later, Kangaroo or Blue Kite?",
                &died,
                Some("Kangaroo"),
            ),
            // Nothing follows.
            ("Who is older, Ann Ash or Ben Birk?", &born[..1], None),
            ("Who is older, Ann Ash or Ben Birk?", &year, None),
            ("Who is taller, Ann Ash or Ben Birk?", &born, None),
            ("Who is older than Ann Ash and Ben Birk?", &born, None),
            (
                "Which film has the director who died later, Kangaroo or Blue Kite?",
                &died[..2],
                None,
            ),
        ] {
            let answered = answer(&request(question, hops));
            assert_eq!(answered.as_deref(), expected, "{question}");
        }
    }

    #[test]
    fn who_lived_longer_is_reckoned() {
        let lives = [
            ("When was Ann Ash born?", "3 May 1799"),
            ("When did Ann Ash die?", "2 May 1859"),
            ("When was Ben Birk born?", "4 May 1900"),
            ("When did Ben Birk die?", "4 May 1960"),
        ];
        let unknown = [
            lives[0],
            lives[1],
            lives[2],
            ("When did Ben Birk die?", "1960"),
        ];
        for (hops, expected) in [
            (&lives[..], Some("Ben Birk")),
            (&unknown, None),
            (&lives[..3], None),
        ] {
            let asked = request("Who lived longer, Ann Ash or Ben Birk?", hops);
            assert_eq!(answer(&asked).as_deref(), expected, "{hops:?}");
        }
    }

    #[test]
    fn whether_two_countries_are_one_is_known() {
        let hops = [
            ("Which country is Up from?", "American"),
            ("Which country is Down from?", "the United States"),
        ];
        let places = [hops[0], ("Where is Down from?", "Atlantis")];
        for (question, hops, expected) in [
            (
                "Are Up and Down from the same country?",
                &hops[..],
                Some("yes"),
            ),
            ("Are Up and Down from the same country?", &places, None),
            ("Are Up and Down from the same country?", &hops[..1], None),
            ("Are Up and Down from different countries?", &hops, None),
            ("Which country are Up and Down from?", &hops, None),
        ] {
            assert_eq!(
                answer(&request(question, hops)).as_deref(),
                expected,
                "{question}"
            );
        }
    }

    #[test]
    fn a_word_says_which_of_two_dates_is_wanted() {
        for (question, first) in [
            ("Who is older, A or B?", Some(true)),
            (
                "Which film came out first, The Last Day or After Hours?",
                Some(true),
            ),
            (
                "Which film was released more recently, First Blood or B?",
                Some(false),
            ),
            ("Who died later, the first king or B?", None),
            ("Who is it, A or B?", None),
        ] {
            assert_eq!(wants_the_first(question), first, "{question}");
        }
    }
}
