//! Finding a stop text in a text that grows.

/// Cuts `text` behind the first of `stops` in it and says whether one was there. Everything before
/// byte `seen` has been searched already.
pub(crate) fn cut_at_stop(text: &mut String, seen: usize, stops: &[&str]) -> bool {
    let end = stop_end(text.as_bytes(), seen, stops);
    if let Some(end) = end {
        text.truncate(end);
    }
    end.is_some()
}

/// Where the first of `stops` ends that ends after the byte `seen`. In UTF-8, whole texts can be looked for in
/// bytes that end inside a character.
pub(crate) fn stop_end(bytes: &[u8], seen: usize, stops: &[&str]) -> Option<usize> {
    let ends = stops
        .iter()
        .filter(|stop| !stop.is_empty())
        .filter_map(|stop| {
            // It may have begun before what is new.
            let from = (seen + 1).saturating_sub(stop.len());
            let mut places = bytes.get(from..)?.windows(stop.len());
            let at = places.position(|place| place == stop.as_bytes())?;
            Some(from + at + stop.len())
        });
    ends.min()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn grow(pieces: &[&str], stops: &[&str]) -> (String, bool) {
        let mut text = String::new();
        for piece in pieces {
            let seen = text.len();
            text.push_str(piece);
            if cut_at_stop(&mut text, seen, stops) {
                return (text, true);
            }
        }
        (text, false)
    }

    #[test]
    fn finds_a_stop_text_however_it_is_cut() {
        for (pieces, stops, text, found) in [
            (vec!["a</q>b"], vec!["</q>"], "a</q>", true),
            (vec!["é</", "q", ">b"], vec!["</q>"], "é</q>", true),
            (vec!["a</a>b</q>"], vec!["</q>", "</a>"], "a</a>", true),
            (vec!["ü", "ü"], vec!["</q>"], "üü", false),
            (vec!["abc"], vec![""], "abc", false),
            (vec!["abc"], vec![], "abc", false),
        ] {
            assert_eq!(grow(&pieces, &stops), (text.to_owned(), found));
        }
    }

    proptest! {
        /// Arriving in pieces changes nothing.
        #[test]
        fn pieces_do_not_matter(text in "[aé<>/q]{0,40}", cuts in prop::collection::vec(0..40usize, 0..5)) {
            let stops = ["</q>", "aé"];
            let mut cuts: Vec<_> = cuts.iter().map(|&at| text.floor_char_boundary(at)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<_> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            prop_assert_eq!(grow(&pieces, &stops), grow(&[&text], &stops));
        }
    }
}
