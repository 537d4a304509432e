//! The door for a browser without scripts: `POST /ask` takes the form of the page, and answers with a page.
//!
//! It waits for the answer. A server that asks for keys cannot be asked this way: a form cannot show one.

use askama::Template;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::http::request::Parts;
use axum::response::IntoResponse;
use axum::routing::post;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use spechop_proto::options::Width;
use spechop_proto::{AskRequest, AskResponse, Budget, CommitKind, Options, Passage, VerifierMode};
use spechop_types::is_web;
use tonic_types::FieldViolation;

use super::House;
use crate::admission::Admission;
use crate::caller::caller;
use crate::events;
use crate::html::Page;
use crate::links::has_page;
use crate::status::{AskError, HttpError};
use crate::transport::Door;

/// Nothing runs, and nobody may show the page as a part of another one.
const POLICY: &str = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// Said of a question of another form, in the words of the page with scripts (`panels.js`).
const HARDLY: &str = "is hardly a question of the form that the planner was trained on.";

/// Builds the door.
pub(super) fn add_to(house: &mut House, admission: &Admission) {
    let admission = admission.clone();
    let ask = post(async move |head: Parts, body: Bytes| {
        let answered = answer(&admission, &head, &body).await;
        let shows_passages = admission.state().toolbox.passages.is_some();
        let page = |status| Page {
            status,
            policy: POLICY,
            up: "",
        };
        let shown = match &answered {
            Ok((question, answer)) => {
                page(StatusCode::OK).of(question, &told(answer, shows_passages))
            }
            Err(error) => page(error.status()).of("No answer", &refused(error)),
        };
        ([(CACHE_CONTROL, "no-store")], shown).into_response()
    });
    // The transport has seen to it.
    house.add(Door::form("/ask"), ask.layer(DefaultBodyLimit::disable()));
}

/// The question, and its answer.
async fn answer(
    admission: &Admission,
    head: &Parts,
    body: &[u8],
) -> Result<(String, AskResponse), HttpError> {
    let caller = caller(&head.headers, &head.extensions);
    let read = caller.and_then(|caller| Ok((caller, read(body)?)));
    let (caller, request) = read.inspect_err(|error| admission.refused(error))?;
    let admitted = admission.admit(&request, &caller, None).await?;
    let answer = events::answer(admitted).await;
    let answer = answer.map_err(|error| HttpError::from(&*error))?;
    Ok((request.question, answer))
}

/// The fields of the form. One that is left empty says nothing.
fn read(body: &[u8]) -> Result<AskRequest, AskError> {
    let mut request = AskRequest::default();
    let mut options = Options::default();
    let mut budget = Budget::default();
    let mut wrong = Vec::new();
    for (name, value) in form_urlencoded::parse(body).filter(|(_, value)| !value.is_empty()) {
        let mut number = || {
            let number: Option<f64> = value.trim().parse().ok();
            let number = number.filter(|number| number.is_finite() && *number >= 0.0);
            if number.is_none() {
                wrong.push(FieldViolation::new(&*name, "must be a number from 0"));
            }
            number
        };
        let whole = |wrong: &mut Vec<FieldViolation>| {
            let number: Option<u64> = value.trim().parse().ok();
            if number.is_none() {
                wrong.push(FieldViolation::new(&*name, "must be a whole number from 0"));
            }
            number
        };
        // Too much for the field is too much for the server, which names its bound.
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        match (&*name, &*value) {
            ("question", text) => text.clone_into(&mut request.question),
            ("k", "auto") => options.width = Some(Width::AUTO),
            ("k", "inf") => options.width = Some(Width::UNBOUNDED),
            ("k", _) => options.width = whole(&mut wrong).map(|k| Width::K(small(k))),
            ("speculator", name) => options.speculator = Some(name.to_owned()),
            ("verifier", "RULE") => options.verifier = VerifierMode::Rule.into(),
            ("verifier", "EXACT") => options.verifier = VerifierMode::Exact.into(),
            ("verifier", _) => wrong.push(FieldViolation::new(&*name, "must be RULE or EXACT")),
            ("seconds", _) => budget.time_ms = number().map(|s| (s * 1000.0).round() as u64),
            ("target_calls", _) => budget.target_calls = whole(&mut wrong).map(small),
            ("tokens", _) => budget.tokens = whole(&mut wrong),
            ("money", _) => {
                budget.money_micros = number().map(|money| (money * 1e6).round() as u64);
            }
            _ => wrong.push(FieldViolation::new(&*name, "is no field of the form")),
        }
    }
    request.options = Some(options);
    request.budget = (budget != Budget::default()).then_some(budget);
    match wrong.is_empty() {
        true => Ok(request),
        false => Err(AskError::Invalid(wrong)),
    }
}

