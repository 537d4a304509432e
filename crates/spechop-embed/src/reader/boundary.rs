//! Where an answer ends, and what cannot be one: rules behind the model's logits.
//!
//! The model scores the first and the last token of an answer apart from each other, and it knows little of
//! what kind of thing was asked for. So a span may open a bracket and not close it, run on into the next
//! sentence, repeat the sub-question, or be a name if a time was wanted. The rules cut such a span, or pass
//! it over for the next one. They are the same for look-ups and guesses, so the verifier compares like with
//! like.
//!
//! `boundary/cases.tsv` is the table of cases. `eval/train/reader_boundary.py` is the same in Python, for
//! training and calibration.

mod namesakes;

use std::sync::LazyLock;

use regex::Regex;
use spechop_types::canonical_name;

use self::namesakes::region_end;

/// The title behind a name: ", 1st Duke of Buckingham", ", Prince of Thurn and Taxis", ", 2nd Baronet".
///
/// Without a number it is one of a place. "and" goes on in it only if the title ends behind the next word:
/// "Duke of Bavaria and Anna of Brunswick" are two people. It stands in one of two groups.
#[expect(
    clippy::expect_used,
    reason = "the pattern is a constant, and the table of cases tests it"
)]
static TITLE: LazyLock<Regex> = LazyLock::new(|| {
    const RANK: &str = "(?:Grand |Crown |Hereditary )?(?:King|Queen|Prince|Princess|Duke|Duchess|Count|\
                        Countess|Earl|Marquess|Marquis|Margrave|Margravine|Landgrave|Landgravine|Baron|\
                        Baroness|Viscount|Viscountess|Elector|Lord|Emperor|Empress|Archduke|Archduchess|\
                        Burgrave)";
    const NUMBER: &str = "[0-9]+ ?(?:st|nd|rd|th) ";
    // "Wales" of "Wales's", and "L'Aquila" and "Hawai'i" whole.
    const WORD: &str = r"[A-ZÀ-ÖØ-Þ](?:[^\s,.;:()\[\]'’]|['’][^\s,.;:()\[\]'’s])*";
    let name = format!("(?:St[.] )?{WORD}(?:- {WORD})?");
    let begin = "^( ?, ?(?:the )?";
    let names = format!("{name}(?: {name})*");
    let of_place = format!("(?:{NUMBER})?{RANK} of (?:the )?{names}");
    let end = r"(?:$|\n| ?[,.;:()\[]| and )";
    let pattern = format!(
        "{begin}{of_place} and {name}){end}|\
         {begin}(?:{of_place}|{NUMBER}{RANK} {names}|{NUMBER}Baronet))"
    );
    Regex::new(&pattern).expect("it is written above")
});

/// What a name is introduced with: "American recording artist Chris Brown", "northwestern Mexican state of
/// Sonora". The name is the only group; a person's pattern, then a place's.
///
/// None of the 2,340 gold hops of both data sets that ask who or where has such words before its name.
#[expect(
    clippy::expect_used,
    reason = "the patterns are constants, and the table of cases tests them"
)]
static INTRODUCED: LazyLock<[Regex; 2]> = LazyLock::new(|| {
    const CALLINGS: &str = "artist|actor|actress|singer|songwriter|musician|rapper|director|filmmaker|\
                            producer|writer|author|novelist|poet|playwright|screenwriter|politician|\
                            footballer|player|composer|painter|sculptor|architect|journalist|comedian|\
                            businessman|businesswoman|entrepreneur|scientist|physicist|chemist|\
                            mathematician|philosopher|historian|explorer|photographer|dancer|\
                            choreographer|model|pianist|guitarist|drummer|conductor|cartoonist|\
                            illustrator|engineer|inventor|coach|manager|presenter|star|personality|duo|\
                            band|group|lawyer|professor|critic|editor|designer";
    const PLACES: &str = "state|city|town|capital|village|region|province|district|county|country|\
                          island|municipality|suburb|borough|neighborhood|neighbourhood|republic";
    let names = names();
    let introduced = [
        format!(r"^(?:.*[\s-])?(?:{CALLINGS}) ({names})$"),
        format!(r"^(?:\p{{Ll}}.*[\s-])?(?:{PLACES}) of ({names})$"),
    ];
    introduced.map(|pattern| Regex::new(&pattern).expect("it is written above"))
});

