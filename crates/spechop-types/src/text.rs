//! The one way in which two texts are made comparable, and the one in which answers are scored.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Folds a text for comparison: lower case, diacritics and punctuation removed, white space folded
/// to single spaces (SpecHop, appendix D.4). Idempotent.
///
/// Letters without a decomposition (`ø`, `ł`, `đ`, `ß`, `æ`, `œ`) are spelled out, since Wikipedia
/// titles write them both ways. An apostrophe or a full stop disappears (`O'Brien`, `U.S.` →
/// `obrien`, `us`), save between digits (`1.5` → `1 5`, not `15`); other punctuation separates words.
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
        let seen = text.chars().filter(|c| !is_unseen(*c));
        fold(seen.nfkd().filter(|c| !is_accent(*c)), &mut out);
    }
    out
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
                // Lower-casing `İ` yields a combining dot, which NFKD had already split off.
                low if is_accent(low) => {}
                low => out.push(low),
            }
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
    fn folds_case_diacritics_punctuation_and_spaces() {
        for (text, folded) in [
            ("Halcón  Suriano, Jr.", "halcon suriano jr"),
            ("Björk Guðmundsdóttir", "bjork gudmundsdottir"),
            ("Łódź–Straße", "lodz strasse"),
            ("the U.S. O'Brien", "the us obrien"),
            ("İstanbul", "istanbul"),
            ("ﬁve ½", "five 1 2"),
            ("1.5 m.", "1 5 m"),
            ("  …  ", ""),
            ("Ёлка", "елка"),
            ("Donau\u{ad}dampf", "donaudampf"),
            ("\u{feff}1.\u{2060}5\u{200e} m", "1 5 m"),
            ("a\u{200b}b\u{200c}c", "a b c"),
        ] {
            assert_eq!(canonical(text), folded);
            assert_eq!(canonical(folded), folded);
        }
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
