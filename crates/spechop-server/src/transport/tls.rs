//! The certificate, its key and the authorities of clients: read at the start, and again when their
//! content has changed.
//!
//! Content is compared and not times: Kubernetes swaps a folder of links, which neither the time nor a
//! watch of the file shows. If the new content cannot be used, the old one stays, and a warning says so.
//! That a certificate ends soon is said once a day: it comes to an end without any change.
//! Open connections keep what they were opened with. Sessions are resumed only under the configuration
//! that began them, so nobody resumes under an authority that was taken away.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::RwLock;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ServerConfig, WebPkiClientVerifier};
use tokio_rustls::TlsAcceptor;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::time::Time;

use super::counts::{Counts, Ends};

/// How often the log is told of a certificate that ends soon.
const DAY: Duration = Duration::from_secs(86_400);

/// How long before its end a certificate is worth a warning.
const RENEW_WITHIN: Duration = DAY.saturating_mul(14);

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
    counts: Counts,
    current: RwLock<Current>,
}

/// What was taken up last.
struct Current {
    contents: Contents,
    /// What new connections get.
    acceptor: TlsAcceptor,
    /// When the log was told how long its certificates are good; `None` if it was not yet.
    told: Option<SystemTime>,
}

impl Tls {
    /// With what the files hold now. What is worth a warning goes to the log.
    pub(super) fn open(files: TlsFiles, counts: Counts) -> Result<Self, TlsError> {
        let current = RwLock::new(files.read()?.current(&files)?);
        let tls = Self {
            files,
            counts,
            current,
        };
        tls.warn();
        Ok(tls)
    }

    /// For the next connection.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.current.read().acceptor.clone()
    }

    /// Reads the files, and takes up what they hold if it is something new. Blocks.
    pub(super) fn look_again(&self) {
        if let Err(error) = self.take_up() {
            tracing::warn!(%error, "TLS stays as it was");
        }
        self.warn();
    }

    fn take_up(&self) -> Result<(), TlsError> {
        let contents = self.files.read()?;
        if self.current.read().contents == contents {
            return Ok(());
        }
        let new = contents.current(&self.files)?;
        *self.current.write() = new;
        tracing::info!(cert = %self.files.cert.display(), "TLS was read again");
        Ok(())
    }

    fn warn(&self) {
        for line in self.due(SystemTime::now()) {
            tracing::warn!("{line}");
        }
    }

    /// What is to be said now of certificates that are out of date, or soon will be: at once of those that were
    /// just taken up, and then once a day.
    fn due(&self, now: SystemTime) -> Vec<String> {
        let mut current = self.current.write();
        let since = current.told.and_then(|told| now.duration_since(told).ok());
        if since.is_some_and(|since| since < DAY) {
            return Vec::new();
        }
        current.told = Some(now);
        let ends = current.contents.ends(&self.files);
        drop(current);
        let of = |part: TlsPart| {
            let all = ends.iter().filter(move |(its, ..)| *its == part);
            all.map(|(.., end)| end.to_system_time())
        };
        let mut cert = of(TlsPart::Cert);
        self.counts.certificates_end(Ends {
            server: cert.next(),
            chain: cert.min(),
            client_ca: of(TlsPart::ClientCa).max(),
        });
        said_of(&ends, now)
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
    /// As what counts from now on.
    fn current(self, files: &TlsFiles) -> Result<Current, TlsError> {
        let acceptor = TlsAcceptor::from(self.config(files)?);
        Ok(Current {
            contents: self,
            acceptor,
            told: None,
        })
    }

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

    /// When each certificate ends, with its file.
    fn ends<'a>(&self, files: &'a TlsFiles) -> Vec<(TlsPart, &'a Path, Time)> {
        let cert = Some((&self.cert, &files.cert));
        let client_ca = self.client_ca.as_ref().zip(files.client_ca.as_ref());
        let mut ends = Vec::new();
        for (part, file) in [(TlsPart::Cert, cert), (TlsPart::ClientCa, client_ca)] {
            let Some((content, path)) = file else {
                continue;
            };
            let all = certificates(content).unwrap_or_default();
            for one in all.iter().filter_map(|der| Certificate::from_der(der).ok()) {
                let end = one.tbs_certificate().validity().not_after;
                ends.push((part, path.as_path(), end));
            }
        }
        ends
    }
}

