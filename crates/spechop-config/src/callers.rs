//! Who may ask: API keys, and what each tenant may have at once.

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use spechop_types::Tenant;
use toml::{Table, Value};

use super::api_keys::{Behalf, Key, KeyHash, KeyName, PREFIX, RequestRate, Role};
use super::keys::{Keys, line_of};
use super::mistake::{Mistake, Source};
use super::table::LIST as KEYS;
use super::{InvalidConfig, Issuer, KeySource, TlsFiles, TlsPart};

/// A file with more keys than the list of the configuration itself.
const KEYS_FILE: &str = "server.keys_file";

/// The public keys of whose tokens are taken.
const JWKS: &str = "jwt.jwks";

/// Who may ask, and how much at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Callers {
    /// The keys of the configuration itself.
    pub keys: Vec<Key>,
    /// A file with more of them, which is read again when it changes.
    pub keys_file: Option<PathBuf>,
    /// Whose tokens are taken beside keys.
    pub issuer: Option<Issuer>,
    /// The most requests of each tenant.
    pub rate: Option<RequestRate>,
    /// The most open questions of each tenant, if that is said.
    pub questions_max: Option<NonZeroUsize>,
    /// Whether they are several tenants, by the keys of now.
    pub are_several: bool,
}

/// A key as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    hash: String,
    tenant: Option<String>,
    roles: Option<Vec<String>>,
    requests_per_second: Option<f64>,
    requests_burst: Option<u32>,
}

impl Callers {
    /// Whether requests must show a key or a token.
    pub fn wants_keys(&self) -> bool {
        !self.keys.is_empty() || self.keys_file.is_some() || self.issuer.is_some()
    }

    /// The most open questions of each tenant, if so many may be open of all. One tenant may have all places
    /// if there is no other.
    pub fn questions_max(&self, places: usize) -> usize {
        let usual = if self.are_several {
            places.div_ceil(2)
        } else {
            places
        };
        self.questions_max.map_or(usual, NonZeroUsize::get)
    }

    /// Whether more than one tenant may ask with these keys, or with tokens. A key that may only look after the
    /// server takes no places.
    pub fn are_several_with(&self, keys: &[Key]) -> bool {
        let asking = keys.iter().filter(|key| key.roles.contains(&Role::Ask));
        let mut tenants = asking.map(|key| match &key.behalf {
            Behalf::Of(tenant) => Some(tenant),
            Behalf::Anyone => None,
        });
        let first = tenants.next();
        self.issuer.is_some() || first == Some(None) || tenants.any(|tenant| Some(tenant) != first)
    }

    /// All keys, those that are in the file now among them. Blocks.
    ///
    /// # Errors
    ///
    /// Every mistake in the file at once.
    pub fn read(&self) -> Result<Vec<Key>, InvalidConfig> {
        let mut all = self.keys.clone();
        let mut wrong = Vec::new();
        if let Some(path) = &self.keys_file {
            match written_in(path) {
                Ok(list) => all.extend(keys_of(&list, &mut wrong)),
                Err(problem) => wrong.push(problem),
            }
        }
        wrong.extend(twice(&all));
        let source = || match &self.keys_file {
            Some(path) => Source::File(path.clone()),
            None => Source::Default,
        };
        let mistake = |problem| Mistake {
            key: KEYS.to_owned(),
            source: source(),
            problem,
            remedy: None,
        };
        match wrong.is_empty() {
            true => Ok(all),
            false => Err(InvalidConfig(wrong.into_iter().map(mistake).collect())),
        }
    }
}

/// Who may ask.
pub(super) fn callers(keys: &mut Keys<'_>) -> Callers {
    let list = keys.tables().unwrap_or_default();
    let mut wrong = Vec::new();
    let own = keys_of(&list, &mut wrong);
    wrong.extend(twice(&own));
    let is_fine = wrong.is_empty();
    for problem in wrong {
        keys.mistake(KEYS, problem);
    }
    let mut callers = Callers {
        keys: own,
        keys_file: keys.path(KEYS_FILE),
        issuer: issuer(keys),
        rate: rate(keys),
        questions_max: keys.count_if("tenant.questions_max"),
        are_several: false,
    };
    let all = match callers.read() {
        Ok(all) => all,
        Err(InvalidConfig(mistakes)) if is_fine => {
            for mistake in mistakes {
                keys.mistake(KEYS_FILE, mistake.problem);
            }
            Vec::new()
        }
        Err(_) => Vec::new(),
    };
    callers.are_several = callers.are_several_with(&all);
    callers
}

