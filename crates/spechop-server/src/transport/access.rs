//! Who may ask: every request shows a key, if there are keys, and keeps to the limits of its tenant.
//!
//! | what is asked for | role |
//! |---|---|
//! | health, reflection | none: anybody may ask for them |
//! | the admin service, `/metrics` | `admin` |
//! | everything else | `ask` |
//!
//! The services of gRPC are told apart here, the other paths say it themselves
//! ([`Door`](super::doors::Door)).
//!
//! Whoever has sent too many requests may still finish and cancel questions: that frees places.
//!
//! In place of a key, a request may show a token of the operator's identity provider ([`crate::jwt`]).
//!
//! The key or token says on whose behalf the request comes: a `spechop-tenant` that differs is refused. What
//! was found out goes into the request as a [`Caller`], and the key itself goes no further.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap};
use parking_lot::{Mutex, RwLock};
use spechop_config::api_keys::{Behalf, Key, Role, is_key};
use spechop_config::{Callers, InvalidConfig};
use spechop_types::Tenant;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::access_error::AccessError;
use super::counts::{Counts, Source};
use super::line::LineHandle;
use super::rates::Tenants;
use crate::caller::{Caller, TENANT, caller};
use crate::jwt::{Bearer, TOKEN_BYTES_MAX, TokenError, Tokens};
use crate::keys::{CheckError, Held, Ring};
use crate::outage::Outage;

/// Services that anybody may ask.
const OPEN: [&str; 2] = ["/grpc.health.v1.Health/", "/grpc.reflection."];

/// Calls that free a place, and for which no limit of requests holds.
const FREEING: [&str; 2] = [
    "/spechop.v1.SpecHop/FinishNow",
    "/spechop.v1.SpecHop/Cancel",
];

/// The service that takes the role `admin`.
const ADMIN: &str = "/spechop.v1.Admin/";

/// Wrong keys of one connection are answered at this distance, after so many at once.
const WRONG_KEY_INTERVAL: Duration = Duration::from_secs(1);
const WRONG_KEY_BURST: u32 = 20;

/// Who may ask, and how often.
pub(super) struct Access {
    now: RwLock<Arc<Rules>>,
    /// What the file held at the last look, if it was something new.
    seen: Mutex<Option<Vec<Key>>>,
    /// Whether the file cannot be read at the moment.
    outage: Outage,
    /// Told if other callers were taken up.
    changed: Notify,
    /// Whether they are several tenants.
    several: watch::Sender<bool>,
    counts: Counts,
}

/// What holds now.
struct Rules {
    callers: Callers,
    /// All keys, those of the file among them.
    keys: Vec<Key>,
    /// `None` if no keys are asked for.
    ring: Option<Arc<Ring>>,
    /// `None` if no tokens are taken.
    tokens: Option<Arc<Tokens>>,
    tenants: Option<Tenants>,
}

/// Whether tokens can be told right from wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownIssuer {
    /// Whether the issuer's keys were read, now or before.
    pub(crate) is_known: bool,
    /// Whether nobody is let in otherwise.
    pub(crate) is_needed: bool,
}

/// What a request has shown.
enum Shown {
    Key(Arc<Held>),
    Token(Bearer),
}

/// What a key needs for a call of gRPC; `None` for nothing, not even a key.
pub(super) fn role_of_service(path: &str) -> Option<Role> {
    if OPEN.iter().any(|open| path.starts_with(open)) {
        return None;
    }
    match path.starts_with(ADMIN) {
        true => Some(Role::Admin),
        false => Some(Role::Ask),
    }
}

/// Whether the limits of its key and of its tenant hold for a call of gRPC.
pub(super) fn is_rate_limited(path: &str) -> bool {
    !FREEING.contains(&path)
}

