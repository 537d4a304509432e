//! The client of HTTP behind the bridge, and how it speaks TLS.

use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Certificate, Client, Identity, Url};
use spechop_types::with_causes;
use spechop_web::{HttpEndpoint, InvalidHttpEndpoint};
use tokio::net::lookup_host;

use super::BridgeError;

/// What has to be known of a server's TLS beside its address. By default nothing: then the authorities of the system
/// are trusted.
#[derive(Default)]
pub struct Tls {
    /// The authorities that are trusted instead of the system's (PEM).
    pub authorities: Option<Vec<u8>>,
    /// The DNS name that the server's certificate must have, if it is not that of the address. The server is asked by
    /// it, too.
    pub name: Option<String>,
    /// A certificate of our own, and its key (PEM).
    pub own: Option<Vec<u8>>,
}

impl Tls {
    /// A client for this address alone, and the address with the name by which the server is asked.
    pub(super) fn client(&self, endpoint: &HttpEndpoint) -> Result<(Client, Url), BridgeError> {
        endpoint.check_key()?;
        let (mut client, mut url) = endpoint.client_builder()?;
        if let Some(pem) = &self.authorities {
            client = client.tls_certs_only(authorities(pem)?);
        }
        if let Some(pem) = &self.own {
            client = client.identity(Identity::from_pem(pem).map_err(|error| broken(&error))?);
        }
        if let Some(name) = &self.name {
            let host = url.host_str().unwrap_or_default();
            let there = There(host.trim_matches(['[', ']']).into());
            // An IP address would not be looked up, so the client would connect to it.
            if url.set_host(Some(name.as_str())).is_err() || url.domain().is_none() {
                return Err(BridgeError::Tls(format!("{name:?} is no DNS name")));
            }
            client = client.dns_resolver(there);
        }
        let client = client.build().map_err(InvalidHttpEndpoint::Client)?;
        Ok((client, url))
    }
}

/// Refused unless this file of authorities (PEM) holds a certificate: a client that trusts nobody would say of every
/// server that its certificate is wrong.
///
/// # Errors
///
/// If it holds none, or what is none.
pub fn check_authorities(pem: &[u8]) -> Result<(), BridgeError> {
    authorities(pem).map(drop)
}

fn authorities(pem: &[u8]) -> Result<Vec<Certificate>, BridgeError> {
    let authorities = Certificate::from_pem_bundle(pem).map_err(|error| broken(&error))?;
    if authorities.is_empty() {
        let problem = "the file of authorities holds no certificate in PEM form";
        return Err(BridgeError::Tls(problem.to_owned()));
    }
    Ok(authorities)
}

fn broken(error: &reqwest::Error) -> BridgeError {
    BridgeError::Tls(with_causes(error))
}

/// The host at which every name is found.
struct There(Arc<str>);

impl Resolve for There {
    fn resolve(&self, _: Name) -> Resolving {
        let host = Arc::clone(&self.0);
        Box::pin(async move {
            // The client sets the port.
            let found: Vec<_> = lookup_host((&*host, 0)).await?.collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