/// What to say of certificates that are out of date, or soon will be.
fn said_of(ends: &[(TlsPart, &Path, Time)], now: SystemTime) -> Vec<String> {
    let said = ends.iter().filter_map(|(_, path, end)| {
        let file = path.display();
        match end.to_system_time().duration_since(now) {
            Err(_) => Some(format!(
                "{file}: the certificate has been out of date since {end}: renew it"
            )),
            Ok(left) if left < RENEW_WITHIN => {
                Some(format!("{file}: the certificate ends on {end}: renew it"))
            }
            Ok(_) => None,
        }
    });
    said.collect()
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
    use prometheus_client::registry::Registry;
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

    /// What the metrics say of this certificate is New Year's Day of this year.
    fn assert_ends(registry: &Registry, certificate: &str, year: i32) -> SystemTime {
        let end = date_time_ymd(year, 1, 1);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        let name = "tls_certificate_expiration_timestamp_seconds";
        let seconds = u64::try_from(end.unix_timestamp()).unwrap();
        let line = format!("{name}{{certificate=\"{certificate}\"}} {seconds}\n");
        assert!(text.contains(&line), "{text}");
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
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
        let ends = contents.ends(&files);
        assert_eq!(said_of(&ends, year(49)), Vec::<String>::new());
        for (now, words) in [
            (year(50) - 10 * DAY, "ends on 2020-01-01T00:00:00Z"),
            (year(51), "out of date since 2020-01-01T00:00:00Z"),
        ] {
            let lines = said_of(&ends, now);
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

    /// Nobody touches the files, and the server runs on.
    #[test]
    fn a_certificate_that_runs_out_is_told_once_a_day() {
        let dir = tempfile::tempdir().unwrap();
        let files = TlsFiles {
            client_ca: None,
            ..files(dir.path())
        };
        let put = |year| {
            let (cert, key) = pair(year);
            fs::write(&files.cert, cert).unwrap();
            fs::write(&files.key, key).unwrap();
        };
        put(2999);
        let mut registry = Registry::default();
        let tls = Tls::open(files.clone(), Counts::new(&mut registry)).unwrap();
        let end = assert_ends(&registry, "server", 2999);
        for (left, lines) in [(30_u32, 0), (20, 1), (19, 0), (18, 1)] {
            let now = end - left * DAY / 2;
            assert_eq!(tls.due(now).len(), lines, "{left} half days");
        }
        // A new one is looked at when it is taken up.
        put(2998);
        tls.look_again();
        assert_ends(&registry, "server", 2998);
    }

    /// As while an authority is exchanged for another.
    #[test]
    fn an_old_certificate_hides_no_other_that_ends() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        let put = |path: &Path, parts: [&str; 2]| fs::write(path, parts.concat()).unwrap();
        let ((cert, key), (old, _), (new, _)) = (pair(2999), pair(2020), pair(2998));
        put(&files.cert, [&cert, &old]);
        put(&files.key, [&key, ""]);
        put(&dir.path().join("ca.pem"), [&old, &new]);
        let mut registry = Registry::default();
        let tls = Tls::open(files.clone(), Counts::new(&mut registry)).unwrap();
        for (certificate, year) in [("server", 2999), ("chain", 2020), ("client_ca", 2998)] {
            assert_ends(&registry, certificate, year);
        }
        put(&files.cert, [&cert, ""]);
        tls.look_again();
        assert_ends(&registry, "chain", 1970);
    }
}
