//! On whose behalf a question is asked.

use std::fmt;
use std::sync::Arc;

/// The most bytes of a tenant's name.
pub const TENANT_BYTES_MAX: usize = 64;

/// Who pays for a question and shares look-ups with nobody else. The default one has no name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