/// What a person's name is followed by, and what is none of it: "Chris Brown from his seventh album",
/// "Victoria in 1890". The name is the only group.
#[expect(
    clippy::expect_used,
    reason = "the pattern is a constant, and the table of cases tests it"
)]
static FOLLOWED: LazyLock<Regex> = LazyLock::new(|| {
    let clause = r"(?:from(?: \p{Ll}|$)|(?:who|whose|during|before|after|while) |in [0-9])";
    let pattern = format!("^({}) {clause}.*$", names());
    Regex::new(&pattern).expect("it is written above")
});

/// What stands in brackets in a sub-question: it tells which of several things of one name is meant.
#[expect(
    clippy::expect_used,
    reason = "the pattern is a constant, and the table of cases tests it"
)]
static IN_BRACKETS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\([^()]*\)").expect("it is written above"));

/// A pattern for words that begin with a capital, of one name.
fn names() -> String {
    const WORD: &str = r"[A-ZÀ-ÖØ-Þ][^\s,;:()\[\]]*";
    format!("{WORD}(?: (?:(?:de|da|di|del|der|den|la|le|von|van|of) ){{0,2}}{WORD})*")
}

/// What a sub-question asks for, as far as it can be told by its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Time,
    Month,
    Number,
    /// How long it is, or what percentage: a number, but no year and no date.
    Measure,
    Place,
    Person,
    Other,
}

/// A sub-question, as the rules see it.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Its words without those in brackets, in blanks, so that words are compared as wholes. "Fine by Me
    /// (Chris Brown song)" is by Chris Brown.
    said: String,
    kind: Kind,
    /// "Ann or Bo?" is answered with words of its own.
    has_choice: bool,
}

impl Asked {
    pub(crate) fn new(sub_question: &str) -> Self {
        let words = in_blanks(&canonical_name(sub_question));
        let bare = IN_BRACKETS.replace_all(sub_question, " ");
        Self {
            said: in_blanks(&canonical_name(&bare)),
            kind: kind(&words),
            has_choice: words.contains(" or "),
        }
    }

    /// The first `len` bytes of a text, and what follows the name there and tells it from others of that name:
    /// the title of a person, which may also begin in them at their first comma, or the region of a city.
    ///
    /// A name alone is often that of several of a family. Of the gold hops of 2WikiMultihopQA that name a
    /// relative whose title stands behind the name, three in four have the title.
    ///
    /// The region stays only if a better known city has that name ([`namesakes`]).
    pub(crate) fn with_addition<'a>(&self, text: &'a str, len: usize) -> &'a str {
        let span = &text[..len];
        let completed = || {
            let (name, _) = span.split_once(',')?;
            title_end(text, name.trim_end().len()).filter(|end| *end > len)
        };
        let end = match self.kind {
            Kind::Person => title_end(text, len).or_else(completed),
            Kind::Place => region_end(text, first_part(span).len()).filter(|end| *end > len),
            _ => None,
        };
        &text[..end.unwrap_or(len)]
    }

    /// What of the span is the answer. `None` if it answers something else.
    pub(crate) fn cut<'a>(&self, span: &'a str) -> Option<&'a str> {
        if runs_on(span) {
            return None;
        }
        let whole = within_brackets(span);
        let first = match self.kind {
            Kind::Place => first_part(whole),
            _ => whole,
        };
        let mut answer = first;
        if self.kind == Kind::Person
            && let Some(name) = FOLLOWED.captures(answer).and_then(|found| found.get(1))
        {
            answer = name.as_str();
        }
        let [called, placed] = &*INTRODUCED;
        let introduced = match self.kind {
            Kind::Person => called.captures(answer),
            Kind::Place => placed.captures(answer),
            _ => None,
        };
        answer = (introduced.and_then(|found| found.get(1))).map_or(answer, |name| name.as_str());
        let words = in_blanks(&canonical_name(answer));
        let is_said = !self.has_choice && self.said.contains(&words);
        if words.trim().is_empty() || is_said || !self.fits(answer, &words) {
            return None;
        }
        if self.kind == Kind::Place {
            // The rules above are about the name alone. It stands at the end of `first`.
            let named = &whole[first.len() - answer.len()..];
            answer = region_end(named, answer.len()).map_or(answer, |end| &named[..end]);
        }
        Some(answer)
    }

    /// Whether it is of the kind that is asked for; `words` are its own, in blanks.
    fn fits(&self, answer: &str, words: &str) -> bool {
        let has_digit = answer.contains(|c: char| c.is_ascii_digit());
        let has = |list: &[&str]| words.split(' ').any(|word| list.contains(&word));
        let are_all = |list: &[&str]| words.split_whitespace().all(|word| list.contains(&word));
        match self.kind {
            Kind::Time => has_digit || (has(TIMES) && !are_all(BEGIN_TIMES)),
            Kind::Month => names_a_month(words),
            Kind::Number => has_digit || has(NUMBERS),
            Kind::Measure => (has_digit || has(NUMBERS)) && !names_a_date(answer, words),
            Kind::Place | Kind::Person => {
                let is_bare = |word: &str| word.parse::<u64>().is_ok() || MONTHS.contains(&word);
                let is_a_date = has_digit && words.split_whitespace().all(is_bare);
                !is_a_date && !are_all(PRONOUNS)
            }
            Kind::Other => true,
        }
    }
}

