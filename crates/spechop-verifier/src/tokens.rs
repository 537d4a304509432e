//! A text as tokens: words folded by [`canonical`], numbers by value, and the few marks that carry
//! meaning. Everything after this step compares tokens, never characters.

use spechop_types::{canonical, is_unseen, plain_figure};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::{frames, numbers, spelling};

/// What a token is. Words and initials compare as equals; everything else only with its own kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A folded word.
    Word,
    /// One or more dotted initials: `j`, `jrr`.
    Initials,
    /// A plain decimal number without separators; see [`numbers`].
    Number,
    /// A day, month or year-month; see [`crate::dates`].
    Date,
    /// `,` `(` `)` `/` `;` or `:`. Between numbers `/` and `:` are words.
    Mark,
}

/// One unit of comparison.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) kind: Kind,
}

impl Token {
    pub(crate) fn new(text: impl Into<String>, kind: Kind) -> Self {
        Self {
            text: text.into(),
            kind,
        }
    }

    pub(crate) fn word(text: impl Into<String>) -> Self {
        Self::new(text, Kind::Word)
    }

    /// Is this the word `word`?
    pub(crate) fn is(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text == word
    }

    /// Is this one of `words`?
    pub(crate) fn is_any(&self, words: &[&str]) -> bool {
        self.kind == Kind::Word && words.contains(&self.text.as_str())
    }

    /// Is this the mark `mark`?
    pub(crate) fn is_mark(&self, mark: &str) -> bool {
        self.kind == Kind::Mark && self.text == mark
    }
}

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        let class = |kind| match kind {
            Kind::Initials => Kind::Word,
            kind => kind,
        };
        class(self.kind) == class(other.kind) && self.text == other.text
    }
}

/// Cuts a text into tokens. Numbers are single values here; [`crate::dates::fold`] joins dates.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let spaced: Vec<&str> = text.split_whitespace().collect();
    let chars: Vec<char> = with_figures_apart(&spaced.join(" ")).nfkc().collect();
    let mut scan = Scan {
        chars: &chars,
        at: 0,
        currency: None,
        out: Vec::new(),
    };
    while scan.at < chars.len() {
        scan.step();
    }
    scan.flush_currency();
    numbers::fold(&spelling::fold(join_initials(scan.out)))
}

/// Keeps from the digits before it what NFKC would write as more of them: "10⁹" becomes "10^⁹", since it is not
/// 109, and "2½" becomes "2 ½", since it is not 21/2. What nobody sees is left out: a soft hyphen parts no word.
/// Digits of other scripts become those of ASCII, since only these are read as numbers.
fn with_figures_apart(text: &str) -> String {
    let is_raised = |c| matches!(c, '⁰' | '¹' | '²' | '³' | '⁴'..='⁹' | '⁺' | '⁻');
    let is_fraction = |c| matches!(c, '¼'..='¾' | '⅐'..='⅟' | '↉');
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    for c in text.chars().filter(|c| !is_unseen(*c)) {
        // All of them look the same, and some keyboards and models write one and some another.
        let c = match c {
            '\u{2010}' | '\u{2011}' | '\u{2012}' => '-',
            c => plain_figure(c),
        };
        // What follows a raised digit is the same exponent.
        if before.is_numeric() && !is_raised(before) && is_raised(c) {
            out.push('^');
        } else if before.is_numeric() && is_fraction(c) {
            out.push(' ');
        }
        out.push(c);
        before = c;
    }
    out
}

struct Scan<'a> {
    chars: &'a [char],
    at: usize,
    /// A currency sign goes before its number but means what the word after it means.
    currency: Option<String>,
    out: Vec<Token>,
}

