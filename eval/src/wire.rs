//! What live runs and load runs have in common on the wire: how a way to answer becomes a request, and
//! how a status is named.

use spechop_proto::{AskRequest, VerifierMode};
use tonic::Status;

use crate::{K, Variant, Verifier};

/// A request that is answered in this way. It holds no question yet, and no limits.
pub(crate) fn request(variant: &Variant) -> AskRequest {
    // Whoever chooses k chooses the rest, too, unless the variant names it.
    let chooses = variant.k == K::Auto;
    AskRequest {
        k: match variant.k {
            K::Bounded(k) => Some(k),
            K::Unbounded | K::Auto => None,
        },
        unbounded: variant.k == K::Unbounded,
        auto: variant.k == K::Auto,
        verifier: match variant.verifier {
            Verifier::Exact => VerifierMode::Exact,
            Verifier::Paper => VerifierMode::Paper,
            // What only the simulator can do was refused before.
            Verifier::Rule | Verifier::None => VerifierMode::Rule,
        }
        .into(),
        // The standard agent never guesses: a server without this speculator can be it as well.
        speculator: (!variant.is_standard()).then(|| variant.speculator.clone()),
        salvage: Some(variant.salvage),
        plan_ahead: (variant.plan_ahead || !chooses).then_some(variant.plan_ahead),
        guesses: Some(variant.guesses),
        chance_min: (variant.chance_min > 0.0 || !chooses).then_some(variant.chance_min),
        drafts: Some(variant.drafts),
        ..AskRequest::default()
    }
}

/// What of a variant only the simulator can do, as it is written.
pub(crate) fn simulated_only(variant: &Variant) -> Option<&'static str> {
    match variant {
        Variant { rounds: true, .. } => Some("rounds=on"),
        Variant {
            verifier: Verifier::None,
            ..
        } => Some("verifier=none"),
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
        let auto = request(&"k=auto".parse().unwrap());
        assert!(auto.auto && auto.k.is_none() && auto.chance_min.is_none());
        let named = request(&"k=auto,chance-min=0.25".parse().unwrap());
        assert_eq!(named.chance_min, Some(0.25));
        let fixed = request(&"k=3".parse().unwrap());
        assert_eq!((fixed.k, fixed.plan_ahead), (Some(3), Some(false)));
    }
}
