//! The files of TLS, and whether a server can be started with them.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ServerConfig, WebPkiClientVerifier};

/// The most bytes of a file. A chain has a few thousand, a bundle of authorities a few hundred thousand.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Where the parts of TLS lie, all of them PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, and behind it those that lead to its authority.
    pub cert: PathBuf,
    /// The key of the first certificate.
    pub key: PathBuf,
    /// Authorities of whom each client must have a certificate; `None` if clients need none.
    pub client_ca: Option<PathBuf>,
}

/// Which of the files is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsPart {
    /// The certificate.
    Cert,
    /// The key.
    Key,
    /// The authorities of clients.
    ClientCa,
}

impl TlsPart {
    /// The configuration key.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Cert => "server.tls_cert",
            Self::Key => "server.tls_key",
            Self::ClientCa => "server.tls_client_ca",
        }
    }
}

/// Why there can be no TLS with these files.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct TlsError {
    /// The file that is to blame.
    pub(crate) part: TlsPart,
    path: PathBuf,
    problem: String,
}

/// The content of the files.
#[derive(PartialEq, Eq)]
pub struct TlsContents {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

/// It holds a private key.
impl fmt::Debug for TlsContents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsContents")
    }
}

impl TlsFiles {
    /// Whether a server can be started with them.
    pub(crate) fn check(&self) -> Result<(), TlsError> {
        self.read()?.config(self).map(|_| ())
    }

    /// What they hold now. Blocks.
    ///
    /// # Errors
    ///
    /// The first file that cannot be read.
    pub fn read(&self) -> Result<TlsContents, TlsError> {
        let of = |part, path: &Path| read(path).map_err(|problem| error(part, path, problem));
        Ok(TlsContents {
            cert: of(TlsPart::Cert, &self.cert)?,
            key: of(TlsPart::Key, &self.key)?,
            client_ca: match &self.client_ca {
                Some(path) => Some(of(TlsPart::ClientCa, path)?),
                None => None,
            },
        })
    }
}

impl TlsContents {
    /// What a server speaks TLS with that has read this from `files`.
    ///
    /// # Errors
    ///
    /// The first file that does not hold what it should, or does not fit the others.
    pub fn config(&self, files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
        let wrong_cert = |problem| error(TlsPart::Cert, &files.cert, problem);
        let wrong_key = |problem| error(TlsPart::Key, &files.key, problem);
        let chain = certificates(&self.cert).map_err(wrong_cert)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| {
            wrong_key(format!(
                "holds no private key in PEM form, which begins with `-----BEGIN PRIVATE KEY-----` ({error})"
            ))
        })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong_cert(error.to_string()))?;
        let builder = match (&self.client_ca, &files.client_ca) {
            (Some(content), Some(path)) => {
                let wrong = |problem| error(TlsPart::ClientCa, path, problem);
                let mut roots = RootCertStore::empty();
                for authority in certificates(content).map_err(wrong)? {
                    roots
                        .add(authority)
                        .map_err(|error| wrong(format!("holds no authority: {error}")))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = verifier.build().map_err(|error| wrong(error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
            _ => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|error| {
            let fits = !matches!(error, rustls::Error::InconsistentKeys(_));
            match fits {
                true => wrong_cert(format!("cannot be served: {error}")),
                false => wrong_key(format!(
                    "is the key of another certificate than {}",
                    files.cert.display()
                )),
            }
        })?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// The certificates that this file holds; none if there are none, or if they cannot be read.
    pub fn certificates(&self, part: TlsPart) -> Vec<CertificateDer<'static>> {
        let pem = match part {
            TlsPart::Cert => Some(&self.cert),
            TlsPart::Key => None,
            TlsPart::ClientCa => self.client_ca.as_ref(),
        };
        pem.and_then(|pem| certificates(pem).ok())
            .unwrap_or_default()
    }
}

fn error(part: TlsPart, path: &Path, problem: String) -> TlsError {
    TlsError {
        part,
        path: path.to_owned(),
        problem,
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let size = |path| -> io::Result<u64> { Ok(fs::metadata(path)?.len()) };
    let bytes = size(path).and_then(|bytes| match bytes > FILE_BYTES_MAX {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => fs::read(path),
    });
    bytes.map_err(|error| format!("cannot be read: {error}"))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let wanted = "a certificate in PEM form, which begins with `-----BEGIN CERTIFICATE-----`";
    match found {
        Ok(found) if found.is_empty() => Err(format!("does not hold {wanted}")),
        Ok(found) => Ok(found),
        Err(error) => Err(format!("does not hold {wanted}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A certificate and its key.
    fn pair() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn every_file_that_cannot_be_used_is_named_with_what_is_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let files = TlsFiles {
            cert: dir.path().join("cert.pem"),
            key: dir.path().join("key.pem"),
            client_ca: Some(dir.path().join("ca.pem")),
        };
        let ((cert, key), (other, _)) = (pair(), pair());
        let broken = cert.replace("MII", "!!!");
        for (cert, key, ca, expected) in [
            (&*cert, &*key, &*other, None),
            (
                &other,
                &key,
                &cert,
                Some("key.pem: is the key of another certificate than"),
            ),
            (
                "",
                &key,
                &cert,
                Some("cert.pem: does not hold a certificate in PEM form"),
            ),
            (
                &key,
                &key,
                &cert,
                Some("cert.pem: does not hold a certificate in PEM form"),
            ),
            (
                &broken,
                &key,
                &cert,
                Some("cert.pem: does not hold a certificate in PEM form"),
            ),
            (
                &cert,
                &cert,
                &cert,
                Some("key.pem: holds no private key in PEM form"),
            ),
            (
                &cert,
                &key,
                "hello",
                Some("ca.pem: does not hold a certificate in PEM form"),
            ),
        ] {
            for (name, text) in [("cert.pem", cert), ("key.pem", key), ("ca.pem", ca)] {
                fs::write(dir.path().join(name), text).unwrap();
            }
            let error = files.check().err().map(|error| error.to_string());
            match (&error, expected) {
                (None, None) => {}
                (Some(error), Some(expected)) => assert!(error.contains(expected), "{error}"),
                _ => panic!("{error:?} is not {expected:?}"),
            }
            let told = error.unwrap_or_default();
            assert!(!told.contains(key.lines().nth(1).unwrap_or("?")), "{told}");
        }
        fs::remove_file(&files.key).unwrap();
        let error = files.check().unwrap_err();
        assert_eq!(error.part, TlsPart::Key);
        assert!(error.to_string().contains("cannot be read"), "{error}");
    }
}
