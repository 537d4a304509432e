//! Files of patterns and of trajectories that are not what they should be: one clear line each.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use spechop_draft::{
    Lookup, MineError, MineOptions, PatternError, Patterns, Trajectory, mine, read_bundle,
    read_trajectories,
};
use spechop_types::with_causes;

/// The content with a checksum that fits.
fn sealed(content: &str) -> String {
    let crc32 = crc32fast::hash(content.as_bytes());
    format!("{{\"format\":1,\"crc32\":\"{crc32:08x}\",\"patterns\":{content}}}")
}

fn question(form: &str, ask: &str) -> String {
    sealed(&format!(
        "{{\"questions\":[\n{{\"form\":\"{form}\",\"questions\":1,\"steps\":{{\"asks\":[{{\"form\":\"{ask}\",\"times\":1}}]}}}}\n],\"after\":[\n\n]}}"
    ))
}

fn after(form: &str, ask: &str) -> String {
    sealed(&format!(
        "{{\"questions\":[

],\"after\":[
{{\"form\":\"{form}\",\"questions\":1,\"lost\":{{\"asks\":[{{\"form\":\"{ask}\",\"times\":1}}]}}}}
]}}"
    ))
}

#[test]
fn patterns_read_back_as_they_were_written() {
    let patterns = Patterns::shipped().unwrap();
    let json = patterns.to_json().unwrap();
    let again = Patterns::from_json(&json).unwrap();
    assert_eq!(again.to_json().unwrap(), json);
    assert_eq!(again.rows(), patterns.rows());
    Patterns::from_json(&question("Who is {q1}?", "name of {q1}")).unwrap();
}

#[test]
fn a_bad_file_of_patterns_says_what_to_do() {
    let good = Patterns::shipped().unwrap().to_json().unwrap();
    let changed = good.replacen("Who", "Whe", 1);
    let cut = &good[..good.len() / 2];
    let steps = |n: usize| {
        let inner = (0..n).fold(String::from("{}"), |inner, _| {
            format!("{{\"asks\":[{{\"form\":\"x\",\"times\":1,\"found\":{inner}}}]}}")
        });
        sealed(&format!(
            "{{\"questions\":[\n{{\"form\":\"Who?\",\"questions\":1,\"steps\":{inner}}}\n],\"after\":[\n\n]}}"
        ))
    };
    for (text, words) in [
        (
            "",
            "not a file of patterns, or it is damaged: mine it again",
        ),
        ("[1]", "not a file of patterns"),
        (
            "{\"format\":2,\"else\":[]}",
            "format 2, not 1: mine it again with this version",
        ),
        (cut, "is damaged: mine it again"),
        (&changed, "its checksum is"),
        (&good.replacen("\"after\"", "\"before\"", 1), "damaged"),
        (
            &question("Who is {q1}?", "name of {q2}"),
            "`Who is {q1}?` cannot be filled in: `{q2}` is no slot",
        ),
        (
            &question("Who is {q1}?", "name of {a1}"),
            "`{a1}` is no slot",
        ),
        (&question("Who is {q2}?", "name"), "`{q2}` is no slot"),
        (&question("Who is {a1}?", "name"), "`{a1}` is no slot"),
        (&question("Who is {z9}?", "name"), "`{z9}` is no slot"),
        (&question("{q1}", "name"), "a form needs words of its own"),
        (&after("Is {s1}?", "x {a1}"), "`{a1}` is no slot"),
        (&after("Is {s1}?", "x {s2}"), "`{s2}` is no slot"),
        (&after("Is {q1}?", "x"), "`{q1}` is no slot"),
        (&steps(9), "cannot be filled in"),
        (&steps(5_000), "damaged"),
        (&" ".repeat((16 << 20) + 1), "it is not a file of patterns"),
    ] {
        let error = with_causes(&Patterns::from_json(text).unwrap_err());
        assert!(error.contains(words), "{error:?} does not say {words:?}");
        assert!(!error.contains('\n'), "{error}");
    }
    assert!(matches!(
        Patterns::from_json(&changed),
        Err(PatternError::Checksum { .. })
    ));
}

