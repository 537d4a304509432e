//! Places that say where they lie: "Teaneck, New Jersey".
//!
//! A comma makes a place more exact or goes on with a list. Only a table can tell, so only regions
//! of the table are read as "lies in". Its file says what it holds.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::tokens::{Kind, Token};

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(include_str!("../data/places.tsv")));

/// Words for a state before its name. Where both names are used by different states, none is taken.
const FORMS: &[&str] = &[
    "country of",
    "nation of",
    "state of",
    "republic of",
    "federal republic of",
    "kingdom of",
];

/// States that are a kingdom today. "Kingdom of Hungary" is another age's, with other borders.
const KINGDOMS: &[&str] = &[
    "bahrain",
    "belgium",
    "bhutan",
    "cambodia",
    "denmark",
    "eswatini",
    "jordan",
    "lesotho",
    "morocco",
    "netherlands",
    "norway",
    "saudi arabia",
    "spain",
    "sweden",
    "thailand",
    "tonga",
];

/// Kinds of places. Behind a name that several share, they tell which one is meant.
pub(crate) const KINDS: &[&str] = &[
    "capital",
    "city",
    "country",
    "county",
    "department",
    "district",
    "municipality",
    "nation",
    "province",
    "region",
    "republic",
    "state",
    "territory",
    "town",
    "village",
];

/// States whose formal name is another state's, or another age's, or whose bare name is rather a
/// city's. So the kind of place that a remark names matters, too.
const FORM_MATTERS: &[&str] = &[
    "china", "congo", "galicia", "georgia", "korea", "ireland", "israel", "mexico", "new york",
    "sardinia", "sicily", "sudan", "vietnam",
];

/// How large a region is; only a larger one may follow a smaller one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Extent {
    County,
    State,
    Nation,
    Country,
}

#[derive(Default)]
struct Table {
    /// The smallest extent of a name: Georgia is a state before it is a country.
    regions: HashMap<&'static str, Extent>,
    /// The regions that the bare name of a region or city lies in. A country lies in itself.
    meant: HashMap<&'static str, Vec<&'static str>>,
    namesakes: HashSet<&'static str>,
    aliases: HashMap<&'static str, &'static str>,
    codes: HashMap<&'static str, &'static str>,
}

impl Table {
    fn parse(text: &'static str) -> Self {
        let mut table = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let mut fields = line.split('\t');
            let (kind, name) = (fields.next().unwrap_or(""), fields.next().unwrap_or(""));
            let more = fields.next().unwrap_or("");
            let extent = match kind {
                "county" => Extent::County,
                "state" => Extent::State,
                "nation" => Extent::Nation,
                "country" => Extent::Country,
                "city" => {
                    table.lies_in(name, more);
                    continue;
                }
                "namesake" => {
                    table.namesakes.insert(name);
                    continue;
                }
                "alias" => {
                    table.aliases.insert(name, more);
                    continue;
                }
                "code" => {
                    table.codes.insert(name, more);
                    continue;
                }
                _ => continue,
            };
            table.regions.entry(name).or_insert(extent);
            table.lies_in(name, if more.is_empty() { name } else { more });
        }
        table
    }

    fn lies_in(&mut self, name: &'static str, regions: &'static str) {
        if !regions.is_empty() {
            self.meant.insert(name, regions.split(',').collect());
        }
    }
}

/// A text cut into a name and the regions that it is said to lie in, nearest first.
#[derive(Debug, Default)]
pub(crate) struct Placed<'a> {
    pub(crate) name: &'a [Token],
    pub(crate) within: Vec<&'static str>,
}

/// Cuts the regions off the end of a text. Where the table does not know them, or where the text
/// is rather a list ("France, Germany"), nothing is cut.
pub(crate) fn locate(tokens: &[Token]) -> Placed<'_> {
    let placed = cut_regions(tokens);
    let head = text_of(placed.name);
    let extent = |name: &str| TABLE.regions.get(name).copied();
    let smallest = placed.within.first().and_then(|&region| extent(region));
    let peer = smallest.is_some()
        && extent(alias(&head)) >= smallest
        && !placed.within.contains(&head.as_str());
    if peer || head.is_empty() {
        return Placed {
            name: tokens,
            within: Vec::new(),
        };
    }
    placed
}

