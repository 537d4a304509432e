//! One spelling for words that are written in several: abbreviations, British and American
//! English, German umlauts.

use unicode_normalization::UnicodeNormalization;

use crate::tokens::{Kind, Token};

/// Left is written as right. Only pairs that are one word in any text belong here.
const SPELLINGS: &[(&str, &str)] = &[
    ("st", "saint"),
    ("ste", "sainte"),
    ("mt", "mount"),
    ("ft", "fort"),
    ("dr", "doctor"),
    ("jr", "junior"),
    ("jnr", "junior"),
    ("sr", "senior"),
    ("snr", "senior"),
    ("prof", "professor"),
    ("gen", "general"),
    ("gov", "governor"),
    ("capt", "captain"),
    ("col", "colonel"),
    ("lt", "lieutenant"),
    ("sgt", "sergeant"),
    ("rev", "reverend"),
    ("sen", "senator"),
    ("pres", "president"),
    ("vs", "versus"),
    ("dept", "department"),
    ("univ", "university"),
    ("assn", "association"),
    ("bros", "brothers"),
    ("theater", "theatre"),
    ("center", "centre"),
    ("color", "colour"),
    ("honor", "honour"),
    ("harbor", "harbour"),
    ("labor", "labour"),
    ("neighbor", "neighbour"),
    ("armor", "armour"),
    ("defense", "defence"),
    ("organization", "organisation"),
    ("civilization", "civilisation"),
    ("jewelry", "jewellery"),
    ("aluminum", "aluminium"),
    ("catalog", "catalogue"),
    ("program", "programme"),
    ("traveler", "traveller"),
    ("kilometers", "km"),
    ("kilometres", "km"),
    ("kilometer", "km"),
    ("kilometre", "km"),
    ("meters", "metres"),
    ("dollar", "dollars"),
    ("euro", "euros"),
    ("pct", "percent"),
    ("ok", "okay"),
];

/// Words of two that are written as one.
const JOINED: &[(&str, &str, &str)] = &[("per", "cent", "percent"), ("e", "mail", "email")];

/// Gives every word its one spelling.
pub(crate) fn fold(mut tokens: Vec<Token>) -> Vec<Token> {
    for token in &mut tokens {
        if token.kind == Kind::Word
            && let Some((_, one)) = SPELLINGS.iter().find(|(other, _)| token.text == *other)
        {
            token.text = (*one).to_owned();
        }
    }
    for (first, second, one) in JOINED {
        while let Some(at) = tokens
            .windows(2)
            .position(|pair| pair[0].is(first) && pair[1].is(second))
        {
            tokens[at].text = (*one).to_owned();
            tokens.remove(at + 1);
        }
    }
    tokens
}

/// The text with `ä` written `ae`, and so on, if it has such letters. [`spechop_types::canonical`]
/// writes them `a`; both writings are usual.
pub(crate) fn without_umlauts(text: &str) -> Option<String> {
    let mut changed = false;
    let mut out = String::with_capacity(text.len() + 4);
    for c in text.nfc() {
        let pair = match c {
            'ä' | 'Ä' | 'æ' | 'Æ' => "ae",
            'ö' | 'Ö' | 'ø' | 'Ø' => "oe",
            'ü' | 'Ü' => "ue",
            'å' | 'Å' => "aa",
            c => {
                out.push(c);
                continue;
            }
        };
        changed = true;
        out.push_str(pair);
    }
    changed.then_some(out)
}
