//! Blocks of text to passages of about a hundred words, as the planner and the reader know them.

use spechop_types::is_unspaced;

use crate::document::Block;
use crate::sentences;

/// A passage is ended by the sentence that brings it here.
const WORDS: usize = 100;
/// No passage is longer.
pub const WORDS_MAX: usize = 150;
/// A passage of so many words is ended by the end of its paragraph, or by the next heading.
const WORDS_OF_A_PARAGRAPH: usize = 60;
/// What is left at the end goes with the passage before it, unless it is this long.
const WORDS_OF_A_REST: usize = 30;
/// Longer words, such as URLs, count as one for every four characters. So do those of a script without blanks between
/// words, which are whole sentences.
const WORD_CHARS_MAX: usize = 20;
const CHARS_OF_A_WORD: usize = 4;

/// Cuts at the ends of sentences if that is possible, else between words, else anywhere. Paragraphs
/// of one passage are parted by newlines.
pub fn cut(blocks: &[Block]) -> Vec<String> {
    let mut cutter = Cutter::default();
    for block in blocks {
        cutter.take(block);
    }
    cutter.finish()
}

#[derive(Default)]
struct Cutter {
    done: Vec<String>,
    open: String,
    /// Of `open`.
    words: usize,
    /// Of the last one of `done`.
    words_before: usize,
}

impl Cutter {
    fn take(&mut self, block: &Block) {
        if block.heading && self.words >= WORDS_OF_A_PARAGRAPH {
            self.end();
        }
        let mut gap = "\n";
        for sentence in sentences::split(&block.text) {
            for piece in pieces(sentence) {
                self.add(gap, piece);
                gap = " ";
            }
        }
        if !block.heading && self.words >= WORDS_OF_A_PARAGRAPH {
            self.end();
        }
    }

    fn add(&mut self, gap: &str, text: &str) {
        let words = weight(text);
        if self.words + words > WORDS_MAX {
            self.end();
        }
        if !self.open.is_empty() {
            self.open.push_str(gap);
        }
        self.open.push_str(text);
        self.words += words;
        if self.words >= WORDS {
            self.end();
        }
    }

    fn end(&mut self) {
        if !self.open.is_empty() {
            self.done.push(std::mem::take(&mut self.open));
            self.words_before = std::mem::take(&mut self.words);
        }
    }

    fn finish(mut self) -> Vec<String> {
        let fits = self.words < WORDS_OF_A_REST && self.words + self.words_before <= WORDS_MAX;
        match self.done.last_mut() {
            Some(last) if fits && !self.open.is_empty() => {
                last.push('\n');
                last.push_str(&self.open);
            }
            _ => self.end(),
        }
        self.done
    }
}

/// The sentence whole, or cut so that no piece is longer than a passage may be.
fn pieces(sentence: &str) -> Vec<&str> {
    if weight(sentence) <= WORDS_MAX {
        return vec![sentence];
    }
    let (mut pieces, mut begin, mut end, mut words) = (Vec::new(), 0, 0, 0);
    for word in sentence.split(' ').flat_map(chunks) {
        let at = word.as_ptr().addr() - sentence.as_ptr().addr();
        let more = weight(word);
        if words + more > WORDS {
            pieces.push(sentence[begin..end].trim());
            (begin, words) = (at, 0);
        }
        words += more;
        end = at + word.len();
    }
    pieces.push(sentence[begin..].trim());
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// A word that fits into a passage, or as many pieces of it as are needed.
fn chunks(word: &str) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let cut = rest.char_indices().nth(WORDS * CHARS_OF_A_WORD);
        let (chunk, behind) = rest.split_at(cut.map_or(rest.len(), |(at, _)| at));
        rest = behind;
        Some(chunk)
    })
}

