//! An answer in the words of OpenAI: reasoning, citations, usage.

use std::fmt::Write;
use std::ops::Range;

use serde_json::{Value, json};
use spechop_proto::{AskResponse, CommitKind, Hop, Passage};
use spechop_types::{is_web, one_line};

use crate::doors::worth;
use crate::links::Base;

/// A hop as a line of reasoning.
pub(super) fn hop_line(number: usize, hop: &Hop) -> String {
    let how = match hop.kind() {
        CommitKind::Accepted => ", as guessed",
        CommitKind::Rejected => ", not as guessed",
        CommitKind::Observed | CommitKind::Unspecified => "",
    };
    let (asked, found) = (one_line(&hop.sub_question), one_line(&hop.sub_answer));
    format!("{number}. {asked} → {found}{how}\n")
}

/// Hops from the first one on, as lines of reasoning.
pub(super) fn hop_lines(hops: &[Hop]) -> String {
    let lines = (1..).zip(hops);
    lines.map(|(number, hop)| hop_line(number, hop)).collect()
}

/// Tokens of all calls, wasted ones included.
pub(super) fn usage(answer: &AskResponse) -> Value {
    let usage = answer.usage.unwrap_or_default();
    let calls = [
        usage.segments,
        usage.targets,
        usage.speculations,
        usage.drafts,
    ];
    let (mut prompt, mut completion) = (0_u64, 0_u64);
    for calls in calls.into_iter().flatten() {
        prompt = prompt.saturating_add(calls.prompt_tokens);
        completion = completion.saturating_add(calls.completion_tokens);
    }
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt.saturating_add(completion),
    })
}

/// What OpenAI's form has no place for, in an object of our own.
pub(super) fn ours(answer: &AskResponse) -> Value {
    match &answer.confidence {
        Some(sure) => json!({ "confidence": worth(sure) }),
        None => json!({}),
    }
}

/// Where passages can be looked up.
pub(super) struct Citing {
    /// The address of this server as the client knows it, if it shows passages.
    pub(super) base: Option<Base>,
}

impl Citing {
    /// The answer with a marker for each passage that a hop rests on, and what each marker cites. What is said
    /// in place of an answer that is withheld rests on none.
    pub(super) fn said<'a>(&self, answer: &'a AskResponse) -> Said<'a> {
        let mut content = answer.answer.clone();
        let mut at = content.chars().count();
        let mut sources: Vec<Source<'_>> = Vec::new();
        let sure = answer.confidence.as_ref();
        let is_withheld = sure.is_some_and(|sure| sure.withheld.is_some());
        for hop in answer.hops.iter().filter(|_| !is_withheld) {
            let Some(passage) = hop.cited().into_iter().next() else {
                continue;
            };
            let Some(url) = self.url(passage) else {
                continue;
            };
            // Two texts that clients have left may have one name, and then an address each.
            let is_known = |known: &Source<'_>| {
                known.passage.passage_id == passage.passage_id && known.url == url
            };
            if sources.iter().any(is_known) {
                continue;
            }
            let marker = format!(" [{}]", sources.len() + 1);
            content += &marker;
            let end = at + marker.chars().count();
            sources.push(Source {
                passage,
                url,
                // The blank before it is no part of the marker.
                marker: at + 1..end,
            });
            at = end;
        }
        Said { content, sources }
    }

    fn url(&self, passage: &Passage) -> Option<String> {
        let own = || {
            let base = self.base.as_ref()?;
            base.passage(&passage.passage_id)
        };
        passage.url.clone().filter(|url| is_web(url)).or_else(own)
    }
}

/// An answer with its markers.
pub(super) struct Said<'a> {
    content: String,
    /// In the order of the markers.
    pub(super) sources: Vec<Source<'a>>,
}

/// A passage that an answer cites.
pub(super) struct Source<'a> {
    pub(super) passage: &'a Passage,
    /// Where it can be read.
    pub(super) url: String,
    /// Where its marker stands in the content, in code points.
    marker: Range<usize>,
}

impl Said<'_> {
    /// The content. For clients that show no annotations, a list of the sources can stand below it.
    pub(super) fn text(&self, with_footer: bool) -> String {
        let mut text = self.content.clone();
        if with_footer && !self.sources.is_empty() {
            text += "\n\nSources:\n";
            for (number, source) in (1..).zip(&self.sources) {
                let title = one_line(&source.passage.title);
                // Writing to a string cannot fail.
                let _ = writeln!(text, "[{number}] {title}: {}", source.url);
            }
        }
        text
    }

    /// What each marker cites, in OpenAI's form.
    pub(super) fn annotations(&self) -> Vec<Value> {
        let annotation = |source: &Source<'_>| {
            json!({
                "type": "url_citation",
                "url_citation": {
                    "url": source.url,
                    "title": source.passage.title,
                    "start_index": source.marker.start,
                    "end_index": source.marker.end,
                },
            })
        };
        self.sources.iter().map(annotation).collect()
    }
}

#[cfg(test)]
mod tests {
    use spechop_proto::{Calls, Confidence, Observation, Usage};

    use super::*;

