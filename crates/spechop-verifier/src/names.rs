//! Names of people: titles, roles, post-nominals, initials, "Surname, Given".

use crate::tokens::{Kind, Token};

/// Titles that may go without a word lost: nobody else has the name without them.
const CIVIL: &[&str] = &[
    "doctor",
    "professor",
    "reverend",
    "president",
    "general",
    "colonel",
    "captain",
    "major",
    "admiral",
    "lieutenant",
    "sergeant",
    "cardinal",
    "archbishop",
    "bishop",
    "senator",
    "governor",
    "saint",
    "justice",
    "judge",
    "marshal",
    "chancellor",
];

/// The same of titles and roles that no place is named with.
const PERSONAL: &[&str] = &[
    "sir",
    "dame",
    "director",
    "filmmaker",
    "actor",
    "actress",
    "singer",
    "songwriter",
    "author",
    "writer",
    "novelist",
    "poet",
    "composer",
    "producer",
    "screenwriter",
    "musician",
    "rapper",
    "painter",
    "politician",
    "footballer",
];

/// Titles after which "X of Y" is a name. "Lieutenant Governor of Texas" is an office, and not the
/// governor's.
const BEFORE_OF: &[&str] = &["sir", "dame", "saint"];

/// Words with which no name starts.
const NO_NAME: &[&str] = &[
    "of", "and", "or", "the", "in", "on", "at", "to", "from", "with", "for", "by",
];

/// Titles that may be missing, but not be another one: Prince Arthur is not Princess Arthur, nor Pope
/// Leo III Emperor Leo III. `Mrs`, `Lady` and `Lord` are in neither table: Mrs John Smith is not John Smith.
const RANKS: &[&str] = &[
    "king", "queen", "prince", "princess", "emperor", "empress", "duke", "duchess", "count",
    "countess", "baron", "baroness", "sultan", "tsar", "pope", "mr", "ms", "miss",
];

/// With one of these a name is that of a body, a place or a thing, whose first word is no title: Duke
/// University Hospital is not University Hospital. None of them is a common surname.
const NOBODYS: &[&str] = &[
    "academy",
    "airport",
    "association",
    "avenue",
    "award",
    "awards",
    "boulevard",
    "building",
    "cathedral",
    "college",
    "company",
    "county",
    "creek",
    "cup",
    "district",
    "foundation",
    "gardens",
    "hospital",
    "hotel",
    "institute",
    "island",
    "islands",
    "league",
    "library",
    "market",
    "medal",
    "museum",
    "orchestra",
    "palace",
    "parish",
    "press",
    "province",
    "railway",
    "records",
    "regiment",
    "road",
    "school",
    "sound",
    "square",
    "stadium",
    "station",
    "street",
    "theater",
    "theatre",
    "trophy",
    "university",
];

/// A name that ends with one of these may be a place's: Saint John River is not John River. They
/// are surnames, too: Sir Peter Hall is Peter Hall.
const PLACES: &[&str] = &[
    "bay", "bridge", "church", "hall", "lake", "park", "river", "tower",
];

const POST_NOMINALS: &[&str] = &[
    "phd",
    "obe",
    "mbe",
    "cbe",
    "kbe",
    "dbe",
    "esq",
    "corp",
    "corporation",
    "inc",
    "ltd",
    "llc",
    "plc",
    "gmbh",
];

/// Words that are one title with a legal form, and another without: "Monsters, Inc." is a film.
const NO_COMPANIES: &[&str] = &[
    "batman", "crime", "divorce", "food", "infinity", "love", "models", "monsters", "murder",
    "plague", "rebels",
];

/// A name without its titles.
pub(crate) struct Untitled<'a> {
    pub(crate) name: &'a [Token],
    /// The rank that went, if one did.
    pub(crate) rank: Option<&'a str>,
}

/// Takes titles, roles and post-nominals off a name.
pub(crate) fn untitle(mut name: &[Token]) -> Untitled<'_> {
    // First, since they are no part of what must stay a name.
    while let [rest @ .., last] = name {
        let no_company = matches!(rest, [word] if word.is_any(NO_COMPANIES));
        if !last.is_any(POST_NOMINALS) || rest.is_empty() || no_company {
            break;
        }
        name = rest;
    }
    let mut rank = None;
    let may_be_titled = !is_nobodys(name);
    let may_be_place = name.last().is_some_and(|last| last.is_any(PLACES));
    let is_title = |token: &Token| token.is_any(PERSONAL) || !may_be_place && token.is_any(CIVIL);
    while may_be_titled && let [first, rest @ ..] = name {
        // At least two tokens must stay a name: "King Kong" is not "Kong", nor "Dr. No" "No".
        let [next, after, ..] = rest else { break };
        let named = first.is_any(BEFORE_OF) || !after.is("of");
        if next.is_any(NO_NAME) {
            break;
        }
        if first.is_any(RANKS) && rank.is_none() && !may_be_place {
            rank = Some(first.text.as_str());
        } else if !(is_title(first) && named || first.is("film") && is_title(next)) {
            break;
        }
        name = rest;
    }
    Untitled { name, rank }
}

fn is_nobodys(name: &[Token]) -> bool {
    name.iter().any(|token| token.is_any(NOBODYS))
}

/// Fewest words and initials of a name that initials stand in: `J. Smith` is nobody in particular.
const WITH_INITIALS_MIN: usize = 3;

/// Are these two writings of one name, where one spells out what the other gives as initials? The surname is
/// a word in both. "B Street Theatre" has no initials.
pub(crate) fn initials_agree(a: &[Token], b: &[Token]) -> bool {
    if is_nobodys(a) || is_nobodys(b) {
        return false;
    }
    let (a, b) = (initials_apart(a), initials_apart(b));
    let is_word = |token: &Token| token.kind == Kind::Word && !is_letter(token);
    let stands_for = |letter: &Token, word: &Token| {
        is_letter(letter) && is_word(word) && word.text.starts_with(&letter.text)
    };
    let agree = |x: &Token, y: &Token| x == y || stands_for(x, y) || stands_for(y, x);
    let surname = matches!((a.last(), b.last()), (Some(x), Some(y)) if x == y && is_word(x));
    surname
        && a.len() == b.len()
        && a.len() >= WITH_INITIALS_MIN
        && a.iter().zip(&b).all(|(x, y)| agree(x, y))
}

/// `jrr` as `j`, `r` and `r`.
fn initials_apart(name: &[Token]) -> Vec<Token> {
    let mut apart = Vec::with_capacity(name.len());
    for token in name {
        if token.kind == Kind::Initials {
            let letters = token.text.chars();
            apart.extend(letters.map(|letter| Token::new(letter, Kind::Initials)));
        } else {
            apart.push(token.clone());
        }
    }
    apart
}

fn is_letter(token: &Token) -> bool {
    matches!(token.kind, Kind::Word | Kind::Initials) && token.text.chars().nth(1).is_none()
}

/// `Smith, John` as `John Smith`; nothing where there is not exactly one comma.
pub(crate) fn uninverted(tokens: &[Token]) -> Option<Vec<Token>> {
    let at = tokens.iter().position(|token| token.is_mark(","))?;
    let (family, given) = (&tokens[..at], &tokens[at + 1..]);
    let simple = |part: &[Token]| {
        !part.is_empty()
            && part
                .iter()
                .all(|token| matches!(token.kind, Kind::Word | Kind::Initials))
    };
    (simple(family) && simple(given)).then(|| [given, family].concat())
}
