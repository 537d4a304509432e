//! Small texts that several servers share ([`SharedCells`]), in Redis or Valkey.
//!
//! A text lies under a prefix and its name. It is changed by a script of three commands, which Redis runs
//! without interruption: compare, set, say what is there. Each text stands alone, so a proxy before a cluster
//! may spread them as it likes. Without one, a server that names another one (`MOVED`) refuses the request.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::TcpKeepalive;
use redis::{
    Client, ConnectionAddr, IntoConnectionInfo, RedisError, RedisResult, Script, TlsCertificates,
};
use secrecy::{ExposeSecret, SecretString};
use spechop_ports::{PortError, SharedCells, Swapped, is_loopback, named, reason};
use tokio::time::Instant;
use url::Url;

/// Puts the second argument in the place of the first one, for so many milliseconds. Gives nothing if that
/// was done, else a list of what is there.
const SWAP: &str = "\
local there = redis.call('GET', KEYS[1])
if (there or '') ~= ARGV[1] then
  return {there}
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return false";

/// How often an idle connection is tried, so that nothing in between forgets it.
const ALIVE: Duration = Duration::from_secs(60);

/// How to reach Redis.
#[derive(Clone)]
pub struct RedisOptions {
    /// Its address, e.g. `redis://127.0.0.1:6379/0`; `rediss` for TLS. A user may stand in it, a password
    /// may not.
    pub url: String,
    /// The password, if the server wants one.
    pub password: Option<SecretString>,
    /// The certificates of whom it trusts, in PEM; by default those of the system.
    pub roots: Option<Vec<u8>>,
    /// What every name begins with, so that a server may hold other things, too.
    pub prefix: String,
    /// For one request, or for making a connection.
    pub time_limit: Duration,
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("url", &self.url)
            .field("prefix", &self.prefix)
            .field("time_limit", &self.time_limit)
            .finish_non_exhaustive()
    }
}

/// Options with which no server can be asked.
#[derive(Debug, thiserror::Error)]
pub enum InvalidOptions {
    /// An address that is none, or holds a password. It is not repeated, since it may be a secret.
    #[error(
        "expected the address of a Redis server without a password in it, e.g. redis://127.0.0.1:6379/0"
    )]
    Url,
    /// Certificates that cannot be read.
    #[error("expected certificates in PEM")]
    Roots,
}

/// Texts in Redis. Connects when it is first asked, and again if the connection was lost.
pub struct RedisCells {
    client: Client,
    line: Mutex<Line>,
    swap: Script,
    prefix: String,
    /// Its name in messages.
    what: String,
    password: Option<SecretString>,
    time_limit: Duration,
}

/// The connection in use.
struct Line {
    connection: ConnectionManager,
    /// When it was last replaced by another one.
    renewed: Option<Instant>,
    /// Whether the last request over it was answered.
    answers: bool,
}

impl RedisOptions {
    /// Checks the options without asking anybody.
    ///
    /// # Errors
    ///
    /// The first option that cannot be used.
    pub fn check(&self) -> Result<(), InvalidOptions> {
        self.client().map(|_| ())
    }

    /// Whether a password would cross the network in the clear.
    pub fn shows_password(&self) -> bool {
        let url = Url::parse(&self.url).ok();
        let is_open =
            |url: Url| url.scheme() == "redis" && !url.host_str().is_some_and(is_loopback);
        self.password.is_some() && url.is_some_and(is_open)
    }

    fn client(&self) -> Result<Client, InvalidOptions> {
        let url = Url::parse(&self.url).map_err(|_| InvalidOptions::Url)?;
        let is_redis = matches!(url.scheme(), "redis" | "rediss");
        if !is_redis || url.host().is_none() || url.password().is_some() {
            return Err(InvalidOptions::Url);
        }
        let info = url.into_connection_info();
        let mut info = info.map_err(|_| InvalidOptions::Url)?;
        let alive = TcpKeepalive::new().with_time(ALIVE).with_interval(ALIVE);
        info = info.set_tcp_settings(TcpSettings::default().set_keepalive(alive));
        if let Some(password) = &self.password {
            let settings = info.redis_settings().clone();
            let settings = settings.set_password(password.expose_secret().trim());
            info = info.set_redis_settings(settings);
        }
        if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            return Client::open(info).map_err(|_| InvalidOptions::Url);
        }
        // Whoever has chosen another provider keeps it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let certificates = TlsCertificates {
            client_tls: None,
            root_cert: self.roots.clone(),
        };
        Client::build_with_tls(info, certificates).map_err(|_| InvalidOptions::Roots)
    }
}

impl RedisCells {
    /// Connects to nothing yet. Call it within a runtime.
    ///
    /// # Errors
    ///
    /// The first option that cannot be used.
    pub fn new(options: &RedisOptions) -> Result<Self, InvalidOptions> {
        let client = options.client()?;
        let connection = connection(&client, options.time_limit);
        let mut url = Url::parse(&options.url).map_err(|_| InvalidOptions::Url)?;
        // The usual port is named, too.
        let _ = url.set_port(url.port().or(Some(6379)));
        Ok(Self {
            line: Mutex::new(Line {
                connection: connection.map_err(|_| InvalidOptions::Url)?,
                renewed: None,
                answers: false,
            }),
            client,
            swap: Script::new(SWAP),
            prefix: options.prefix.clone(),
            what: named("Redis", &url),
            password: options.password.clone(),
            time_limit: options.time_limit,
        })
    }