/// Whose tokens are taken: nobody's, if nothing is said of their keys.
fn issuer(keys: &mut Keys<'_>) -> Option<Issuer> {
    let [name, audience] = ["jwt.issuer", "jwt.audience"].map(|key| (key, keys.text(key)));
    let [tenant_claim, roles_claim, admin_role] =
        ["jwt.tenant_claim", "jwt.roles_claim", "jwt.admin_role"].map(|key| keys.text(key));
    let (leeway, refresh) = (keys.millis("jwt.leeway_ms"), keys.millis("jwt.refresh_ms"));
    let Some(source) = keys.text(JWKS) else {
        for (key, value) in [name, audience] {
            if value.is_some() {
                keys.mistake(key, format!("only together with {JWKS}"));
            }
        }
        return None;
    };
    let mut needed = |(key, value): (&str, Option<String>)| {
        if value.is_none() {
            let problem =
                format!("{JWKS} needs it: a token that is meant for others must not count");
            keys.mistake(key, problem);
        }
        value
    };
    let (name, audience) = (needed(name), needed(audience));
    let is_url = source.contains("://");
    let issuer = Issuer {
        keys: match is_url {
            true => KeySource::Url(source),
            false => KeySource::File(keys.expanded(JWKS, &source)),
        },
        name: name?,
        audience: audience?,
        tenant_claim: tenant_claim?,
        roles_claim: roles_claim?,
        admin_role: admin_role?,
        leeway,
        refresh,
    };
    match issuer.keys.check() {
        Ok(()) => Some(issuer),
        Err(problem) => {
            keys.mistake(JWKS, problem);
            None
        }
    }
}

/// The files of TLS; all of them or none, and in order.
pub(super) fn tls(keys: &mut Keys<'_>) -> Option<TlsFiles> {
    let mut path = |part: TlsPart| keys.path(part.as_str());
    let (cert, key) = (path(TlsPart::Cert), path(TlsPart::Key));
    let client_ca = path(TlsPart::ClientCa);
    let needs = |keys: &mut Keys<'_>, part: TlsPart, why: TlsPart| {
        let problem = format!("{} needs it", why.as_str());
        keys.mistake(part.as_str(), problem);
    };
    let files = match (cert, key, client_ca) {
        (Some(cert), Some(key), client_ca) => TlsFiles {
            cert,
            key,
            client_ca,
        },
        (None, None, None) => return None,
        (Some(_), None, _) => {
            needs(keys, TlsPart::Key, TlsPart::Cert);
            return None;
        }
        (None, key, _) => {
            let why = key.map_or(TlsPart::ClientCa, |_| TlsPart::Key);
            needs(keys, TlsPart::Cert, why);
            return None;
        }
    };
    if let Err(error) = files.check() {
        keys.mistake(error.part.as_str(), error.to_string());
    }
    Some(files)
}

/// The limit of each tenant.
fn rate(keys: &mut Keys<'_>) -> Option<RequestRate> {
    let per_second = keys.number("tenant.requests_per_second");
    let burst = keys.small_if("tenant.requests_burst");
    if per_second.is_none() && burst.is_some() {
        keys.mistake(
            "tenant.requests_burst",
            "only together with tenant.requests_per_second",
        );
    }
    per_second.map(|rate| rate_of(rate, burst))
}

/// As many come at once after a pause as otherwise in a second, unless the operator says otherwise.
fn rate_of(per_second: f64, burst: Option<u32>) -> RequestRate {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within 0.001 and a million"
    )]
    let second = per_second.ceil().max(1.0) as u32;
    RequestRate {
        interval: Duration::from_secs_f64(1.0 / per_second),
        burst: burst.unwrap_or(second),
    }
}

