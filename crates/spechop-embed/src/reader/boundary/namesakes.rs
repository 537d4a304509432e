//! Cities that have a better known one of their name: "Athens, Georgia", "Paris, Texas".
//!
//! Their bare name would be taken for the better known city by whoever asks on or compares it, so
//! it keeps its region. Only a table can tell: `namesakes.tsv`, which
//! `eval/train/reader_boundary.py` reads as well.

use std::collections::HashMap;
use std::sync::LazyLock;

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(include_str!("namesakes.tsv")));

#[derive(Debug, Default)]
struct Table {
    /// They have places of many of the names.
    regions: Vec<&'static str>,
    cities: HashMap<&'static str, City>,
}

#[derive(Debug)]
struct City {
    /// The bare name lies in these.
    own: Vec<&'static str>,
    /// Further regions that have a place of that name.
    also: Vec<&'static str>,
}

impl Table {
    fn parse(text: &'static str) -> Self {
        let names = |field: Option<&'static str>| field.unwrap_or_default().split(',');
        let mut table = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let mut fields = line.split('\t');
            match (fields.next(), fields.next()) {
                (Some("region"), regions) => table.regions.extend(names(regions)),
                (Some("city"), Some(name)) => {
                    let own = names(fields.next()).collect();
                    let also = fields.next().into_iter();
                    let also = also.flat_map(|field| field.split(',')).collect();
                    table.cities.insert(name, City { own, also });
                }
                _ => {}
            }
        }
        table
    }
}

/// The end of the region behind the first `len` bytes of a text, if these end with the name of a
/// city, and a better known one of that name lies elsewhere.
pub(super) fn region_end(text: &str, len: usize) -> Option<usize> {
    let (name, behind) = text.split_at(len);
    // "in Athens" is Athens, and "East London" is not London.
    let city = TABLE
        .cities
        .get(name.trim_start_matches(|c: char| !c.is_uppercase()))?;
    let mut rest = behind_comma(behind)?;
    if let Some((county, behind)) = rest.split_once(" County")
        && county.split(' ').all(is_name)
    {
        rest = behind_comma(behind)?;
    }
    let others = TABLE
        .regions
        .iter()
        .filter(|region| !city.own.contains(region));
    let region = others
        .chain(&city.also)
        .find(|region| begins_with(rest, region))?;
    Some(text.len() - rest.len() + region.len())
}

fn behind_comma(text: &str) -> Option<&str> {
    let behind = text.trim_start_matches(' ').strip_prefix(',')?;
    Some(behind.trim_start_matches(' '))
}

fn is_name(word: &str) -> bool {
    word.starts_with(char::is_uppercase) && word.chars().all(char::is_alphabetic)
}

/// Whether the name ends there as well: "Virginia Beach" is not Virginia.
fn begins_with(text: &str, name: &str) -> bool {
    text.strip_prefix(name).is_some_and(|behind| {
        let next = behind.strip_prefix([' ', '-']).unwrap_or(behind);
        !behind.starts_with(char::is_alphanumeric) && !next.starts_with(char::is_uppercase)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_the_table_is_lost() {
        let text = include_str!("namesakes.tsv");
        let cities = text.lines().filter(|line| line.starts_with("city\t"));
        assert_eq!(cities.count(), TABLE.cities.len());
        assert!(TABLE.cities.len() > 60 && TABLE.regions.len() > 100);
        for (name, City { own, also }) in &TABLE.cities {
            assert!(!own.is_empty(), "{name}");
            let is_empty = |region: &&str| region.is_empty();
            assert!(!own.iter().chain(also).any(is_empty), "{name}");
            // Such a region would be the city's own and another one's.
            assert!(!also.iter().any(|region| own.contains(region)), "{name}");
        }
    }

    #[test]
    fn a_region_ends_where_its_name_does() {
        for (text, expected) in [
            ("Athens|, Georgia", Some(", Georgia")),
            ("Athens| ,  Georgia.", Some(" ,  Georgia")),
            ("in Athens|, Georgia, where", Some(", Georgia")),
            (
                "Athens|, Clarke County, Georgia",
                Some(", Clarke County, Georgia"),
            ),
            ("Athens|, where Clarke County, Georgia", None),
            ("Athens|, Georgia Avenue", None),
            ("Athens|, Georgiana", None),
            ("Athens|, Greece", None),
            ("Athens|", None),
            ("Athens|.", None),
            ("New Athens|, Ohio", None),
            ("Dublin|, Ireland, Ohio", None),
            ("Boston|, Massachusetts", None),
            ("Boston|, Lincolnshire", Some(", Lincolnshire")),
            ("London|, New York", None),
            ("é|, Ohio", None),
            ("|, Ohio", None),
        ] {
            let (name, behind) = text.split_once('|').unwrap();
            let whole = format!("{name}{behind}");
            let end = region_end(&whole, name.len());
            assert_eq!(end.map(|end| &whole[name.len()..end]), expected, "{text}");
        }
    }
}