impl Scan<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn step(&mut self) {
        let Some(c) = self.peek(0) else { return };
        // "5", or ".5".
        let is_number = |at: usize| {
            let digit = at + usize::from(self.peek(at) == Some('.'));
            self.peek(digit).is_some_and(|c| c.is_ascii_digit())
        };
        let is_minus = match c {
            '-' | '−' => true,
            // "(–1791)" has no beginning.
            '–' => !(self.at > 0 && matches!(self.chars[self.at - 1], '(' | '[')),
            _ => false,
        };
        // "-$5" is "$-5".
        let money = self
            .peek(1)
            .filter(|sign| currency(*sign).is_some() && is_number(2));
        let negative = is_minus && (is_number(1) || money.is_some()) && self.starts_here();
        if c.is_ascii_digit() || negative || c == '.' && is_number(0) && self.starts_here() {
            if let Some(sign) = money.filter(|_| negative) {
                self.at += 1;
                self.mark(sign);
            }
            self.number(negative);
        } else if in_word(c) {
            self.word();
        } else {
            self.mark(c);
            self.at += 1;
            if c == '%' || currency(c).is_some() {
                self.signs(&['+']);
            }
        }
    }

    /// Does nothing but space, an opening mark or a comparison stand before this place?
    fn starts_here(&self) -> bool {
        match self.at.checked_sub(1).map(|before| self.chars[before]) {
            None => true,
            Some(c) if c.is_whitespace() => {
                // "1990 -1995" is a range, not a negative number.
                !matches!(self.out.last(), Some(last) if last.kind == Kind::Number)
            }
            Some(c) => matches!(
                c,
                '(' | '[' | '"' | '“' | '$' | '€' | '£' | '^' | '<' | '>' | '≤' | '≥' | '≠'
            ),
        }
    }

    fn number(&mut self, negative: bool) {
        if negative {
            self.at += 1;
        }
        let start = self.at;
        let (value, used) = numbers::scan(&self.chars[start..]);
        self.at += used;
        // Letters glued to the digits: an ordinal, a decade, a unit, or a name like "3D".
        let mut end = self.at;
        if matches!(self.peek(0), Some('\'' | '’')) && matches!(self.peek(1), Some('s' | 'S')) {
            end += 1;
        }
        while self.chars.get(end).is_some_and(|c| c.is_alphanumeric()) {
            end += 1;
        }
        let tail = canonical(&self.chars[self.at..end].iter().collect::<String>());
        self.at = end;
        let mut value = if negative { format!("-{value}") } else { value };
        let kept = numbers::without_zeros(&value).len();
        if kept < value.len() && self.is_amount(start, &value, &tail) {
            value.truncate(kept);
        }
        if tail.is_empty() || numbers::is_unit(&tail) {
            self.out.push(Token::new(value, Kind::Number));
            if !tail.is_empty() {
                self.out.push(Token::word(tail));
            }
        } else {
            self.out.push(Token::word(value + &tail));
        }
        self.signs(&['+']);
    }

    /// Is the number that started there and has just been read an amount, so that "3.50" is "3.5"? Behind a name it
    /// is rather a version ("Python 3.10"). Alone it may be one, or a day and its month ("1.10").
    fn is_amount(&self, start: usize, value: &str, tail: &str) -> bool {
        let (before, behind) = (&self.chars[..start], &self.chars[self.at..]);
        // "1.10.1994" is a date, and "3.10.2" a version: ten is not one there.
        if matches!(behind, ['.', next, ..] if next.is_ascii_digit()) {
            return false;
        }
        let is_sign = |c: &char| matches!(c, '%' | '‰' | '°' | '′') || currency(*c).is_some();
        let beside = [
            before.iter().rev().find(|c| !c.is_whitespace()),
            behind.iter().find(|c| !c.is_whitespace()),
        ];
        let next: String = behind
            .iter()
            .skip_while(|c| c.is_whitespace())
            .take_while(|c| in_word(**c))
            .collect();
        let last = self.out.last();
        beside.into_iter().flatten().any(is_sign)
            || numbers::is_measure(tail)
            || numbers::is_measure(&canonical(&next))
            || last.is_some_and(frames::is_approximation)
            || last.is_none_or(numbers::is_plain) && !numbers::may_be_date(value)
    }

    fn word(&mut self) {
        let start = self.at;
        while let Some(c) = self.peek(0) {
            let inner = matches!(c, '\'' | '’' | '‘' | 'ʼ' | '`' | '.')
                && self.peek(1).is_some_and(char::is_alphabetic);
            if !in_word(c) && !inner {
                break;
            }
            self.at += 1;
        }
        let raw: String = self.chars[start..self.at].iter().collect();
        // A full stop that ends the text is no abbreviation's: "It was Henry I."
        let more = || self.chars[self.at..].iter().any(|c| c.is_alphanumeric());
        let dotted = raw.contains('.') || self.peek(0) == Some('.') && more();
        let single = raw.split('.').all(|part| part.chars().count() == 1);
        let kind = if dotted && single {
            Kind::Initials
        } else {
            Kind::Word
        };
        let folded = canonical(&raw);
        // "A$" is another currency than "$". The article of "a $5 million deal" stands apart from the sign.
        if let ("a", Some(sign)) = (folded.as_str(), self.peek(0))
            && currency(sign).is_some()
        {
            self.out.push(Token::word(format!("a{sign}")));
            return;
        }
        let short = folded.chars().count() <= 2;
        for word in folded.split(' ').filter(|word| !word.is_empty()) {
            self.out.push(Token::new(word, kind));
        }
        // Behind a longer word a hyphen is no grade: "pre- and post-war".
        let counted: &[char] = if short {
            &['+', '#', '-', '−']
        } else {
            &['+', '#']
        };
        self.signs(counted);
    }

    /// Signs behind a word or a number that canonical text loses, and that make another one: "C++", "C#", "Disney+",
    /// "25,000+", "A-". Between two of them they only join: "Romeo+Juliet".
    fn signs(&mut self, counted: &[char]) {
        let behind = &self.chars[self.at..];
        let run = behind
            .iter()
            .take_while(|c| matches!(c, '+' | '#' | '-' | '−'))
            .count();
        if behind.get(run).is_some_and(|c| in_word(*c)) {
            return;
        }
        for sign in behind[..run].iter().take_while(|c| counted.contains(c)) {
            let name = match sign {
                '+' => "plus",
                '#' => "sharp",
                _ => "minus",
            };
            self.out.push(Token::word(name));
            self.at += 1;
        }
    }

    fn mark(&mut self, c: char) {
        match c {
            '&' => self.out.push(Token::word("and")),
            '%' => self.out.push(Token::word("percent")),
            // "1/3" is not "1:3". NFKC writes "½" with a slash of its own.
            '/' | ':' | '⁄' if self.is_between_numbers() => {
                self.flush_currency();
                self.out.push(Token::word(if c == ':' { ':' } else { '/' }));
            }
            ',' | '(' | ')' | '/' | ';' | ':' => {
                self.flush_currency();
                self.out.push(Token::new(c.to_string(), Kind::Mark));
            }
            '[' | '{' => self.out.push(Token::new("(", Kind::Mark)),
            ']' | '}' => self.out.push(Token::new(")", Kind::Mark)),
            '|' => self.out.push(Token::new("/", Kind::Mark)),
            // Signs that turn a number or a note into another one.
            '<' | '>' | '≤' | '≥' | '≠' | '±' | '√' | '^' | '♭' | '♯' | '‰' | '‱' =>
            {
                self.out.push(Token::word(c));
            }
            // Feet or minutes, and two for inches or seconds. Elsewhere it stands for an apostrophe.
            '′' if self.out.last().is_some_and(is_measured) => self.out.push(Token::word(c)),
            // A dash between numbers is a range, between words it only joins.
            '-' | '–' | '—' | '−' if self.is_between_numbers() => {
                self.out.push(Token::word("to"));
            }
            // No other mark but a currency's says anything.
            _ => {
                if let Some(sign) = currency(c) {
                    // "$5 or €6" names two.
                    if self.currency.as_ref() != Some(&sign) {
                        self.flush_currency();
                    }
                    self.currency = Some(sign);
                }
            }
        }
    }

    /// Do numbers stand on both sides of the mark at this place?
    fn is_between_numbers(&self) -> bool {
        let after = self.chars[self.at + 1..]
            .iter()
            .find(|c| !c.is_whitespace());
        let number = |t: &Token| t.kind == Kind::Number || t.is("percent");
        self.out.last().is_some_and(number) && after.is_some_and(char::is_ascii_digit)
    }

    fn flush_currency(&mut self) {
        if let Some(currency) = self.currency.take() {
            self.out.push(Token::word(currency));
        }
    }
}