impl Rules {
    /// Of these callers, with these keys. What was known of keys and tenants is known of them still.
    fn new(callers: Callers, keys: Vec<Key>, before: Option<&Self>) -> Self {
        let ring = callers.wants_keys().then(|| {
            let ring = Ring::new(&keys, before.and_then(|rules| rules.ring.as_deref()));
            if ring.is_empty() && callers.issuer.is_none() {
                tracing::warn!("there is no API key, so nobody may ask: see `spechop keys new`");
            }
            Arc::new(ring)
        });
        let tokens = callers.issuer.as_ref().map(|issuer| {
            match before.and_then(|rules| rules.tokens.as_ref()) {
                Some(same) if same.issuer() == issuer => Arc::clone(same),
                other => Arc::new(Tokens::new(issuer.clone(), other.map(Arc::as_ref))),
            }
        });
        let known = before.and_then(|rules| rules.tenants.as_ref());
        Self {
            tenants: callers.rate.map(|rate| Tenants::new(rate, known)),
            callers,
            keys,
            ring,
            tokens,
        }
    }

    fn are_several(&self) -> bool {
        self.callers.are_several_with(&self.keys)
    }
}

impl Access {
    /// With the keys that are in the file now. `several` is told whether they are of several tenants.
    pub(super) fn open(
        callers: Callers,
        several: watch::Sender<bool>,
        counts: Counts,
    ) -> Result<Self, InvalidConfig> {
        let keys = callers.read()?;
        counts.read(Source::Keys, callers.keys_file.as_ref().map(|_| true));
        let rules = Rules::new(callers, keys, None);
        several.send_replace(rules.are_several());
        Ok(Self {
            now: RwLock::new(Arc::new(rules)),
            seen: Mutex::default(),
            outage: Outage::default(),
            changed: Notify::new(),
            several,
            counts,
        })
    }

    /// What is known of the token issuer, if tokens are taken.
    pub(super) fn issuer(&self) -> Option<KnownIssuer> {
        let rules = self.now();
        Some(KnownIssuer {
            is_known: rules.tokens.as_ref()?.are_known(),
            is_needed: rules.ring.as_ref().is_some_and(|ring| ring.is_empty()),
        })
    }

    /// Whether requests must show a key.
    pub(super) fn wants_keys(&self) -> bool {
        self.now().ring.is_some()
    }

    /// From now on these may ask. A request that was let in stays in. Blocks.
    pub(super) fn take_up(&self, callers: Callers) -> Result<(), InvalidConfig> {
        let keys = callers.read()?;
        let is_read = callers.keys_file.as_ref().map(|_| true);
        self.counts.read(Source::Keys, is_read);
        let mut now = self.now.write();
        *now = Arc::new(Rules::new(callers, keys, Some(&now)));
        self.several.send_replace(now.are_several());
        self.changed.notify_one();
        Ok(())
    }

    /// Reads the public keys of the token issuer every now and then. Never ends.
    pub(super) async fn keep_issuer_fresh(&self) -> Infallible {
        loop {
            let tokens = self.now().tokens.clone();
            let fresh = async {
                match &tokens {
                    Some(tokens) => tokens.keep_fresh(&self.counts).await,
                    None => {
                        self.counts.read(Source::Jwks, None);
                        pending().await
                    }
                }
            };
            tokio::select! {
                never = fresh => match never {},
                () = self.changed.notified() => {}
            }
        }
    }

    /// Reads the file of keys, and takes up what it holds if that is new and was there at the last look,
    /// too: an editor may be in the middle of writing it, and half a list is a list. True if it should be
    /// looked at again soon. Blocks.
    pub(super) fn look_again(&self) -> bool {
        let before = self.now();
        if before.callers.keys_file.is_none() {
            return false;
        }
        let read = before.callers.read();
        self.counts.read(Source::Keys, Some(read.is_ok()));
        let keys = match read {
            Ok(keys) => keys,
            Err(error) => {
                let reason = error.to_string();
                if self.outage.fails_anew(&reason) {
                    tracing::warn!(reason, "the API keys stay as they were");
                }
                return false;
            }
        };
        if self.outage.works() {
            tracing::info!("the file of API keys can be read again");
        }
        let mut now = self.now.write();
        // Somebody may have taken up other callers meanwhile.
        if now.callers == before.callers && now.keys != keys {
            let mut seen = self.seen.lock();
            if seen.as_ref() != Some(&keys) {
                *seen = Some(keys);
                return true;
            }
            *seen = None;
            tracing::info!(keys = keys.len(), "the API keys were read again");
            *now = Arc::new(Rules::new(now.callers.clone(), keys, Some(&now)));
            self.several.send_replace(now.are_several());
        }
        false
    }

