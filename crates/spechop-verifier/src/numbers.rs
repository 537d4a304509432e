//! Numbers by value: separators, scale words, number words, Roman numerals, ordinals.

use crate::tokens::{Kind, Token};

/// Longest run of digits that is worth moving a decimal point in; longer ones stay as written.
const DIGITS_MAX: usize = 30;

/// Scale words and their powers of ten.
const SCALES: &[(&str, usize)] = &[
    ("hundred", 2),
    ("thousand", 3),
    ("million", 6),
    ("mn", 6),
    ("billion", 9),
    ("bn", 9),
    ("trillion", 12),
];

/// Units that are often glued to their number. Others glued to digits are names: `3d`, `747s`.
const UNITS: &[&str] = &[
    "km", "m", "cm", "mm", "mi", "ft", "kg", "g", "lb", "mph", "kmh", "am", "pm", "bn", "mn", "bc",
    "bce", "ad", "ce",
];

/// Measures that are often written out behind their number.
const MEASURES: &[&str] = &[
    "acre",
    "cent",
    "degree",
    "dollar",
    "euro",
    "feet",
    "foot",
    "hectare",
    "hour",
    "inch",
    "inches",
    "kilogram",
    "kilometer",
    "kilometre",
    "liter",
    "litre",
    "meter",
    "metre",
    "mile",
    "minute",
    "pct",
    "per",
    "percent",
    "pound",
    "second",
    "ton",
    "tonne",
    "year",
    "yen",
];

/// Units that say when, and not how much: `10.10 pm` is no `10.1 pm`.
const TIMES: &[&str] = &["am", "pm", "bc", "bce", "ad", "ce"];

/// Words of a sentence, behind which a number is what it would be alone.
const PLAIN: &[&str] = &[
    "is", "was", "are", "were", "the", "a", "and", "or", "of", "in", "on", "at", "by", "from",
    "to", "than", "over", "under", "nearly",
];

const SMALL: &[&str] = &[
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];

const TENS: &[&str] = &[
    "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
];

const ORDINALS: &[&str] = &[
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
    "thirteenth",
    "fourteenth",
    "fifteenth",
    "sixteenth",
    "seventeenth",
    "eighteenth",
    "nineteenth",
    "twentieth",
];

/// Reads a number at the start of `chars`, which starts with a digit or with the decimal point before
/// one. Gives its plain decimal writing and the characters used. Grouping by commas, spaces,
/// apostrophes, or two and more full stops is removed; a single full stop is a decimal point. Zeros
/// stay: `007` is not `7`. Those at the end of an amount are for [`without_zeros`].
pub(crate) fn scan(chars: &[char]) -> (String, usize) {
    let digits = |from: usize| {
        chars[from..]
            .iter()
            .take_while(|c| c.is_ascii_digit())
            .count()
    };
    let mut used = digits(0);
    let mut value: String = chars[..used].iter().collect();
    if value.is_empty() {
        value.push('0');
    }
    for separator in [',', ' ', '\'', '.'] {
        let mut groups = 0;
        let mut end = used;
        while chars.get(end) == Some(&separator) && used <= 3 && digits(end + 1) == 3 {
            groups += 1;
            end += 4;
        }
        // One full stop before three digits is more often a decimal point than a group.
        let grouped = groups >= if separator == '.' { 2 } else { 1 };
        if grouped && !value.starts_with('0') {
            value.extend(chars[used..end].iter().filter(|c| c.is_ascii_digit()));
            used = end;
            break;
        }
    }
    if chars.get(used) == Some(&'.') {
        let fraction = digits(used + 1);
        if fraction > 0 {
            value.push('.');
            value.extend(&chars[used + 1..used + 1 + fraction]);
            used += 1 + fraction;
        }
    }
    (value, used)
}

/// A decimal without the zeros at its end: `3.5` for `3.50`. Three digits stay: `1.000` may be a
/// thousand.
pub(crate) fn without_zeros(number: &str) -> &str {
    match number.split_once('.') {
        Some((_, fraction)) if fraction.len() != 3 => {
            number.trim_end_matches('0').trim_end_matches('.')
        }
        _ => number,
    }
}

/// Could this number be a day and its month? `1.10` is the first of October then, and `1.1` is not.
/// No other month ends with a zero.
pub(crate) fn may_be_date(number: &str) -> bool {
    let day = number.strip_suffix(".10");
    day.and_then(|day| day.parse::<u32>().ok())
        .is_some_and(|day| (1..=31).contains(&day))
}

/// Is this word a unit that may be glued to its number?
pub(crate) fn is_unit(word: &str) -> bool {
    UNITS.contains(&word)
}

/// Does this word say that the number before it counts or measures?
pub(crate) fn is_measure(word: &str) -> bool {
    let one = word.strip_suffix('s').unwrap_or(word);
    let measures = [word, one].iter().any(|word| MEASURES.contains(word));
    measures || is_unit(word) && !TIMES.contains(&word) || is_scale(&Token::word(word))
}

