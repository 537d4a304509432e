//! Tokens of an identity provider (JWT, RFC 7519; JWKS, RFC 7517): whether one is good, and for whom it
//! speaks.
//!
//! The provider signs a token and publishes its public keys. We read those keys ahead of requests and
//! again every now and then, so that no request waits for the provider. A token must be signed by one of
//! them, must name the issuer and the audience that the operator has written, and must not be over. Only
//! public-key signatures count: whoever can check a symmetric one could make it, too.
//!
//! Whoever has a token can use it until it is over, as with every bearer token: TLS keeps it secret, and
//! a short life limits the loss.

mod signatures;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Validation, decode, decode_header};
use parking_lot::RwLock;
use serde_json::{Map, Value};
use spechop_config::api_keys::Role;
use spechop_config::{Issuer, KeySet, KeySource};
use spechop_types::{Tenant, with_causes};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::outage::Outage;
use crate::transport::{Counts, Source};

/// The most bytes of a token. Longer ones are not looked at.
pub(crate) const TOKEN_BYTES_MAX: usize = 8 << 10;

/// The least time between two looks at the provider's keys: tokens that name unknown keys are no reason
/// to ask more often.
const PAUSE: Duration = Duration::from_secs(5);

/// For whom a token speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bearer {
    pub(crate) tenant: Tenant,
    pub(crate) roles: BTreeSet<Role>,
}

/// Why a token is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenError {
    /// It is not good, for this reason.
    Wrong(&'static str),
    /// It is good, and its claim of this name is no tenant's name.
    NoTenant(String),
    /// The provider's keys are not known yet.
    NoKeys,
}

/// The provider's keys as they were read last.
#[derive(Clone)]
struct Known {
    keys: Arc<KeySet>,
    read_at: Instant,
}

impl Known {
    fn now(keys: KeySet) -> Self {
        Self {
            keys: Arc::new(keys),
            read_at: Instant::now(),
        }
    }
}

/// Checks the tokens of one provider.
pub(crate) struct Tokens {
    issuer: Issuer,
    /// `None` until they were read for the first time.
    known: RwLock<Option<Known>>,
    /// Whether they were read when this began.
    is_read: bool,
    /// Told if a token was signed with a key that is not known.
    wanted: Notify,
    /// Whether they cannot be read at the moment.
    outage: Outage,
}

impl Tokens {
    /// Those of this provider. A file of keys is read at once: whoever withdrew a key may have done so with
    /// this change. What was known `before` of keys that are still at the same place is known of them until
    /// they are read. Blocks.
    pub(crate) fn new(issuer: Issuer, before: Option<&Self>) -> Self {
        signatures::install();
        let read = match &issuer.keys {
            // The configuration was read before, and has said what is wrong with it.
            KeySource::File(path) => KeySet::read(path).ok().map(Known::now),
            KeySource::Url(_) => None,
        };
        let same = before.filter(|before| before.issuer.keys == issuer.keys);
        let is_read = read.is_some();
        let known = read.or_else(|| same.and_then(Self::known));
        Self {
            issuer,
            known: RwLock::new(known),
            is_read,
            wanted: Notify::new(),
            outage: Outage::default(),
        }
    }

    /// Whose they are.
    pub(crate) fn issuer(&self) -> &Issuer {
        &self.issuer
    }

    /// Whether its keys were read, now or before.
    pub(crate) fn are_known(&self) -> bool {
        self.known.read().is_some()
    }

    /// For whom this token speaks. Nobody is asked.
    pub(crate) fn check(&self, token: &str) -> Result<Bearer, TokenError> {
        let header = decode_header(token).map_err(|_| TokenError::Wrong(NO_TOKEN))?;
        let keys = self.known().ok_or(TokenError::NoKeys)?.keys;
        let Some(key) = keys.find(header.kid.as_deref(), header.alg) else {
            self.wanted.notify_one();
            return Err(TokenError::Wrong("no key of the issuer has signed it"));
        };
        let mut validation = Validation::new(header.alg);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation.set_issuer(&[&self.issuer.name]);
        validation.set_audience(&[&self.issuer.audience]);
        validation.validate_nbf = true;
        validation.leeway = self.issuer.leeway.as_secs();
        let decoded = decode::<Map<String, Value>>(token, key, &validation);
        let claims = decoded.map_err(|error| TokenError::Wrong(problem(&error)))?;
        self.bearer(&claims.claims)
    }

    fn known(&self) -> Option<Known> {
        self.known.read().clone()
    }

