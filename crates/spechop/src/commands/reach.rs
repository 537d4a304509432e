//! How commands reach a running server: its address, TLS, and the API key.

use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use secrecy::{ExposeSecret, SecretString};
use spechop_config::Env;
use spechop_mcp::bridge::check_authorities;
use spechop_ports::is_loopback;
use spechop_types::{causes, innermost};
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
    pub(super) tls_ca: Option<PathBuf>,
    /// The name that the server's certificate must have, if it is not that of the address.
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    pub(super) tls_name: Option<String>,
    /// A certificate of our own (PEM), for servers that demand one.
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = HEADING)]
    pub(super) tls_cert: Option<PathBuf>,
    /// The key of that certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = HEADING)]
    pub(super) tls_key: Option<PathBuf>,
    /// The variable that holds the API key [default: SPECHOP_KEY, if it is set].
    #[arg(long, value_name = "NAME", alias = "api-key-env", help_heading = HEADING)]
    key_env: Option<String>,
}

/// Said of a connection that broke although it may only be that we [showed no certificate](ServerArgs::shows_none).
pub(super) const SHOW_ONE: &str = "if the server wants a client certificate, name yours and its key \
                                   with --tls-cert and --tls-key";

/// The heading of these flags in every help text.
const HEADING: &str = "Access";

/// Refuses to send an API key to another machine in the clear, unless `http://` was written.
pub(crate) fn key_may_go(address: &str, to: &Uri) -> anyhow::Result<()> {
    let is_said = address.contains("://");
    let is_here = to.host().is_some_and(is_loopback);
    let is_tls = to.scheme_str() == Some("https");
    ensure!(
        is_said || is_here || is_tls,
        "the API key would go to {address} in the clear: use https://{address} or --tls-ca, or say http://{address} \
         if you trust the network in between"
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

    /// The API key, if there is one.
    pub(super) fn secret(&self, env: &Env) -> anyhow::Result<Option<SecretString>> {
        match (env.secret(self.variable()), &self.key_env) {
            (None, Some(name)) => bail!("the variable {name} holds no API key"),
            (key, _) => Ok(key),
        }
    }

    /// The variable that holds the API key.
    fn variable(&self) -> &str {
        self.key_env.as_deref().unwrap_or(KEY_VARIABLE)
    }

    fn key(&self, env: &Env) -> anyhow::Result<WithKey> {
        let Some(key) = self.secret(env)? else {
            return Ok(WithKey(None));
        };
        let name = self.variable();
        let value = format!("Bearer {}", key.expose_secret());
        let mut value = MetadataValue::try_from(value)
            .map_err(|_| anyhow!("the variable {name} holds no API key: it has odd characters"))?;
        value.set_sensitive(true);
        Ok(WithKey(Some(value)))
    }

    /// The address with its scheme, and whether that is TLS.
    pub(super) fn url(&self) -> anyhow::Result<(String, bool)> {
        let address = &self.addr;
        let wants_tls = [&self.tls_ca, &self.tls_cert]
            .iter()
            .any(|file| file.is_some())
            || self.tls_name.is_some();
        Ok(match address.split_once("://") {
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
        })
    }

    /// Whether a server may hang up because it was shown no certificate. In TLS 1.3 it does so after the handshake,
    /// and often before its words are read.
    pub(super) fn shows_none(&self) -> bool {
        self.tls_cert.is_none() && self.url().is_ok_and(|(_, is_tls)| is_tls)
    }

    /// Where to connect, and whether by TLS.
    fn endpoint(&self, has_key: bool) -> anyhow::Result<(Endpoint, bool)> {
        let address = &self.addr;
        let (uri, is_tls) = self.url()?;
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
        let path = endpoint.uri().path_and_query();
        ensure!(
            path.is_none_or(|path| path.as_str() == "/"),
            "`{address}` has a path, and gRPC has none: leave it out"
        );
        if has_key {
            key_may_go(address, endpoint.uri())?;
        }
        if is_tls {
            let tls = self.tls()?;
            endpoint = endpoint
                .tls_config(tls)
                .map_err(|error| anyhow!("TLS cannot be set up: {}", innermost(&error)))?;
        }
        Ok((endpoint, is_tls))
    }

    async fn connect(&self, endpoint: Endpoint, is_tls: bool) -> anyhow::Result<Channel> {
        let address = &self.addr;
        endpoint.connect().await.map_err(|error| {
            if let Some(why) = certificate_trouble(&error) {
                return anyhow!(why);
            }
            // What lies around it says only that something failed.
            let why = innermost(&error).to_string();
            match is_tls {
                true if why.contains("CaUsedAsEndEntity") => anyhow!(
                    "no TLS connection to {address}: the server's certificate is that of an authority (CA:TRUE); \
                     give the server one that the authority has signed"
                ),
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
            Some(path) => {
                let authorities = read(path)?;
                check_authorities(&authorities).with_context(|| path.display().to_string())?;
                tls.ca_certificate(Certificate::from_pem(authorities))
            }
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

/// The bytes of a file.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Whether nobody listens there.
fn is_refused(error: &tonic::transport::Error) -> bool {
    causes(error).any(|cause| {
        let cause = cause.downcast_ref::<io::Error>();
        cause.is_some_and(|cause| cause.kind() == io::ErrorKind::ConnectionRefused)
    })
}

/// Says that the server does not take the client's certificate, or its lack, if an alert of TLS tells so. In
/// TLS 1.3 the handshake is over for the client by then, and HTTP/2 keeps only the words of the alert.
pub(super) fn certificate_trouble(error: &(dyn Error + 'static)) -> Option<String> {
    let alert = causes(error).find_map(|cause| {
        let said = cause.to_string();
        let (_, alert) = said.split_once("received fatal alert: ")?;
        let end = alert.find(|c: char| !c.is_ascii_alphanumeric());
        alert.get(..end.unwrap_or(alert.len())).map(str::to_owned)
    })?;
    // If an authority has the right name and another key, the signature cannot be checked: DecryptError.
    let is_unwanted = matches!(&*alert, "UnknownCA" | "DecryptError" | "AccessDenied")
        || alert.contains("Certificate");
    let what = match &*alert {
        "CertificateRequired" => "wants a client certificate: name yours and its key".to_owned(),
        _ if is_unwanted => {
            format!(
                "does not accept the client certificate ({alert}): name another one and its key"
            )
        }
        _ => return None,
    };
    Some(format!("the server {what} with --tls-cert and --tls-key"))
}
