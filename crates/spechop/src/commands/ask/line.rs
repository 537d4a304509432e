//! An event as a line of text.

use spechop_proto::ask_event::Event;
use spechop_proto::{AskEvent, CommitKind, Hop, Refusal, Stage};

use super::answer::changed;
use crate::commands::clean::clean;

/// Why a fallback is asked, or an answer is withheld.
pub(super) const HARDLY: &str = "hardly a question of the form that the planner was trained on";

/// Said if the fallback came to nothing: what was rolled back for it is the answer's after all.
const TAKEN_BACK: &str = "⇄ the fallback has no answer: what was told before it counts";

/// The events of a question, as lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Another model has begun anew.
    handed_over: bool,
}

impl Lines {
    /// The line of the next event, if it has one.
    pub(super) fn of(&mut self, event: &AskEvent) -> Option<String> {
        match event.event.as_ref()? {
            Event::HandedOver(_) => self.handed_over = true,
            Event::Answer(answer) if self.handed_over && answer.handed_over.is_none() => {
                return Some(stamped(event, TAKEN_BACK));
            }
            _ => {}
        }
        event_line(event)
    }
}

/// An event as a line of its own.
pub(super) fn event_line(event: &AskEvent) -> Option<String> {
    let what = match event.event.as_ref()? {
        Event::Tuned(tuned) => format!("k = {}: {}", tuned.k, clean(&tuned.reason)),
        Event::Launched(launched) => match launched.stage() {
            Stage::Segment => "✎ writing the next step".to_owned(),
            Stage::Target => "… looking up".to_owned(),
            Stage::Speculation => "~ guessing".to_owned(),
            Stage::Draft => "~ drafting the next step".to_owned(),
            Stage::Unspecified => return None,
        },
        Event::Planned(planned) => {
            format!(
                "» {}{}",
                clean(&planned.sub_question),
                took(planned.took_ms)
            )
        }
        Event::Drafted(drafted) => {
            let chance = if event.provisional {
                format!(", chance {:.2}", drafted.chance)
            } else {
                String::new()
            };
            format!(
                "= answer: {}{chance}{}",
                clean(&drafted.answer),
                took(drafted.took_ms)
            )
        }
        Event::Guessed(guessed) => match &guessed.guess {
            Some(guess) => {
                let mut guesses = clean(guess);
                for other in &guessed.others {
                    guesses.push_str(", or ");
                    guesses.push_str(&clean(other));
                }
                if let Some(by) = &guessed.by {
                    guesses.push_str(", by ");
                    guesses.push_str(&clean(by));
                }
                format!("~ guess: {guesses}{}", took(guessed.took_ms))
            }
            None => format!("~ no idea{}", took(guessed.took_ms)),
        },
        Event::Observed(observed) => {
            let answer = observed
                .observation
                .as_ref()
                .map(|seen| clean(&seen.answer));
            format!(
                "• found: {}{}",
                answer.unwrap_or_default(),
                took(observed.took_ms)
            )
        }
        Event::Verified(verified) => {
            let verdict = verified.verdict.as_ref()?;
            let word = if verdict.accepted {
                "accepted"
            } else {
                "rejected"
            };
            format!("  guess {word} ({})", clean(&verdict.rule))
        }
        Event::Committed(committed) => {
            format!(
                "✓ committed: {}",
                committed.hop.as_ref().map(settled).unwrap_or_default()
            )
        }
        Event::AskedAhead(ahead) => {
            let percent = ahead.chance * 100.0;
            let asked = clean(&ahead.sub_question);
            format!("→ may ask ({percent:.0} %), looking up: {asked}")
        }
        Event::Foreseen(foreseen) => {
            format!("⇥ asked as drafted{}", took(foreseen.saved_ms))
        }
        Event::Salvaged(salvaged) => {
            format!("♻ looked up before{}", took(salvaged.saved_ms))
        }
        Event::Promoted(_) => "↑ needed now".to_owned(),
        Event::RolledBack(_) => "✗ rolled back".to_owned(),
        Event::NotSpeculated(refused) => {
            let work = match refused.stage() {
                Stage::Segment => "writing",
                Stage::Target => "looking up",
                Stage::Speculation => "guessing",
                Stage::Draft => "drafting",
                Stage::Unspecified => return None,
            };
            format!("– not {work} ahead of need: {}", why(refused.reason()))
        }
        Event::Failed(failed) => format!("! failed: {}", clean(&failed.reason)),
        Event::ProviderChanged(change) => format!("⇄ provider: {}", changed(change)),
        Event::HandedOver(handed) => {
            format!(
                "⇄ handed over to the fallback ({:.2}): {HARDLY}",
                handed.of_form
            )
        }
        Event::Answer(_) => return None,
    };
    Some(stamped(event, &what))
}

/// What happened, behind when and where it did.
fn stamped(event: &AskEvent, what: &str) -> String {
    let provisional = if event.provisional { '?' } else { ' ' };
    let seconds = event.at_ms / 1000.0;
    format!(
        "{seconds:>8.3}s  hop {} b{:<2} {provisional} {what}",
        event.hop, event.branch
    )
}

/// The reason in a few words.
pub(super) fn why(reason: Refusal) -> &'static str {
    match reason {
        Refusal::Denied => "denied by policy",
        Refusal::NoPlace => "no free place",
        Refusal::Preempted => "its turn was needed",
        Refusal::PushedBack => "backend asked for less",
        Refusal::Budget => "budget",
        Refusal::Unlikely => "too unlikely",
        Refusal::NoCore => "no idle core",
        Refusal::Unspecified => "unknown",
    }
}

/// A committed hop's answer and how it came about.
pub(super) fn settled(hop: &Hop) -> String {
    let answer = clean(&hop.sub_answer);
    match (hop.kind(), hop.guess.as_deref().map(clean)) {
        (CommitKind::Accepted, Some(_)) => format!("{answer}  (guessed)"),
        (CommitKind::Rejected, Some(guess)) => format!("{answer}  (not {guess})"),
        (CommitKind::Accepted | CommitKind::Rejected, None)
        | (CommitKind::Observed | CommitKind::Unspecified, _) => answer,
    }
}

fn took(took_ms: f64) -> String {
    format!("  [{took_ms:.0} ms]")
}

#[cfg(test)]
mod tests {
    use spechop_proto::{AskResponse, HandedOver};

    use super::*;

    #[test]
    fn a_fallback_that_fails_has_a_line() {
        let handed_over = HandedOver { of_form: 0.062 };
        let event = |event| AskEvent {
            at_ms: 5000.0,
            event: Some(event),
            ..AskEvent::default()
        };
        let answer = |handed_over| {
            event(Event::Answer(AskResponse {
                handed_over,
                ..AskResponse::default()
            }))
        };
        let mut lines = Lines::default();
        assert_eq!(lines.of(&answer(None)), None);
        assert!(lines.of(&event(Event::HandedOver(handed_over))).is_some());
        assert_eq!(lines.of(&answer(Some(handed_over))), None);
        let told = lines.of(&answer(None)).expect("a line");
        assert_eq!(told, format!("   5.000s  hop 0 b0    {TAKEN_BACK}"));
    }
}
