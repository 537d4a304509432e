//! A hot subset that follows the traffic.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::keys::Keys;
use super::questions::tenants;

/// How the hot subset follows the traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct HotTraffic {
    /// The tenants whose verified answers are counted: `*` is all of them, `default` the one without a
    /// name. If there are none, nothing is counted.
    pub tenants: Vec<String>,
    /// The file in which the counts survive a restart; `None` for nowhere.
    pub file: Option<PathBuf>,
    /// How often the subset is chosen anew; `None` for never.
    pub every: Option<Duration>,
    /// The share of the passages that is in.
    pub fraction: f64,
    /// The file that says how often each title is mentioned; without one, the in-degrees that came with
    /// the passages fill up.
    pub in_degree: Option<PathBuf>,
}

pub(super) fn hot_traffic(keys: &mut Keys<'_>, state_dir: &Path) -> HotTraffic {
    let tenants = tenants(keys, "speculator.hot_tenants");
    let key = "speculator.traffic_file";
    let file = if keys.is(key, "none") {
        None
    } else {
        keys.path(key)
            .or_else(|| Some(state_dir.join("traffic.json")))
    };
    let key = "speculator.hot_every_s";
    let every = keys.integer(key);
    if every.is_some() && tenants.is_empty() {
        let problem = "nobody's traffic is counted: name the tenants in speculator.hot_tenants, \
                       whose answers may then shape what is fast for all";
        keys.mistake(key, problem);
    }
    let in_degree = keys.path("speculator.hot_in_degree");
    if let Some(path) = in_degree.as_ref().filter(|path| !path.is_file()) {
        let problem = format!("{} is missing", path.display());
        keys.mistake("speculator.hot_in_degree", problem);
    }
    let fraction = keys.number("speculator.hot_fraction");
    HotTraffic {
        file: file.filter(|_| !tenants.is_empty()),
        tenants,
        every: every.map(Duration::from_secs),
        fraction: fraction.unwrap_or_default(),
        in_degree,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(section: &str) -> Result<HotTraffic, Vec<String>> {
        Keys::meaning(&format!("[speculator]\n{section}"), &[], |keys, _| {
            hot_traffic(keys, Path::new("/data"))
        })
    }

    #[test]
    fn nobody_is_counted_who_is_not_named() {
        let usual = read("").unwrap();
        assert_eq!((usual.tenants.len(), usual.every), (0, None));
        assert_eq!(read("traffic_file = \"/t\"").unwrap().file, None);
        let counts = read("hot_tenants = \"a, b\"").unwrap();
        assert_eq!(counts.tenants, ["a", "b"]);
        assert_eq!(counts.file, Some("/data/traffic.json".into()));
        assert_eq!((counts.every, counts.fraction), (None, 0.1));
        let kept = read("hot_tenants = [\"*\"]\nhot_every_s = 60\ntraffic_file = \"none\"");
        let kept = kept.unwrap();
        assert_eq!(
            (kept.every, kept.file),
            (Some(Duration::from_secs(60)), None)
        );
    }

    #[test]
    fn what_cannot_be_is_a_mistake() {
        for (section, words) in [
            (
                "hot_every_s = 60",
                "name the tenants in speculator.hot_tenants",
            ),
            ("hot_in_degree = \"/nowhere\"", "/nowhere is missing"),
            ("hot_tenants = [\"a b\"]", "\"a b\" is no tenant"),
            ("hot_fraction = 1.5", "a number from 0.0001 to 1"),
            (
                "hot_tenants = \"a\"\nhot_every_s = 1",
                "a whole number from 10",
            ),
        ] {
            let mistakes = read(section).unwrap_err();
            assert!(
                mistakes.len() == 1 && mistakes[0].contains(words),
                "{section}: {mistakes:?}"
            );
        }
    }
}