/// An answer, with the hops and the passages that it rests on.
#[derive(Template)]
#[template(path = "answer.html")]
struct Told<'a> {
    answer: &'a str,
    /// What is to be known of the form of the question.
    form: Option<String>,
    /// The answer that was not sure enough to be given.
    withheld: Option<&'a str>,
    /// How likely the answer is right, if that is known.
    percent: Option<f64>,
    seconds: f64,
    rows: Vec<Row<'a>>,
    cited: Vec<Cited<'a>>,
}

/// A hop.
struct Row<'a> {
    question: &'a str,
    answer: &'a str,
    /// The passage that it rests on, counted from 1.
    passage: Option<usize>,
    how: &'static str,
    segment_s: f64,
    target_s: f64,
}

/// A passage.
struct Cited<'a> {
    title: &'a str,
    text: &'a str,
    /// Where all of it is, if this server or the web has it.
    href: Option<String>,
}

/// The server gave no answer.
#[derive(Template)]
#[template(path = "refused.html")]
struct Refused<'a> {
    why: &'a str,
    again_s: Option<f64>,
}

fn told(answer: &AskResponse, shows_passages: bool) -> Told<'_> {
    let mut cited: Vec<&Passage> = Vec::new();
    let rows = answer.hops.iter().map(|hop| {
        let passage = hop.cited().into_iter().next().map(|passage| {
            // Two texts may have one name: clients leave some.
            let known = cited.iter().position(|known| {
                known.passage_id == passage.passage_id && known.text == passage.text
            });
            let at = known.unwrap_or_else(|| {
                cited.push(passage);
                cited.len() - 1
            });
            at + 1
        });
        let times = hop.times.unwrap_or_default();
        Row {
            question: &hop.sub_question,
            answer: &hop.sub_answer,
            passage,
            how: match hop.kind() {
                CommitKind::Accepted => "guessed, and the guess was right",
                CommitKind::Rejected => "looked up: the guess was wrong",
                CommitKind::Observed | CommitKind::Unspecified => "looked up",
            },
            segment_s: times.segment_ms / 1000.0,
            target_s: times.target_ms / 1000.0,
        }
    });
    let rows = rows.collect();
    let confidence = answer.confidence.as_ref();
    let chance = confidence.and_then(|sure| sure.chance);
    let cited = cited.into_iter();
    Told {
        answer: &answer.answer,
        form: form(answer),
        withheld: confidence.and_then(|sure| sure.withheld.as_deref()),
        percent: chance.map(|chance| 100.0 * chance),
        seconds: answer.elapsed_ms / 1000.0,
        rows,
        cited: cited.map(|of| cite(of, shows_passages)).collect(),
    }
}

/// Whether the question is hardly one: if the fallback has answered it, or if its answer is withheld and that may
/// be why.
fn form(answer: &AskResponse) -> Option<String> {
    let is_unlike = answer.confidence.as_ref().is_some_and(|sure| {
        sure.withheld.is_some() && sure.of_form.is_some_and(|chance| chance < 0.5)
    });
    match answer.handed_over {
        Some(_) => Some(format!("By the fallback: this {HARDLY}")),
        None => is_unlike.then(|| format!("This {HARDLY}")),
    }
}

fn cite(passage: &Passage, shows_passages: bool) -> Cited<'_> {
    let web = passage.url.as_deref().filter(|url| is_web(url));
    let path = || {
        format!(
            "p/{}",
            utf8_percent_encode(&passage.passage_id, NON_ALPHANUMERIC)
        )
    };
    let has_page = shows_passages && has_page(&passage.passage_id);
    Cited {
        title: match passage.title.as_str() {
            "" => "untitled",
            title => title,
        },
        text: &passage.text,
        href: web.map(str::to_owned).or_else(|| has_page.then(path)),
    }
}