/// The same of a text that is surely no list, such as a name and the region behind it in
/// parentheses: `Luxembourg (Belgium)` is a province.
pub(crate) fn cut_regions(tokens: &[Token]) -> Placed<'_> {
    let mut name = tokens;
    let mut within = Vec::new();
    let mut smallest = None;
    while let Some(comma) = name.iter().rposition(|token| token.is_mark(",")) {
        let part = text_of(&name[comma + 1..]);
        let code = TABLE.codes.get(part.as_str()).copied();
        let Some((&region, &extent)) = TABLE
            .regions
            .get_key_value(code.unwrap_or_else(|| alias(&part)))
        else {
            break;
        };
        if smallest.is_some_and(|smallest| extent >= smallest) {
            break;
        }
        smallest = Some(extent);
        within.insert(0, region);
        name = &name[..comma];
    }
    Placed { name, within }
}

/// Does the table know this place, or the regions that it lies in?
pub(crate) fn is_known(tokens: &[Token]) -> bool {
    let placed = locate(tokens);
    let name = text_of(placed.name);
    let name = alias(&name);
    !placed.within.is_empty()
        || TABLE.regions.contains_key(name)
        || TABLE.meant.contains_key(name)
        || TABLE.namesakes.contains(name)
}

/// Do several places share this name, so that it takes more to say which one is meant?
pub(crate) fn is_shared(tokens: &[Token]) -> bool {
    let name = text_of(tokens);
    let name = alias(&name);
    TABLE.namesakes.contains(name) || FORM_MATTERS.contains(&name)
}

/// May two places of one name be one place? Regions must not contradict each other. A name that leaves the nearest ones
/// out means the well-known place of that name, if that lies where it says.
pub(crate) fn compatible(a: &Placed<'_>, b: &Placed<'_>) -> bool {
    let (fewer, more) = if a.within.len() <= b.within.len() {
        (a, b)
    } else {
        (b, a)
    };
    let all_in = |regions: &[&str], all: &[&str]| regions.iter().all(|one| all.contains(one));
    if !all_in(&fewer.within, &more.within) {
        return false;
    }
    if fewer.within.first() == more.within.first() {
        return true;
    }
    let name = text_of(fewer.name);
    let name = alias(&name);
    let meant = TABLE.meant.get(name);
    let meant = meant.filter(|meant| all_in(&fewer.within, meant));
    !TABLE.namesakes.contains(name) && meant.is_none_or(|meant| all_in(&more.within, meant))
}

/// Are these two names of one region or city?
pub(crate) fn same_region(a: &[Token], b: &[Token]) -> bool {
    let known = |name: &str| TABLE.regions.contains_key(name) || TABLE.meant.contains_key(name);
    let (a, b) = (text_of(a), text_of(b));
    let a = plain_form(alias(&a));
    a == plain_form(alias(&b)) && known(a)
}

/// The name of a state without the word for what kind of state it is.
fn plain_form(name: &str) -> &str {
    FORMS
        .iter()
        .find_map(|form| name.strip_prefix(form)?.strip_prefix(' '))
        .map(|rest| rest.strip_prefix("the ").unwrap_or(rest))
        .filter(|rest| TABLE.regions.contains_key(rest) && !FORM_MATTERS.contains(rest))
        .filter(|rest| !name.starts_with("kingdom ") || KINGDOMS.contains(rest))
        // "Washington" alone does not say that it is the state.
        .filter(|rest| !TABLE.namesakes.contains(rest))
        .unwrap_or(name)
}

fn alias(name: &str) -> &str {
    TABLE.aliases.get(name).copied().unwrap_or(name)
}

/// The words of a name without its article.
fn text_of(tokens: &[Token]) -> String {
    let words: Vec<&str> = tokens
        .iter()
        .enumerate()
        .filter(|(at, token)| token.kind != Kind::Mark && !(*at == 0 && token.is("the")))
        .map(|(_, token)| token.text.as_str())
        .collect();
    words.join(" ")
}