#[test]
fn a_bad_line_of_trajectories_is_named() {
    let good = r#"{"question":" Who  is Al? ","hops":[{"sub_question":"a","answer":"b"},{"sub_question":"c","answer":"No relevant information found","more":1}],"id":7}"#;
    let none = r#"{"question":"Who?","hops":[]}"#;
    let traces = read_trajectories(format!("{good}\r\n\n{none}\n{good}").as_bytes()).unwrap();
    assert_eq!((traces.trajectories.len(), traces.without_hops), (2, 1));
    assert_eq!(traces.trajectories[0].question, "Who is Al?");
    assert_eq!(
        [true, false],
        [0, 1].map(|at| traces.trajectories[0].hops[at].found)
    );
    let long = format!("\"{}\"", "x".repeat(1 << 20));
    for (bad, words) in [
        ("nonsense", "line 2 is not {\"question\":…,\"hops\""),
        (r#"{"question":"Who?"}"#, "missing field `hops`"),
        (
            r#"{"question":"Who?","hops":[{"sub_question":"a"}]}"#,
            "missing field `answer`",
        ),
        (
            r#"{"question":"?!","hops":[]}"#,
            "line 2 has no question that could be asked: the question is empty",
        ),
        (&long, "line 2 has more than 1048576 bytes"),
    ] {
        let error = read_trajectories(format!("{good}\n{bad}\n").as_bytes()).unwrap_err();
        let error = with_causes(&error);
        assert!(error.contains(words), "{error:?} does not say {words:?}");
    }
    assert!(read_trajectories(&b"\xff\xfe"[..]).is_err());
}

#[test]
fn bundles_give_their_segments() {
    // As its data set has it; stages have it on one line.
    let questions = r#"{"id":"1","text":" Who\n?","kind":"easy","answers":[]}"#;
    let stage = |hops: &str, must: bool, output: &str| {
        format!(
            r#"{{"input":{{"stage":"segment","question":"Who ?","hops":{hops},"must_answer":{must}}},"output":{output},"ms":1.0}}"#
        )
    };
    let stages = [
        stage("[]", false, r#"{"ask":"His name?"}"#),
        r#"{"input":{"stage":"retrieval","query":"x"},"output":{"passages":[]},"ms":1}"#.to_owned(),
        stage(r#"[["His name?","Al"]]"#, false, r#"{"answer":"Al"}"#),
        stage(r#"[["His name?","Al"]]"#, true, r#"{"answer":"Al"}"#),
    ];
    // The recording was stopped while it wrote one more.
    let recorded = stages.join("\n") + "\n{\"input\":{\"stage\":\"segm";
    let segments = read_bundle(questions.as_bytes(), recorded.as_bytes()).unwrap();
    let told: Vec<_> = segments
        .iter()
        .map(|one| (one.kind.as_str(), one.hops.len(), one.next.is_some()))
        .collect();
    assert_eq!(told, [("easy", 0, true), ("easy", 1, false)]);
    let trajectories = spechop_draft::trajectories(&segments);
    assert_eq!(trajectories.len(), 1);
    assert_eq!(trajectories[0].hops[0].answer, "Al");
    let first = format!("{}\n", stages[0]);
    let stray = with_causes(&read_bundle(&b""[..], first.as_bytes()).unwrap_err());
    assert!(stray.contains("line 1 is of a question"), "{stray}");
    let odd = first.replace("\"ask\"", "\"say\"");
    let odd = with_causes(&read_bundle(questions.as_bytes(), odd.as_bytes()).unwrap_err());
    assert!(odd.starts_with("line 1 is not a segment"), "{odd}");
}

#[test]
fn nothing_is_mined_of_nothing() {
    let empty = Trajectory {
        question: "Who?".into(),
        hops: Vec::new(),
    };
    let options = MineOptions::default();
    assert_eq!(mine(&[], &options).unwrap_err(), MineError::NoHops);
    assert_eq!(
        mine(std::slice::from_ref(&empty), &options).unwrap_err(),
        MineError::NoHops
    );
    let one = Trajectory {
        hops: vec![Lookup {
            sub_question: "Who is Al?".into(),
            answer: "x".into(),
            found: true,
        }],
        ..empty
    };
    assert_eq!(
        mine(&[one], &options).unwrap_err(),
        MineError::NoPatterns(1)
    );
}

/// A form whose questions go on in as many ways as there are questions is frequent, and refuted.
#[test]
fn forms_that_promise_nothing_are_refuted() {
    let trajectory = |n: usize| Trajectory {
        question: format!("What of Name{n} is known?"),
        hops: vec![Lookup {
            sub_question: format!("some{} of Name{n}?", "e".repeat(n)),
            answer: "x".into(),
            found: true,
        }],
    };
    let odd: Vec<_> = (0..30).map(trajectory).collect();
    let options = MineOptions::default();
    assert_eq!(mine(&odd, &options).unwrap_err(), MineError::NoPatterns(30));
    let plain = |n: usize| Trajectory {
        question: format!("Where is Name{n}?"),
        hops: vec![Lookup {
            sub_question: format!("place of Name{n}?"),
            answer: "x".into(),
            found: true,
        }],
    };
    let all: Vec<_> = (0..30).map(plain).chain(odd).collect();
    let mined = mine(&all, &options).unwrap();
    let report = &mined.report;
    assert_eq!(
        (report.frequent, report.refuted, report.kept),
        (2, 1, 1),
        "{report:?}"
    );
    assert_eq!(report.held_out.right, 30);
    // The order of the lines does not count.
    let reversed: Vec<_> = all.iter().rev().cloned().collect();
    let again = mine(&reversed, &options).unwrap();
    assert_eq!(
        again.patterns.to_json().unwrap(),
        mined.patterns.to_json().unwrap()
    );
}
