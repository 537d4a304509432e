//! What the drafter promises to whoever asks it, and what it learns.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use proptest::prelude::*;
use spechop_draft::{
    DRAFT_BYTES_MAX, LearntPatterns, Lookup, MineOptions, PatternDrafter, Patterns, Trajectory,
    mine,
};
use spechop_ports::{DraftRequest, Drafter, KnownHop};
use spechop_types::{CommitKind, Hop, Observation, Question, SubQuestion, Tenant};

const NOTHING: &str = "No relevant information found";

/// `sub-question => answer`; an answer that is empty was not found.
fn lookups(hops: &[&str]) -> Vec<Lookup> {
    let hops = hops.iter().map(|hop| {
        let (asked, answer) = hop.split_once(" =>").unwrap();
        Lookup {
            sub_question: asked.into(),
            answer: answer.trim().into(),
            found: !answer.is_empty(),
        }
    });
    hops.collect()
}

fn trajectory(question: &str, hops: &[&str]) -> Trajectory {
    Trajectory {
        question: question.into(),
        hops: lookups(hops),
    }
}

/// Patterns of forty questions of two forms.
fn patterns() -> Patterns {
    let names: Vec<_> = ('A'..='T').map(|c| format!("{c}b {c}c")).collect();
    let mut all = Vec::new();
    for name in &names {
        all.push(trajectory(
            &format!("Who is {name}'s maternal grandfather?"),
            &[
                &format!("Who is the mother of {name}? => Ma {name}"),
                &format!("Who is the father of Ma {name}? => Pa"),
            ],
        ));
        all.push(trajectory(
            &format!("When did {name}'s mother die?"),
            &[
                &format!("Who is the mother of {name}? =>"),
                &format!("Who was {name}'s mother? => Ma"),
                "When did Ma die? => 1900",
            ],
        ));
    }
    mine(&all, &MineOptions::default()).unwrap().patterns
}

fn drafter() -> PatternDrafter {
    PatternDrafter::new(patterns())
}

/// What is drafted for a tenant, each with its chance in per cent.
fn drafts_of(
    drafter: &PatternDrafter,
    tenant: &str,
    question: &str,
    hops: &[&str],
) -> Vec<(String, u32)> {
    let hops = lookups(hops).into_iter().map(|hop| KnownHop {
        sub_question: SubQuestion::new(&hop.sub_question),
        answer: if hop.found {
            hop.answer.into()
        } else {
            NOTHING.into()
        },
    });
    let hops: Vec<_> = hops.collect();
    let drafts = drafter.draft(&DraftRequest {
        tenant: &Tenant::new(tenant).unwrap(),
        question: &Question::new(question).unwrap(),
        hops: &hops,
        limit: 2,
    });
    let drafts = drafts.iter().map(|draft| {
        let percent = (draft.chance.share() * 100.0).round() as u32;
        (draft.sub_question.as_str().to_owned(), percent)
    });
    drafts.collect()
}

fn texts(drafter: &PatternDrafter, question: &str, hops: &[&str]) -> Vec<String> {
    let drafts = drafts_of(drafter, "t", question, hops);
    drafts.into_iter().map(|(text, _)| text).collect()
}

fn learn(drafter: &PatternDrafter, tenant: &str, question: &str, hops: &[&str]) {
    learn_of(drafter, tenant, question, hops, true);
}

fn learn_of(drafter: &PatternDrafter, tenant: &str, question: &str, hops: &[&str], ended: bool) {
    let hops = lookups(hops).into_iter().map(|hop| {
        let answer = hop.found.then(|| Arc::<str>::from(hop.answer));
        let observation = Observation::read(answer, Vec::new());
        Hop {
            sub_question: SubQuestion::new(&hop.sub_question),
            answer: observation.answer.clone(),
            kind: CommitKind::Observed,
            guess: None,
            observation: Arc::new(observation),
        }
    });
    let hops: Vec<_> = hops.collect();
    let question = Question::new(question).unwrap();
    drafter.learn(&Tenant::new(tenant).unwrap(), &question, &hops, ended);
}

