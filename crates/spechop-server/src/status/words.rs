//! The words of statuses: what is put together of parts, and how much of an error is told.

use std::error::Error;

use spechop_types::{Tenant, with_causes};
use tonic_types::FieldViolation;

use crate::accounts::Shortage;
use crate::caller::named;
use crate::reply::cut::cut;

/// Longest message of a status, in bytes. Clients of gRPC refuse trailers from 16 KiB on. Those may
/// hold the message twice, and a byte of it may take three there.
const MESSAGE_BYTES_MAX: usize = 2000;

/// An error and its causes, as a message.
pub(super) fn told(error: &(dyn Error + 'static)) -> String {
    brief(&with_causes(error))
}

/// As much of a message as may be told. Whoever quotes others keeps that short already; nobody here
/// relies on it.
pub(super) fn brief(message: &str) -> String {
    cut(message, MESSAGE_BYTES_MAX)
}

/// Why a tenant's question is not begun.
pub(super) fn short(tenant: &Tenant, shortage: &Shortage) -> String {
    let tenant = named(tenant);
    match shortage {
        Shortage::UsedUp { what, again_in } => format!(
            "the budget of {tenant} is used up ({what}); a new period begins in {} s",
            again_in.as_secs() + 1
        ),
        Shortage::SetAside { what, .. } => format!(
            "the rest of the budget of {tenant} ({what}) is set aside for its open questions; \
             try again later"
        ),
        Shortage::Strangers { again_in } => format!(
            "too many tenants have spent something lately to take on {tenant}; try again in {} s",
            again_in.as_secs() + 1
        ),
    }
}

/// What is wrong with the fields of a request.
pub(super) fn sentence(violations: &[FieldViolation]) -> String {
    let parts: Vec<_> = violations
        .iter()
        .map(|wrong| format!("{}: {}", wrong.field, wrong.description))
        .collect();
    parts.join("; ")
}
