//! A collection of Qdrant, as the place where look-ups go.

use std::num::NonZeroUsize;
use std::time::Duration;

use spechop_qdrant::{Cluster, ClusterOptions, Consistency, InvalidOptions, SearchOptions};

use super::keys::Keys;
use super::models::api_key;
use super::target::Target;
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

/// A collection in which servers share what they have verified.
#[derive(Clone, Debug)]
pub struct MemoryCollection {
    /// The servers of `[qdrant]`, asked with less patience: a guess that comes late is of no use.
    pub cluster: ClusterOptions,
    /// The name of the collection. It is made if there is none.
    pub collection: String,
}

/// The longest that the shared memory is asked once, and in all.
const GUESS_TIME: Duration = Duration::from_secs(1);
const GUESS_TOTAL: Duration = Duration::from_secs(2);

/// The memory that servers share, if a collection is named for it.
pub(super) fn shared_memory(
    keys: &mut Keys<'_>,
    env: &Env,
    target: &Target,
) -> Option<MemoryCollection> {
    let collection = keys.text("speculator.memory_collection")?;
    let cluster = match target {
        // It has been checked.
        Target::Qdrant(qdrant) => {
            if qdrant.collection == collection {
                let problem =
                    "this collection holds passages (qdrant.collection): name another one";
                keys.mistake("speculator.memory_collection", problem);
            }
            qdrant.cluster.clone()
        }
        Target::Index | Target::Web(_) | Target::Http(_) | Target::Mcp(_) => {
            qdrant(keys, env, true).cluster
        }
    };
    Some(MemoryCollection {
        cluster: ClusterOptions {
            time_limit: cluster.time_limit.min(GUESS_TIME),
            total: cluster.total.min(GUESS_TOTAL),
            ..cluster
        },
        collection,
    })
}

pub(super) fn qdrant(keys: &mut Keys<'_>, env: &Env, is_used: bool) -> Qdrant {
    let urls = keys.list("qdrant.urls");
    let usual = ClusterOptions::new(urls.unwrap_or_default());
    let variable = keys.text("qdrant.api_key_env");
    let key = variable
        .filter(|_| is_used)
        .and_then(|name| api_key(keys, "qdrant.api_key_env", &name, env));
    let cluster = ClusterOptions {
        key,
        time_limit: keys.millis("qdrant.ms_max"),
        total: keys.millis("qdrant.total_ms_max"),
        connections: keys.count("qdrant.connections"),
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
        collection: keys.text("qdrant.collection").unwrap_or_default(),
        search: search(keys),
    }
}

fn search(keys: &mut Keys<'_>) -> SearchOptions {
    let consistency = keys.text("qdrant.read_consistency");
    SearchOptions {
        exact: keys.switch("qdrant.exact"),
        hnsw_ef: keys.integer("qdrant.hnsw_ef"),
        rescore: keys.flag("qdrant.rescore"),
        oversampling: keys.number("qdrant.oversampling"),
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
    use super::*;

    /// What a section means, or the mistakes in it.
    fn read(section: &str, key: Option<&str>, is_used: bool) -> Result<Qdrant, Vec<String>> {
        let file = format!("[qdrant]\n{section}");
        let key = key.map(|key| ("QDRANT_KEY", key));
        Keys::meaning(&file, key.as_slice(), |keys, env| {
            qdrant(keys, env, is_used)
        })
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

    /// The memory that a file describes.
    fn shared(text: &str, target: &Target) -> Result<Option<MemoryCollection>, Vec<String>> {
        Keys::meaning(text, &[], |keys, env| {
            qdrant(keys, env, false);
            shared_memory(keys, env, target)
        })
    }

    #[test]
    fn a_shared_memory_lies_at_the_servers_of_the_section_and_is_asked_with_less_patience() {
        assert!(shared("", &Target::Index).unwrap().is_none());
        let text = "[speculator]\nmemory_collection = \"seen\"\n[qdrant]\nurls = \"http://a:6334\"";
        let found = shared(text, &Target::Index).unwrap().unwrap();
        assert_eq!(
            (&*found.collection, &*found.cluster.urls[0]),
            ("seen", "http://a:6334")
        );
        assert_eq!(found.cluster.time_limit, GUESS_TIME);
        let quick = format!("{text}\nms_max = 7\ntotal_ms_max = 9");
        let found = shared(&quick, &Target::Index).unwrap().unwrap();
        assert_eq!(found.cluster.time_limit, Duration::from_millis(7));
        assert_eq!(found.cluster.total, Duration::from_millis(9));

        let mistakes = shared(&text.replace("http", "x"), &Target::Index).unwrap_err();
        assert!(
            mistakes.len() == 1 && mistakes[0].contains("qdrant.urls"),
            "{mistakes:?}"
        );
        let passages = Target::Qdrant(Box::new(read("collection = \"seen\"", None, true).unwrap()));
        let mistakes = shared("speculator.memory_collection = \"seen\"", &passages).unwrap_err();
        assert!(mistakes[0].contains("holds passages"), "{mistakes:?}");
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