/// How long a text is, in words. A very long word counts as several, and so does one of a script that puts no blanks
/// between words.
pub fn weight(text: &str) -> usize {
    let weight = |word: &str| {
        let chars = word.chars().count();
        match chars > WORD_CHARS_MAX || word.contains(is_unspaced) {
            true => chars.div_ceil(CHARS_OF_A_WORD),
            false => 1,
        }
    };
    text.split_whitespace().map(weight).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: impl Into<String>) -> Block {
        Block {
            text: text.into(),
            heading: false,
            link: false,
        }
    }

    fn heading(text: &str) -> Block {
        Block {
            heading: true,
            link: false,
            ..block(text)
        }
    }

    /// So many words, in sentences of ten.
    fn text(words: usize, word: &str) -> String {
        let ended = |n| format!("{word}{}", if n % 10 == 0 || n == words { "." } else { "" });
        let words: Vec<String> = (1..=words)
            .map(|n| match n % 10 {
                1 => ended(n).to_uppercase(),
                _ => ended(n),
            })
            .collect();
        words.join(" ")
    }

    fn counts(blocks: &[Block]) -> Vec<usize> {
        cut(blocks).iter().map(|passage| weight(passage)).collect()
    }

    #[test]
    fn passages_have_about_a_hundred_words_and_end_with_a_sentence() {
        assert_eq!(counts(&[]), [0; 0]);
        assert_eq!(counts(&[block("A few words.")]), [3]);
        let passages = cut(&[block(text(1000, "ab"))]);
        assert_eq!(passages.len(), 10);
        for passage in &passages {
            assert_eq!(weight(passage), 100);
            assert!(
                passage.starts_with("AB ") && passage.ends_with("ab."),
                "{passage}"
            );
        }
        // A rest goes with the passage before it, if both fit into one.
        assert_eq!(counts(&[block(text(120, "ab"))]), [120]);
        assert_eq!(counts(&[block(text(135, "ab"))]), [100, 35]);
    }

    #[test]
    fn paragraphs_and_headings_end_what_is_long_enough() {
        let (long, short) = (text(70, "ab"), text(20, "cd"));
        assert_eq!(
            counts(&[block(&long), block(&long), block(&long)]),
            [70, 70, 70]
        );
        assert_eq!(
            cut(&[block(&short), heading("Early life"), block(&short)]),
            [format!("{short}\nEarly life\n{short}")]
        );
        let item = || block("A short item");
        assert_eq!(counts(&[(); 60].map(|()| item())), [60, 60, 60]);
        // A heading stands with what it is the heading of.
        let passages = cut(&[
            block(&short),
            block(text(45, "ef")),
            heading("Late life"),
            block(&long),
        ]);
        assert!(passages[1].starts_with("Late life\nAB"), "{passages:?}");
    }

    #[test]
    fn a_sentence_without_blanks_counts_as_several_words() {
        for (text, words) in [
            ("", 0),
            ("Łódź is a town.", 4),
            ("東京", 1),
            ("塞纳河是法国的河流。", 3),
            ("กรุงเทพ 2020年", 4),
        ] {
            assert_eq!(weight(text), words, "{text}");
        }
        let chinese = "塞纳河是法国的河流。".repeat(100);
        let passages = cut(&[block(chinese)]);
        assert!(passages.len() >= 3, "{}", passages.len());
    }

    #[test]
    fn nothing_is_longer_than_a_passage_may_be_and_nothing_is_lost() {
        let endless = "word ".repeat(1000).trim().to_owned();
        let chinese = "字".repeat(5000);
        let url = format!("https://{}", "a/".repeat(3000));
        let mixed = format!("{} {url} {chinese} end", text(90, "ab"));
        for text in [endless, chinese, url, mixed] {
            let passages = cut(&[block(&text)]);
            for passage in &passages {
                assert!((1..=WORDS_MAX).contains(&weight(passage)), "{passage}");
            }
            let squeezed = |text: &str| text.replace([' ', '\n'], "");
            assert_eq!(squeezed(&passages.concat()), squeezed(&text));
        }
    }
}
