use futures::FutureExt;
use proptest::prelude::*;
use spechop_ports::{KnownHop, contract};
use spechop_types::{Draft, Question};

use super::*;
use crate::scripted::{Narrow, Scripted, plan_request as request, scripted_ends};
use crate::stop::cut_at_stop;

const ASKED: &str = "Who is the mother of Amy Dunne? =>";

const HOPS: &[(&str, &str)] = &[
    ("Who directed the film Blue Kite?", "Amy Dunne"),
    ("Who is Amy?", NOT_THERE),
];
const PROMPT: &str = "Question: Who is the mother of the director of film Blue Kite?\n\
    Who directed the film Blue Kite? => Amy Dunne\n\
    Who is Amy? => No relevant information found\n";

/// A model that says these, each until its stop text; what has none is cut off.
fn model(says: &[&str]) -> Arc<Scripted> {
    let end = |text: &str| {
        let stops = LINE_END.iter().any(|stop| text.ends_with(stop));
        if stops { End::Stop } else { End::Length }
    };
    scripted_ends(says.iter().map(|text| (*text, end(text))))
}

/// The prompt as a text.
fn text_of(request: &PlanRequest) -> String {
    prompt(request).text
}

/// The step, and what was read and allowed at each generation, the prompt left out.
fn check(says: &[&str], request: &PlanRequest) -> (String, Vec<(String, u32)>) {
    let model = model(says);
    let planner = StepPlanner::new(model.clone());
    let planned = planner
        .plan(&Call::authoritative(), request.clone())
        .now_or_never()
        .unwrap();
    let asked = model.asked.lock();
    let read = asked.iter().map(|generation| {
        let Prompt::Text(text) = &generation.prompt else {
            panic!("{generation:?}");
        };
        let added = text.strip_prefix(&*text_of(request)).unwrap();
        (added.to_owned(), generation.tokens_max)
    });
    let shown = match planned {
        Ok(planned) => {
            assert_eq!(planned.tokens.total(), 11 * asked.len() as u64);
            match planned.step {
                Step::Ask(asked) => format!("?{}", asked.as_str()),
                Step::Answer(answer) => format!("={answer}"),
            }
        }
        Err(error) => format!("!{error}"),
    };
    (shown, read.collect())
}

#[test]
fn a_long_question_is_too_long_and_long_hops_are_answered_from() {
    let question = text_of(&request(&[], false)).len();
    for (room, hops, expected) in [
        (question, &[][..], Ok("?Who is the mother of Amy Dunne?")),
        (question - 1, &[], Err("narrow cannot take so much")),
        (PROMPT.len(), HOPS, Ok("?Who is the mother of Amy Dunne?")),
        // The last thing that was found.
        (PROMPT.len() - 1, HOPS, Ok("=Amy Dunne")),
    ] {
        let planner = StepPlanner::new(Narrow::new(room, ASKED));
        let call = Call::authoritative();
        let first = planner.clone().as_last(false);
        let refused = first.plan(&call, request(hops, false)).now_or_never();
        let has_room = refused.unwrap().is_ok();
        assert_eq!(has_room, expected.is_ok_and(|step| step.starts_with('?')));
        let planned = planner.plan(&call, request(hops, false));
        match (planned.now_or_never().unwrap(), expected) {
            (Ok(planned), Ok(expected)) => {
                let step = match planned.step {
                    Step::Ask(asked) => format!("?{}", asked.as_str()),
                    Step::Answer(answer) => format!("={answer}"),
                };
                assert_eq!(step, expected);
            }
            (Err(error), Err(expected)) => {
                assert!(matches!(error, PortError::TooLong { .. }));
                assert!(error.to_string().contains(expected), "{error}");
            }
            (planned, _) => panic!("{planned:?} is not {expected:?}"),
        }
    }
}

#[test]
fn of_a_page_only_the_beginning_is_looked_up() {
    for (word, times, chars) in [
        ("word ", 10, 49),
        // As much of it as there may be characters.
        ("word ", 600, 299),
        // A reader's vocabulary is English: here every letter is a token.
        ("слово ", 200, 179),
        ("東", 1_000, 150),
    ] {
        let mut request = request(&[], false);
        request.question = Question::new(&word.repeat(times)).unwrap();
        let Step::Ask(asked) = fallback(&request) else {
            panic!("nothing is known yet");
        };
        assert_eq!(asked.as_str().chars().count(), chars, "{word}");
    }
}

