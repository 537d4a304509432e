//! The one way in which two texts are made comparable, the one in which answers are scored, and those in
//! which a text is cut and put on one line.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Folds a text for comparison: lower case, diacritics and punctuation removed, white space folded
/// to single spaces (SpecHop, appendix D.4). Idempotent.
///
/// Letters without a decomposition (`ø`, `ł`, `đ`, `ß`, `æ`, `œ`) are spelled out, since Wikipedia
/// titles write them both ways. An apostrophe or a full stop disappears (`O'Brien`, `U.S.` →
/// `obrien`, `us`), save between digits (`1.5` → `1 5`, not `15`); other punctuation separates words.
/// Digits of other scripts become those of ASCII (`३.५` → `3 5`).
/// Marks that make another letter rather than an accent stay: the vowel signs of Indic scripts, the
/// voicing marks of kana (`が` is not `か`). What nobody sees disappears: a soft hyphen within a word, the
/// character behind `❤` that asks for colour.
pub fn canonical(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    if text.is_ascii() {
        // Most texts are, and it is the greater part of the work: nothing to take apart.
        fold(text.chars(), &mut out);
    } else {
        // First what nobody sees: marks on both sides of it come into one order then.
        let seen = text.chars().filter(|c| !is_unseen(*c)).map(plain_figure);
        fold(seen.nfkd().filter(|c| !is_accent(*c)), &mut out);
    }
    out
}

/// [`canonical`], with the signs spelled out that stand behind a letter and make another name: C++, C# and C are
/// three, C♯ is C#.
pub fn canonical_name(text: &str) -> String {
    let sign = |c: char| match c {
        '+' | '＋' => Some(" plus"),
        '#' | '＃' | '♯' => Some(" sharp"),
        '♭' => Some(" flat"),
        _ => None,
    };
    if !text.contains(|c| sign(c).is_some()) {
        return canonical(text);
    }
    let mut spelled = String::with_capacity(text.len() + 8);
    let mut is_behind_letter = false;
    for c in text.chars() {
        match sign(c) {
            Some(name) if is_behind_letter => spelled.push_str(name),
            _ => {
                spelled.push(c);
                is_behind_letter = c.is_alphabetic() || is_combining_mark(c);
            }
        }
    }
    canonical(&spelled)
}

/// Whether it is an address to which a browser may be led: other schemes could be scripts.
pub fn is_web(address: &str) -> bool {
    address.starts_with("https://") || address.starts_with("http://")
}

/// A word that is longer is cut, too: some scripts have no gaps between words.
const WORD_CHARS_MAX: usize = 100;

/// At most so many characters, cut between words if there is a gap near the end.
pub fn cut_at_word(text: &str, chars_max: usize) -> &str {
    let Some((end, _)) = text.char_indices().nth(chars_max) else {
        return text;
    };
    let (head, rest) = text.split_at(end);
    if rest.starts_with(char::is_whitespace) {
        return head.trim_end();
    }
    match head.rfind(char::is_whitespace) {
        Some(gap) if head[gap..].chars().count() <= WORD_CHARS_MAX => head[..gap].trim_end(),
        _ => head,
    }
}

/// The words of a text: what stands between white space and control characters.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
}

/// The words of a text, parted by single blanks: on one line, and without control characters, which steer a
/// terminal.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in words(text) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

const ARTICLES: [&str; 3] = ["a", "an", "the"];

/// An answer as scorers of question answering see it, by SQuAD's rules: lower case, without ASCII
/// punctuation, without articles, with single blanks.
///
/// As Python has it in `\b(a|an|the)\b`, an article is a whole run of letters and digits. Python counts no
/// combining mark among them, Rust counts vowel signs of some scripts: an article that touches one would be
/// kept here. No English text has that.
pub fn normalise(answer: &str) -> String {
    let bare: String = answer
        .to_lowercase()
        .chars()
        .filter(|c| !c.is_ascii_punctuation())
        .collect();
    let mut spaced = String::with_capacity(bare.len());
    let mut rest = bare.as_str();
    while let Some(first) = rest.chars().next() {
        let in_word = first.is_alphanumeric();
        let end = rest
            .find(|c: char| c.is_alphanumeric() != in_word)
            .unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        spaced.push_str(if ARTICLES.contains(&run) { " " } else { run });
        rest = after;
    }
    let words: Vec<&str> = spaced
        .split(is_blank)
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" ")
}