    /// Lets a request in that takes this role, and writes into it on whose behalf it comes. Wrong keys are
    /// answered slowly, and all others kept to their limits if the request `is_rate_limited`.
    pub(super) async fn admit(
        &self,
        role: Option<Role>,
        is_rate_limited: bool,
        line: Option<&LineHandle>,
        parts: &mut Parts,
    ) -> Result<(), AccessError> {
        let sent = key_in(&mut parts.headers);
        let Some(role) = role else {
            return Ok(());
        };
        let rules = self.now();
        let in_time = |tenant: &Tenant| match is_rate_limited {
            true => rules.in_time(tenant),
            false => Ok(()),
        };
        let Some(ring) = &rules.ring else {
            // What is wrong with it the door says.
            let caller = caller(&parts.headers, &Extensions::new()).unwrap_or_default();
            return in_time(&caller.tenant);
        };
        let shown = match rules.shown(&sent?, ring).await {
            Ok(shown) => shown,
            Err(error) => {
                let is_guess = matches!(
                    error,
                    AccessError::WrongKey | AccessError::WrongToken { .. }
                );
                if let Some(line) = line.filter(|_| is_guess) {
                    line.turn_of_wrong_key(WRONG_KEY_INTERVAL, WRONG_KEY_BURST)
                        .await;
                }
                return Err(error);
            }
        };
        if !shown.opens(role) {
            return Err(AccessError::NoRole {
                shown: shown.what(),
                role: role.as_str(),
            });
        }
        if is_rate_limited {
            shown.in_time()?;
        }
        let tenant = match shown.tenant() {
            Some(tenant) => {
                only_of(tenant, &shown, &parts.headers)?;
                tenant.clone()
            }
            // What is wrong with the name the door says.
            None => match caller(&parts.headers, &Extensions::new()) {
                Ok(caller) => caller.tenant,
                Err(_) => return in_time(&Tenant::default()),
            },
        };
        in_time(&tenant)?;
        // For which span it asks it says itself: `caller` reads that.
        parts.extensions.insert(Caller {
            tenant,
            trace: None,
        });
        Ok(())
    }

    fn now(&self) -> Arc<Rules> {
        Arc::clone(&self.now.read())
    }
}

impl Shown {
    /// As errors call it.
    fn what(&self) -> &'static str {
        match self {
            Self::Key(_) => "API key",
            Self::Token(_) => "token",
        }
    }

    fn opens(&self, role: Role) -> bool {
        match self {
            Self::Key(held) => held.key.roles.contains(&role),
            Self::Token(bearer) => bearer.roles.contains(&role),
        }
    }

    /// On whose behalf; `None` for whomever the caller names.
    fn tenant(&self) -> Option<&Tenant> {
        match self {
            Self::Key(held) => match &held.key.behalf {
                Behalf::Of(tenant) => Some(tenant),
                Behalf::Anyone => None,
            },
            Self::Token(bearer) => Some(&bearer.tenant),
        }
    }

    /// Takes one of the requests of the key, if it has a limit.
    fn in_time(&self) -> Result<(), AccessError> {
        let Self::Key(held) = self else {
            return Ok(());
        };
        let Some(rate) = held.key.rate else {
            return Ok(());
        };
        let mut bucket = held.bucket.lock();
        let taken = bucket.take(Instant::now(), rate.interval, rate.burst);
        taken.map_err(|again_in| AccessError::KeyTooFast {
            key: held.key.name.as_str().to_owned(),
            again_in,
        })
    }
}