    fn key(&self, name: &str) -> String {
        format!("{}:{name}", self.prefix)
    }

    /// Whether to ask once more: the line has answered before, and was lost since. Redis, or what lies in between,
    /// closes lines that nobody uses, and the library connects anew only behind a request that has failed.
    fn is_lost<T>(&self, heard: &RedisResult<T>) -> bool {
        let is_gone = |error: &RedisError| error.is_io_error() && !error.is_timeout();
        heard.as_ref().is_err_and(is_gone) && self.line.lock().answers
    }

    /// What a caller is told of what was heard.
    fn told<T>(&self, heard: RedisResult<T>) -> Result<T, PortError> {
        self.line.lock().answers = heard.is_ok();
        heard.map_err(|error| self.failed(error))
    }

    /// Takes another connection, at most once in a while. The library keeps one whose beginning was refused (a
    /// password that was set a moment later), one to a server that has become a replica, and one that is only silent.
    fn renew(&self) {
        let mut line = self.line.lock();
        if line
            .renewed
            .is_some_and(|at| at.elapsed() < self.time_limit)
        {
            return;
        }
        if let Ok(connection) = connection(&self.client, self.time_limit) {
            *line = Line {
                connection,
                renewed: Some(Instant::now()),
                answers: false,
            };
        }
    }

    /// Sorts a failure by what a caller can do about it.
    fn failed(&self, error: RedisError) -> PortError {
        self.renew();
        let what = self.what.clone();
        if error.is_timeout() {
            return PortError::timed_out(what, self.time_limit);
        }
        let is_down = error.is_io_error()
            || error.is_connection_dropped()
            || error.is_connection_refusal()
            // It is not up yet, or another one is to be asked: both pass.
            || matches!(error.code(), Some("LOADING" | "MASTERDOWN" | "READONLY" | "TRYAGAIN"));
        if is_down {
            return PortError::unavailable(what, error);
        }
        let secret = self.password.as_ref().map(|key| key.expose_secret().trim());
        let detail = reason(error.to_string().as_bytes(), secret);
        PortError::Refused { what, detail }
    }
}

/// Nothing is connected before the first request.
fn connection(client: &Client, time_limit: Duration) -> RedisResult<ConnectionManager> {
    let config = ConnectionManagerConfig::new()
        .set_connection_timeout(Some(time_limit))
        .set_response_timeout(Some(time_limit))
        // Whoever asks decides when to ask again.
        .set_number_of_retries(0);
    ConnectionManager::new_lazy_with_config(client.clone(), config)
}

#[async_trait]
impl SharedCells for RedisCells {
    async fn read(&self, name: &str) -> Result<Option<String>, PortError> {
        let mut connection = self.line.lock().connection.clone();
        let mut get = redis::cmd("GET");
        get.arg(self.key(name));
        let mut read: RedisResult<Option<String>> = get.query_async(&mut connection).await;
        if self.is_lost(&read) {
            read = get.query_async(&mut connection).await;
        }
        self.told(read)
    }

    async fn swap(
        &self,
        name: &str,
        seen: Option<&str>,
        new: &str,
        keep: Duration,
    ) -> Result<Swapped, PortError> {
        let mut connection = self.line.lock().connection.clone();
        let keep_ms = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut call = self.swap.key(self.key(name));
        call.arg(seen.unwrap_or_default()).arg(new).arg(keep_ms);
        let mut swapped: RedisResult<Option<Vec<Option<String>>>> =
            call.invoke_async(&mut connection).await;
        let is_asked_again = self.is_lost(&swapped);
        if is_asked_again {
            swapped = call.invoke_async(&mut connection).await;
        }
        let there = self.told(swapped)?;
        let there = there.map(|there| there.into_iter().next().flatten());
        Ok(match there {
            None => Swapped::Made,
            // Redis did what it was asked at first, and its answer was lost.
            Some(there) if is_asked_again && there.as_deref() == Some(new) => Swapped::Made,
            Some(there) => Swapped::Other(there),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_in_the_clear_to_another_machine_without_tls() {
        for (url, shows) in [
            ("redis://10.0.0.7:6379/2", true),
            ("redis://team@cache.example.org", true),
            ("rediss://10.0.0.7", false),
            ("redis://127.0.0.1", false),
            ("redis://[::1]:6379", false),
            ("redis://localhost", false),
        ] {
            let mut options = RedisOptions {
                url: url.to_owned(),
                password: Some("p".to_owned().into()),
                roots: None,
                prefix: String::new(),
                time_limit: Duration::from_secs(1),
            };
            assert_eq!(options.shows_password(), shows, "{url}");
            options.password = None;
            assert!(!options.shows_password(), "{url}");
        }
    }
}
