//! What the transport tells in `GET /metrics`.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use strum::{IntoStaticStr, VariantArray};

/// Counters; clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    closed: Family<Reason, Counter>,
    refused: Family<Reason, Counter>,
    not_accepted: Counter,
    certificate_ends: Family<Which, Gauge>,
    read: Family<Of, Gauge>,
}

/// What is read again while the server runs, beside its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The file of API keys.
    Keys,
    /// The public keys of the token issuer.
    Jwks,
    /// The certificate and what belongs to it.
    Tls,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Of {
    source: &'static str,
}

impl Of {
    fn source(source: Source) -> Self {
        let source = match source {
            Source::Keys => "keys",
            Source::Jwks => "jwks",
            Source::Tls => "tls",
        };
        Self { source }
    }
}

/// Why the server closed a connection.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(super) enum Closed {
    /// It did not say which protocol it speaks.
    Silent,
    /// It speaks TLS and the server does not, or the other way round.
    OtherProtocol,
    /// The TLS handshake came to nothing.
    Handshake,
    /// It did not take what it was sent.
    Stalled,
    /// It was idle, and others wanted in.
    Displaced,
    /// It held most of all bytes that never became requests.
    Unfinished,
    /// It held most of all answers that nobody reads.
    Unread,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

impl Reason {
    fn of(why: Closed) -> Self {
        Self {
            reason: why.into_str(),
        }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Which {
    certificate: &'static str,
}

/// When the certificates in use end; `None` if there is none. Each is told for itself: an old one that does no
/// harm must not hide another that ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ends {
    /// The server's own.
    pub(super) server: Option<SystemTime>,
    /// The first of those behind it.
    pub(super) chain: Option<SystemTime>,
    /// The last of the authorities of clients: until then somebody can come in.
    pub(super) client_ca: Option<SystemTime>,
}

impl Counts {
    /// Counters that this registry tells.
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let counts = Self::default();
        registry.register(
            "connections_closed",
            "Connections that the server closed, by reason",
            counts.closed.clone(),
        );
        registry.register(
            "requests_refused",
            "Requests that the transport refused, by reason",
            counts.refused.clone(),
        );
        registry.register(
            "accept_failures",
            "Connections that the operating system could not hand over",
            counts.not_accepted.clone(),
        );
        registry.register_with_unit(
            "tls_certificate_expiration_timestamp",
            "When a certificate in use ends, by its place; 0 if there is none",
            Unit::Seconds,
            counts.certificate_ends.clone(),
        );
        registry.register(
            "last_read_successful",
            "Whether files and keys that are read again could be read the last time, by what they are",
            counts.read.clone(),
        );
        counts.certificates_end(Ends::default());
        for &why in Closed::VARIANTS {
            // A first one that is no increase would ring nowhere.
            let _ = counts.closed.get_or_create(&Reason::of(why));
        }
        counts
    }

    pub(super) fn closed(&self, why: Closed) {
        self.closed.get_or_create(&Reason::of(why)).inc();
    }

    pub(super) fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&Reason { reason }).inc();
    }

    pub(super) fn not_accepted(&self) {
        self.not_accepted.inc();
    }

    /// Whether it could be read the last time; `None` if there is none any more.
    pub(crate) fn read(&self, source: Source, could_be: Option<bool>) {
        let of = Of::source(source);
        match could_be {
            Some(could_be) => {
                self.read.get_or_create(&of).set(i64::from(could_be));
            }
            None => {
                self.read.remove(&of);
            }
        }
    }

    pub(super) fn certificates_end(&self, ends: Ends) {
        for (certificate, end) in [
            ("server", ends.server),
            ("chain", ends.chain),
            ("client_ca", ends.client_ca),
        ] {
            let since = end.and_then(|end| end.duration_since(UNIX_EPOCH).ok());
            let seconds = since.unwrap_or_default().as_secs();
            self.certificate_ends
                .get_or_create(&Which { certificate })
                .set(i64::try_from(seconds).unwrap_or(i64::MAX));
        }
    }
}
