//! Dates by value: one token for a day, a month of a year, or a day of a year's month.
//!
//! A bare year stays a number. A day and the year it lies in are therefore different tokens, and
//! neither contains the other: a guess of `1994` does not say what `May 8, 1994` says, nor may a
//! guess add a day that nobody observed.

use std::ops::RangeInclusive;

use crate::numbers;
use crate::tokens::{Kind, Token, tokens};

const MONTHS: &[&str] = &[
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

const WEEKDAYS: &[&str] = &[
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];

/// Digits of a year at most: what is older is no date of history, and its days are not counted.
const YEAR_DIGITS_MAX: usize = 4;

/// A day, a month or a year, to be put in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    /// Before Christ it is negative.
    year: i32,
    month: Option<u32>,
    day: Option<u32>,
}

impl Date {
    /// The date that a text gives; `None` if it gives none with a year, or if it has another date or number beside it,
    /// or a word that makes it a bound.
    pub fn of(text: &str) -> Option<Self> {
        let folded = fold(&tokens(text));
        // They make it a bound, or another number.
        let bounds = [
            "before", "after", "until", "since", "between", "by", "to", "earlier", "later",
            "least", "ago", "old", "years",
        ];
        let figures = folded.iter().enumerate();
        let mut figures = figures.filter(|(_, token)| is_year_like(token));
        let (first, second) = (figures.next()?, figures.next());
        if figures.next().is_some() || folded.iter().any(|token| token.is_any(&bounds)) {
            return None;
        }
        let (last_at, _) = second.unwrap_or(first);
        let is_before_christ = folded.get(last_at + 1).is_some_and(|token| token.is("bc"));
        let (first, second) = (first.1, second.map(|(_, token)| token));
        let is_number = |token: &Token| token.kind == Kind::Number;
        // A year of one or two digits is told by its era, and a month and a day stay apart from such a year.
        let (year, rest) = match second {
            Some(year) if is_before_christ && !is_number(first) && is_number(year) => {
                (&*year.text, Some(&*first.text))
            }
            Some(_) => return None,
            None if is_number(first) && is_before_christ => (&*first.text, None),
            None if is_number(first) => (year_of(first)?, None),
            None => {
                let parts = first.text.split_once('-');
                let (year, rest) = parts.filter(|(year, _)| year.len() > 2)?;
                (year, Some(rest))
            }
        };
        if year.len() > YEAR_DIGITS_MAX {
            return None;
        }
        let year: i32 = year.parse().ok()?;
        let mut rest = rest.into_iter().flat_map(|rest| rest.split('-'));
        let mut part = || rest.next().and_then(|part| part.parse().ok());
        let (month, day) = (part(), part());
        Some(Self {
            year: if is_before_christ { -year } else { year },
            month,
            day,
        })
    }

    /// The year; before Christ it is negative.
    pub fn year(self) -> i32 {
        self.year
    }

    /// Whether it is before the other; `None` if what is known of the two does not tell.
    pub fn is_before(self, other: Self) -> Option<bool> {
        let [days, others] = [self, other].map(Self::days);
        if days.end() < others.start() {
            Some(true)
        } else if others.end() < days.start() {
            Some(false)
        } else {
            None
        }
    }

    /// How many days pass until the other: the fewest and the most that are possible by what is known.
    pub fn days_until(self, other: Self) -> RangeInclusive<i32> {
        let [days, others] = [self, other].map(Self::days);
        others.start() - days.end()..=others.end() - days.start()
    }

    /// The days that it may be, counted from one and the same day.
    fn days(self) -> RangeInclusive<i32> {
        let months = match self.month {
            Some(month) => month..=month,
            None => 1..=12,
        };
        match self.day.filter(|_| self.month.is_some()) {
            Some(day) => {
                let day = self.day_number(*months.start(), day);
                day..=day
            }
            None => self.day_number(*months.start(), 1)..=self.day_number(months.end() + 1, 1) - 1,
        }
    }

    /// The number of a day of its year in the Gregorian calendar, which is taken for all times. A year begins in March
    /// here, so that leap days end it.
    fn day_number(self, month: u32, day: u32) -> i32 {
        // There is no year 0.
        let year = self.year + i32::from(self.year < 0);
        let (month, day) = (month as i32, day as i32);
        let year = year + (month + 9) / 12 - 1;
        let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        365 * year + leap_days + (153 * ((month + 9) % 12) + 2) / 5 + day
    }
}

