//! The certificate, its key and the authorities of clients: read at the start, and again when their
//! content has changed.
//!
//! Content is compared and not times: Kubernetes swaps a folder of links, which neither the time nor a
//! watch of the file shows. If the new content cannot be used, the old one stays, and a warning says so.
//! Open connections keep what they were opened with. Sessions are resumed only under the configuration
//! that began them, so nobody resumes under an authority that was taken away.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ServerConfig, WebPkiClientVerifier};
use tokio_rustls::TlsAcceptor;
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// How long before its end a certificate is worth a warning.
const RENEW_WITHIN: Duration = Duration::from_secs(14 * 86_400);

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
    pub fn as_str(self) -> &'static str {
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
    pub part: TlsPart,
    path: PathBuf,
    problem: String,
}

/// The content of the files.
#[derive(PartialEq, Eq)]
struct Contents {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

/// It holds a private key.
impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Contents")
    }
}

/// TLS as it is now.
pub(super) struct Tls {
    files: TlsFiles,
    /// The last content that was looked at, and what new connections get.
    current: RwLock<(Contents, TlsAcceptor)>,
}

impl Tls {
    /// With what the files hold now. What is worth a warning goes to the log.
    pub(super) fn open(files: TlsFiles) -> Result<Self, TlsError> {
        let contents = files.read()?;
        let config = contents.config(&files)?;
        contents.warn(&files);
        Ok(Self {
            files,
            current: RwLock::new((contents, TlsAcceptor::from(config))),
        })
    }

    /// For the next connection.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        // Nothing panics while it is held.
        let current = self.current.read();
        current.unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// Reads the files, and takes up what they hold if it is something new. Blocks.
    pub(super) fn look_again(&self) {
        let contents = match self.files.read() {
            Ok(contents) => contents,
            Err(error) => {
                tracing::warn!(%error, "TLS stays as it was");
                return;
            }
        };
        let current = self.current.read();
        let is_new = current.unwrap_or_else(PoisonError::into_inner).0 != contents;
        if !is_new {
            return;
        }
        match contents.config(&self.files) {
            Ok(config) => {
                contents.warn(&self.files);
                tracing::info!(cert = %self.files.cert.display(), "TLS was read again");
                let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
                *current = (contents, TlsAcceptor::from(config));
            }
            Err(error) => tracing::warn!(%error, "TLS stays as it was"),
        }
    }
}

impl TlsFiles {
    /// Whether a server can be started with them.
    pub(crate) fn check(&self) -> Result<(), TlsError> {
        self.read()?.config(self).map(|_| ())
    }

    fn read(&self) -> Result<Contents, TlsError> {
        let of = |part, path: &Path| read(path).map_err(|problem| error(part, path, problem));
        Ok(Contents {
            cert: of(TlsPart::Cert, &self.cert)?,
            key: of(TlsPart::Key, &self.key)?,
            client_ca: match &self.client_ca {
                Some(path) => Some(of(TlsPart::ClientCa, path)?),
                None => None,
            },
        })
    }
}

impl Contents {
    fn config(&self, files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
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

    /// What to say of certificates that are out of date, or soon will be.
    fn dates(&self, files: &TlsFiles, now: SystemTime) -> Vec<String> {
        let client_ca = self.client_ca.as_ref().zip(files.client_ca.as_ref());
        let parts = [(&self.cert, &files.cert)].into_iter().chain(client_ca);
        let mut lines = Vec::new();
        for (content, path) in parts {
            let all = certificates(content).unwrap_or_default();
            for one in all.iter().filter_map(|der| Certificate::from_der(der).ok()) {
                let end = one.tbs_certificate().validity().not_after;
                let file = path.display();
                match end.to_system_time().duration_since(now) {
                    Err(_) => lines.push(format!(
                        "{file}: the certificate has been out of date since {end}: renew it"
                    )),
                    Ok(left) if left < RENEW_WITHIN => {
                        lines.push(format!("{file}: the certificate ends on {end}: renew it"));
                    }
                    Ok(_) => {}
                }
            }
        }
        lines
    }

    fn warn(&self, files: &TlsFiles) {
        for line in self.dates(files, SystemTime::now()) {
            tracing::warn!("{line}");
        }
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
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    /// A certificate that ends on New Year's Day of this year, and its key.
    fn pair(year: i32) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        let cert = params.self_signed(&key).unwrap();
        (cert.pem(), key.serialize_pem())
    }

    fn files(dir: &Path) -> TlsFiles {
        TlsFiles {
            cert: dir.join("cert.pem"),
            key: dir.join("key.pem"),
            client_ca: Some(dir.join("ca.pem")),
        }
    }

    #[test]
    fn every_file_that_cannot_be_used_is_named_with_what_is_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        let ((cert, key), (other, _)) = (pair(2999), pair(2999));
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

    #[test]
    fn the_end_of_a_certificate_is_told_with_its_date() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        let year = |year: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(year * 31_556_952);
        let (cert, key) = pair(2020);
        let contents = Contents {
            cert: cert.into(),
            key: key.into(),
            client_ca: None,
        };
        assert_eq!(contents.dates(&files, year(49)), Vec::<String>::new());
        let ten_days = Duration::from_secs(10 * 86_400);
        for (now, words) in [
            (year(50) - ten_days, "ends on 2020-01-01T00:00:00Z"),
            (year(51), "out of date since 2020-01-01T00:00:00Z"),
        ] {
            let lines = contents.dates(&files, now);
            assert!(lines.len() == 1 && lines[0].contains(words), "{lines:?}");
        }
        // It is served all the same: a clock may be wrong, and clients decide.
        assert!(
            contents
                .config(&TlsFiles {
                    client_ca: None,
                    ..files
                })
                .is_ok()
        );
    }
}