/// Whether it has the name of a month, also a short one ("Sept. 1998"), or stands for a month
/// ("next month"). Of other calendars only Ramadan is asked for often.
fn names_a_month(words: &str) -> bool {
    let begins_one = |word: &str| MONTHS.iter().any(|month| month.starts_with(word));
    let is_name = |word: &str| word == "ramadan" || (word.len() >= 3 && begins_one(word));
    let has_digit = words.contains(|c: char| c.is_ascii_digit());
    words.split(' ').any(is_name) || (words.ends_with(" month ") && !has_digit)
}

/// Whether it is a year or a date and no more: "1368", "in 495 BC".
///
/// From one to another is a length of time ("May–June 1914"). A number that is no year may have its
/// unit in the question, or need none ("90", "3:45", "1,400").
fn names_a_date(answer: &str, words: &str) -> bool {
    let is_time = |word: &str| MONTHS.contains(&word) || ERAS.contains(&word);
    let is_bare = |word: &str| word.parse::<u64>().is_ok() || is_time(word);
    let said: Vec<&str> = words
        .split_whitespace()
        .filter(|word| !matches!(*word, "in" | "on"))
        .collect();
    if let [one] = said[..] {
        return one
            .parse::<u64>()
            .is_ok_and(|year| (1000..2100).contains(&year));
    }
    let is_from_to = answer.contains(['-', '–', '—']);
    !is_from_to && said.iter().any(|word| is_time(word)) && said.iter().all(|word| is_bare(word))
}

/// Where the title ends that stands behind the first `len` bytes of a text, if those end with a name.
fn title_end(text: &str, len: usize) -> Option<usize> {
    let (name, behind) = text.split_at(len);
    let last = name.rsplit(' ').next().unwrap_or_default();
    if !last.starts_with(char::is_uppercase) {
        return None;
    }
    let found = TITLE.captures(behind)?;
    let title = found.get(1).or(found.get(2))?;
    Some(len + title.len())
}

/// The first question word decides. What a school is, or where, is asked in the same words.
fn kind(words: &str) -> Kind {
    let has = |list: &[&str]| words.split(' ').any(|word| list.contains(&word));
    let mut all = words.split_whitespace().peekable();
    while let Some(word) = all.next() {
        let next = all.peek().copied().unwrap_or_default();
        return match word {
            "how" if next == "long" => Kind::Measure,
            "how" if QUANTITIES.contains(&next) => Kind::Number,
            "how" => Kind::Other,
            "when" => Kind::Time,
            "who" | "whom" | "whose" => Kind::Person,
            "where" if has(SCHOOLS) => Kind::Other,
            "where" => Kind::Place,
            "what" | "which" if SHARES.iter().any(|share| words.contains(share)) => Kind::Measure,
            "what" | "which" if next == "month" => Kind::Month,
            "what" | "which" if TIME_UNITS.contains(&next) => Kind::Time,
            "what" | "which" if PLACE_KINDS.contains(&next) => Kind::Place,
            "what" | "which" if words.contains(" place of ") => Kind::Place,
            "what" | "which" if words.contains(" date of ") => Kind::Time,
            "what" | "which" => Kind::Other,
            _ => continue,
        };
    }
    Kind::Other
}