/// Is a number behind this token what it would be alone? Behind a name it belongs to that: `Python 3.10`.
pub(crate) fn is_plain(token: &Token) -> bool {
    token.is_any(PLAIN) || !token.text.contains(char::is_alphanumeric)
}

/// Folds number words, scale words, Roman numerals and spelled ordinals, so that `5 million`,
/// `five million` and `5,000,000` are one token, and `Rocky II` and `Rocky 2` are two equal ones.
pub(crate) fn fold(tokens: &[Token]) -> Vec<Token> {
    let mut out: Vec<Token> = Vec::with_capacity(tokens.len());
    for (at, token) in tokens.iter().enumerate() {
        let next = tokens.get(at + 1);
        let value = match token.kind {
            Kind::Word => word_value(&token.text)
                .or_else(|| (at > 0).then(|| roman_value(&token.text, next)).flatten()),
            _ => None,
        };
        if let Some(value) = value {
            let unit = value < 10 && value > 0;
            match out.last_mut() {
                // "twenty-five": the tens have just been folded.
                Some(last) if unit && at > 0 && tokens[at - 1].is_any(TENS) => {
                    last.text = last.text.trim_end_matches('0').to_owned() + &value.to_string();
                }
                _ => out.push(Token::new(value.to_string(), Kind::Number)),
            }
            continue;
        }
        if let Some(zeros) = scale_of(token)
            && let Some(number) = number_before(&mut out)
        {
            number.text = scaled(&number.text, zeros);
            continue;
        }
        if let Some(number) = ordinal_value(token) {
            // "twenty-first": as "twenty-five".
            if let Some(last) = out.last_mut()
                && (1..10).contains(&number)
                && at > 0
                && tokens[at - 1].is_any(TENS)
            {
                *last = Token::word(last.text.trim_end_matches('0').to_owned() + &ordinal(number));
                continue;
            }
            // "Catherine the Second" is "Catherine II"; "the second wife" stays an ordinal.
            let regnal = out.len() > 1
                && out.last().is_some_and(|last| last.is("the"))
                && next.is_none_or(|next| next.kind == Kind::Mark || next.is("of"));
            if regnal {
                out.pop();
                out.push(Token::new(number.to_string(), Kind::Number));
            } else {
                out.push(Token::word(ordinal(number)));
            }
            continue;
        }
        out.push(token.clone());
    }
    out
}

/// The number of an ordinal token as [`fold`] writes it, e.g. 8 for `8th`.
pub(crate) fn ordinal_number(token: &Token) -> Option<u32> {
    let digits = ["st", "nd", "rd", "th"]
        .iter()
        .find_map(|end| token.text.strip_suffix(end))?;
    (token.kind == Kind::Word).then(|| digits.parse().ok())?
}

fn ordinal_value(token: &Token) -> Option<u32> {
    if token.kind != Kind::Word {
        return None;
    }
    let spelled = ORDINALS.iter().position(|word| token.text == *word);
    spelled
        .and_then(|at| u32::try_from(at + 1).ok())
        .or_else(|| ordinal_number(token))
}

fn ordinal(number: u32) -> String {
    let end = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{end}")
}

fn word_value(word: &str) -> Option<usize> {
    let small = SMALL.iter().position(|small| *small == word);
    let tens = || TENS.iter().position(|tens| *tens == word);
    small.or_else(|| tens().map(|at| (at + 2) * 10))
}

/// Roman numerals up to 39, where they follow a name. `I`, `V`, `X`, `VI` and `XI` count only at the
/// end of a name, since elsewhere they are pronouns, initials or names.
fn roman_value(word: &str, next: Option<&Token>) -> Option<usize> {
    let ends = next.is_none_or(|next| next.kind == Kind::Mark || next.is("of"));
    if !ends && (word.len() == 1 || word == "vi" || word == "xi") {
        return None;
    }
    let tens = word.chars().take_while(|c| *c == 'x').count();
    let units = match &word[tens.min(word.len())..] {
        "" => 0,
        "i" => 1,
        "ii" => 2,
        "iii" => 3,
        "iv" => 4,
        "v" => 5,
        "vi" => 6,
        "vii" => 7,
        "viii" => 8,
        "ix" => 9,
        _ => return None,
    };
    (tens <= 3 && tens + units > 0).then_some(tens * 10 + units)
}

/// The number that a scale word behind these tokens belongs to: "5 million", or "5 (million)".
fn number_before(tokens: &mut [Token]) -> Option<&mut Token> {
    let before = match tokens {
        [.., before, mark] if mark.is_mark("(") => before,
        [.., before] => before,
        [] => return None,
    };
    (before.kind == Kind::Number).then_some(before)
}

