//! Where several servers keep together what belongs to their tenants.

use std::fs;

use spechop_redis::{InvalidOptions, RedisOptions};

use super::keys::Keys;
use super::models::api_key;
use crate::Env;

const URL: &str = "tenant.redis.url";
const ROOTS: &str = "tenant.redis.roots";
const PASSWORD: &str = "tenant.redis.password_env";

/// Nowhere, if no server is named.
pub(super) fn shared(keys: &mut Keys<'_>, env: &Env) -> Option<RedisOptions> {
    let url = keys.text(URL);
    let (password, roots) = (keys.text(PASSWORD), keys.path(ROOTS));
    let (prefix, time_limit) = (
        keys.text("tenant.redis.prefix").unwrap_or_default(),
        keys.millis("tenant.redis.ms_max"),
    );
    let Some(url) = url else {
        for (key, is_set) in [(PASSWORD, password.is_some()), (ROOTS, roots.is_some())] {
            if is_set {
                let problem = "every server has accounts of its own without it";
                keys.mistake(key, format!("only together with {URL}: {problem}"));
            }
        }
        return None;
    };
    if roots.is_some() && !url.starts_with("rediss://") {
        let problem = "there is no TLS otherwise";
        keys.mistake(
            ROOTS,
            format!("only if {URL} begins with rediss://: {problem}"),
        );
    }
    let roots = roots.and_then(|path| match fs::read(&path) {
        Ok(roots) => Some(roots),
        Err(error) => {
            keys.mistake(ROOTS, format!("cannot read {}: {error}", path.display()));
            None
        }
    });
    let options = RedisOptions {
        url,
        password: password.and_then(|name| api_key(keys, PASSWORD, &name, env)),
        roots,
        prefix,
        time_limit,
    };
    match options.check() {
        Ok(()) => Some(options),
        Err(error) => {
            let key = match error {
                InvalidOptions::Url => URL,
                InvalidOptions::Roots => ROOTS,
            };
            keys.mistake(key, error.to_string());
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use secrecy::ExposeSecret;

    use super::*;

    /// What a section means, or the mistakes in it.
    fn read(section: &str) -> Result<Option<RedisOptions>, Vec<String>> {
        let variables = [("REDIS_PASSWORD", "kept-to-itself")];
        Keys::meaning(&format!("[tenant.redis]\n{section}"), &variables, shared)
    }

    #[test]
    fn nothing_is_shared_unless_a_server_is_named() {
        assert!(read("").unwrap().is_none());
        let section = "url = \"redis://team@10.0.0.7:6380/2\"\npassword_env = \"REDIS_PASSWORD\"\n";
        let options = read(section).unwrap().unwrap();
        assert_eq!(options.url, "redis://team@10.0.0.7:6380/2");
        assert_eq!(options.prefix, "spechop");
        assert_eq!(options.time_limit, Duration::from_millis(250));
        let shown = format!("{options:?}");
        assert!(!shown.contains("kept-to-itself"), "{shown}");
        assert_eq!(options.password.unwrap().expose_secret(), "kept-to-itself");
    }

    #[test]
    fn mistakes_name_their_key_and_no_secret() {
        for (section, word) in [
            ("url = \"http://127.0.0.1\"", "tenant.redis.url"),
            ("url = \"redis:///2\"", "tenant.redis.url"),
            ("url = \"redis://a:hidden@127.0.0.1\"", "tenant.redis.url"),
            (
                "url = \"redis://127.0.0.1\"\npassword_env = \"MISSING\"",
                "tenant.redis.password_env",
            ),
            (
                "url = \"rediss://127.0.0.1\"\nroots = \"/nowhere.pem\"",
                "tenant.redis.roots",
            ),
            (
                "url = \"redis://127.0.0.1\"\nroots = \"/dev/null\"",
                "only if tenant.redis.url begins with rediss://",
            ),
            (
                "roots = \"/dev/null\"",
                "only together with tenant.redis.url",
            ),
            (
                "password_env = \"REDIS_PASSWORD\"",
                "only together with tenant.redis.url",
            ),
        ] {
            let mistakes = read(section).unwrap_err();
            assert!(
                mistakes.iter().any(|mistake| mistake.contains(word)),
                "{section}: {mistakes:?}"
            );
            assert!(
                !mistakes.iter().any(|mistake| mistake.contains("hidden")),
                "{mistakes:?}"
            );
        }
    }
}