#[test]
fn a_chain_is_drafted_for_names_never_seen() {
    let drafter = drafter();
    let question = "Who is Zoë (will.i.am's) maternal grandfather?";
    assert!(texts(&drafter, question, &[]).is_empty(), "another form");
    let question = "Who is Zoë of will.i.am's maternal grandfather?";
    let asked = ["Who is the mother of Zoë of will.i.am? => Eve"];
    assert_eq!(
        texts(&drafter, question, &[]),
        ["Who is the mother of Zoë of will.i.am?"]
    );
    assert_eq!(
        texts(&drafter, question, &asked),
        ["Who is the father of Eve?"]
    );
    // At its end nothing is drafted.
    let all = [asked[0], "Who is the father of Eve? => Bo"];
    assert!(texts(&drafter, question, &all).is_empty());
}

#[test]
fn a_look_up_that_found_nothing_is_asked_again_whatever_the_question() {
    let drafter = drafter();
    let lost = ["Who is the mother of Zoë? =>"];
    for question in [
        "When did Zoë's mother die?",
        "How tall was the mother of Zoë, if she was?",
    ] {
        assert_eq!(
            texts(&drafter, question, &lost),
            ["Who was Zoë's mother?"],
            "{question}"
        );
    }
}

#[test]
fn what_is_of_no_use_is_left_out() {
    let drafter = drafter();
    let long = "x".repeat(DRAFT_BYTES_MAX);
    let question = format!("Who is {long}'s maternal grandfather?");
    assert!(texts(&drafter, &question, &[]).is_empty(), "too long");
    let question = "Who is Al's maternal grandfather?";
    // The planner left the path, or the drafter is told of an answer that is empty.
    assert!(texts(&drafter, question, &["Who is the aunt of Al? => Bo"]).is_empty());
    let hops = [KnownHop {
        sub_question: SubQuestion::new("Who is the mother of Al?"),
        answer: "".into(),
    }];
    let ask = |hops: &[KnownHop], limit| {
        let drafts = drafter.draft(&DraftRequest {
            tenant: &Tenant::default(),
            question: &Question::new(question).unwrap(),
            hops,
            limit,
        });
        drafts.len()
    };
    assert_eq!(ask(&hops, 2), 0);
    assert_eq!((ask(&[], 0), ask(&[], 1)), (0, 1));
    let many = vec![hops[0].clone(); 50];
    assert_eq!(ask(&many, 2), 0);
}

/// The question itself, asked again, is no draft; neither is what was asked before.
#[test]
fn the_question_is_no_draft() {
    let names = ["Al", "Bo", "Cy", "Di", "Ed", "Fi", "Gu", "Ha"];
    let same = names.map(|name| {
        let question = format!("Who is the king of {name}?");
        let hop = format!("{question} => x");
        trajectory(&question, &[&hop])
    });
    let twice = names.map(|name| {
        let hop = format!("Who rules {name}? =>");
        trajectory(&format!("Say who rules {name}."), &[&hop, &hop])
    });
    let all = [&same[..], &twice].concat();
    let mined = mine(
        &all,
        &MineOptions {
            precision_min: 0.0,
            ..MineOptions::default()
        },
    );
    let drafter = PatternDrafter::new(mined.unwrap().patterns);
    assert!(texts(&drafter, "Who is the king of Zo?", &[]).is_empty());
    assert_eq!(texts(&drafter, "Say who rules Zo.", &[]), ["Who rules Zo?"]);
    assert!(texts(&drafter, "Say who rules Zo.", &["Who rules Zo? =>"]).is_empty());
}

#[test]
fn another_planners_words_are_learnt_and_stay_with_their_tenant() {
    let drafter = drafter();
    let ask = |name: &str| format!("Who is {name}'s maternal grandfather?");
    for name in [
        "Al", "Bo", "Cy", "Di", "Ed", "Fi", "Gu", "Ha", "Io", "Ju", "Ka", "Li",
    ] {
        let first = format!("mother of {name} => Eve");
        learn(&drafter, "a", &ask(name), &[&first, "father of Eve => Bo"]);
    }
    let mine = drafts_of(&drafter, "a", &ask("Zoë"), &[]);
    assert_eq!(mine[0].0, "mother of Zoë");
    assert!(mine[0].1 >= 70, "{mine:?}");
    assert_eq!(
        mine.len(),
        1,
        "the shipped words were always wrong: {mine:?}"
    );
    assert_eq!(
        drafts_of(&drafter, "a", &ask("Zoë"), &["mother of Zoë => Amy"])[0].0,
        "father of Amy"
    );
    // Another tenant has the shipped ones alone, as sure as ever.
    let others = drafts_of(&drafter, "b", &ask("Zoë"), &[]);
    assert_eq!(others, drafts_of(&self::drafter(), "b", &ask("Zoë"), &[]));
    assert_eq!(others[0].0, "Who is the mother of Zoë?");
}

