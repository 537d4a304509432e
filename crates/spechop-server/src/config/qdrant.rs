//! A collection of Qdrant, as the place where look-ups go.

use std::num::NonZeroUsize;

use spechop_qdrant::{Cluster, ClusterOptions, Consistency, InvalidOptions, SearchOptions};

use super::keys::Keys;
use super::models::api_key;
use super::read::{count, millis};
use crate::Env;

/// A collection, and how it is searched.
#[derive(Clone, Debug)]
pub struct Qdrant {
    /// The servers.
    pub cluster: ClusterOptions,
    /// The name of the collection, or an alias of it.
    pub collection: String,
    /// How it is searched.
    pub search: SearchOptions,
}

/// Where a server on this machine listens.
const URL: &str = "http://127.0.0.1:6334";

pub(super) fn qdrant(keys: &mut Keys<'_>, env: &Env, is_used: bool) -> Qdrant {
    let urls = keys.list("qdrant.urls");
    let usual = ClusterOptions::new(urls.unwrap_or_else(|| vec![URL.to_owned()]));
    let variable = keys.text("qdrant.api_key_env");
    let key = variable
        .filter(|_| is_used)
        .and_then(|name| api_key(keys, "qdrant.api_key_env", &name, env));
    let cluster = ClusterOptions {
        key,
        time_limit: millis(keys, "qdrant.ms_max", 1, 5_000),
        total: millis(keys, "qdrant.total_ms_max", 1, 15_000),
        connections: count(keys, "qdrant.connections", 64, usual.connections.get()),
        ..usual
    };
    if is_used && let Err(error) = Cluster::new(&cluster) {
        let key = match error {
            InvalidOptions::Key => "qdrant.api_key_env",
            InvalidOptions::NoUrl | InvalidOptions::Url { .. } | InvalidOptions::Client { .. } => {
                "qdrant.urls"
            }
        };
        keys.mistake(key, error.to_string());
    }
    Qdrant {
        cluster,
        collection: keys
            .text("qdrant.collection")
            .unwrap_or_else(|| spechop_qdrant::COLLECTION.to_owned()),
        search: search(keys),
    }
}

fn search(keys: &mut Keys<'_>) -> SearchOptions {
    let consistency = keys.text("qdrant.read_consistency");
    SearchOptions {
        exact: keys.flag("qdrant.exact").unwrap_or(false),
        hnsw_ef: keys.integer("qdrant.hnsw_ef", 1..=1_000_000),
        rescore: keys.flag("qdrant.rescore"),
        oversampling: keys.number("qdrant.oversampling", 1.0..=1000.0),
        consistency: consistency.and_then(|text| match text.parse::<Consistency>() {
            Ok(consistency) => Some(consistency),
            Err(wanted) => {
                let problem = format!("{wanted}, found {text:?}");
                keys.mistake("qdrant.read_consistency", problem);
                None
            }
        }),
    }
}

impl Qdrant {
    /// Which collection, in words that differ if another answers, or the same one otherwise.
    pub(super) fn who(&self) -> String {
        let Self {
            cluster,
            collection,
            search,
        } = self;
        format!("qdrant {} {collection} {search:?}", cluster.urls.join(" "))
    }

    /// Searches on their way to one server at once: what is waited for needs nothing but memory.
    pub(super) const AT_ONCE: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// What a section means, or the mistakes in it.
    fn read(section: &str, key: Option<&str>, is_used: bool) -> Result<Qdrant, Vec<String>> {
        let env: Env = key.into_iter().map(|key| ("QDRANT_KEY", key)).collect();
        let table = toml::from_str(&format!("[qdrant]\n{section}")).unwrap();
        let mut keys = Keys::new([], &env, "c.toml".into(), table);
        let read = qdrant(&mut keys, &env, is_used);
        let mistakes: Vec<_> = keys.finish().iter().map(ToString::to_string).collect();
        match mistakes.is_empty() {
            true => Ok(read),
            false => Err(mistakes),
        }
    }

    #[test]
    fn what_is_written_arrives_and_a_key_is_not_shown() {
        let usual = read("", None, true).unwrap();
        assert_eq!(usual.cluster.urls, ["http://127.0.0.1:6334"]);
        assert_eq!(usual.collection, "passages");
        assert_eq!(usual.search, SearchOptions::default());
        let section = "urls = [\"http://a:6334\", \"https://b\"]\ncollection = \"wiki\"\n\
                       api_key_env = \"QDRANT_KEY\"\nms_max = 7\nexact = true\nhnsw_ef = 64\n\
                       rescore = true\noversampling = 2\nread_consistency = \"quorum\"";
        let written = read(section, Some("hunter2"), true).unwrap();
        assert_eq!(written.cluster.urls, ["http://a:6334", "https://b"]);
        assert_eq!(written.cluster.time_limit, Duration::from_millis(7));
        assert!(written.cluster.key.is_some());
        let search = SearchOptions {
            exact: true,
            hnsw_ef: Some(64),
            rescore: Some(true),
            oversampling: Some(2.0),
            consistency: Some(Consistency::Quorum),
        };
        assert_eq!(written.search, search);
        assert!(!format!("{written:?}").contains("hunter2"));
        assert!(!written.who().contains("hunter2"));
        assert_ne!(usual.who(), written.who());
    }

    #[test]
    fn what_cannot_be_is_a_mistake_where_it_is_used() {
        for (section, key, mistake) in [
            (
                "urls = \"127.0.0.1:6334\"",
                None,
                "qdrant.urls (c.toml): \"127.0.0.1:6334\" is no address of a Qdrant server",
            ),
            (
                "api_key_env = \"QDRANT_KEY\"",
                None,
                "qdrant.api_key_env (c.toml): the environment variable QDRANT_KEY is not set",
            ),
            (
                "api_key_env = \"QDRANT_KEY\"",
                Some("two words"),
                "qdrant.api_key_env (c.toml): the API key cannot be sent",
            ),
        ] {
            let mistakes = read(section, key, true).unwrap_err();
            assert_eq!(mistakes.len(), 1, "{mistakes:?}");
            assert!(mistakes[0].starts_with(mistake), "{mistakes:?}");
            assert!(read(section, key, false).is_ok(), "{section}");
        }
        let mistakes = read("read_consistency = \"most\"", None, false).unwrap_err();
        let said = "expected \"all\", \"majority\", \"quorum\" or a number, found \"most\"";
        assert!(mistakes[0].contains(said), "{mistakes:?}");
    }
}