/// What Python's `str.split` splits at: the four separators below are blanks to it, and not to Rust.
fn is_blank(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn fold(chars: impl Iterator<Item = char>, out: &mut String) {
    let mut gap = false;
    let mut chars = chars.peekable();
    while let Some(c) = chars.next() {
        if matches!(c, '\'' | '’' | '‘' | 'ʼ' | '`' | '.') {
            let in_number = out.ends_with(|c: char| c.is_ascii_digit())
                && chars.peek().is_some_and(char::is_ascii_digit);
            gap |= in_number;
            continue;
        }
        let is_mark = || !c.is_ascii() && is_combining_mark(c);
        if !c.is_alphanumeric() && !is_mark() {
            gap = true;
            continue;
        }
        if gap && !out.is_empty() {
            out.push(' ');
        }
        gap = false;
        if c.is_ascii() {
            out.push(c.to_ascii_lowercase());
            continue;
        }
        for low in c.to_lowercase() {
            match low {
                'ø' => out.push('o'),
                'ł' => out.push('l'),
                'đ' | 'ð' => out.push('d'),
                'þ' => out.push_str("th"),
                'ß' => out.push_str("ss"),
                'æ' => out.push_str("ae"),
                'œ' => out.push_str("oe"),
                'ı' => out.push('i'),
                // How a sigma is written at the end of a word; no capital letter tells.
                'ς' => out.push('σ'),
                // Lower-casing `İ` yields a combining dot, which NFKD had already split off.
                low if is_accent(low) => {}
                low => out.push(low),
            }
        }
    }
}

/// The zeros of scripts that have digits of their own (category Nd of Unicode 16.0). Behind each
/// stand one to nine.
const ZEROS: &[u32] = &[
    0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6,
    0xe50, 0xed0, 0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50,
    0x1bb0, 0x1c40, 0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0x104a0,
    0x10d30, 0x10d40, 0x11066, 0x110f0, 0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650,
    0x116c0, 0x116d0, 0x116da, 0x11730, 0x118e0, 0x11950, 0x11bf0, 0x11c50, 0x11d50, 0x11da0,
    0x11f50, 0x16130, 0x16a60, 0x16ac0, 0x16b50, 0x16d70, 0x1e140, 0x1e2f0, 0x1e4f0, 0x1e5f1,
    0x1e950,
];

/// A digit of another script as that of ASCII, and the signs that Arabic has in numbers: `٣٫٥` is
/// `3.5`.
///
/// Other forms of ASCII's digits, such as those of full width, are left to NFKD and NFKC.
pub fn plain_figure(c: char) -> char {
    match c {
        '٪' => '%',
        '٫' => '.',
        '٬' => ',',
        c if c.is_ascii() => c,
        c => {
            let code = u32::from(c);
            let zeros = ZEROS.partition_point(|zero| *zero <= code);
            let digit = ZEROS[..zeros].last().map(|zero| code - zero);
            digit
                .and_then(|digit| char::from_digit(digit, 10))
                .unwrap_or(c)
        }
    }
}

/// Does this character only say how its neighbours are to be set: where a line may break, which letters are
/// joined, which way is forward, which form of a sign is meant?
///
/// Not U+200B and U+200C, which part words in some scripts.
pub fn is_unseen(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{2060}' | '\u{feff}'
        | '\u{200d}'..='\u{200f}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

/// Is this a character of a script that puts no blanks between words: Thai, Lao, Burmese, Khmer, or Chinese and
/// Japanese characters? Other forms of these are not among them, such as those of half the width: [`canonical`]
/// folds them.
pub fn is_unspaced(c: char) -> bool {
    matches!(
        c,
        '\u{e00}'..='\u{eff}'
            | '\u{1000}'..='\u{109f}'
            | '\u{1780}'..='\u{17ff}'
            | '\u{3005}'..='\u{3007}'
            | '\u{3040}'..='\u{30ff}'
            | '\u{31f0}'..='\u{31ff}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}'
            | '\u{20000}'..='\u{3ffff}'
    )
}

/// Can nobody see this character? Those are Unicode's category Cf and what has the property
/// Default_Ignorable_Code_Point (Unicode 16.0).
///
/// Far more than [`is_unseen`]: some of these part words, and some are letters of a script.
pub fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{600}'..='\u{605}'
            | '\u{61c}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{890}'..='\u{891}'
            | '\u{8e2}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{110bd}'
            | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Is this mark an accent (Latin, Greek, Cyrillic) or an optional point (Hebrew, Arabic), so that
/// the text without it is still the same word?
fn is_accent(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{36f}'
        | '\u{483}'..='\u{487}'
        | '\u{591}'..='\u{5bd}' | '\u{5bf}' | '\u{5c1}'..='\u{5c2}' | '\u{5c4}'..='\u{5c5}' | '\u{5c7}'
        | '\u{64b}'..='\u{65f}' | '\u{670}'
        | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}'
        | '\u{fe20}'..='\u{fe2f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_behind_letters_make_another_name() {
        for (text, name) in [
            ("When did C++ appear?", "when did c plus plus appear"),
            (
                "Prelude in C♯, é♭ and C＃",
                "prelude in c sharp e flat and c sharp",
            ),
            ("sub-question #1 of 2 + 2", "sub question 1 of 2 2"),
            ("+", ""),
        ] {
            assert_eq!(canonical_name(text), name, "{text}");
        }
        let older = ["Is C++ older than C?", "Is C older than C++?"].map(canonical_name);
        assert_ne!(older[0], older[1]);
    }

    #[test]
    fn folds_case_diacritics_punctuation_and_spaces() {
        for (text, folded) in [
            ("Halcón  Suriano, Jr.", "halcon suriano jr"),
            ("Björk Guðmundsdóttir", "bjork gudmundsdottir"),
            ("Łódź–Straße", "lodz strasse"),
            ("the U.S. O'Brien", "the us obrien"),
            ("İstanbul", "istanbul"),
            ("ﬁve ½", "five 1 2"),
            ("1.5 m.", "1 5 m"),
            ("३.५ m.", "3 5 m"),
            ("٣٫٥٪ ۱۲٬۰۰۰", "3 5 12 000"),
            ("ปี๒๕๐๐", "ปี2500"),
            ("  …  ", ""),
            ("Ёлка", "елка"),
            ("ΣΩΚΡΆΤΗΣ", "σωκρατησ"),
            ("Σωκράτης", "σωκρατησ"),
            ("Donau\u{ad}dampf", "donaudampf"),
            ("\u{feff}1.\u{2060}5\u{200e} m", "1 5 m"),
            ("a\u{200b}b\u{200c}c", "a b c"),
        ] {
            assert_eq!(canonical(text), folded);
            assert_eq!(canonical(folded), folded);
        }
    }

    #[test]
    fn digits_of_any_script_are_those_of_ascii() {
        assert!(ZEROS.is_sorted());
        for zero in ZEROS {
            for value in 0_u32..10 {
                let digit = char::from_u32(zero + value).unwrap();
                assert!(digit.is_numeric(), "{digit:?}");
                assert_eq!(plain_figure(digit).to_digit(10), Some(value), "{digit:?}");
            }
        }
        for other in ['7', '.', 'a', '½', '⁹', '万', '༪', '\u{10ffff}'] {
            assert_eq!(plain_figure(other), other);
        }
    }

    #[test]
    fn one_line_has_words_and_single_blanks() {
        for (text, line) in [
            ("", ""),
            (" \n\u{0}", ""),
            ("a\n\u{1b}[2Jb  c\t", "a [2Jb c"),
            ("a\u{2028}b\u{85}c\u{9b}31m", "a b c 31m"),
        ] {
            assert_eq!(one_line(text), line, "{text:?}");
        }
    }

    #[test]
    fn a_text_is_cut_at_a_word_if_one_ends_there() {
        for (text, chars_max, cut) in [
            ("one two", 7, "one two"),
            ("one two", 6, "one"),
            ("one two", 4, "one"),
            ("one two", 3, "one"),
            ("one two", 2, "on"),
            ("één twee", 5, "één"),
            ("éééé", 2, "éé"),
            ("a", 0, ""),
            ("", 3, ""),
        ] {
            assert_eq!(cut_at_word(text, chars_max), cut, "{text:?} {chars_max}");
        }
        let few_gaps = format!("東京 {}", "か".repeat(1_000));
        assert_eq!(cut_at_word(&few_gaps, 500).chars().count(), 500);
    }

    #[test]
    fn plain_texts_fold_as_others_do() {
        let marks = " \t.,'`-/()\u{7f}";
        for text in ["It's 1.5. A", "U.S.-", "..1", "1.2.3 a.b", "`q' (x)"] {
            for mark in marks.chars() {
                let plain = text.replace(' ', &mark.to_string());
                // The word at the end takes it the other way.
                let other = canonical(&format!("{plain} é"));
                assert_eq!(canonical(&plain) + " e", other, "{plain:?}");
            }
        }
    }

    #[test]
    fn keeps_marks_that_make_another_letter() {
        assert_ne!(canonical("がき"), canonical("かき"));
        assert_ne!(canonical("की"), canonical("के"));
        assert_eq!(canonical("がき"), canonical("か\u{3099}き"));
        // Whatever stands between them, in whichever order they are.
        let marked = canonical("क\u{94d}\u{200d}\u{93c}");
        assert_eq!(marked, canonical("क\u{93c}\u{94d}"));
        assert_eq!(marked, canonical(&marked));
        assert_eq!(canonical("❤\u{fe0f}"), canonical("❤"));
    }
}
