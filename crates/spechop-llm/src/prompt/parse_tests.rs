use std::sync::Arc;

use proptest::prelude::*;
use spechop_types::{Observation, Question, Tokens};

use super::*;

const WHOLE: &str = "Who is the mother of the director of Blue Kite?";
const KNOWN: &str = "Who directed Blue Kite?";

fn request(hops: usize, must_answer: bool) -> PlanRequest {
    let hop = KnownHop {
        sub_question: SubQuestion::new(KNOWN),
        answer: Arc::from("Amy Dunne"),
    };
    PlanRequest {
        question: Question::new(WHOLE).unwrap(),
        hops: vec![hop; hops],
        must_answer,
        drafts: Vec::new(),
    }
}

fn said(text: &str, end: End) -> Generated {
    Generated {
        text: text.to_owned(),
        end,
        certainty: None,
        tokens: Tokens::default(),
    }
}

/// `?…` a question, `=…` an answer, `~…` a flaw with its fallback.
fn show(step: Result<Step, Flaw<Step>>) -> String {
    let show = |step: &Step| match step {
        Step::Ask(asked) => format!("?{}", asked.as_str()),
        Step::Answer(answer) => format!("={answer}"),
    };
    match step {
        Ok(step) => show(&step),
        Err(flaw) => format!("~{}", flaw.fallback.as_ref().map(show).unwrap_or_default()),
    }
}

fn check(request: &PlanRequest, style: PromptStyle, cases: &[(&str, End, &str)]) {
    for (text, end, expected) in cases {
        let step = show(step(style, request, &said(text, *end)));
        assert_eq!(&step, expected, "{text:?}");
    }
}

#[test]
fn reads_steps() {
    use End::{Length, Stop, Turn};
    let cases = [
        ("<question>Who is X?</question>", Stop, "?Who is X?"),
        ("<answer>X</answer>", Stop, "=X"),
        (
            "1921, 1948; later is 1948. <answer>Red Barn</answer>",
            Stop,
            "=Red Barn",
        ),
        // The closing tag is missing, another one, in another case, or alone.
        ("<question>Who is X?", Turn, "?Who is X?"),
        // Half of one is none: the question itself will do.
        (
            "<question>Who is X and",
            Length,
            "~?Who is the mother of the director of Blue Kite?",
        ),
        ("<answer>X and", Length, "=X and"),
        ("<answer>X</question>", Stop, "=X"),
        ("< Question >Who is X?</ QUESTION>", Turn, "?Who is X?"),
        ("Who is X?</question>", Stop, "?Who is X?"),
        // Tags in tags, and several.
        ("<question><answer>X</answer>", Stop, "=X"),
        (
            "<answer><question>Who is X?</question></answer>",
            Turn,
            "?Who is X?",
        ),
        (
            "<question></question> <question>Who is X?</question>",
            Turn,
            "?Who is X?",
        ),
        // Wrapping.
        (
            "```xml\n<question>\nWho is X?\n</question>\n```",
            Turn,
            "?Who is X?",
        ),
        (
            "<question>Question: \"Who is X?\"</question>",
            Stop,
            "?Who is X?",
        ),
        ("<answer>The answer is **X**</answer>", Stop, "=X"),
        ("Let me see.\nWho is X?", Turn, "?Who is X?"),
        // Nothing in it.
        ("", Turn, "~"),
        ("<question></question>", Stop, "~"),
        ("<answer> … </answer>", Stop, "~"),
        ("Facts: none", Turn, "~"),
        ("no no no no no no", Length, "~"),
        // Nothing new in it.
        (
            "<question>Who is the mother of the director of Blue Kite</question>",
            Stop,
            "~?Who is the mother of the director of Blue Kite",
        ),
        // About an example, unless the question is, too.
        (
            "<question>When was Jan Roe born?</question>",
            Stop,
            "~?Who is the mother of the director of Blue Kite?",
        ),
        (
            "<question>Who directed BLUE KITE?</question>",
            Stop,
            "?Who directed BLUE KITE?",
        ),
        // About what was not found.
        (
            "<question>Who is NO relevant information found?</question>",
            Stop,
            "~?Who is the mother of the director of Blue Kite?",
        ),
        // A question for an answer; a title may look like one.
        (
            "<answer>When was the director born?</answer>",
            Stop,
            "?When was the director born?",
        ),
        ("<answer>Blue Kite?</answer>", Stop, "=Blue Kite?"),
    ];
    check(&request(0, false), PromptStyle::Tagged, &cases);
    let cases = [
        (
            "<question>Who directed BLUE KITE?</question>",
            Stop,
            "~?Who directed BLUE KITE?",
        ),
        (
            "<question>Who is the mother of Amy Dunne?</question>",
            Stop,
            "?Who is the mother of Amy Dunne?",
        ),
        (
            "<answer>When was Amy Dunne born?</answer>",
            Stop,
            "?When was Amy Dunne born?",
        ),
        ("<answer>Amy Dunne?</answer>", Stop, "=Amy Dunne?"),
        ("<question>When was Jan Roe born?</question>", Stop, "~"),
        (
            "<question>Who is \"No relevant information found\"?</question>",
            Stop,
            "~",
        ),
        ("<question>Who is X and", Length, "~"),
        ("<answer>King Ottar IV</answer>", Stop, "~=Amy Dunne"),
    ];
    check(&request(1, false), PromptStyle::Tagged, &cases);
}