/// The planner was made to answer behind the first hop, again and again: what it would have asked is not known.
#[test]
fn questions_that_are_cut_short_teach_no_end() {
    let question = "Who is Zoë of will.i.am's maternal grandfather?";
    let first = ["Who is the mother of Zoë of will.i.am? => Eve"];
    for (ended, expected) in [(false, &["Who is the father of Eve?"][..]), (true, &[])] {
        let drafter = drafter();
        for _ in 0..40 {
            learn_of(&drafter, "t", question, &first, ended);
        }
        let drafted = drafts_of(&drafter, "t", question, &first).into_iter();
        let likely: Vec<_> = drafted
            .filter(|(_, percent)| *percent > 20)
            .map(|(text, _)| text)
            .collect();
        assert_eq!(likely, expected, "{ended}");
    }
}

#[test]
fn what_is_kept_fits_into_a_file() {
    let drafter = drafter();
    for tenant in ["a", "b"] {
        for word in 'a'..='t' {
            let question = format!("who is called {word}{word} by {word}{word}?");
            let hops = [
                format!("\"called\\by {word} => x"),
                "by whom? => y".to_owned(),
            ];
            learn(&drafter, tenant, &question, &[&hops[0], &hops[1]]);
        }
    }
    let all = drafter.learnt();
    let written = |learnt: &LearntPatterns| {
        let file =
            serde_json::json!({ "crc32": u32::MAX, "content": { "format": 1, "learnt": learnt } });
        serde_json::to_vec_pretty(&file).unwrap().len()
    };
    assert_eq!(all.clone().within(written(&all) * 2), all);
    let mut before = usize::MAX;
    for most in [written(&all) / 2, 6000, 2000, 0] {
        let fits = all.clone().within(most);
        assert!(written(&fits) <= most.max(200), "{most}");
        assert!(written(&fits) < before);
        before = written(&fits);
        let value = serde_json::to_value(&fits).unwrap();
        let tenants = value["tenants"].as_array().unwrap();
        let Some(last) = tenants.last() else { continue };
        // The newest of the tenant that asked last stays to the end.
        assert_eq!(last["tenant"], "b");
        let whole = serde_json::to_value(&all).unwrap();
        let newest = &whole["tenants"][1]["own"]["patterns"][19];
        assert_eq!(
            last["own"]["patterns"].as_array().unwrap().last(),
            Some(newest)
        );
    }
}

/// A question of a form that was never mined, and one without any name that looks like a name.
#[test]
fn new_forms_are_learnt_from_the_first_question_on() {
    let drafter = drafter();
    learn(
        &drafter,
        "a",
        "Which river runs through Ulm at night?",
        &["river in Ulm => Donau", "length of Donau => 1"],
    );
    let drafts = drafts_of(
        &drafter,
        "a",
        "Which river runs through Bonn at night?",
        &["river in Bonn => Rhein"],
    );
    assert_eq!(drafts, [("length of Rhein".to_owned(), 75)]);
    learn(&drafter, "a", "who is will.i.am?", &["his name => x"]);
    assert_eq!(
        drafts_of(&drafter, "a", "who is will.i.am?", &[])[0].0,
        "his name"
    );
    assert!(drafts_of(&drafter, "b", "who is will.i.am?", &[]).is_empty());
}

