use super::*;

fn all() -> AnswerOptions {
    AnswerOptions {
        k: K::of(4),
        hop_budget: Some(5),
        top_passages: NonZeroUsize::new(3),
        verifier: Some(VerifierMode::Paper),
        speculator: Some("index".to_owned()),
        salvage: Some(false),
        plan_ahead: Some(true),
        guesses: NonZeroUsize::new(2),
        chance_min: Some(Chance::of(0.25)),
        not_found_max: Some(0),
        drafts: Some(0),
        effort: Some(Effort::High),
        fresh: true,
        quiet: true,
    }
}

#[test]
fn what_is_said_can_be_said_again() {
    let said = all().said();
    assert_eq!(said.len(), 14);
    let mut again = AnswerOptions::default();
    for (name, value) in &said {
        again.say(name, value).unwrap();
    }
    assert_eq!(again, all());
    assert_eq!(AnswerOptions::default().said(), []);
}

#[test]
fn what_cannot_be_said() {
    let mut options = AnswerOptions::default();
    for (name, value) in [
        ("k", "0"),
        ("k", "-1"),
        ("k", "any"),
        ("hop_budget", "0"),
        ("top_passages", "0"),
        ("verifier", "none"),
        ("salvage", "yes"),
        ("guesses", "0"),
        ("chance_min", "1.5"),
        ("chance_min", "NaN"),
        ("not_found_max", "-1"),
        ("effort", "some"),
    ] {
        let said = options.say(name, value);
        assert_eq!(said, Err(InvalidOption::Value), "{name}={value}");
    }
    assert_eq!(options.say("colour", "red"), Err(InvalidOption::Name));
    assert_eq!(options, AnswerOptions::default());
}

#[test]
fn others_decide_only_what_is_not_said() {
    let asked = AnswerOptions {
        k: Some(K::Auto),
        salvage: Some(true),
        ..AnswerOptions::default()
    };
    let filled = asked.clone().or(&all());
    assert_eq!(filled.k, Some(K::Auto));
    assert_eq!(filled.unlike(&all()), Some("k"));
    assert_eq!(asked.unlike(&filled), None);
    let rest = AnswerOptions {
        k: all().k,
        salvage: all().salvage,
        ..filled
    };
    assert_eq!(rest, all());
    assert_eq!(all().or(&AnswerOptions::default()), all());
}

#[test]
fn every_single_difference_is_named() {
    for (name, _) in all().said() {
        let mut other = all();
        let value = match name {
            "k" => "inf",
            "verifier" => "exact",
            "speculator" => "hot",
            "salvage" => "on",
            "plan_ahead" | "fresh" | "quiet" => "off",
            "chance_min" => "0.5",
            "effort" => "low",
            _ => "7",
        };
        other.say(name, value).unwrap();
        assert_eq!(all().unlike(&other), Some(name));
    }
}