/// What a currency sign means: a word, or only itself.
fn currency(sign: char) -> Option<String> {
    match sign {
        '$' => Some("dollars".to_owned()),
        '€' => Some("euros".to_owned()),
        '£' => Some("pounds".to_owned()),
        '¥' => Some("yen".to_owned()),
        '¢' | '֏' | '৳' | '฿' | '៛' | '\u{20a0}'..='\u{20cf}' => Some(sign.to_string()),
        _ => None,
    }
}

/// Does a prime behind this token say what it counts?
fn is_measured(token: &Token) -> bool {
    token.kind == Kind::Number || token.is("′")
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || is_combining_mark(c)
}

/// Writes neighbouring initials as one token: `J. R. R.`, `J.R.R.` and `J R R` are `jrr`.
fn join_initials(tokens: Vec<Token>) -> Vec<Token> {
    let mut out: Vec<Token> = Vec::with_capacity(tokens.len());
    // Whether the last token grew from single letters, dotted or not.
    let mut open = false;
    for token in tokens {
        let letters = token.kind == Kind::Initials
            || token.kind == Kind::Word && token.text.len() == 1 && !token.is("a");
        match out.last_mut() {
            Some(last) if open && letters => {
                last.text.push_str(&token.text);
                last.kind = Kind::Initials;
            }
            _ => out.push(token),
        }
        open = letters;
    }
    out
}
