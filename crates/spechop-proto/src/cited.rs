//! What a hop's answer rests on.

use spechop_types::canonical_name;

use crate::{Hop, Passage};

impl Hop {
    /// The passages that its answer rests on: those in which it stands, as words if it does so in any, else the
    /// nearest one, on which a yes or a no rests, too. None if nothing was found. The page of the server has the same rule (`panels.js`).
    pub fn cited(&self) -> Vec<&Passage> {
        let Some(seen) = self.observation.as_ref().filter(|seen| seen.found) else {
            return Vec::new();
        };
        let nearest: Vec<_> = seen.evidence.first().into_iter().collect();
        let (words, letters) = (in_words(&seen.answer), seen.answer.to_lowercase());
        if matches!(words.trim(), "" | "yes" | "no") {
            return nearest;
        }
        let holding = |holds: &dyn Fn(&str) -> bool| -> Vec<&Passage> {
            let passages = seen.evidence.iter();
            passages.filter(|passage| holds(&passage.text)).collect()
        };
        let by_words = holding(&|text| in_words(text).contains(&words));
        let by_letters = holding(&|text| text.to_lowercase().contains(&letters));
        let mut held = [by_words, by_letters].into_iter();
        held.find(|passages| !passages.is_empty())
            .unwrap_or(nearest)
    }
}

/// The words of a text, each between spaces. A letter of a script that does not part words counts as one.
fn in_words(text: &str) -> String {
    let mut parted = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_unparted(letter) {
            parted.extend([' ', letter, ' ']);
        } else {
            parted.push(letter);
        }
    }
    format!(" {} ", canonical_name(&parted))
}

/// Whether words of its script stand side by side or, in Korean, with their particles: Thai, Lao, Burmese and Khmer,
/// then Korean, Chinese and Japanese.
fn is_unparted(letter: char) -> bool {
    matches!(letter,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{1100}'..='\u{11ff}' | '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7ff}'
        | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ffdc}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Observation;

    #[test]
    fn an_answer_rests_on_what_holds_it() {
        let passage = |id: &str, text: &str| Passage {
            passage_id: id.into(),
            text: text.into(),
            ..Passage::default()
        };
        let cited = |answer: &str, found| {
            let hop = Hop {
                observation: Some(Observation {
                    answer: answer.into(),
                    found,
                    evidence: vec![
                        passage("a", "Nothing of it."),
                        passage("b", "She died in Paris."),
                        passage("c", "PARIS is a city."),
                        passage("d", "Nigeria is large."),
                        passage("e", "It lies in Niger."),
                        passage("f", "He moved to New\nYork."),
                        passage("g", "日本の首都は東京である。"),
                        passage("h", "東京（とうきょう）は日本の都市。"),
                        passage("i", "NHK의 서울은 크다."),
                        passage("j", "한국: 서울 (NHK)."),
                        passage("k", "C is older than C++."),
                        passage("l", "B is older than C."),
                        passage("m", "No. 1 in the charts."),
                    ],
                }),
                ..Hop::default()
            };
            let cited = hop.cited();
            cited
                .iter()
                .map(|p| p.passage_id.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(cited("Paris", true), ["b", "c"]);
        assert_eq!(cited("Niger", true), ["e"]);
        assert_eq!(cited("New York", true), ["f"]);
        // Letters stand beside it in most texts of a script that does not part words.
        assert_eq!(cited("東京", true), ["g", "h"]);
        assert_eq!(cited("서울", true), ["i", "j"]);
        assert_eq!(cited("NHK", true), ["i", "j"]);
        assert_eq!(cited("Rome", true), ["a"]);
        // Signs behind a letter make another name.
        assert_eq!(cited("C++", true), ["k"]);
        assert_eq!(cited("", true), ["a"]);
        assert_eq!(cited("no", true), ["a"]);
        assert_eq!(cited("No.", true), ["a"]);
        assert_eq!(cited("Paris", false), [""; 0]);
        assert!(Hop::default().cited().is_empty());
    }
}