#[test]
fn of_a_long_question_only_the_beginning_is_looked_up() {
    let mut request = request(0, false);
    request.question = Question::new(&"слово ".repeat(200)).unwrap();
    for (text, end) in [
        ("<question>When was Jan Roe born?</question>", End::Stop),
        ("<question>слово слово сло", End::Length),
    ] {
        let flaw = step(PromptStyle::Tagged, &request, &said(text, end)).unwrap_err();
        let Some(Step::Ask(asked)) = flaw.fallback else {
            panic!("{text}: nothing is looked up");
        };
        assert_eq!(asked.as_str().chars().count(), 179, "{text}");
    }
}

#[test]
fn must_answer_makes_an_answer_of_anything_usable() {
    use End::{Length, Stop, Turn};
    let cases = [
        ("<answer>X</answer>", Stop, "=X"),
        ("X", Turn, "=X"),
        ("So:\nX Y", Turn, "=X Y"),
        ("<question>Who is X?</question>", Stop, "~=Who is X?"),
        ("X X X", Length, "~=X X X"),
        ("", Turn, "~"),
        ("…", Turn, "~"),
    ];
    check(&request(0, true), PromptStyle::Tagged, &cases);
    let cases = [
        ("<question>Who is X?</question>", Stop, "~=Amy Dunne"),
        ("<answer>Who is X?</answer>", Stop, "~=Amy Dunne"),
        ("", Turn, "~=Amy Dunne"),
    ];
    check(&request(1, true), PromptStyle::Tagged, &cases);
    // A hop that has found nothing is passed over.
    let mut request = request(1, true);
    request.hops.push(KnownHop {
        sub_question: SubQuestion::new("When did Amy Dunne die?"),
        answer: Observation::NOTHING.into(),
    });
    check(&request, PromptStyle::Tagged, &cases);
}

#[test]
fn reads_steps_of_a_corag_model() {
    use End::{Stop, Turn};
    let cases = [
        ("Who is X?", Turn, "?Who is X?"),
        (
            "\nIntermediate query 1: Who is X?\n",
            Stop,
            "?Intermediate query 1: Who is X?",
        ),
        ("Query: Who is X?\nBecause", Turn, "?Who is X?"),
        ("", Turn, "~"),
        (
            WHOLE,
            Turn,
            "~?Who is the mother of the director of Blue Kite?",
        ),
        (
            "Who is no relevant information found?",
            Turn,
            "~?Who is the mother of the director of Blue Kite?",
        ),
    ];
    check(&request(0, false), PromptStyle::Corag, &cases);
    let cases = [
        ("Rose Adair", Turn, "=Rose Adair"),
        ("", Turn, "~=Amy Dunne"),
    ];
    check(&request(1, true), PromptStyle::Corag, &cases);
}