#[test]
fn the_prompt_is_byte_for_byte_that_of_the_training() {
    assert_eq!(text_of(&request(HOPS, false)), PROMPT);
    assert_eq!(text_of(&request(HOPS, true)), PROMPT);
    for (asked, answer, line) in [
        (
            "When was Halcón Suriano Jr. born?",
            "19 August 1990",
            "When was Halcón Suriano Jr. born? => 19 August 1990\n",
        ),
        (" two\n\tlines ", "a,\r\nb, ,\n", "two lines => a, b\n"),
        ("x => y", "=>", "x -> y => ->\n"),
        ("==>", "a=>=>b", "=-> => a->->b\n"),
        ("Answer: 42", "Answer: 42", "Answer : 42 => Answer: 42\n"),
        ("\n", " \n", "? => No relevant information found\n"),
        (
            "<|im_end|>",
            "<answer> [INST]",
            "<|im_end|> => <answer> [INST]\n",
        ),
    ] {
        let text = text_of(&request(&[(asked, answer)], false));
        let (_, hop) = text.split_once('\n').unwrap();
        assert_eq!(hop, line);
    }
    let long = "é ".repeat(2_000);
    let text = text_of(&request(&[(&long, &long)], false));
    assert!(text.chars().count() < 700);
    assert!(text.ends_with("é\n"), "{text}");
}

#[test]
fn the_first_line_that_is_a_step_is_the_step() {
    let request = request(HOPS, false);
    let note = "Compare: 1990 > 1848\n".to_owned();
    for (says, shown, read) in [
        (
            vec![ASKED],
            "?Who is the mother of Amy Dunne?",
            vec![(String::new(), 64)],
        ),
        (
            vec!["Who  is she?\n"],
            "?Who is she?",
            vec![(String::new(), 64)],
        ),
        (vec!["Answer: Ada, \n"], "=Ada,", vec![(String::new(), 64)]),
        (vec![" Answer: Ada =>"], "=Ada", vec![(String::new(), 64)]),
        (
            vec![&note, "Answer: Ada\n"],
            "=Ada",
            vec![(String::new(), 64), (note.clone(), 64)],
        ),
        (
            vec!["Compare: 1990 =>", ASKED],
            "?Who is the mother of Amy Dunne?",
            vec![(String::new(), 64), ("Compare: 1990\n".to_owned(), 64)],
        ),
        (
            vec!["Compare: American / Australian: same\n", "Answer: no\n"],
            "=no",
            vec![
                (String::new(), 64),
                ("Compare: American / Australian: different\n".to_owned(), 64),
            ],
        ),
        // An answer may be longer than a sub-question.
        (
            vec!["Answer: Ada of", " Hull\n"],
            "=Ada of Hull",
            vec![(String::new(), 64), ("Answer: Ada of".to_owned(), 64)],
        ),
        (
            vec!["Answer: Ada of", " Hull and so"],
            "=Ada of Hull and so",
            vec![(String::new(), 64), ("Answer: Ada of".to_owned(), 64)],
        ),
    ] {
        assert_eq!(check(&says, &request), (shown.to_owned(), read), "{says:?}");
    }
}

/// An engine that sees only the text knows what will be looked up.
#[test]
fn what_is_asked_for_stands_in_the_text() {
    for (text, asked) in [
        (ASKED, Some("Who is the mother of Amy Dunne?")),
        (" Who  is she? =>", Some("Who is she?")),
        ("Who is she?\n", None),
        (" Ada\n", None),
        ("Answer: Ada =>", None),
        ("Compare: 1990 =>", None),
        ("? =>", None),
        ("", None),
    ] {
        let found = StepPlanner::asked(text);
        assert_eq!(found.as_ref().map(SubQuestion::as_str), asked, "{text:?}");
        if let Some(asked) = asked {
            let (step, _) = check(&[text], &request(&[], false));
            assert_eq!(step, format!("?{asked}"));
        }
    }
}

/// What the hops of a comparison can be.
const BORN: &[(&str, &str)] = &[
    ("When was Amy Dunne born?", "19 August 1990"),
    ("When was Ben Birk born?", "8 October 1848"),
];

#[test]
fn what_follows_from_the_hops_no_model_is_asked() {
    for must_answer in [false, true] {
        let mut request = request(BORN, must_answer);
        request.question = Question::new("Who is older, Amy Dunne or Ben Birk?").unwrap();
        assert_eq!(check(&[], &request), ("=Ben Birk".to_owned(), Vec::new()));
    }
}

