//! A proxy of the operator's choice, through which everything goes.
//!
//! Who goes through it checks addresses only as far as they are written: what a name stands for is
//! looked up by the proxy, and so is what is really connected to.

use std::fmt;

use reqwest::ClientBuilder;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

/// An HTTP proxy, spoken to over HTTP or TLS. It may well be on a private network.
#[derive(Clone)]
pub struct Proxy {
    url: Url,
    login: Option<SecretString>,
}

/// Why a proxy cannot be used as it is described. Nothing of the description is quoted: there may be a
/// password in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidProxy {
    /// Not an address at all, or one of another protocol (SOCKS).
    #[error("expected an address such as http://proxy.example.org:3128; http and https are spoken")]
    Url,
    /// It holds credentials, which would be shown wherever the address is.
    #[error("it holds a user name or password; a login has its own setting")]
    Login,
    /// It holds a path, a query or a fragment.
    #[error("expected nothing behind the host and the port of the proxy")]
    Behind,
    /// A login of another form.
    #[error("expected USER:PASSWORD as the login of the proxy")]
    LoginForm,
}

impl Proxy {
    /// The proxy at this address. It is not connected to yet.
    ///
    /// # Errors
    ///
    /// What is wrong with the address.
    pub fn new(url: &str) -> Result<Self, InvalidProxy> {
        let url = Url::parse(url).map_err(|_| InvalidProxy::Url)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(InvalidProxy::Url);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidProxy::Login);
        }
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(InvalidProxy::Behind);
        }
        // The client reads it again by this stricter rule, and takes what it cannot read for no proxy at all.
        if url.as_str().parse::<http::Uri>().is_err() {
            return Err(InvalidProxy::Url);
        }
        Ok(Self { url, login: None })
    }

    /// The same, which wants a login: `USER:PASSWORD`.
    ///
    /// # Errors
    ///
    /// The login has another form.
    pub fn with_login(self, login: SecretString) -> Result<Self, InvalidProxy> {
        match login.expose_secret().split_once(':') {
            Some((user, _)) if !user.is_empty() => Ok(Self {
                login: Some(login),
                ..self
            }),
            _ => Err(InvalidProxy::LoginForm),
        }
    }

    /// Whether it is spoken to over TLS, so that root certificates are needed whatever is fetched.
    pub(crate) fn is_tls(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The name that has to be looked up to reach it.
    pub(crate) fn host(&self) -> Option<&str> {
        self.url.domain()
    }

    fn of_client(&self) -> Result<reqwest::Proxy, reqwest::Error> {
        let proxy = reqwest::Proxy::all(self.url.clone())?;
        let login = self.login.as_ref().map(ExposeSecret::expose_secret);
        // The client puts both into an address, where `%41` would be read as `A`.
        let as_is = |text: &str| text.replace('%', "%25");
        Ok(match login.and_then(|login| login.split_once(':')) {
            Some((user, password)) => proxy.basic_auth(&as_is(user), &as_is(password)),
            None => proxy,
        })
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("url", &self.url.as_str())
            .field("has_login", &self.login.is_some())
            .finish()
    }
}

/// A client that goes through this proxy, or else through none: the environment decides on nothing.
pub(crate) fn through(
    client: ClientBuilder,
    proxy: Option<&Proxy>,
) -> Result<ClientBuilder, reqwest::Error> {
    let client = client.no_proxy();
    match proxy {
        Some(proxy) => Ok(client.proxy(proxy.of_client()?)),
        None => Ok(client),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_said_and_quotes_nothing() {
        for good in [
            "http://proxy.example:3128",
            "https://10.0.0.1/",
            "http://[::1]:80",
        ] {
            assert!(Proxy::new(good).is_ok(), "{good}");
        }
        for (bad, why) in [
            ("", InvalidProxy::Url),
            ("secret.example:3128", InvalidProxy::Url),
            ("http://", InvalidProxy::Url),
            // A template that nobody filled in.
            ("http://${SECRET}:3128", InvalidProxy::Url),
            ("http://{secret}:3128", InvalidProxy::Url),
            ("http://`secret`:3128", InvalidProxy::Url),
            ("socks5://secret.example", InvalidProxy::Url),
            ("http://secret@proxy.example", InvalidProxy::Login),
            ("http://u:secret@proxy.example", InvalidProxy::Login),
            ("http://proxy.example/secret", InvalidProxy::Behind),
            ("http://proxy.example?secret", InvalidProxy::Behind),
        ] {
            let error = Proxy::new(bad).unwrap_err();
            assert_eq!(error, why, "{bad}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_login_is_two_parts_and_never_shown() {
        let proxy = || Proxy::new("http://proxy.example").unwrap();
        for bad in ["", "secret", ":secret"] {
            let error = proxy().with_login(bad.into()).unwrap_err();
            assert_eq!(error, InvalidProxy::LoginForm);
        }
        let proxy = proxy().with_login("user:secret:too".into()).unwrap();
        let shown = format!("{proxy:?}");
        assert!(
            !shown.contains("user") && !shown.contains("secret"),
            "{shown}"
        );
        proxy.of_client().unwrap();
    }
}
