//! What the hops of a comparison found, and what the question calls that which it is about.

use spechop_ports::{KnownHop, PlanRequest};

use super::{has_found, plain, sub_answer};

/// Something that was found, and led no further.
pub(super) struct End {
    /// The sub-question in small letters, without the name.
    pub(super) asked: String,
    pub(super) found: String,
    /// What it was found of, as the question calls it. A question about the directors of two films names the films.
    pub(super) name: String,
    /// Whether the sub-question has that name, and not what was found by it.
    pub(super) is_direct: bool,
}

/// All ends, in the order in which they were found. `None` if the question does not name what one of them is about.
pub(super) fn named_ends(request: &PlanRequest) -> Option<Vec<End>> {
    let found: Vec<&KnownHop> = request.hops.iter().filter(|hop| has_found(hop)).collect();
    let question = plain(request.question.as_str());
    let end = |at: usize| {
        let asked = plain(found[at].sub_question.as_str());
        let by = found_by(&found[..at], &asked, &question);
        let named_in = by.map(|hop| plain(hop.sub_question.as_str()));
        let name = common_name(named_in.as_ref().unwrap_or(&asked), &question)?;
        Some(End {
            name: name.to_owned(),
            is_direct: named_in.is_none(),
            found: sub_answer(&found[at].answer),
            asked: asked.replace(name, "").to_lowercase(),
        })
    };
    ends(&found).into_iter().map(end).collect()
}

/// The hops of which no later one asks on.
pub(super) fn ends(found: &[&KnownHop]) -> Vec<usize> {
    let leads_on = |at: usize| {
        let answer = sub_answer(&found[at].answer);
        let mut later = found[at + 1..].iter();
        later.any(|later| later.sub_question.as_str().contains(&answer))
    };
    (0..found.len()).filter(|at| !leads_on(*at)).collect()
}

/// The hop that found what a sub-question asks about, unless the question names that itself.
fn found_by<'a>(before: &[&'a KnownHop], asked: &str, question: &str) -> Option<&'a KnownHop> {
    let about = before.iter().rev().filter(|hop| {
        let answer = sub_answer(&hop.answer);
        asked.contains(&answer)
    });
    let nearest = about.max_by_key(|hop| sub_answer(&hop.answer).len());
    nearest
        .copied()
        .filter(|hop| !question.contains(&sub_answer(&hop.answer)))
}

/// The longest run of words of a sub-question that stands in the question, too, from a word on that begins as names do
/// to the end of the name.
fn common_name<'a>(asked: &'a str, question: &str) -> Option<&'a str> {
    let words: Vec<&str> = asked.split(' ').collect();
    let begin = |word: &str| word.as_ptr() as usize - asked.as_ptr() as usize;
    let run = |from: usize, to: usize| {
        let shown = words[to].trim_end_matches(['?', ',']);
        let owns = ["'s", "’s", "'", "’"];
        let bare = owns.iter().find_map(|own| shown.strip_suffix(own));
        let ends = [Some(shown), bare].into_iter().flatten();
        let mut runs = ends.map(|end| &asked[begin(words[from])..begin(end) + end.len()]);
        runs.find(|run| stands_in(run, question))
    };
    let is_name = |at: &usize| {
        let word = words[*at].trim_start_matches(|c: char| !c.is_alphanumeric());
        word.starts_with(|c: char| c.is_uppercase() || c.is_numeric())
    };
    let mut longest = "";
    let mut from = 0;
    for to in 0..words.len() {
        while from <= to && run(from, to).is_none() {
            from += 1;
        }
        let name = (from..=to).find(is_name);
        if let Some(name) = name.and_then(|name| run(name, to))
            && name.len() > longest.len()
            // A verb behind the name can be the same in both.
            && (is_name(&to) || ends_with_name(name, question))
            // Both may begin with what is asked.
            && !(asked.starts_with(name) && question.starts_with(name))
        {
            longest = name;
        }
    }
    (!longest.is_empty()).then_some(longest)
}

/// Whether a question lists something else behind these words, or ends.
fn ends_with_name(words: &str, question: &str) -> bool {
    question.match_indices(words).any(|(at, _)| {
        let behind = &question[at + words.len()..];
        behind.is_empty()
            || ["?", ",", " or ", " and "]
                .iter()
                .any(|next| behind.starts_with(next))
    })
}

/// Whether a text holds these words, and not as parts of longer ones.
fn stands_in(words: &str, text: &str) -> bool {
    text.match_indices(words).any(|(at, _)| {
        let (before, behind) = (&text[..at], &text[at + words.len()..]);
        !before.ends_with(char::is_alphanumeric) && !behind.starts_with(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::super::closing::tests::request;
    use super::*;

    #[test]
    fn an_end_is_about_what_the_question_names() {
        let hops = [
            (
                "Who is the director of the film The Blue Kite?",
                "Amy Dunne",
            ),
            ("When did Amy Dunne die?", "2001"),
            ("Where is Amy Dunne?", "No relevant information found"),
            ("Who directed Kangaroo?", "Ben Birk,"),
            ("When did Ben Birk die?", "3 May 1999"),
        ];
        let names = |question: &str, hops: &[(&str, &str)]| {
            let ends = named_ends(&request(question, hops))?;
            let shown = |end: End| format!("{} {} {}", end.name, end.found, end.is_direct);
            Some(ends.into_iter().map(shown).collect::<Vec<_>>())
        };
        let film = "Which film has the director who died later, The Blue Kite or Kangaroo?";
        let named = ["The Blue Kite 2001 false", "Kangaroo 3 May 1999 false"].map(str::to_owned);
        assert_eq!(names(film, &hops), Some(named.to_vec()));
        let first = "The Blue Kite Amy Dunne true".to_owned();
        assert_eq!(names(film, &hops[..1]), Some(vec![first]));
        assert_eq!(names("Who died later, Carl Cole or Dan Dunn?", &hops), None);
    }

    #[test]
    fn the_name_is_the_longest_one_in_common() {
        for (asked, question, expected) in [
            (
                "Who directed Blue Kite?",
                "Blue Kite or Kite?",
                Some("Blue Kite"),
            ),
            (
                "Who is the director of Ed?",
                "Is the director of Ed old?",
                Some("Ed"),
            ),
            (
                "Who Is It? was directed by whom?",
                "Who is older, Up or Who Is It?",
                Some("Who Is It"),
            ),
            (
                "When was Ann, Lady Ash born?",
                "Is Ann, Lady Ash old?",
                Some("Ann, Lady Ash"),
            ),
            (
                "Who wrote 1984?",
                "When did the author of 1984 die?",
                Some("1984"),
            ),
            (
                "Which country is Ash in?",
                "Are Ashes and Ash in one country?",
                Some("Ash"),
            ),
            ("When was Élan born?", "Who is Élan?", Some("Élan")),
            (
                "When was Jan de Vries born?",
                "Is Jan de Vries old?",
                Some("Jan de Vries"),
            ),
            ("Who is she?", "Who is she?", None),
            ("Who", "Who", None),
            ("", "", None),
        ] {
            assert_eq!(common_name(asked, question), expected, "{asked}");
        }
    }
}
