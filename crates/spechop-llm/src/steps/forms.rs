//! What a question wants to know of two things, if it has one of the forms that are understood.
//!
//! The whole question must be of the form: a word more may change what is asked (`Who directed the film that came out
//! first, A or B?`, `Is A not older than B?`).

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// What is wanted of two things whose names the question has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) wants: Wants,
    pub(super) of: Property,
    /// Whether the property is the named things' own, not that of what is found by them.
    pub(super) is_direct: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    /// The name of the one that was first.
    First,
    /// The name of the one that was last.
    Last,
    /// The name of the one that lived longer.
    LongerLife,
    /// Whether the one that is named first was first.
    WhetherFirst,
    /// Whether the one that is named first was last.
    WhetherLast,
    WhetherSameYear,
    WhetherSameCountry,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Property {
    Birth,
    Death,
    /// When it was released, founded, built.
    Appearance,
    /// Birth of a person, appearance of a thing.
    Age,
    Life,
    Country,
}

/// Stands for a name.
const NAME: &str = "#";

/// Who or which is it? `said` is what is said of it.
static CHOICES: LazyLock<Option<[Regex; 5]>> = LazyLock::new(|| {
    let (said, which) = (said(), "(?:who|which (?:one|[a-z]+))");
    compiled(&[
        format!("^{which} {said} # or #$"),
        format!("^{which} {said} out of # and #$"),
        format!("^(?:was|did|is) # or # {said}$"),
        format!("^(?:out )?of # and # {which} {said}$"),
        format!("^which (?:one )?of # and # {said}$"),
    ])
});

/// Is it so?
static STATEMENTS: LazyLock<Option<[Regex; 4]>> = LazyLock::new(|| {
    let by = |name| format!("(?P<{name}>(?:the )?[a-z]+ of (?:the )?(?:[a-z]+ )?)?#");
    let (by, than) = (by("by"), by("than_by"));
    let order = "(?P<order>before|after|earlier than|later than)";
    compiled(&[
        format!("^(?:is|was) {by} (?P<order>older|younger|newer) than {than}$"),
        format!("^(?:was|were) {by} (?P<event>{MADE}|born) {order} {than}(?: was)?$"),
        format!("^did {by} (?P<event>die|come out) {order} {than}(?: did)?$"),
        format!(
            "^(?:were|did) (?:both )?# and # (?:both )?(?P<event>{MADE}|born|die|come out) in the (?P<order>same year)$"
        ),
    ])
});

/// What happens to a thing when it appears.
const MADE: &str = "released|published|founded|established|opened|built";

fn said() -> String {
    let through = "(?:(?P<by>has the|whose) [a-z]+ (?:who )?)?";
    let age = "(?:is |was )?(?:the )?(?P<age>older|oldest|elder|younger|youngest|newer|newest)(?: one)?(?: than the other)?";
    let order = "(?P<order>first|last|earlier|later|more recently|most recently)";
    let event = format!("(?:is |was )?(?P<event>{MADE}|born|die|died|came out|come out) {order}");
    format!("{through}(?:{age}|{event}|(?P<life>lived longer))")
}

/// They are written above, and a test compiles them.
fn compiled<const N: usize>(forms: &[String; N]) -> Option<[Regex; N]> {
    let all: Result<Vec<Regex>, _> = forms.iter().map(|form| Regex::new(form)).collect();
    all.ok()?.try_into().ok()
}

impl Form {
    /// That of a question about things with these names.
    pub(super) fn of(question: &str, names: &[&str]) -> Option<Self> {
        const NEGATIONS: [&str; 4] = ["not", "never", "wasnt", "isnt"];
        let text = marked(question, names)?;
        // They would pass for a kind of thing.
        if text.split(' ').any(|word| NEGATIONS.contains(&word)) {
            return None;
        }
        let choice = CHOICES
            .iter()
            .flatten()
            .find_map(|form| form.captures(&text));
        if let Some(said) = choice {
            return Self::of_choice(&said);
        }
        let statement = STATEMENTS
            .iter()
            .flatten()
            .find_map(|form| form.captures(&text));
        if let Some(said) = statement {
            return Self::of_statement(&said);
        }
        Self::of_countries(&text)
    }