#[test]
fn reads_readings() {
    use End::{Length, Stop, Turn};
    for (text, end, expected) in [
        ("<answer>3 May 1921</answer>", Stop, "=3 May 1921"),
        ("3 May 1921", Turn, "=3 May 1921"),
        ("Answer: 'The Unknown'", Turn, "=The Unknown"),
        (
            "<answer>No relevant information found</answer>",
            Stop,
            "none",
        ),
        ("No relevant information found.", Turn, "none"),
        ("<answer>Unknown</answer>", Stop, "none"),
        ("I don't know.", Turn, "none"),
        ("It is hard to say.", Turn, "none"),
        (
            "<answer>Hard to Say I'm Sorry</answer>",
            Stop,
            "=Hard to Say I'm Sorry",
        ),
        (
            "The passages do not mention her birth, and so on and",
            Length,
            "none",
        ),
        ("<answer>Amy Dunne and then", Length, "~=Amy Dunne and then"),
        ("Amy Dunne and then", Length, "~"),
        ("<answer></answer>", Stop, "~"),
        ("", Turn, "~"),
    ] {
        for style in [PromptStyle::Tagged, PromptStyle::Corag] {
            let show = |answer: &Option<Arc<str>>| match answer {
                Some(answer) => format!("={answer}"),
                None => "none".to_owned(),
            };
            let read = match reading(style, &said(text, end)) {
                Ok(answer) => show(&answer),
                Err(flaw) => format!("~{}", flaw.fallback.as_ref().map(show).unwrap_or_default()),
            };
            assert_eq!(read, expected, "{style:?} {text:?}");
        }
    }
}

#[test]
fn reads_guesses() {
    use End::{Length, Stop, Turn};
    for (text, end, guess) in [
        ("Ingmar Bergman\n", Stop, Some("Ingmar Bergman")),
        ("The answer is Ingmar Bergman", Turn, Some("Ingmar Bergman")),
        (
            "Ingmar Bergman, a Swedish film",
            Length,
            Some("Ingmar Bergman"),
        ),
        ("Ingmar Bergman (14 July", Length, Some("Ingmar Bergman")),
        ("Oslo. It is the", Length, Some("Oslo")),
        ("In 1990. It was", Length, Some("In 1990")),
        (
            "J. R. R. Tolkien, an English",
            Length,
            Some("J. R. R. Tolkien"),
        ),
        (
            "Dr. Strangelove. It is a film",
            Length,
            Some("Dr. Strangelove"),
        ),
        ("Yes. Both films were", Length, Some("Yes")),
        ("No. They were", Length, Some("No")),
        ("Spike Lee. He is", Length, Some("Spike Lee")),
        ("Chanel No. 5. It is", Length, Some("Chanel No. 5")),
        ("Paris, France", Turn, Some("Paris, France")),
        // The prompt has opened the tag.
        ("Paris</answer> and", Length, Some("Paris")),
        ("<answer>Paris</answer>", Turn, Some("Paris")),
        ("</answer>", Turn, None),
        ("unknown", Turn, None),
        ("I'm sorry, but I", Length, None),
        ("\n", Stop, None),
        ("<think>\n", Stop, None),
        ("<think>Is it?</think>\nParis\n", Stop, Some("Paris")),
        ("?!", Turn, None),
    ] {
        assert_eq!(guessed(&said(text, end)).as_deref(), guess, "{text:?}");
    }
}

proptest! {
    /// Whatever a model writes, it is read or refused, and what is read is never empty.
    #[test]
    fn any_text_is_read_or_refused(
        text in r"(<|>|/|answer|question|</answer>|<answer>|<question>|```|\?|\n| |İ|é|‹|\PC){0,40}",
        end in prop_oneof![Just(End::Stop), Just(End::Turn), Just(End::Length)],
        hops in 0..2usize,
        must_answer: bool,
    ) {
        let generated = said(&text, end);
        let request = request(hops, must_answer);
        for style in [PromptStyle::Tagged, PromptStyle::Corag] {
            let step = step(style, &request, &generated);
            match step.or_else(|flaw| flaw.fallback.ok_or(())) {
                Ok(Step::Ask(asked)) => prop_assert!(!must_answer && !asked.key().is_empty()),
                Ok(Step::Answer(answer)) => prop_assert!(has_substance(&answer)),
                Err(()) => {}
            }
            if let Ok(Some(answer)) = reading(style, &generated) {
                prop_assert!(has_substance(&answer));
            }
        }
        prop_assert!(guessed(&generated).is_none_or(|guess| has_substance(&guess)));
    }
}