impl Rules {
    /// The key or the token that this text is.
    async fn shown(&self, text: &str, ring: &Ring) -> Result<Shown, AccessError> {
        // Our own keys say what they are.
        if let Some(tokens) = self.tokens.as_ref().filter(|_| !is_key(text)) {
            let bearer = tokens.check(text).map_err(|error| match error {
                TokenError::Wrong(problem) => AccessError::WrongToken { problem },
                TokenError::NoTenant(claim) => AccessError::NoTenant { claim },
                TokenError::NoKeys => AccessError::NoTokenKeys,
            })?;
            return Ok(Shown::Token(bearer));
        }
        let held = ring.check(text).await.map_err(|error| match error {
            CheckError::Wrong => AccessError::WrongKey,
            CheckError::Busy => AccessError::ChecksBusy,
        })?;
        Ok(Shown::Key(held))
    }

    /// Takes one of the tenant's requests.
    fn in_time(&self, tenant: &Tenant) -> Result<(), AccessError> {
        let Some(tenants) = &self.tenants else {
            return Ok(());
        };
        let taken = tenants.take(tenant, Instant::now());
        taken.map_err(|again_in| AccessError::TenantTooFast {
            tenant: tenant.clone(),
            again_in,
        })
    }
}

/// The key of a request, which is taken out of it.
fn key_in(headers: &mut HeaderMap) -> Result<String, AccessError> {
    let mut sent = headers.get_all(AUTHORIZATION).into_iter();
    let (value, twice) = (sent.next().cloned(), sent.next().is_some());
    headers.remove(AUTHORIZATION);
    if twice {
        return Err(AccessError::TwoKeys);
    }
    let value = value.ok_or(AccessError::NoKey)?;
    let value = value.to_str().map_err(|_| AccessError::WrongKey)?;
    let (scheme, key) = value.trim().split_once(' ').unwrap_or((value.trim(), ""));
    let key = key.trim();
    match scheme.eq_ignore_ascii_case("bearer") && !key.is_empty() {
        true if key.len() > TOKEN_BYTES_MAX => Err(AccessError::WrongKey),
        true => Ok(key.to_owned()),
        false => Err(AccessError::NoKey),
    }
}

/// Nobody says that it asks on behalf of another tenant.
fn only_of(tenant: &Tenant, shown: &Shown, headers: &HeaderMap) -> Result<(), AccessError> {
    let mut said = headers.get_all(TENANT).into_iter();
    match said.any(|said| said != tenant.as_str()) {
        true => Err(AccessError::OtherTenant {
            shown: shown.what(),
            tenant: tenant.clone(),
        }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn keys_are_taken_out_of_the_request_whatever_they_are() {
        for (sent, key) in [
            (&["Bearer spechop.a.b"][..], Some("spechop.a.b")),
            (&["bearer  spechop.a.b "], Some("spechop.a.b")),
            (&[], None),
            (&[""], None),
            (&["Bearer"], None),
            (&["Bearer "], None),
            (&["Basic YTpi"], None),
            (&["Bearer a", "Bearer b"], None),
            (&[&format!("Bearer {}", "x".repeat(10_000))], None),
        ] {
            let mut headers = HeaderMap::new();
            for value in sent {
                headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            }
            assert_eq!(key_in(&mut headers).ok().as_deref(), key, "{sent:?}");
            assert!(headers.is_empty());
        }
    }

    #[test]
    fn no_limit_holds_for_calls_that_free_a_place() {
        for (call, expected) in [("Ask", true), ("FinishNow", false), ("Cancel", false)] {
            let path = format!("/spechop.v1.SpecHop/{call}");
            assert_eq!(is_rate_limited(&path), expected, "{call}");
        }
    }
}