const QUANTITIES: &[&str] = &["many", "much", "old", "tall", "large", "far"];
const TIME_UNITS: &[&str] = &["year", "date", "day", "century", "decade"];
/// "What share" is left out: neither the gold hops nor QAMR ask so.
#[rustfmt::skip]
const SHARES: &[&str] = &[
    "what percent", "what per cent", "which percent", "which per cent", "what is the percent",
    "what was the percent",
];
#[rustfmt::skip]
const PLACE_KINDS: &[&str] = &[
    "city", "town", "place", "country", "region", "state", "county", "district", "village", "province",
];
#[rustfmt::skip]
const SCHOOLS: &[&str] = &[
    "educated", "study", "studied", "school", "university", "college", "attend", "attended", "graduate",
    "graduated",
];
#[rustfmt::skip]
const MONTHS: &[&str] = &[
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
    "november", "december",
];
const ERAS: &[&str] = &["bc", "bce", "ad", "ce"];
/// Words of a time that has no digits; among them those that begin one ("under Trajan").
#[rustfmt::skip]
const TIMES: &[&str] = &[
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
    "november", "december", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday",
    "minute", "minutes", "hour", "hours", "day", "days", "week", "weeks", "weekend", "weekends", "month",
    "months", "year", "years", "decade", "decades", "century", "centuries", "millennium", "millennia",
    "dawn", "morning", "noon", "afternoon", "dusk", "evening", "night", "nights", "midnight", "yesterday",
    "today", "tonight", "tomorrow", "present", "now", "season", "seasons", "spring", "summer", "autumn",
    "fall", "winter", "christmas", "easter", "ramadan", "twenties", "thirties", "forties", "fifties",
    "sixties", "seventies", "eighties", "nineties", "era", "age", "ages", "antiquity", "renaissance",
    "period", "dynasty", "reign", "war", "wartime", "infancy", "childhood", "adolescence", "during", "after",
    "before", "under", "until", "since", "when",
];
/// Those of them that say nothing alone.
const BEGIN_TIMES: &[&str] = &[
    "during", "after", "before", "under", "until", "since", "when",
];
/// Those that sentences begin with. "Them" and "Her" are names of bands, and are seldom read otherwise.
#[rustfmt::skip]
const PRONOUNS: &[&str] = &[
    "he", "she", "it", "they", "his", "hers", "its", "their", "this", "that", "these", "those", "there", "here",
];
/// Words of a number or an amount that has no digits; a unit alone is one of it ("a decade").
#[rustfmt::skip]
const NUMBERS: &[&str] = &[
    "zero", "no", "none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
    "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety", "hundred", "hundreds",
    "thousand", "thousands", "million", "millions", "billion", "billions", "half", "third", "quarter", "single",
    "twice", "couple", "both", "few", "several", "dozen", "dozens", "most", "majority", "all", "second",
    "seconds", "minute", "minutes", "hour", "hours", "day", "days", "week", "weeks", "month", "months", "year",
    "years", "decade", "decades", "century", "centuries", "lifetime", "inches", "feet", "yards", "meters",
    "metres", "kilometers", "kilometres", "mile", "miles", "percent",
];

fn in_blanks(words: &str) -> String {
    format!(" {words} ")
}

/// The end of a line, or a full stop, and then another sentence: behind a word in small letters, a digit or a bracket.
/// "St.", "J.", "Gov." and "vs." end none.
fn runs_on(span: &str) -> bool {
    if span.trim().contains('\n') {
        return true;
    }
    let ends = span.match_indices(['.', ';', '!', '?']);
    ends.filter(|(at, stop)| {
        let rest = &span[at + stop.len()..];
        let next = rest.strip_prefix(' ').and_then(|rest| rest.chars().next());
        next.is_some_and(char::is_uppercase)
    })
    .any(|(at, _)| {
        let before = &span[..at];
        let word = before.rsplit(' ').next().unwrap_or_default();
        let is_short = word.len() <= 4 && word.starts_with(char::is_uppercase) || word == "vs";
        let ends_word = |c: char| c.is_lowercase() || c.is_ascii_digit() || c == ')';
        !is_short
            && before
                .chars()
                .rev()
                .take(2)
                .filter(|c| ends_word(*c))
                .count()
                == 2
    })
}

