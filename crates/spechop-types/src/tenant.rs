//! On whose behalf a question is asked.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The most bytes of a tenant's name.
const TENANT_BYTES_MAX: usize = 64;

/// Who pays for a question, and who alone finds what it leaves behind ([`Owned`](crate::Owned)). The
/// default one has no name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Tenant(Arc<str>);

/// A name that no tenant can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidTenant;

impl fmt::Display for InvalidTenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a tenant's name has 1 to {TENANT_BYTES_MAX} letters, digits, full stops, hyphens and underscores"
        )
    }
}

impl std::error::Error for InvalidTenant {}

impl Tenant {
    /// The tenant of this name.
    ///
    /// # Errors
    ///
    /// Names that are empty, too long, or not of letters, digits, `.`, `-` and `_` (ASCII).
    pub fn new(name: &str) -> Result<Self, InvalidTenant> {
        let fits = (1..=TENANT_BYTES_MAX).contains(&name.len());
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if fits && name.chars().all(plain) {
            Ok(Self(name.into()))
        } else {
            Err(InvalidTenant)
        }
    }

    /// The name; empty for the default tenant.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Tenant> for String {
    fn from(tenant: Tenant) -> Self {
        tenant.as_str().to_owned()
    }
}

/// The empty name is the default tenant's, as [`Tenant::as_str`] says it.
impl TryFrom<String> for Tenant {
    type Error = InvalidTenant;

    fn try_from(name: String) -> Result<Self, InvalidTenant> {
        if name.is_empty() {
            return Ok(Self::default());
        }
        Self::new(&name)
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() {
            "default"
        } else {
            &self.0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for good in ["a", "team-7", "A.b_c", &"x".repeat(64)] {
            assert_eq!(
                Tenant::new(good).map(|t| t.to_string()),
                Ok(good.to_owned())
            );
        }
        for bad in ["", "a b", "ä", "a/b", "a\n", &"x".repeat(65)] {
            assert_eq!(Tenant::new(bad), Err(InvalidTenant), "{bad:?}");
        }
    }
}