/// Replaces every date by one [`Kind::Date`] token: `1994-05-08`, `1994-05` or `05-08`. A weekday
/// before it goes, `AD` and `CE` beside a year go, `BC` and `BCE` become `bc`.
pub(crate) fn fold(tokens: &[Token]) -> Vec<Token> {
    let mut out: Vec<Token> = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if let Some((date, used)) = date_at(&tokens[at..]) {
            while out.last().is_some_and(|last| last.is_mark(","))
                && out.len() > 1
                && out[out.len() - 2].is_any(WEEKDAYS)
            {
                out.pop();
            }
            if out.last().is_some_and(|last| last.is_any(WEEKDAYS)) {
                out.pop();
            }
            out.push(Token::new(date, Kind::Date));
            at += used;
            continue;
        }
        at += 1;
        let after_date = out.last().is_some_and(is_year_like);
        let before_year = tokens.get(at).is_some_and(is_year_like);
        match token.text.as_str() {
            "bc" | "bce" if after_date => out.push(Token::word("bc")),
            "ad" | "ce" if after_date => {}
            "ad" if before_year => {}
            _ => out.push(token.clone()),
        }
    }
    // A month alone may be abbreviated; inside a longer text "Jan" or "Mar" is more often a name.
    if let [token] = out.as_mut_slice()
        && let Some(month) = month_of(token)
    {
        token.text = MONTHS[month - 1].to_owned();
    }
    out
}

fn is_year_like(token: &Token) -> bool {
    matches!(token.kind, Kind::Number | Kind::Date)
}

/// A date at the start of `tokens`, and how many of them it takes.
fn date_at(tokens: &[Token]) -> Option<(String, usize)> {
    iso(tokens)
        .or_else(|| slashed(tokens))
        .or_else(|| month_first(tokens))
        .or_else(|| day_first(tokens))
}

/// `1994-05-08`, which the tokens give as a range with padded numbers.
fn iso(tokens: &[Token]) -> Option<(String, usize)> {
    let [year, to, month, also, day, ..] = tokens else {
        return None;
    };
    let padded = month.text.len() == 2 && day.text.len() == 2 && year.text.len() == 4;
    if !(to.is("to") && also.is("to") && padded) {
        return None;
    }
    Some((full(year_of(year)?, in_year(month)?, day_of(day)?), 5))
}

/// `13/05/1994` or `05/13/1994`, only where one of the two cannot be a month; `1994/05/13`.
fn slashed(tokens: &[Token]) -> Option<(String, usize)> {
    let [a, slash, b, also, c, ..] = tokens else {
        return None;
    };
    if !(slash.is("/") && also.is("/")) {
        return None;
    }
    if a.text.len() == 4 {
        return Some((full(year_of(a)?, in_year(b)?, day_of(c)?), 5));
    }
    let year = year_of(c).filter(|_| c.text.len() == 4)?;
    let (a, b) = (day_of(a)?, day_of(b)?);
    match (a > 12, b > 12) {
        (true, false) => Some((full(year, b as usize, a), 5)),
        (false, true) => Some((full(year, a as usize, b), 5)),
        // Both could be the month, unless they are the same.
        (false, false) if a == b => Some((full(year, a as usize, b), 5)),
        _ => None,
    }
}

/// `May 8, 1994`, `May 8th`, `May 1994`.
fn month_first(tokens: &[Token]) -> Option<(String, usize)> {
    let month = month_of(tokens.first()?)?;
    if let Some(day) = tokens.get(1).and_then(day_of) {
        let comma = comma_at(tokens, 2);
        return Some(match tokens.get(2 + comma).and_then(year_of) {
            Some(year) => (full(year, month, day), 3 + comma),
            None => (format!("{month:02}-{day:02}"), 2),
        });
    }
    let skip = comma_at(tokens, 1) + usize::from(tokens.get(1).is_some_and(|t| t.is("of")));
    let year = tokens.get(1 + skip).and_then(year_of)?;
    Some((format!("{year}-{month:02}"), 2 + skip))
}

/// `8 May 1994`, `the 8th of May, 1994`, `8 May`.
fn day_first(tokens: &[Token]) -> Option<(String, usize)> {
    let day = day_of(tokens.first()?)?;
    let of = usize::from(tokens.get(1).is_some_and(|token| token.is("of")));
    let month = month_of(tokens.get(1 + of)?)?;
    let comma = comma_at(tokens, 2 + of);
    Some(match tokens.get(2 + of + comma).and_then(year_of) {
        Some(year) => (full(year, month, day), 3 + of + comma),
        None => (format!("{month:02}-{day:02}"), 2 + of),
    })
}

fn comma_at(tokens: &[Token], at: usize) -> usize {
    usize::from(tokens.get(at).is_some_and(|token| token.is_mark(",")))
}

fn full(year: &str, month: usize, day: u32) -> String {
    format!("{year}-{month:02}-{day:02}")
}

/// The month's number, of its name or a usual abbreviation.
pub(crate) fn month_of(token: &Token) -> Option<usize> {
    if token.kind != Kind::Word || token.text.len() < 3 {
        return None;
    }
    let short = token.text.len() == 3 || token.text == "sept";
    MONTHS
        .iter()
        .position(|month| *month == token.text || short && month.starts_with(&*token.text))
        .map(|at| at + 1)
}