/// Without what stands beyond a bracket that is open at one end only.
fn within_brackets(span: &str) -> &str {
    let count = |bracket| span.matches(bracket).count();
    let blanks = |c: char| c == ',' || c.is_whitespace();
    let brackets = |c: char| c == '(' || c == ')' || blanks(c);
    let cut = match (count('('), count(')')) {
        (open, closed) if open > closed => span.rsplit_once('(').map(|(before, _)| before),
        (open, closed) if closed > open => span.split_once(')').map(|(_, behind)| behind),
        _ => None,
    };
    match cut.map(|cut| cut.trim_matches(blanks)) {
        Some(cut) if cut.contains(char::is_alphanumeric) => within_brackets(cut),
        Some(_) => span.trim_matches(brackets),
        None => span,
    }
}

/// "Santa Rosa" of "Santa Rosa, California". Whether a region stays is decided later ([`region_end`]).
fn first_part(place: &str) -> &str {
    let Some((first, rest)) = place.split_once(',') else {
        return place;
    };
    let rest = rest.trim_start();
    let is_name = rest.starts_with(|c: char| c.is_ascii_uppercase()) && !rest.starts_with("D.C");
    if is_name && !first.contains(|c: char| c.is_ascii_digit()) && !first.trim().is_empty() {
        first.trim_end()
    } else {
        place
    }
}

/// An answer in the common way of writing: corpora that were put together from tokens have "Saxe- Coburg" for
/// "Saxe-Coburg".
pub(crate) fn joined(answer: &str) -> String {
    let mut parts = answer.split("- ");
    let mut joined = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_word =
            joined.ends_with(char::is_alphanumeric) && part.starts_with(char::is_uppercase);
        joined += if is_word { "-" } else { "- " };
        joined += part;
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_cut_and_passed_over_as_the_table_says() {
        let mut cases = 0;
        let table = include_str!("boundary/cases.tsv");
        for line in table.lines().filter(|line| !line.starts_with('#')) {
            let columns: Vec<_> = line.split('\t').collect();
            let [question, span, answer] = columns[..] else {
                panic!("not three columns: {line}");
            };
            // What stands behind the bar is the passage behind the span.
            let (span, behind) = span.split_once('|').unwrap_or((span, ""));
            let (text, asked) = (format!("{span}{behind}"), Asked::new(question));
            let cut = asked.cut(asked.with_addition(&text, span.len()));
            let cut = cut.map_or_else(|| "-".to_owned(), joined);
            assert_eq!(cut, answer, "{line}");
            cases += 1;
        }
        assert!(cases > 60, "{cases}");
    }

    /// The table has no room for it.
    #[test]
    fn a_title_ends_with_its_line() {
        let text = "George Villiers, 1st Duke of Buckingham\nMother Mary Beaumont";
        let asked = Asked::new("Who is the father of Ann?");
        let titled = "George Villiers, 1st Duke of Buckingham";
        assert_eq!(asked.with_addition(text, "George Villiers".len()), titled);
        let text = "Rotrou IV, Count of Perche and Maine\nMother Matilda of Blois";
        let titled = "Rotrou IV, Count of Perche and Maine";
        assert_eq!(asked.with_addition(text, "Rotrou IV".len()), titled);
    }

    /// Paragraphs, items and rows of a passage stand on lines of their own.
    #[test]
    fn no_answer_goes_on_in_the_next_line() {
        let asked = Asked::new("Who is the Vice-President of Sun?");
        assert_eq!(asked.cut("Kim Jong-nam\nKim Yong-sun"), None);
        assert_eq!(asked.cut("Kim Jong-nam"), Some("Kim Jong-nam"));
    }

    #[test]
    fn no_text_is_too_odd() {
        for question in ["", " ", "how", "what", "where (", "é\u{301}?"] {
            for span in [
                "",
                "(",
                ")",
                ",",
                ", ",
                "a. B",
                "é. É",
                ". X",
                "((a",
                "a))",
                "x, Y",
                "🦀. 🦀",
            ] {
                // Whatever comes out is a part of what went in.
                if let Some(cut) = Asked::new(question).cut(span) {
                    assert!(
                        span.contains(cut) && !cut.is_empty(),
                        "{question:?} {span:?}"
                    );
                }
            }
        }
    }
}
