//! What a hop's answer rests on.

use crate::{Hop, Passage};

impl Hop {
    /// The passages that its answer rests on: those in which it stands, else the nearest one. None if nothing was
    /// found.
    pub fn cited(&self) -> Vec<&Passage> {
        let Some(seen) = self.observation.as_ref().filter(|seen| seen.found) else {
            return Vec::new();
        };
        let answer = seen.answer.to_lowercase();
        let holds = |passage: &&Passage| passage.text.to_lowercase().contains(&answer);
        let holding: Vec<_> = seen.evidence.iter().filter(holds).collect();
        match holding.is_empty() || answer.is_empty() {
            true => seen.evidence.first().into_iter().collect(),
            false => holding,
        }
    }
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
        assert_eq!(cited("Rome", true), ["a"]);
        assert_eq!(cited("", true), ["a"]);
        assert_eq!(cited("Paris", false), [""; 0]);
        assert!(Hop::default().cited().is_empty());
    }
}