/// A padded month of the year in digits.
fn in_year(token: &Token) -> Option<usize> {
    let month = token.text.parse().ok()?;
    (1..=12).contains(&month).then_some(month)
}

fn day_of(token: &Token) -> Option<u32> {
    let day = match token.kind {
        Kind::Number if token.text.len() <= 2 => token.text.parse().ok()?,
        Kind::Word => numbers::ordinal_number(token)?,
        _ => return None,
    };
    (1..=31).contains(&day).then_some(day)
}

/// A year has three or four digits: two could be a day, or any century's.
fn year_of(token: &Token) -> Option<&str> {
    let digits = token.kind == Kind::Number
        && (3..=4).contains(&token.text.len())
        && token.text.bytes().all(|b| b.is_ascii_digit());
    digits.then_some(&token.text)
}

#[cfg(test)]
mod tests {
    use super::{Date, fold};
    use crate::tokens::tokens;

    fn check(text: &str, folded: &str) {
        let words: Vec<_> = fold(&tokens(text)).into_iter().map(|t| t.text).collect();
        assert_eq!(words.join(" "), folded, "{text:?}");
    }

    #[test]
    fn a_day_has_one_writing() {
        for text in [
            "May 8, 1994",
            "8 May 1994",
            "8th May, 1994",
            "May 8th 1994",
            "1994-05-08",
            "1994/05/08",
            "Sunday, May 8, 1994",
            "Sunday 8 May 1994",
        ] {
            check(text, "1994-05-08");
        }
        check("the 8th of May 1994", "the 1994-05-08");
        check("13/05/1994", "1994-05-13");
        check("05/13/1994", "1994-05-13");
        check("March 26, 983", "983-03-26");
        check("15 March 44 BC", "03-15 44 bc");
    }

    #[test]
    fn what_is_no_day_stays_apart() {
        check("05/08/1994", "05 / 08 / 1994");
        check("May 1994", "1994-05");
        check("Sept. 2012", "2012-09");
        check("8 May", "05-08");
        check("AD 953", "953");
        check("500 BCE", "500 bc");
        check("Theresa May", "theresa may");
        check("Jun", "june");
        check("1990-1995", "1990 to 1995");
    }

    #[test]
    fn dates_have_an_order() {
        for (early, late) in [
            ("8 October 1848", "19 August 1990"),
            ("953", "March 26, 983"),
            ("c. 1450", "about 1451"),
            ("30 November 1901", "December 1901"),
            ("1901-11-29", "November 30, 1901"),
            ("44 BC", "AD 114"),
            ("15 March 44 BC", "43 BC"),
            ("1 March 44 BC", "15 March 44 BC"),
            ("3 May 1999, in Hull", "2001"),
            ("3 May 1950, in Victoria, BC", "1 June 1960"),
        ] {
            let [early, late] = [early, late].map(|text| Date::of(text).expect(text));
            assert_eq!(early.is_before(late), Some(true), "{early:?} {late:?}");
            assert_eq!(late.is_before(early), Some(false), "{early:?} {late:?}");
        }
        for (one, other) in [
            ("1901", "30 November 1901"),
            ("November 1901", "30 November 1901"),
            ("8 May 1994", "May 8, 1994"),
        ] {
            let [one, other] = [one, other].map(|text| Date::of(text).expect(text));
            assert_eq!(one.is_before(other), None, "{one:?} {other:?}");
        }
    }

    #[test]
    fn the_days_between_dates_are_those_of_the_calendar() {
        for (from, to, days) in [
            ("28 February 1999", "1 March 1999", 1..=1),
            ("28 February 2000", "1 March 2000", 2..=2),
            ("28 February 1900", "1 March 1900", 1..=1),
            ("31 December 1999", "1 January 2000", 1..=1),
            ("1 January 1970", "1 January 2000", 10_957..=10_957),
            (
                "31 December 1 BC",
                "1 January 100",
                99 * 365 + 24 + 1..=99 * 365 + 24 + 1,
            ),
            ("1999", "2000", 1..=730),
            ("December 1999", "2000", 1..=396),
        ] {
            let [date, other] = [from, to].map(|text| Date::of(text).expect(text));
            assert_eq!(date.days_until(other), days, "{from} {to}");
        }
    }

    #[test]
    fn what_is_not_one_date_is_none() {
        for text in [
            "",
            "Ghent",
            "8 May",
            "1990-1995",
            "2 films in 1994",
            "17",
            "05/08/1994",
            "1994 or 1995",
            "44 BC or 43 BC",
            "before 1950",
            "not later than 1950",
            "about 5000 years ago",
            "13/13/1994",
            "66 million BC",
            "6000000 BC",
            "14 ad campaigns",
        ] {
            assert_eq!(Date::of(text), None, "{text}");
        }
    }
}
