//! Why somebody may not ask, or not now.

use std::time::Duration;

use spechop_types::Tenant;

use crate::caller::named;

/// Why a request is refused for the sake of who sends it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AccessError {
    /// There are keys, and none came along.
    #[error("this server wants an API key: send it as `authorization: Bearer KEY`")]
    NoKey,
    /// Nobody can know which of them is meant.
    #[error("there is more than one authorization header")]
    TwoKeys,
    /// There is no such key.
    #[error("the API key is wrong")]
    WrongKey,
    /// There are tokens of an issuer, and this one is not good.
    #[error("the token is refused: {problem}")]
    WrongToken { problem: &'static str },
    /// The token is good, and nobody can tell for which tenant.
    #[error(
        "the token's claim `{claim}` names no tenant: 1 to 64 letters, digits, full stops, hyphens and underscores"
    )]
    NoTenant { claim: String },
    /// The issuer could not be asked yet.
    #[error("the keys of the token's issuer are not known yet; try again later")]
    NoTokenKeys,
    /// Too many keys wait to be checked.
    #[error("too many API keys are being checked; try again later")]
    ChecksBusy,
    /// The key or the token may not be used for this.
    #[error("the {shown} lacks the role \"{role}\", which this needs")]
    NoRole {
        /// What was shown: an API key or a token.
        shown: &'static str,
        role: &'static str,
    },
    /// The key or the token is of another tenant than the one that the request names.
    #[error("the {shown} is of {}, and spechop-tenant names another", named(.tenant))]
    OtherTenant {
        /// What was shown: an API key or a token.
        shown: &'static str,
        tenant: Tenant,
    },
    /// The tenant has sent too many requests.
    #[error("too many requests come from {}; try again in {:.3} s", named(.tenant), again_in.as_secs_f64())]
    TenantTooFast { tenant: Tenant, again_in: Duration },
    /// The key has sent too many requests.
    #[error("too many requests come with the API key {key}; try again in {:.3} s", again_in.as_secs_f64())]
    KeyTooFast { key: String, again_in: Duration },
}

impl AccessError {
    /// In a word, for the metrics.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::NoKey => "no_key",
            Self::TwoKeys => "two_keys",
            Self::WrongKey => "wrong_key",
            Self::WrongToken { .. } => "wrong_token",
            Self::NoTenant { .. } => "no_tenant",
            Self::NoTokenKeys => "no_token_keys",
            Self::ChecksBusy => "checks_busy",
            Self::NoRole { .. } => "no_role",
            Self::OtherTenant { .. } => "other_tenant",
            Self::TenantTooFast { .. } => "tenant_too_fast",
            Self::KeyTooFast { .. } => "key_too_fast",
        }
    }

    /// When to try again, if that helps.
    pub(crate) fn again_in(&self) -> Option<Duration> {
        match self {
            Self::ChecksBusy | Self::NoTokenKeys => Some(Duration::from_secs(1)),
            Self::TenantTooFast { again_in, .. } | Self::KeyTooFast { again_in, .. } => {
                Some(*again_in)
            }
            Self::NoKey
            | Self::TwoKeys
            | Self::WrongKey
            | Self::WrongToken { .. }
            | Self::NoTenant { .. }
            | Self::NoRole { .. }
            | Self::OtherTenant { .. } => None,
        }
    }
}