#[test]
fn what_was_learnt_survives_a_restart_and_is_bounded() {
    // Words without anything of a name, so that each is a form of its own.
    let thing = |n: usize| -> String {
        let digits = format!("{n:03}");
        let letters = digits.bytes().map(|digit| char::from(digit - b'0' + b'a'));
        letters.collect()
    };
    let first = drafter();
    for n in 0..400 {
        let thing = thing(n);
        learn(
            &first,
            "a",
            &format!("where is {thing}?"),
            &[&format!("place of {thing} => x")],
        );
    }
    let kept = serde_json::to_string(&first.learnt()).unwrap();
    assert!(
        !kept.contains(&thing(143)) && kept.contains(&thing(144)),
        "the oldest leave"
    );
    let second = drafter();
    second
        .restore(serde_json::from_str(&kept).unwrap())
        .unwrap();
    assert_eq!(
        drafts_of(&second, "a", "where is djj?", &[])[0].0,
        "place of djj"
    );
    assert_eq!(first.learnt(), second.learnt());
    for n in 0..100 {
        learn(&second, &format!("t{n}"), "where is it?", &["place => x"]);
    }
    let kept = serde_json::to_value(second.learnt()).unwrap();
    assert_eq!(kept["tenants"].as_array().unwrap().len(), 64);
    // One question again and again, with another way every time.
    let third = drafter();
    for n in 0..2_000 {
        let hops = [format!("x{} => y", n % 13), format!("z{n} => y")];
        learn(&third, "a", "where is it?", &[&hops[0], &hops[1]]);
    }
    assert!(serde_json::to_string(&third.learnt()).unwrap().len() < 20_000);
}

#[test]
fn a_damaged_memory_is_refused_whole() {
    let own = |form: &str, ask: &str| {
        format!(
            r#"{{"tenants":[{{"tenant":"a","own":{{"drafted":1,"right":9,"patterns":[{{"form":"{form}","questions":1,
            "steps":{{"asks":[{{"form":"{ask}","times":1}}]}}}}]}}}}]}}"#
        )
    };
    let read = |json: &str| serde_json::from_str::<LearntPatterns>(json);
    let drafter = drafter();
    drafter
        .restore(read(&own("who is {q1}?", "name {q1}")).unwrap())
        .unwrap();
    for (form, ask, slot) in [
        ("who?", "name {q1}", "{q1}"),
        ("who {q1}?", "name {a1}", "{a1}"),
    ] {
        let error = drafter.restore(read(&own(form, ask)).unwrap()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("the pattern `{form}` cannot be filled in")
        );
        let why = std::error::Error::source(&error).unwrap().to_string();
        assert!(why.starts_with(&format!("`{slot}` is no slot")), "{why}");
    }
    assert!(read(&own("who {z}?", "x")).is_err());
    assert!(read("{}").is_err());
}

proptest! {
    /// Whatever it is asked and told of: no panic, no draft that is empty, twice there or too long.
    #[test]
    fn it_keeps_its_promise(
        question in "[ -~é’“”]{1,80}",
        hops in prop::collection::vec(("[ -~é]{0,60}", "[ -~é]{0,20}"), 0..10),
        limit in 0_usize..4,
    ) {
        let drafter = drafter_once();
        let Ok(question) = Question::new(&question) else { return Ok(()) };
        let known: Vec<_> = hops.iter().map(|(asked, answer)| KnownHop {
            sub_question: SubQuestion::new(asked),
            answer: answer.as_str().into(),
        }).collect();
        let lines: Vec<_> = hops.iter().map(|(asked, answer)| format!("{} => {answer}", asked.replace(" =>", ""))).collect();
        learn(drafter, "a", question.as_str(), &lines.iter().map(String::as_str).collect::<Vec<_>>());
        for at in 0..=known.len() {
            let drafts = drafter.draft(&DraftRequest {
                tenant: &Tenant::new("a").unwrap(), question: &question, hops: &known[..at], limit,
            });
            prop_assert!(drafts.len() <= limit);
            prop_assert!(drafts.is_sorted_by(|a, b| a.chance >= b.chance));
            for (n, draft) in drafts.iter().enumerate() {
                let text = draft.sub_question.as_str();
                prop_assert!(!text.trim().is_empty() && text.len() <= DRAFT_BYTES_MAX);
                prop_assert!(drafts[..n].iter().all(|other| other.sub_question.as_str() != text));
            }
        }
    }
}

fn drafter_once() -> &'static PatternDrafter {
    static ONCE: std::sync::OnceLock<PatternDrafter> = std::sync::OnceLock::new();
    ONCE.get_or_init(drafter)
}
