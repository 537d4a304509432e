//! The answer that follows from the hops, so that no model has to find it.
//!
//! The planner was trained on questions of several hops: of a question that one look-up has answered it asks on. And so
//! small a model does not reckon: it takes 44 BC for later than AD 114, and knows of two dates of one year, or of four that
//! bound two lives, only by chance which way they lie.

use std::cmp::Reverse;
use std::ops::RangeInclusive;
use std::sync::Arc;

use spechop_ports::PlanRequest;
use spechop_types::{Question, SubQuestion, canonical_name};
use spechop_verifier::Date;

use super::compared::{End, named_ends};
use super::forms::{Form, Property, Wants};
use super::{countries, has_found, plain, sub_answer};

/// The answer, if it needs no model.
pub(super) fn answer(request: &PlanRequest) -> Option<Arc<str>> {
    let last = request.hops.last().filter(|hop| has_found(hop))?;
    if is_all(&request.question, &last.sub_question) {
        return Some(sub_answer(&last.answer).into());
    }
    let question = plain(request.question.as_str());
    let ends = named_ends(request)?;
    let mut names: Vec<&str> = ends.iter().map(|end| &*end.name).collect();
    names.sort_unstable();
    names.dedup();
    let &[_, _] = &*names else {
        return None;
    };
    let form = Form::of(&question, &names)?;
    let is_of_form = |end: &End| end.is_direct == form.is_direct && is_about(end, form.of);
    if !ends.iter().all(is_of_form) {
        return None;
    }
    if form.wants == Wants::LongerLife {
        return longer_life(&ends);
    }
    let [left, right] = &*ends else {
        return None;
    };
    let yes_or_no = |holds| if holds { "yes" } else { "no" }.into();
    if form.wants == Wants::WhetherSameCountry {
        return countries::same(&left.found, &right.found).map(yes_or_no);
    }
    let (date, other) = (Date::of(&left.found)?, Date::of(&right.found)?);
    if form.wants == Wants::WhetherSameYear {
        return Some(yes_or_no(date.year() == other.year()));
    }
    let is_same_property = property(left) == property(right);
    let [first, last] = match date.is_before(other).filter(|_| is_same_property)? {
        true => [left, right],
        false => [right, left],
    };
    // If one begins with the other, the longer one is what stands there.
    let named_at = |end: &End| (question.find(&end.name), Reverse(end.name.len()));
    let first_is_named_first = named_at(first) < named_at(last);
    Some(match form.wants {
        Wants::First => first.name.as_str().into(),
        Wants::Last => last.name.as_str().into(),
        Wants::WhetherFirst => yes_or_no(first_is_named_first),
        Wants::WhetherLast => yes_or_no(!first_is_named_first),
        Wants::LongerLife | Wants::WhetherSameYear | Wants::WhetherSameCountry => return None,
    })
}

/// Whether the sub-question asks for all that the question asks for: by the same kind of question word, and with the same
/// other words, whatever the form of each (`directed`, `director`).
fn is_all(question: &Question, asked: &SubQuestion) -> bool {
    // One look-up does not compare.
    if question.begins_with_auxiliary() || question.offers_a_choice() {
        return false;
    }
    let [question, asked] = [question.as_str(), asked.as_str()].map(|text| {
        let text = canonical_name(text);
        // By whom it was done is who did it.
        let text = text.replace(" by whom", " whom");
        text.strip_suffix(" by").map(str::to_owned).unwrap_or(text)
    });
    let wanted: Vec<&str> = telling(&question).collect();
    let mut there: Vec<&str> = telling(&asked).collect();
    let all = wanted.iter().all(|wanted| {
        let at = there.iter().position(|word| stem(wanted) == stem(word));
        at.map(|at| there.swap_remove(at)).is_some()
    });
    // The planner says of what kind a thing is, also of itself.
    let rest_tells_nothing = there.iter().all(|word| KINDS.contains(word));
    // Who is it of, and of whom is it?
    let same_way = question.ends_with(" of") == asked.ends_with(" of");
    all && rest_tells_nothing && same_way && !wanted.is_empty() && asks(&question).eq(asks(&asked))
}

