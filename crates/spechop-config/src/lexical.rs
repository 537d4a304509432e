//! How much words count beside vectors.

use spechop_store::LexicalWeight;

use super::Target;
use super::keys::Keys;

/// The key by which it is set.
pub const LEXICAL_WEIGHT: &str = "index.lexical_weight";

/// `target`: whether the index is looked up in, or guesses what is found elsewhere.
pub(super) fn lexical_weight(keys: &mut Keys<'_>, target: &Target) -> LexicalWeight {
    let auto = match target {
        Target::Web(_) => LexicalWeight::AutoForWeb,
        _ => LexicalWeight::Auto,
    };
    if keys.is(LEXICAL_WEIGHT, "auto") {
        return auto;
    }
    let weight = keys.number(LEXICAL_WEIGHT);
    weight.map_or(auto, |weight| LexicalWeight::Fixed(weight as f32))
}