    fn bearer(&self, claims: &Map<String, Value>) -> Result<Bearer, TokenError> {
        let issuer = &self.issuer;
        let name = claim(claims, &issuer.tenant_claim).and_then(Value::as_str);
        let tenant = name.and_then(|name| Tenant::new(name).ok());
        let tenant = tenant.ok_or_else(|| TokenError::NoTenant(issuer.tenant_claim.clone()))?;
        let mut roles = BTreeSet::from([Role::Ask]);
        let is_admin = match claim(claims, &issuer.roles_claim) {
            Some(Value::String(words)) => words
                .split_whitespace()
                .any(|word| word == issuer.admin_role),
            Some(Value::Array(words)) => words.iter().any(|word| *word == *issuer.admin_role),
            _ => false,
        };
        if is_admin {
            roles.insert(Role::Admin);
        }
        Ok(Bearer { tenant, roles })
    }

    /// Reads the provider's keys at once if they are not known, then every now and then, and whenever a
    /// token names a key that is not among them. Keys that were read once stay until others can be read.
    /// Never ends.
    pub(crate) async fn keep_fresh(&self, counts: &Counts) -> Infallible {
        // Otherwise what was told of the keys before these would stand until the next look.
        if self.is_read && !self.outage.has_failed() {
            counts.read(Source::Jwks, Some(true));
        }
        let pause = PAUSE.min(self.issuer.refresh);
        // Whoever begins anew waits for no more than what is left of the time.
        let mut next = self.known().map_or(Duration::ZERO, |known| {
            self.issuer.refresh.saturating_sub(known.read_at.elapsed())
        });
        loop {
            tokio::select! {
                () = sleep(next) => {}
                () = self.wanted.notified() => {}
            }
            let read = fetch(&self.issuer.keys).await;
            counts.read(Source::Jwks, Some(read.is_ok()));
            next = match read {
                Ok(keys) => {
                    if self.outage.works() {
                        tracing::info!("the token issuer's keys can be read again");
                    }
                    let mut known = self.known.write();
                    if known.as_ref().is_none_or(|known| *known.keys != keys) {
                        tracing::info!(keys = keys.count(), "the token issuer's keys were read");
                    }
                    *known = Some(Known::now(keys));
                    self.issuer.refresh
                }
                Err(problem) => {
                    let follows = match self.known() {
                        Some(_) => "they stay as they were",
                        None => "until they can be, no token is taken",
                    };
                    if self.outage.fails_anew(&problem) {
                        tracing::warn!(
                            problem,
                            "the token issuer's keys cannot be read: {follows}"
                        );
                    }
                    pause
                }
            };
            sleep(pause).await;
            next = next.saturating_sub(pause);
        }
    }
}

/// The provider's keys as they are now. An error names their place, whose address holds no secret.
async fn fetch(source: &KeySource) -> Result<KeySet, String> {
    match source {
        KeySource::Url(url) => {
            let read = match KeySource::endpoint(url).fetch().await {
                Ok(body) => KeySet::parse(&body),
                Err(error) => Err(with_causes(&error)),
            };
            read.map_err(|problem| format!("{url}: {problem}"))
        }
        KeySource::File(path) => {
            let path = path.clone();
            let read = tokio::task::spawn_blocking(move || KeySet::read(&path));
            read.await.map_err(|error| error.to_string())?
        }
    }
}

/// What is sent is no token at all.
const NO_TOKEN: &str = "it is not a signed JSON web token";

/// Why a token was refused, in our words: those of the library may quote it.
fn problem(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::ExpiredSignature => "it has expired",
        ErrorKind::ImmatureSignature => "it is not valid yet",
        ErrorKind::InvalidIssuer => "another issuer has made it",
        ErrorKind::InvalidAudience => "it is meant for another audience",
        ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) => {
            "it must have the claims exp, iss and aud"
        }
        ErrorKind::InvalidSignature => "its signature is wrong",
        ErrorKind::InvalidAlgorithm | ErrorKind::UnsupportedAlgorithm => {
            "its kind of signature is not taken"
        }
        _ => NO_TOKEN,
    }
}

/// The claim of this name. If there is none, full stops lead into objects: `realm_access.roles`.
fn claim<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    if let Some(value) = claims.get(name) {
        return Some(value);
    }
    let (first, rest) = name.split_once('.')?;
    claim(claims.get(first)?.as_object()?, rest)
}

#[cfg(test)]
mod tests;