fn refused(error: &HttpError) -> Refused<'_> {
    Refused {
        why: error.message(),
        again_s: error.retry_after().map(|delay| delay.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use spechop_proto::{Confidence, HandedOver, Hop, Observation};

    use super::*;

    #[test]
    fn a_form_is_a_request() {
        let request =
            read(b"question=Who%3F+%C3%A9&k=inf&speculator=&verifier=EXACT&seconds=1.5").unwrap();
        assert_eq!(request.question, "Who? \u{e9}");
        assert_eq!(request.budget.unwrap().time_ms, Some(1500));
        // Neither has an exact form in binary: a time is meant to the millisecond, a price to the
        // millionth.
        let time = read(b"question=q&seconds=1.005").unwrap().budget.unwrap();
        assert_eq!(time.time_ms, Some(1005));
        let money = read(b"question=q&money=0.000249").unwrap().budget.unwrap();
        assert_eq!(money.money_micros, Some(249));
        let options = request.options.unwrap();
        assert_eq!(options.width, Some(Width::UNBOUNDED));
        assert_eq!(options.verifier(), VerifierMode::Exact);
        assert_eq!(options.speculator, None);
        let width = |form: &str| read(form.as_bytes()).unwrap().options.unwrap().width;
        assert_eq!(width("question=q&k=3&seconds="), Some(Width::K(3)));
        assert_eq!(width("k=auto"), Some(Width::AUTO));
        for (wrong, field) in [
            ("k=x", "k"),
            ("k=2.9", "k"),
            ("target_calls=1.5", "target_calls"),
            ("seconds=-1", "seconds"),
            ("tokens=NaN", "tokens"),
            ("money=1+EUR", "money"),
            ("key=x", "key"),
        ] {
            let error = read(wrong.as_bytes()).unwrap_err();
            assert!(
                matches!(&error, AskError::Invalid(all) if all[0].field == field),
                "{error}"
            );
        }
        let error = read(b"verifier=PAPER").unwrap_err();
        assert_eq!(error.to_string(), "verifier: must be RULE or EXACT");
    }

    #[test]
    fn what_the_page_posts_is_described() {
        let page = include_str!("../page/index.html");
        let form = page.split("<form ").nth(1).unwrap();
        let form = form.split("</form>").next().unwrap();
        let names = form.split(" name=\"").skip(1);
        let posted: BTreeSet<_> = names.filter_map(|rest| rest.split('"').next()).collect();
        let paths: serde_json::Value = serde_json::from_str(include_str!("openapi.json")).unwrap();
        let content = &paths["paths"]["/ask"]["post"]["requestBody"]["content"];
        let described = &content["application/x-www-form-urlencoded"]["schema"]["properties"];
        let described = described.as_object().unwrap().keys();
        let described: BTreeSet<_> = described.map(String::as_str).collect();
        assert_eq!(posted, described);
    }

    #[test]
    fn what_is_hardly_a_question_is_said_to_be_none_as_on_the_page() {
        assert!(include_str!("../page/panels.js").contains(HARDLY));
        let said = |withheld: Option<&str>, of_form, is_handed_over: bool| {
            let answer = AskResponse {
                confidence: Some(Confidence {
                    withheld: withheld.map(str::to_owned),
                    of_form,
                    ..Confidence::default()
                }),
                handed_over: is_handed_over.then(HandedOver::default),
                ..AskResponse::default()
            };
            let html = told(&answer, true).render().unwrap();
            let (_, told) = html.split_once("class=\"quiet\" dir=\"auto\">").unwrap();
            let (told, _) = told.split_once("It took").unwrap();
            told.to_owned()
        };
        let withheld = Some("Serbian");
        let held = "Withheld: Serbian. ";
        assert_eq!(
            said(withheld, Some(0.07), false),
            format!("This {HARDLY} {held}")
        );
        // Withheld for another reason, or nobody knows the form.
        assert_eq!(said(withheld, Some(0.5), false), held);
        assert_eq!(said(withheld, None, false), held);
        assert_eq!(said(None, Some(0.07), false), "");
        assert_eq!(
            said(None, Some(0.07), true),
            format!("By the fallback: this {HARDLY} ")
        );
    }

    #[test]
    fn whatever_an_answer_holds_it_is_text() {
        let evil = "<script>alert(\"'&\")</script>".to_owned();
        let passage = Passage {
            passage_id: "a/\"b".to_owned(),
            title: evil.clone(),
            text: evil.clone(),
            url: Some("javascript:alert(1)".to_owned()),
            ..Passage::default()
        };
        let hop = Hop {
            sub_question: evil.clone(),
            sub_answer: evil.clone(),
            observation: Some(Observation {
                evidence: vec![passage],
                found: true,
                ..Observation::default()
            }),
            ..Hop::default()
        };
        let answer = AskResponse {
            answer: evil,
            hops: vec![hop.clone(), hop],
            ..AskResponse::default()
        };
        let told = |answer: &AskResponse, shows_passages| {
            let told = told(answer, shows_passages);
            told.render().unwrap()
        };
        let html = told(&answer, true);
        assert!(
            !html.contains("<script") && !html.contains("javascript:"),
            "{html}"
        );
        // The passage is one, though two hops rest on it.
        assert_eq!(html.matches("href=\"#passage-1\"").count(), 2, "{html}");
        assert_eq!(html.matches("<li ").count(), 1, "{html}");
        assert!(html.contains("href=\"p/a%2F%22b\""), "{html}");
        assert!(!told(&answer, false).contains("href=\"p/"));
        assert!(html.contains("auto\">It took"), "{html}");
        // Nor is one text taken for another of its name.
        let mut other = answer.clone();
        other.hops[1].observation.as_mut().unwrap().evidence[0].text = "Other.".to_owned();
        let html = told(&other, true);
        assert_eq!(html.matches("<li ").count(), 2, "{html}");
        let unsure = AskResponse {
            confidence: Some(Confidence {
                chance: Some(0.125),
                withheld: Some("<b>".to_owned()),
                of_form: None,
                ..Confidence::default()
            }),
            ..answer
        };
        let html = told(&unsure, true);
        let expected = "Withheld: &#60;b&#62;. Right with chance 12 %. It took";
        assert!(html.contains(expected), "{html}");
    }
}