const KINDS: &[&str] = &[
    "film",
    "movie",
    "song",
    "album",
    "book",
    "novel",
    "magazine",
    "newspaper",
];

/// The words of a question that tell it from others. Who did what to whom, and which way, is among them.
fn telling(text: &str) -> impl Iterator<Item = &str> {
    #[rustfmt::skip]
    const OTHERS: &[&str] = &[
        "a", "an", "the", "is", "are", "was", "were", "be", "been", "being", "am", "of", "in", "on", "at", "for", "with",
        "and", "as", "that", "this", "what", "who", "whom", "whose", "which", "when", "where", "how", "why", "it", "s",
        "name", "called",
    ];
    text.split(' ')
        .filter(|word| !word.is_empty() && !OTHERS.contains(word))
}

/// A word without the ending that tells the doer from the deed: `direct` of `director` and `directed`. Only of deeds that
/// are done to works: who is murdered is not the murderer.
fn stem(word: &str) -> &str {
    const DEEDS: [&str; 6] = ["direct", "compos", "produc", "perform", "creat", "found"];
    let is_form = |deed: &&&str| {
        let ending = word.strip_prefix(**deed);
        ending.is_some_and(|ending| ["or", "er", "ed"].contains(&ending))
    };
    DEEDS.iter().find(is_form).map_or(word, |deed| deed)
}

/// What a question asks for, by its question words.
fn asks(text: &str) -> impl Iterator<Item = &str> {
    text.split(' ').filter_map(|word| match word {
        "who" | "whom" => Some("who"),
        "what" | "which" => Some("what"),
        "whose" | "when" | "where" | "how" | "why" => Some(word),
        _ => None,
    })
}

/// What an end was asked for, if a form compares such things.
fn property(end: &End) -> Option<Property> {
    #[rustfmt::skip]
    const APPEARS: &[&str] = &[
        "releas", "publi", "found", "formed", "establish", "open", "built", "come out", "came out", "comes out", "appear",
    ];
    let says = |words: &[&str]| words.iter().any(|word| end.asked.contains(word));
    if says(&["country", "nationality", "citizen"]) {
        Some(Property::Country)
    } else if says(&["born", "birth"]) {
        Some(Property::Birth)
    } else if says(&[" die", "death"]) {
        Some(Property::Death)
    } else {
        says(APPEARS).then_some(Property::Appearance)
    }
}

/// Whether that is the property which a form compares.
fn is_about(end: &End, of: Property) -> bool {
    let Some(found) = property(end) else {
        return false;
    };
    match (of, found) {
        (Property::Age, found) => matches!(found, Property::Birth | Property::Appearance),
        (Property::Life, found) => matches!(found, Property::Birth | Property::Death),
        (of, found) => of == found,
    }
}

/// Who lived longer, of two whose births and deaths are known.
fn longer_life(ends: &[End]) -> Option<Arc<str>> {
    let [first, ..] = ends else {
        return None;
    };
    let (ones, others): (Vec<&End>, Vec<&End>) =
        ends.iter().partition(|end| end.name == first.name);
    let (one, other) = (life(&ones)?, life(&others)?);
    let name = if other.end() < one.start() {
        &first.name
    } else if one.end() < other.start() {
        &others.first()?.name
    } else {
        return None;
    };
    Some(name.as_str().into())
}

/// The fewest and the most days of a life that two dates bound.
fn life(ends: &[&End]) -> Option<RangeInclusive<i32>> {
    let date_of = |wanted| {
        let mut of = ends.iter().filter(|end| property(end) == Some(wanted));
        let end = of.next().filter(|_| of.next().is_none())?;
        Date::of(&end.found)
    };
    Some(date_of(Property::Birth)?.days_until(date_of(Property::Death)?))
}

#[cfg(test)]
mod tests {
    use super::super::closing::tests::request;
    use super::*;

