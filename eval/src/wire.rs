//! What live runs and load runs have in common on the wire: how a way to answer becomes a request, and
//! how a status is named.

use spechop_types::{AnswerOptions, Chance, K};
use tonic::Status;

use crate::Variant;

/// What a server is asked for, to answer in this way.
pub(crate) fn options(variant: &Variant) -> AnswerOptions {
    // Whoever chooses k chooses the rest, too, unless the variant names it.
    let chooses = variant.k() == K::Auto;
    let options = variant.options.clone();
    AnswerOptions {
        // The standard agent never guesses: a server without this speculator can be it as well. So can a
        // server whose look-ups are the guesses.
        speculator: options
            .speculator
            .filter(|_| !variant.is_standard() && !variant.target_off),
        plan_ahead: options.plan_ahead.filter(|ahead| *ahead || !chooses),
        chance_min: options
            .chance_min
            .filter(|gate| *gate > Chance::NONE || !chooses),
        drafts: options.drafts.filter(|drafts| *drafts > 0 || !chooses),
        ..options
    }
}

/// What of a variant only the simulator can do, as it is written. `target_off`: whether there is a server
/// whose look-ups are the guesses.
pub(crate) fn simulated_only(variant: &Variant, target_off: bool) -> Option<&'static str> {
    match variant {
        Variant { rounds: true, .. } => Some("rounds=on"),
        Variant {
            guess_at_once: false,
            ..
        } => Some("guess-at-once=off"),
        Variant {
            on_observations: false,
            ..
        } => Some("on-observations=off"),
        Variant {
            target_off: true, ..
        } if !target_off => Some("target=off"),
        Variant {
            unverified: true,
            target_off: false,
            ..
        } => Some("verifier=none"),
        Variant {
            verdicts: Some(_), ..
        } => Some("verdicts=NAME"),
        _ => None,
    }
}

/// Whether the status was made on this side, of a connection that broke or could not be made. The codes
/// of those are many; a status that the server sent has no source.
pub(crate) fn is_lost(status: &Status) -> bool {
    std::error::Error::source(status).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_chooses_is_left_out_unless_it_is_named() {
        // Way to answer: k, plan ahead, least chance, drafts, as they are asked for.
        for (variant, expected) in [
            ("k=3", (K::of(3), Some(false), Some(Chance::NONE), Some(0))),
            ("k=auto", (Some(K::Auto), None, None, None)),
            (
                "k=auto,chance-min=0.25",
                (Some(K::Auto), None, Some(Chance::of(0.25)), None),
            ),
            (
                "k=auto,plan-ahead=on,drafts=2",
                (Some(K::Auto), Some(true), None, Some(2)),
            ),
        ] {
            let asked = options(&variant.parse().unwrap());
            let asked = (asked.k, asked.plan_ahead, asked.chance_min, asked.drafts);
            assert_eq!(asked, expected, "{variant}");
        }
    }
}