/// Does this word make another number of the one that it belongs to: "million", "millions"?
pub(crate) fn is_scale(token: &Token) -> bool {
    let one = token.text.strip_suffix('s').unwrap_or(&token.text);
    token.kind == Kind::Word && SCALES.iter().any(|(word, _)| *word == one)
}

fn scale_of(token: &Token) -> Option<usize> {
    (token.kind == Kind::Word)
        .then(|| SCALES.iter().find(|(word, _)| token.text == *word))
        .flatten()
        .map(|(_, zeros)| *zeros)
}

/// Moves the decimal point of a plain decimal `zeros` places to the right.
fn scaled(number: &str, zeros: usize) -> String {
    if number.len() > DIGITS_MAX {
        return format!("{number}e{zeros}");
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut out = whole.to_owned();
    let mut fraction = fraction.chars();
    for _ in 0..zeros {
        out.push(fraction.next().unwrap_or('0'));
    }
    let rest = fraction.as_str();
    if !rest.is_empty() {
        out.push('.');
        out.push_str(rest);
    }
    let (sign, digits) = match out.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", out.as_str()),
    };
    let trimmed = digits.trim_start_matches('0');
    match trimmed.chars().next() {
        None => "0".to_owned(),
        Some('.') => format!("{sign}0{trimmed}"),
        Some(_) => format!("{sign}{trimmed}"),
    }
}

#[cfg(test)]
mod tests {
    use crate::tokens::tokens;

    fn check(text: &str, folded: &str) {
        let words: Vec<_> = tokens(text).into_iter().map(|token| token.text).collect();
        assert_eq!(words.join(" "), folded, "{text:?}");
    }

    #[test]
    fn numbers_have_one_writing() {
        check("1,234,567", "1234567");
        check("1.234.567", "1234567");
        check("25\u{202f}000", "25000");
        check("1.50", "1.5");
        check("It is 1.50.", "it is 1.5");
        check("1.50–2.50", "1.5 to 2.5");
        check("about 1.10 and $1.10", "about 1.1 and 1.1 dollars");
        check("1.10 million", "1100000");
        check("Python 1.50", "python 1.50");
        check("Height 1.50 metres", "height 1.5 metres");
        check("1.10 and on 31.10.", "1.10 and on 31.10");
        check("0.10", "0.1");
        check("3.50 and 4.50", "3.5 and 4.5");
        check("Height 1.50 metre", "height 1.5 metre");
        check("-1.10", "-1.1");
        check("five million", "5000000");
        check("5 (million)", "5000000 ( )");
        check("8.005 million people", "8005000 people");
        check("twenty-five", "25");
        check("$5 million", "5000000 dollars");
        check("-$5 million", "-5000000 dollars");
        check("$-5 million", "-5000000 dollars");
        check("-5 °C", "-5 c");
        check(".5 of -.25 and $.50.", "0.5 of -0.25 and 0.5 dollars");
        check("Wait...5 and v.5", "wait 5 and v 5");
        check("1990–1995", "1990 to 1995");
        check("007", "007");
        check("0.05 million", "50000");
        check("1,23", "1 , 23");
        check("1.5 × 10⁻⁹", "1.5 10 ^ -9");
        check("2½ miles", "2 1 / 2 miles");
        check("1/3, 10:30 and AC/DC: 5", "1 / 3 , 10 : 30 and ac / dc : 5");
        check("٣٫٥ and -५", "3.5 and -5");
        check("१९९०-१९९५", "1990 to 1995");
        check("१२,०००", "12000");
        check("٥٪", "5 percent");
        check("5 km²", "5 km2");
        check("A$5 million", "a$ 5000000 dollars");
    }

    #[test]
    fn numerals_and_ordinals_have_one_writing() {
        check("Rocky II", "rocky 2");
        check("Henry I of England", "henry 1 of england");
        check("How I Met Your Mother", "how i met your mother");
        check("Catherine the Second", "catherine 2");
        check("the second wife", "the 2nd wife");
        check("Third Reich", "3rd reich");
        check("twenty-first and ninety-second", "21st and 92nd");
        check("1990's", "1990s");
        check("President Xi Jinping", "president xi jinping");
        check("It was Henry I.", "it was henry 1");
        check("30%-65%", "30 percent to 65 percent");
        check("J. R. R. Tolkien", "jrr tolkien");
        check("J.R.R. Tolkien", "jrr tolkien");
        check("C++ C# A- A+", "c plus plus c sharp a minus a plus");
        check("Disney+ and Notepad++", "disney plus and notepad plus plus");
        check(
            "25,000+, 50%+, 5 km+",
            "25000 plus , 50 percent plus , 5 km plus",
        );
        check(
            "Romeo+Juliet, 5+6, +7, Jean-",
            "romeo juliet , 5 6 , 7 , jean",
        );
    }
}