#[test]
fn what_may_be_written_goes_with_the_prompt() {
    let from = [
        ("Which country is Blue Kite from?", "Atlantis"),
        ("Which country is Kangaroo from?", "Peru"),
    ];
    let foreseen = "Who is Blue?";
    let note = "Compare: Atlantis / Peru: different\n";
    let endings = ["Answer: Peru\n", note];
    for must_answer in [false, true] {
        let mut request = request(&from, must_answer);
        request.question = Question::new("Are Blue Kite and Kangaroo from one country?").unwrap();
        let draft = |asked| Draft {
            sub_question: SubQuestion::new(asked),
            chance: Chance::EVEN,
        };
        request.drafts = vec![draft(foreseen), draft("Who is it?")];
        let model = model(&[note, "Answer: no\n"]);
        let planner = StepPlanner::new(model.clone());
        let planned = planner
            .plan(&Call::authoritative(), request)
            .now_or_never()
            .unwrap();
        assert_eq!(planned.unwrap().step, Step::Answer("no".into()));
        let asked = model.asked.lock();
        let drafts: Vec<Vec<&str>> = asked
            .iter()
            .map(|asked| asked.drafts.iter().map(|draft| &*draft.text).collect())
            .collect();
        // Who must answer asks nothing.
        let line = format!("{foreseen} =>");
        let asks = [line.as_str()].into_iter().filter(|_| !must_answer);
        let first: Vec<&str> = asks.chain(endings).collect();
        assert_eq!(drafts, [first, vec!["Answer: no\n"]]);
        // How likely a sub-question is has been counted, and how likely an ending is has not.
        let counted = asked[0].drafts.iter().filter_map(|draft| draft.chance);
        assert!(counted.eq((!must_answer).then_some(Chance::EVEN)));
    }
}

#[test]
fn what_must_answer_answers() {
    let request = request(HOPS, true);
    let note = "Compare: 1990 > 1848\n".to_owned();
    let forced = ("Answer:".to_owned(), 128);
    for (says, shown, read) in [
        (vec!["Answer: Ada\n"], "=Ada", vec![(String::new(), 128)]),
        (
            vec!["Answer: Ada and"],
            "=Ada and",
            vec![(String::new(), 128)],
        ),
        (
            vec![ASKED, " Ada\n"],
            "=Ada",
            vec![(String::new(), 128), forced.clone()],
        ),
        (
            vec![&note, ASKED, " Ada => Bea\n"],
            "=Ada",
            vec![
                (String::new(), 128),
                (note.clone(), 128),
                (format!("{note}Answer:"), 128),
            ],
        ),
        // It says nothing: the last thing that was found.
        (
            vec!["\n", "\n"],
            "=Amy Dunne",
            vec![(String::new(), 128), forced.clone()],
        ),
        (vec!["Answer:\n"], "=Amy Dunne", vec![(String::new(), 128)]),
        (
            vec!["Answer: ?!\n"],
            "=Amy Dunne",
            vec![(String::new(), 128)],
        ),
        (
            vec![ASKED, " Answer: Ada\n"],
            "=Ada",
            vec![(String::new(), 128), forced],
        ),
    ] {
        assert_eq!(check(&says, &request), (shown.to_owned(), read), "{says:?}");
    }
    // Notes without end.
    let (shown, read) = check(&[&note, &note, &note, " Ada\n"], &request);
    assert_eq!((shown.as_str(), read.len()), ("=Ada", 4));
    // Nothing is known.
    for hops in [&[][..], &HOPS[1..]] {
        let request = self::request(hops, true);
        assert_eq!(check(&["", ""], &request).0, "=unknown");
    }
}

#[test]
fn a_line_that_is_no_step_is_made_one() {
    for garbled in [
        "",
        "\n",
        " =>",
        "?! =>",
        "Who is the mother of the",
        "Who is No relevant information found? =>",
        "What is the answer to \"NO RELEVANT  information found.\"\n",
    ] {
        // First of all the whole question is looked up.
        let (shown, read) = check(&[garbled], &request(&[], false));
        assert_eq!(
            shown,
            "?Who is the mother of the director of film Blue Kite?"
        );
        assert_eq!(read.len(), 1);
        // Later it is made to answer.
        let (shown, read) = check(&[garbled, " Ada\n"], &request(HOPS, false));
        assert_eq!(shown, "=Ada");
        assert_eq!(read[1], ("Answer:".to_owned(), 128));
        let (shown, _) = check(&[garbled, "\n"], &request(HOPS, false));
        assert_eq!(shown, "=Amy Dunne");
    }
    let (shown, read) = check(&["Answer: \n"], &request(&[], false));
    assert_eq!(
        shown,
        "?Who is the mother of the director of film Blue Kite?"
    );
    assert_eq!(read.len(), 1);
}

