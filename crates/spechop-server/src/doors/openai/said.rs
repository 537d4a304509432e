//! An answer in the words of OpenAI: reasoning, citations, usage.

use std::fmt::Write;

use axum::http::header::HOST;
use axum::http::request::Parts;
use serde_json::{Value, json};
use spechop_proto::{AskResponse, CommitKind, Hop, Passage};

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

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Tokens of all calls, wasted ones included.
pub(super) fn usage(answer: &AskResponse) -> Value {
    let usage = answer.usage.unwrap_or_default();
    let calls = [usage.segments, usage.targets, usage.speculations];
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

/// Where passages can be looked up.
pub(super) struct Citing {
    /// The address of this server as the client knows it, if it shows passages.
    base: Option<String>,
}

impl Citing {
    pub(super) fn of(head: &Parts, has_passages: bool) -> Self {
        let authority = head.uri.authority().map(|name| name.as_str());
        let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
        let forwarded = head.headers.get("x-forwarded-proto");
        let scheme = match forwarded.map(|scheme| scheme.as_bytes()) {
            Some(b"https") => "https",
            _ => head.uri.scheme_str().unwrap_or("http"),
        };
        let base = authority.or(host).filter(|_| has_passages);
        Self {
            base: base.map(|host| format!("{scheme}://{host}")),
        }
    }

    /// The answer with a marker for each passage that a hop rests on, and what each marker cites. Indexes
    /// count code points.
    pub(super) fn content(&self, answer: &AskResponse) -> (String, Vec<Value>) {
        let mut content = answer.answer.clone();
        let mut at = content.chars().count();
        let mut annotations = Vec::new();
        let mut cited = Vec::new();
        for hop in &answer.hops {
            let Some(passage) = best(hop).filter(|passage| !cited.contains(&&passage.passage_id))
            else {
                continue;
            };
            let Some(url) = self.url(passage) else {
                continue;
            };
            cited.push(&passage.passage_id);
            let marker = format!(" [{}]", cited.len());
            content += &marker;
            let end = at + marker.chars().count();
            annotations.push(json!({
                "type": "url_citation",
                "url_citation": {
                    "url": url,
                    "title": passage.title,
                    // The blank before it is no part of the marker.
                    "start_index": at + 1,
                    "end_index": end,
                },
            }));
            at = end;
        }
        (content, annotations)
    }

    fn url(&self, passage: &Passage) -> Option<String> {
        let own = || {
            let base = self.base.as_ref()?;
            Some(format!("{base}/p/{}", encoded(&passage.passage_id)))
        };
        passage.url.clone().or_else(own)
    }
}

/// The passage that a hop's answer rests on: the first that it stands in, else the best one.
fn best(hop: &Hop) -> Option<&Passage> {
    let seen = hop.observation.as_ref().filter(|seen| seen.found)?;
    let mut holding = seen.evidence.iter();
    let holding = holding.find(|passage| passage.text.contains(&seen.answer));
    holding.or_else(|| seen.evidence.first())
}

/// A name as a part of a path.
fn encoded(name: &str) -> String {
    let mut path = String::new();
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                path.push(char::from(byte));
            }
            // Writing to a string cannot fail.
            byte => {
                let _ = write!(path, "%{byte:02X}");
            }
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use spechop_proto::Observation;

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
            sub_question: "Who\nis it?".to_owned(),
            sub_answer: "x".to_owned(),
            kind: CommitKind::Accepted.into(),
            observation: Some(observation),
            ..Hop::default()
        }
    }

    #[test]
    fn markers_stand_where_the_annotations_say() {
        let citing = Citing {
            base: Some("http://h:1".to_owned()),
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
        let (content, annotations) = citing.content(&answer);
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
        assert_eq!(nowhere.content(&answer).0, "Łódź 🏙 [1]");
    }

    #[test]
    fn a_hop_is_one_line() {
        assert_eq!(
            hop_line(2, &hop("a", None)),
            "2. Who is it? → x, as guessed\n"
        );
    }
}
