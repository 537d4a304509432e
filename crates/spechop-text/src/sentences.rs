//! Where sentences end.

/// Short forms whose full stop ends no sentence.
const SHORT_FORMS: &[&str] = &[
    "approx", "bros", "ca", "capt", "cf", "co", "col", "corp", "dr", "e.g", "est", "etc", "fig",
    "fl", "gen", "gov", "hon", "i.e", "inc", "jr", "lt", "ltd", "maj", "mr", "mrs", "ms", "mt",
    "no", "nos", "op", "pp", "prof", "rev", "sen", "sgt", "sr", "st", "vol", "vs",
];

/// The sentences of a text whose white space is folded, in order; joined with spaces, or with nothing
/// after `。`, they are the text again. In doubt two sentences stay one.
pub(crate) fn split(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut begin = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, mark)) = chars.next() {
        if !is_end(mark) {
            continue;
        }
        let closes = |c: &char| matches!(c, '"' | '\'' | ')' | ']' | '}' | '»' | '”' | '’' | '」');
        let more = |c: &char| is_end(*c) || closes(c);
        while chars.next_if(|(_, c)| more(c)).is_some() {}
        let end = chars.peek().map_or(text.len(), |(end, _)| *end);
        let rest = &text[end..];
        let ended = match rest.strip_prefix(' ') {
            Some(rest) => {
                let goes_on = rest.starts_with(char::is_lowercase);
                let shortened = mark == '.' && is_short(&text[begin..at]);
                !goes_on && !shortened
            }
            None => is_wide(mark),
        };
        if ended && !rest.is_empty() {
            sentences.push(&text[begin..end]);
            begin = end + usize::from(rest.starts_with(' '));
        }
    }
    sentences.push(&text[begin..]);
    sentences
}

/// Whether a sentence may end with this mark: a full stop or a question mark of any script that has its own.
pub(crate) fn is_end(mark: char) -> bool {
    is_wide(mark)
        || matches!(
            mark,
            '.' | '!' | '?' | '…' | '।' | '॥' | '؟' | '۔' | '።' | '፧'
        )
}

/// Whether the next sentence begins right behind this mark.
fn is_wide(mark: char) -> bool {
    matches!(mark, '。' | '！' | '？')
}

/// Whether a full stop behind `text` ends a short form or an initial.
fn is_short(text: &str) -> bool {
    let word = text
        .rsplit([' ', '(', '"', '“', '-'])
        .next()
        .unwrap_or(text);
    let initial = word.chars().count() == 1 && word.starts_with(char::is_alphabetic)
        || word.ends_with(|c: char| c.is_uppercase())
            && word
                .rsplit_once('.')
                .is_some_and(|(_, last)| last.chars().count() == 1);
    initial || SHORT_FORMS.contains(&&*word.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_where_a_reader_would_end_them() {
        for (text, expected) in [
            ("", &[""][..]),
            ("No end", &["No end"]),
            ("One. Two! Three? Four", &["One.", "Two!", "Three?", "Four"]),
            (
                "Mr. Smith met Dr. Who. Good.",
                &["Mr. Smith met Dr. Who.", "Good."],
            ),
            (
                "J. R. R. Tolkien wrote. He slept.",
                &["J. R. R. Tolkien wrote.", "He slept."],
            ),
            ("The U.S. Army came.", &["The U.S. Army came."]),
            (
                "Стихи А.С. Пушкина. Он жил.",
                &["Стихи А.С. Пушкина.", "Он жил."],
            ),
            (
                "It cost 3.5 million. 1990 came.",
                &["It cost 3.5 million.", "1990 came."],
            ),
            (
                "He said \"Go.\" She went.",
                &["He said \"Go.\"", "She went."],
            ),
            (
                "e.g. this, i.e. that. ok then",
                &["e.g. this, i.e. that. ok then"],
            ),
            ("Wait... What?! Yes.", &["Wait...", "What?!", "Yes."]),
            ("彼は行った。彼女も。", &["彼は行った。", "彼女も。"]),
            (
                "दिल्ली राजधानी है। वह बड़ी है।",
                &["दिल्ली राजधानी है।", "वह बड़ी है।"],
            ),
            ("من هو؟ هو كاتب.", &["من هو؟", "هو كاتب."]),
            (
                "See example.com. Élan came.",
                &["See example.com.", "Élan came."],
            ),
        ] {
            assert_eq!(split(text), expected);
        }
    }
}