    const DIED: [(&str, &str); 4] = [
        ("Who directed Blue Kite?", "Ann Ash"),
        ("When did Ann Ash die?", "3 May 1999"),
        ("Who directed Kangaroo?", "Ben Birk"),
        ("When did Ben Birk die?", "1 June 1999"),
    ];

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
            ("Is Up French?", "Is Up French?", false),
            (
                "Who influenced Ann Ash?",
                "Who was influenced by Ann Ash?",
                false,
            ),
            ("Who did Ann Ash succeed?", "Who succeeded Ann Ash?", false),
            (
                "Who has Ann Ash succeeded?",
                "Who succeeded Ann Ash?",
                false,
            ),
            (
                "Who is Ann Ash the father of?",
                "Who is the father of Ann Ash?",
                false,
            ),
            (
                "Whose father is Ann Ash?",
                "Who is the father of Ann Ash?",
                false,
            ),
            (
                "Who was the murderer in Up?",
                "Who was murdered in Up?",
                false,
            ),
            (
                "When and where was Ann Ash born?",
                "When was Ann Ash born?",
                false,
            ),
            (
                "What song is in the film with Ann Ash?",
                "What is the film with Ann Ash?",
                false,
            ),
            (
                "Is Paris the city where Ann Ash was born?",
                "Is Paris the city where Ann Ash was born?",
                false,
            ),
            (
                "What is the capital of Austria?",
                "What is the capital of Australia?",
                false,
            ),
            (
                "电影卧虎藏龙的导演的妻子是谁？",
                "电影卧虎藏龙的导演是谁？",
                false,
            ),
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
        let parts = [
            ("When was Dune Messiah published?", "1969"),
            ("When was Dune published?", "1965"),
        ];
        let wed = [
            ("When did Ann Ash marry?", "1990"),
            ("When did Ben Birk marry?", "2000"),
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
                "Was Dune Messiah published before Dune?",
                &parts,
                Some("no"),
            ),
            (
                "Was Dune published before Dune Messiah?",
                &parts,
                Some("yes"),
            ),
            (
                "Was Dune Messiah published after Dune?",
                &parts,
                Some("yes"),
            ),
            (
                "Did the director of Kangaroo die before the director of Blue Kite?",
                &DIED,
                Some("no"),
            ),
            (
                "Did the director of Kangaroo die after the director of Blue Kite?",
                &DIED,
                Some("yes"),
            ),
            // Nothing follows.
            ("Who is older than Ben Birk?", &born, None),
            ("Were Ann Ash and Ben Birk friends?", &born, None),
            ("Is Ann Ash older than Ben Birk?", &born[..1], None),
            ("Is Ann Ash older than Ben Birk?", &DIED[..2], None),
            ("Did Ann Ash die before Ben Birk?", &born, None),
            ("Is Ann Ash older than Ben Birk?", &wed, None),
            ("Is Carl Cole older than Dan Dunn?", &born, None),
        ] {
            let answered = answer(&request(question, hops));
            assert_eq!(answered.as_deref(), expected, "{question}");
        }
    }

    #[test]
    fn who_is_first_or_last_is_reckoned() {
        let born = [
            ("When was Ann Ash born?", "AD 114"),
            ("When was Ben Birk born?", "44 BC"),
        ];
        let year = [born[0], ("When was Ben Birk born?", "114")];
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
                &DIED,
                Some("Kangaroo"),
            ),
            // Nothing follows.
            ("Who is older, Ann Ash or Ben Birk?", &born[..1], None),
            ("Who is older, Ann Ash or Ben Birk?", &year, None),
            ("Who is taller, Ann Ash or Ben Birk?", &born, None),
            ("Who is older than Ann Ash and Ben Birk?", &born, None),
            (
                "Which film has the director who died later, Kangaroo or Blue Kite?",
                &DIED[..2],
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
        let places = [hops[0], ("Where is Down from?", "France")];
        let unknown = [hops[0], ("Which country is Down from?", "Atlantis")];
        for (question, hops, expected) in [
            (
                "Are Up and Down from the same country?",
                &hops[..],
                Some("yes"),
            ),
            ("Are Up and Down from the same country?", &places, None),
            ("Are Up and Down from the same country?", &unknown, None),
            ("Are Up, Down and Jaws from the same country?", &hops, None),
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
}