#[test]
fn a_failing_model_is_an_error() {
    for says in [&[][..], &["Compare: 1 < 2\n"], &["\n"]] {
        let (shown, _) = check(says, &request(HOPS, false));
        assert_eq!(shown, "!script is unavailable", "{says:?}");
    }
}

#[tokio::test]
async fn keeps_the_contract() {
    contract::planner(&StepPlanner::new(model(&[ASKED, "Answer: X\n"]))).await;
    contract::planner(&StepPlanner::new(model(&["", "", ""]))).await;
    contract::planner(&StepPlanner::new(model(&["Answer:\n", "", "\n"]))).await;
}

/// Reads a prompt as the training does.
fn parse(text: &str) -> Option<(&str, Vec<(&str, &str)>)> {
    let mut lines = text.strip_suffix('\n')?.split('\n');
    let question = lines.next()?.strip_prefix("Question: ")?;
    let hops: Option<Vec<_>> = lines
        .map(|line| {
            let other = [QUESTION, NOTE, ANSWER].iter().any(|l| line.starts_with(l));
            line.split_once(" => ").filter(|_| !other)
        })
        .collect();
    Some((question, hops?))
}

/// Texts with all that could break a line, and all that could forge one.
const HOSTILE: &str = r"( =>|=>|=|>|\n|\r|\t|\u{0}|\u{2028}|\u{85}| |,|Answer:|Compare:|Question:|<\|im_end\|>|é|\?|\PC){0,12}";

proptest! {
    /// Whatever the texts, the prompt has one line for the question and one for each hop.
    #[test]
    fn no_text_breaks_a_line(question in HOSTILE, hops in prop::collection::vec((HOSTILE, HOSTILE), 0..4)) {
        let Ok(question) = Question::new(&question) else { return Ok(()) };
        let known = hops.iter().map(|(asked, answer)| KnownHop {
            sub_question: SubQuestion::new(asked),
            answer: answer.as_str().into(),
        });
        let mut request = PlanRequest { question, hops: known.collect(), must_answer: false, drafts: Vec::new()  };
        let text = text_of(&request);
        prop_assert!(!text.contains(|c: char| c.is_control() && c != '\n'));
        prop_assert_eq!(text.matches("=>").count(), hops.len());
        let (question, read) = parse(&text).unwrap();
        prop_assert_eq!(read.len(), hops.len());
        for part in read.into_iter().flat_map(|(asked, answer)| [asked, answer]).chain([question]) {
            prop_assert!(!part.is_empty() && part == part.trim(), "{:?}", part);
        }
        // The step before was a prefix of it.
        if request.hops.pop().is_some() {
            prop_assert!(text.starts_with(&text_of(&request)));
        }
    }

    /// Whatever the model says, the step is one, and it comes after few generations.
    #[test]
    fn no_output_breaks_the_contract(
        says in prop::collection::vec(HOSTILE, 6),
        hops in prop::collection::vec((HOSTILE, HOSTILE), 0..3),
        must_answer: bool,
    ) {
        let ends = says.into_iter().map(|mut text| {
            let end = if cut_at_stop(&mut text, 0, LINE_END) { End::Stop } else { End::Length };
            (text, end)
        });
        let model = scripted_ends(ends);
        let hops: Vec<_> = hops.iter().map(|(asked, answer)| (asked.as_str(), answer.as_str())).collect();
        let plan = StepPlanner::new(model.clone());
        let planned = plan.plan(&Call::authoritative(), request(&hops, must_answer)).now_or_never().unwrap().unwrap();
        match planned.step {
            Step::Ask(asked) => {
                prop_assert!(!must_answer && !asked.key().is_empty());
                prop_assert!(!asked.as_str().contains(ARROW) && !asked.as_str().contains('\n'));
            }
            Step::Answer(answer) => prop_assert!(has_substance(&answer)),
        }
        let asked = model.asked.lock().len();
        prop_assert!(asked <= 2 + NOTES_MAX, "{} generations", asked);
        prop_assert_eq!(planned.tokens.total(), 11 * asked as u64);
    }
}
