//! What may have been meant by a word that nobody knows.

/// The known word that differs least, if it is close enough to have been meant.
pub(super) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let last = |key: &str| key.rsplit('.').next().unwrap_or(key).to_owned();
    known
        .map(|other| {
            let edits = distance(word, other);
            // The right name in the wrong section is as near as a slip of the finger, and the nearest section is meant.
            let distance = if last(other) == last(word) { 1 } else { edits };
            (distance, edits, other)
        })
        .filter(|(distance, _, other)| *distance <= 2.max(other.len() / 5))
        .min()
        .map(|(.., other)| other.to_owned())
}

/// Levenshtein's edit distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_edits() {
        for (a, b, edits) in [
            ("", "", 0),
            ("kitten", "sitting", 3),
            ("question.kk", "question.k", 1),
        ] {
            assert_eq!(distance(a, b), edits);
            assert_eq!(distance(b, a), edits);
        }
    }

    #[test]
    fn suggests_only_what_may_have_been_meant() {
        let known = [
            "drafter.kind",
            "generator.kind",
            "question.k",
            "question.passages",
            "server.listen",
        ];
        for (word, hint) in [
            ("question.passsages", Some("question.passages")),
            ("server.passages", Some("question.passages")),
            ("listen", Some("server.listen")),
            ("colour.of.the.sky", None),
            ("generatr.kind", Some("generator.kind")),
        ] {
            assert_eq!(nearest(word, known.into_iter()).as_deref(), hint, "{word}");
        }
    }
}
