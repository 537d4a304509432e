//! How much words count beside vectors.

use spechop_store::LexicalWeight;

use super::keys::Keys;

/// The key.
pub(crate) const LEXICAL_WEIGHT: &str = "index.lexical_weight";

pub(super) fn lexical_weight(keys: &mut Keys<'_>) -> LexicalWeight {
    if keys.is(LEXICAL_WEIGHT, "auto") {
        return LexicalWeight::Auto;
    }
    let weight = keys.number(LEXICAL_WEIGHT);
    weight.map_or(LexicalWeight::Auto, |weight| {
        LexicalWeight::Fixed(weight as f32)
    })
}