    fn hop(id: &str, url: Option<&str>) -> Hop {
        let passage = Passage {
            passage_id: id.to_owned(),
            title: "T".to_owned(),
            text: "It is x.".to_owned(),
            url: url.map(str::to_owned),
            ..Passage::default()
        };
        let observation = Observation {
            answer: "x".to_owned(),
            found: true,
            evidence: vec![passage],
        };
        Hop {
            sub_question: "Who\n\u{1b}is it?".to_owned(),
            sub_answer: "x".to_owned(),
            kind: CommitKind::Accepted.into(),
            observation: Some(observation),
            ..Hop::default()
        }
    }

    /// Whoever shows it in a browser would lead somebody there.
    #[test]
    fn an_address_that_is_a_script_is_not_told() {
        let script = Some("javascript:fetch('/ask')//http");
        let hops = vec![hop("a", script), hop("c", Some("https://w/"))];
        let answer = AskResponse {
            hops,
            ..AskResponse::default()
        };
        for (base, expected) in [
            (None, vec!["https://w/"]),
            (Some("http://h:1"), vec!["http://h:1/p/a", "https://w/"]),
        ] {
            let base = base.map(|base| Base(base.to_owned()));
            let said = Citing { base }.said(&answer);
            let urls: Vec<_> = said.sources.iter().map(|source| &*source.url).collect();
            assert_eq!(urls, expected);
        }
    }

    #[test]
    fn markers_stand_where_the_annotations_say() {
        let citing = Citing {
            base: Some(Base("http://h:1".to_owned())),
        };
        let answer = AskResponse {
            answer: "Łódź 🏙".to_owned(),
            hops: vec![
                hop("a b/é", None),
                hop("a b/é", None),
                hop("c", Some("https://w/")),
            ],
            ..AskResponse::default()
        };
        let said = citing.said(&answer);
        let (content, annotations) = (said.text(false), said.annotations());
        assert_eq!(content, "Łódź 🏙 [1] [2]");
        let points: Vec<_> = content.chars().collect();
        let urls = ["http://h:1/p/a%20b/%C3%A9", "https://w/"];
        assert_eq!(annotations.len(), 2);
        for (at, (annotation, url)) in annotations.iter().zip(urls).enumerate() {
            let citation = &annotation["url_citation"];
            let index = |name: &str| citation[name].as_u64().unwrap() as usize;
            let marker: String = points[index("start_index")..index("end_index")]
                .iter()
                .collect();
            assert_eq!(marker, format!("[{}]", at + 1));
            assert_eq!(citation["url"], url);
        }
        // Nowhere to look it up: no marker.
        let nowhere = Citing { base: None };
        assert_eq!(nowhere.said(&answer).text(false), "Łódź 🏙 [1]");
        // One name may be that of two pages, and what a client has left has no page here.
        let left = AskResponse {
            hops: vec![
                hop("1", Some("https://w/a")),
                hop("1", Some("https://w/b")),
                hop("tool-0123456789abcdef", None),
            ],
            ..answer.clone()
        };
        assert_eq!(citing.said(&left).text(false), "Łódź 🏙 [1] [2]");
        // Below the answer, for whoever shows no annotations.
        let footer = said.text(true);
        let footer = footer.strip_prefix(&content).unwrap();
        let listed = format!("\n\nSources:\n[1] T: {}\n[2] T: {}\n", urls[0], urls[1]);
        assert_eq!(footer, listed);
        let none = AskResponse::default();
        assert_eq!(citing.said(&none).text(true), "");
        // No passage bears out that nothing was found.
        let withheld = AskResponse {
            answer: "not found in the sources".to_owned(),
            confidence: Some(Confidence {
                withheld: Some("Łódź 🏙".to_owned()),
                ..Confidence::default()
            }),
            ..answer.clone()
        };
        let said = citing.said(&withheld);
        for with_footer in [false, true] {
            assert_eq!(said.text(with_footer), withheld.answer);
        }
        assert!(said.annotations().is_empty() && said.sources.is_empty());
    }

    #[test]
    fn the_tokens_of_every_kind_of_call_are_counted() {
        let calls = |n: u64| {
            Some(Calls {
                prompt_tokens: n,
                completion_tokens: 10 * n,
                ..Calls::default()
            })
        };
        let answer = AskResponse {
            usage: Some(Usage {
                segments: calls(1),
                targets: calls(20),
                speculations: calls(300),
                drafts: calls(4000),
                ..Usage::default()
            }),
            ..AskResponse::default()
        };
        let expected =
            json!({ "prompt_tokens": 4321, "completion_tokens": 43210, "total_tokens": 47531 });
        assert_eq!(usage(&answer), expected);
    }

    #[test]
    fn how_sure_an_answer_is_is_told_as_far_as_it_is_known() {
        let told = |confidence| {
            ours(&AskResponse {
                confidence,
                ..AskResponse::default()
            })
        };
        let unknown = Confidence {
            supported: true,
            ..Confidence::default()
        };
        let expected = json!({ "confidence": { "supported": true } });
        assert_eq!(told(Some(unknown)), expected);
        let withheld = Confidence {
            chance: Some(0.25),
            supported: false,
            withheld: Some("Łódź".to_owned()),
            of_form: None,
        };
        let expected = json!({
            "confidence": { "supported": false, "chance": 0.25, "withheld": "Łódź" },
        });
        assert_eq!(told(Some(withheld)), expected);
        assert_eq!(told(None), json!({}));
    }

    #[test]
    fn a_hop_is_one_line() {
        assert_eq!(
            hop_line(2, &hop("a", None)),
            "2. Who is it? → x, as guessed\n"
        );
    }
}
