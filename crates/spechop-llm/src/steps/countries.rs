//! Countries by their names and adjectives.

/// A country a line: its name, its adjective, other spellings. The planner learnt to compare by them
/// (`eval/train/values.py`).
const TABLE: &str = include_str!("countries.txt");

/// Whether two countries are one, if both are known: American and the United States are, Irish and Icelandic are
/// not.
pub(super) fn same(left: &str, right: &str) -> Option<bool> {
    Some(line_of(left)? == line_of(right)?)
}

/// The line of a country.
fn line_of(country: &str) -> Option<usize> {
    let lowered = country.trim().to_lowercase();
    let country = lowered.strip_prefix("the ").unwrap_or(&lowered);
    let is_it =
        |name: &str| name.trim_end_matches('.').to_lowercase() == country.trim_end_matches('.');
    TABLE.lines().position(|line| line.split('|').any(is_it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_adjectives_of_one_country_are_the_same() {
        for (left, right, expected) in [
            ("American", "the United States", Some(true)),
            ("U.S.", "american", Some(true)),
            ("Canada", "Canadian", Some(true)),
            ("American", "Australian", Some(false)),
            ("Australian", "Austrian", Some(false)),
            ("American", "Martian", None),
            ("American film", "American", None),
            ("", "", None),
        ] {
            assert_eq!(same(left, right), expected, "{left} / {right}");
            assert_eq!(same(right, left), expected, "{right} / {left}");
        }
    }

    #[test]
    fn no_spelling_is_of_two_countries() {
        let mut names: Vec<_> = TABLE.lines().flat_map(|line| line.split('|')).collect();
        names.retain(|name| *name != "Hong Kong");
        let before = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), before);
    }
}
