//! How commands reach a running server: its address, TLS, and the API key.

use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use spechop_ports::is_loopback;
use spechop_server::Env;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity, Uri};
use tonic::{Request, Status};

/// The variable that holds the API key, unless another one is named.
pub(crate) const KEY_VARIABLE: &str = "SPECHOP_KEY";

/// The longest that a connection may take, its TLS handshake included.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// How often the connection is tried while nothing comes, and how long it then may stay silent: a server whose machine
/// is gone says nothing, and an answer may take minutes.
const ALIVE: Duration = Duration::from_secs(20);

/// Flags that name a server.
#[derive(Debug, clap::Args)]
pub(crate) struct ServerArgs {
    /// The address of the server; `https://HOST:PORT` for TLS. To send an API key to another machine
    /// without TLS, say `http://HOST:PORT`.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50051")]
    addr: String,
    /// Speak TLS, and trust servers with a certificate of this authority (PEM)
    /// [default: the authorities of the system].
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    tls_ca: Option<PathBuf>,
    /// The name that the server's certificate must have, if it is not that of the address.
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    tls_name: Option<String>,
    /// A certificate of our own (PEM), for servers that demand one.
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = HEADING)]
    tls_cert: Option<PathBuf>,
    /// The key of that certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = HEADING)]
    tls_key: Option<PathBuf>,
    /// The variable that holds the API key [default: SPECHOP_KEY, if it is set].
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    key_env: Option<String>,
}

/// The heading of these flags in every help text.
const HEADING: &str = "Access";

/// Refuses to send an API key to another machine in the clear, unless `http://` was written.
pub(crate) fn key_may_go(address: &str, to: &Uri) -> anyhow::Result<()> {
    let is_said = address.contains("://");
    let is_here = to.host().is_some_and(is_loopback);
    let is_tls = to.scheme_str() == Some("https");
    ensure!(
        is_said || is_here || is_tls,
        "the API key would go to {address} in the clear: use https://{address} (`spechop ask` and its like: or \
         --tls-ca), or say http://{address} if you trust the network in between"
    );
    Ok(())
}

/// A connection whose requests carry the API key.
pub(crate) type Reached = InterceptedService<Channel, WithKey>;

/// Puts the API key into every request.
#[derive(Clone)]
pub(crate) struct WithKey(Option<MetadataValue<Ascii>>);

impl Interceptor for WithKey {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(key) = &self.0 {
            request.metadata_mut().insert("authorization", key.clone());
        }
        Ok(request)
    }
}

impl ServerArgs {
    /// The address, as it was written.
    pub(crate) fn address(&self) -> &str {
        &self.addr
    }

    /// Connects.
    pub(crate) async fn reach(&self, env: &Env) -> anyhow::Result<Reached> {
        let key = self.key(env)?;
        let (endpoint, is_tls) = self.endpoint(key.0.is_some())?;
        let channel = self.connect(endpoint, is_tls).await?;
        Ok(InterceptedService::new(channel, key))
    }

    fn key(&self, env: &Env) -> anyhow::Result<WithKey> {
        let name = self.key_env.as_deref().unwrap_or(KEY_VARIABLE);
        let key = match (env.secret(name), &self.key_env) {
            (Some(key), _) => key,
            (None, None) => return Ok(WithKey(None)),
            (None, Some(name)) => bail!("the variable {name} holds no API key"),
        };
        let value = format!("Bearer {}", secrecy::ExposeSecret::expose_secret(&key));
        let mut value = MetadataValue::try_from(value)
            .map_err(|_| anyhow!("the variable {name} holds no API key: it has odd characters"))?;
        value.set_sensitive(true);
        Ok(WithKey(Some(value)))
    }

    /// Where to connect, and whether by TLS.
    fn endpoint(&self, has_key: bool) -> anyhow::Result<(Endpoint, bool)> {
        let address = &self.addr;
        let wants_tls = [&self.tls_ca, &self.tls_cert]
            .iter()
            .any(|file| file.is_some())
            || self.tls_name.is_some();
        let (uri, is_tls) = match address.split_once("://") {
            None if wants_tls => (format!("https://{address}"), true),
            None => (format!("http://{address}"), false),
            Some(("https", _)) => (address.clone(), true),
            Some(("http", _)) if wants_tls => {
                bail!("`{address}` is without TLS: leave `http://` or the flags of TLS out")
            }
            Some(("http", _)) => (address.clone(), false),
            Some((scheme, _)) => {
                bail!("`{scheme}` is not spoken: give the server as HOST:PORT or https://HOST:PORT")
            }
        };
        let mut endpoint = Endpoint::from_shared(uri)
            .with_context(|| format!("`{address}` is no HOST:PORT"))?
            .connect_timeout(CONNECT_TIME)
            .http2_keep_alive_interval(ALIVE)
            .keep_alive_timeout(ALIVE);
        let to = endpoint.uri().authority();
        // A port above 65535 reads as none.
        ensure!(
            to.is_some_and(|to| to.port_u16().is_some() || to.as_str().ends_with(to.host())),
            "`{address}` is no HOST:PORT"
        );
        if has_key {
            key_may_go(address, endpoint.uri())?;
        }
        if is_tls {
            let tls = self.tls()?;
            endpoint = endpoint
                .tls_config(tls)
                .map_err(|error| anyhow!("TLS cannot be set up: {}", reason(&error)))?;
        }
        Ok((endpoint, is_tls))
    }

    async fn connect(&self, endpoint: Endpoint, is_tls: bool) -> anyhow::Result<Channel> {
        let address = &self.addr;
        endpoint.connect().await.map_err(|error| {
            let why = reason(&error);
            match is_tls {
                _ if is_refused(&error) => anyhow!(
                    "no server answers at {address}: is it running? start it with `spechop serve`"
                ),
                true => anyhow!(
                    "no TLS connection to {address}: {why}; does the server speak TLS (server.tls_cert), and \
                     is --tls-ca its authority?"
                ),
                false => anyhow!("no connection to {address}: {why}"),
            }
        })
    }

    fn tls(&self) -> anyhow::Result<ClientTlsConfig> {
        let mut tls = ClientTlsConfig::new().timeout(CONNECT_TIME);
        tls = match &self.tls_ca {
            Some(path) => tls.ca_certificate(Certificate::from_pem(read(path)?)),
            None => tls.with_native_roots(),
        };
        if let Some(name) = &self.tls_name {
            tls = tls.domain_name(name);
        }
        if let (Some(cert), Some(key)) = (&self.tls_cert, &self.tls_key) {
            tls = tls.identity(Identity::from_pem(read(cert)?, read(key)?));
        }
        Ok(tls)
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Whether nobody listens there.
fn is_refused(error: &tonic::transport::Error) -> bool {
    causes(error).any(|cause| {
        let cause = cause.downcast_ref::<io::Error>();
        cause.is_some_and(|cause| cause.kind() == io::ErrorKind::ConnectionRefused)
    })
}

/// The innermost cause: what lies around it says only that something failed.
fn reason(error: &(dyn Error + 'static)) -> String {
    causes(error)
        .last()
        .map_or_else(String::new, |cause| cause.to_string())
}

/// The error, and what caused it.
pub(super) fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), deeper)
}

fn deeper<'a>(error: &&'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let error = *error;
    error.source()
}