    fn of_choice(said: &Captures<'_>) -> Option<Self> {
        let word = |name| said.name(name).map(|found| found.as_str());
        let is_direct = word("by").is_none();
        if word("life").is_some() {
            return is_direct.then_some(Self {
                wants: Wants::LongerLife,
                of: Property::Life,
                is_direct,
            });
        }
        let wants = match is_first(word("age").or(word("order"))?) {
            true => Wants::First,
            false => Wants::Last,
        };
        let of = word("event").map_or(Property::Age, property);
        Some(Self {
            wants,
            of,
            is_direct,
        })
    }

    fn of_statement(said: &Captures<'_>) -> Option<Self> {
        let word = |name| said.name(name).map(|found| found.as_str());
        let is_direct = word("by").is_none();
        let wants = match word("order")? {
            "same year" => Wants::WhetherSameYear,
            order if is_first(order) => Wants::WhetherFirst,
            _ => Wants::WhetherLast,
        };
        let of = word("event").map_or(Property::Age, property);
        let is_of_both = word("than_by").is_none() == is_direct || wants == Wants::WhetherSameYear;
        is_of_both.then_some(Self {
            wants,
            of,
            is_direct,
        })
    }

    /// There are many ways to ask whether two countries are one. All words must be of these.
    fn of_countries(text: &str) -> Option<Self> {
        #[rustfmt::skip]
        const WORDS: &[&str] = &[
            "are", "were", "do", "does", "did", "the", "both", "and", "of", "from", "in", "as", "have", "who", "that",
            "share", "come", "originate", "located", "same", "country", "nationality", "film", "movie", "song", "high",
            NAME,
        ];
        const ROLES: &[&str] = &["director", "producer", "composer", "performer", "author"];
        let role = |word: &str| ROLES.contains(&word.strip_suffix('s').unwrap_or(word));
        let is_plural = |word: &str| word.len() > 3 && word.ends_with('s');
        let asks = text.contains("same country") || text.contains("same nationality");
        let begins = ["are ", "were ", "do ", "does ", "did "];
        let known = |word: &str| WORDS.contains(&word) || role(word) || is_plural(word);
        let is_form =
            asks && begins.iter().any(|word| text.starts_with(word)) && text.split(' ').all(known);
        is_form.then(|| Self {
            wants: Wants::WhetherSameCountry,
            of: Property::Country,
            is_direct: !text.split(' ').any(role),
        })
    }
}

fn is_first(word: &str) -> bool {
    [
        "first",
        "earlier",
        "earlier than",
        "before",
        "older",
        "oldest",
        "elder",
    ]
    .contains(&word)
}

fn property(event: &str) -> Property {
    match event {
        "born" => Property::Birth,
        "die" | "died" => Property::Death,
        _ => Property::Appearance,
    }
}