/// The list that a file of keys holds.
fn written_in(path: &Path) -> Result<Vec<Table>, String> {
    let text = fs::read_to_string(path)
        .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    let table: Table = toml::from_str(&text).map_err(|error| {
        format!(
            "{} is not TOML: line {}: {}",
            path.display(),
            line_of(&text, &error),
            error.message().trim()
        )
    })?;
    let unknown: Vec<_> = table.keys().filter(|key| *key != KEYS).collect();
    if let Some(key) = unknown.first() {
        return Err(format!(
            "{} holds `{key}`; it may hold [[keys]] and nothing else",
            path.display()
        ));
    }
    let list = match table.get(KEYS) {
        None => Some(Vec::new()),
        Some(list) => list.as_array().and_then(|list| {
            let tables = list.iter().map(|item| item.as_table().cloned());
            tables.collect()
        }),
    };
    list.ok_or_else(|| format!("{}: keys must be written as [[keys]]", path.display()))
}

fn keys_of(list: &[Table], wrong: &mut Vec<String>) -> Vec<Key> {
    let mut keys = Vec::new();
    for (at, table) in list.iter().enumerate() {
        let name = table.get("name").and_then(Value::as_str).unwrap_or("?");
        let name: String = name.chars().take(64).collect();
        // The key itself may stand there.
        let name = match name.starts_with(PREFIX) {
            true => PREFIX.to_owned(),
            false => name,
        };
        match key_of(table) {
            Ok(key) => keys.push(key),
            Err(problems) => {
                let problems = problems.into_iter();
                wrong.extend(problems.map(|problem| format!("key {} ({name}): {problem}", at + 1)));
            }
        }
    }
    keys
}

/// Every mistake in a key at once.
fn key_of(table: &Table) -> Result<Key, Vec<String>> {
    let written: Written = table
        .clone()
        .try_into()
        .map_err(|error: toml::de::Error| vec![error.message().trim().to_owned()])?;
    let mut wrong = Vec::new();
    let name = KeyName::new(&written.name).map_err(|error| wrong.push(format!("name: {error}")));
    let hash = KeyHash::parse(&written.hash).map_err(|error| wrong.push(format!("hash: {error}")));
    let behalf = match written.tenant.as_deref() {
        None | Some("") => Behalf::Of(Tenant::default()),
        Some("*") => Behalf::Anyone,
        Some(name) => Behalf::Of(Tenant::new(name).unwrap_or_else(|error| {
            wrong.push(format!(
                "tenant: {error}, or is \"*\" for whomever the caller names"
            ));
            Tenant::default()
        })),
    };
    let mut roles = BTreeSet::new();
    for role in written.roles.iter().flatten() {
        match Role::ALL.into_iter().find(|known| known.as_str() == role) {
            Some(role) => {
                roles.insert(role);
            }
            None => {
                let known = Role::ALL.map(|role| format!("\"{}\"", role.as_str()));
                wrong.push(format!(
                    "roles: there is no \"{role}\"; there are {}",
                    known.join(" and ")
                ));
            }
        }
    }
    match &written.roles {
        None => {
            roles.insert(Role::Ask);
        }
        Some(named) if named.is_empty() => {
            wrong.push(
                "roles: a key without a role may do nothing; leave it out for [\"ask\"]".to_owned(),
            );
        }
        Some(_) => {}
    }
    let per_second = written.requests_per_second;
    if per_second.is_some_and(|rate| !(0.001..=1e6).contains(&rate)) {
        wrong.push("requests_per_second: expected a number from 0.001 to 1000000".to_owned());
    }
    if written.requests_burst == Some(0) {
        wrong.push("requests_burst: expected at least 1".to_owned());
    }
    if per_second.is_none() && written.requests_burst.is_some() {
        wrong.push("requests_burst: only together with requests_per_second".to_owned());
    }
    match (name, hash) {
        (Ok(name), Ok(hash)) if wrong.is_empty() => Ok(Key {
            name,
            hash,
            behalf,
            roles: roles.into_iter().collect(),
            rate: per_second.map(|rate| rate_of(rate, written.requests_burst)),
        }),
        _ => Err(wrong),
    }
}

/// Names that more than one key has.
fn twice(keys: &[Key]) -> Vec<String> {
    let mut names = BTreeSet::new();
    let again = keys.iter().filter(|key| !names.insert(&key.name));
    again
        .map(|key| {
            format!(
                "two keys have the name \"{}\"; it says which hash a key is checked by, so give one \
                 of them another name",
                key.name.as_str()
            )
        })
        .collect()
}