/// The question in small letters and without its marks, each name replaced. `None` if a name is not there.
fn marked(question: &str, names: &[&str]) -> Option<String> {
    let mut names = names.to_vec();
    // One may be a part of another.
    names.sort_unstable_by_key(|name| std::cmp::Reverse(name.len()));
    let mut text = question.replace(NAME, "");
    for name in &names {
        let (before, behind) = text.split_once(name)?;
        text = format!("{before} {NAME} {behind}");
    }
    let mut behind = text.split_whitespace().skip(1);
    // What else has a capital is of another name.
    if behind.any(|word| word.contains(char::is_uppercase)) {
        return None;
    }
    let lowered = text
        .to_lowercase()
        .replace([',', ':', ';', '?', '!', '"', '“', '”'], " ");
    let words: Vec<&str> = lowered
        .split_whitespace()
        .filter(|word| *word != ".")
        .collect();
    Some(words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(question: &str) -> Option<(Wants, Property, bool)> {
        let form = Form::of(question, &["Ann Ash", "Up"])?;
        Some((form.wants, form.of, form.is_direct))
    }

    #[test]
    fn a_question_of_a_form_is_understood() {
        use Property::*;
        use Wants::*;
        for (question, expected) in [
            ("Who is older, Ann Ash or Up?", (First, Age, true)),
            ("Who was born later, Ann Ash or Up?", (Last, Birth, true)),
            ("Was Ann Ash or Up born first?", (First, Birth, true)),
            ("Did Ann Ash or Up die first?", (First, Death, true)),
            (
                "Who was born first out of Ann Ash and Up?",
                (First, Birth, true),
            ),
            ("Of Ann Ash and Up, who is the elder?", (First, Age, true)),
            ("Which of Ann Ash and Up is younger?", (Last, Age, true)),
            (
                "Which film came out first, Ann Ash or Up?",
                (First, Appearance, true),
            ),
            (
                "Which one was established first, Ann Ash or Up?",
                (First, Appearance, true),
            ),
            (
                "Which film was released more recently, Ann Ash or Up?",
                (Last, Appearance, true),
            ),
            (
                "Which film has the director died later, Ann Ash or Up?",
                (Last, Death, false),
            ),
            (
                "Which film has the director who is older than the other, Ann Ash or Up?",
                (First, Age, false),
            ),
            (
                "Which film whose producer was born first, Ann Ash or Up?",
                (First, Birth, false),
            ),
            ("Who lived longer, Ann Ash or Up?", (LongerLife, Life, true)),
            ("Is Ann Ash older than Up?", (WhetherFirst, Age, true)),
            ("Was Up born after Ann Ash?", (WhetherLast, Birth, true)),
            (
                "Did the director of the film Up die before the director of Ann Ash?",
                (WhetherFirst, Death, false),
            ),
            (
                "Were both Ann Ash and Up born in the same year?",
                (WhetherSameYear, Birth, true),
            ),
            (
                "Are Ann Ash and Up both from the same country?",
                (WhetherSameCountry, Country, true),
            ),
            (
                "Do both films: Ann Ash and Up have the directors from the same country?",
                (WhetherSameCountry, Country, false),
            ),
            (
                "Does Ann Ash have the same nationality as Up?",
                (WhetherSameCountry, Country, true),
            ),
        ] {
            assert_eq!(form(question), Some(expected), "{question}");
        }
    }

    #[test]
    fn a_question_that_says_more_is_not() {
        for question in [
            "Who directed the film that was released first, Ann Ash or Up?",
            "Where was the older of Ann Ash or Up born?",
            "In which year did the younger one die, Ann Ash or Up?",
            "How many years are between the first publication of Ann Ash and Up?",
            "Who is the oldest, Ann Ash, Carl Cole or Up?",
            "Which of Ann Ash, Up and Carl Cole is the oldest?",
            "Is Ann Ash older than Up and Carl Cole?",
            "Who lived longer, Ann Ash, Up or Carl Cole?",
            "Were both Ann Ash and Up born before 1900?",
            "Was Ann Ash born more than 20 years before Up?",
            "Was Ann Ash born no later than Up?",
            "Is Ann Ash not older than Up?",
            "Which film was not released first, Ann Ash or Up?",
            "Which film is less recent, Ann Ash or Up?",
            "Who was born before 1955, Ann Ash or Up?",
            "Were Ann Ash and Up born in the same year and country?",
            "Are Ann Ash and Up not from the same country?",
            "Are Ann Ash and Up of the same genre?",
            "Are Ann Ash, Up and Kangaroo from the same country?",
            "Are Ann Ash, Up and Jaws from the same country?",
            "Which never came out first, Ann Ash or Up?",
            "Who died younger, Ann Ash or Up?",
            "Who was older when they became president, Ann Ash or Up?",
            "Who had an older brother, Ann Ash or Up?",
            "Whose last name is shorter, Ann Ash or Up?",
            "Is Ann Ash older than Up or not?",
            "Does anyone know who is older out of Ann Ash and Up?",
            "Who is older, Ann Ash?",
        ] {
            assert_eq!(form(question), None, "{question}");
        }
    }

    #[test]
    fn every_form_compiles() {
        assert!(CHOICES.is_some() && STATEMENTS.is_some());
    }
}
