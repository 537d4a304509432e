//! The certificate, its key and the authorities of clients: read at the start, and again when their
//! content has changed.
//!
//! Content is compared and not times: Kubernetes swaps a folder of links, which neither the time nor a
//! watch of the file shows. If the new content cannot be used, the old one stays, and one warning says so.
//! That a certificate ends soon is said once a day: it comes to an end without any change.
//! Open connections keep what they were opened with. Sessions are resumed only under the configuration
//! that began them, so nobody resumes under an authority that was taken away.

use std::iter;
use std::path::Path;
use std::time::{Duration, SystemTime};

use parking_lot::RwLock;
use spechop_config::{TlsContents, TlsError, TlsFiles, TlsPart};
use tokio_rustls::TlsAcceptor;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::time::Time;

use super::counts::{Counts, Ends, Source};
use crate::outage::Outage;

/// How often the log is told of a certificate that ends soon.
const DAY: Duration = Duration::from_secs(86_400);

/// How long before its end a certificate is worth a warning.
const RENEW_WITHIN: Duration = DAY.saturating_mul(14);

/// TLS as it is now.
pub(super) struct Tls {
    files: TlsFiles,
    counts: Counts,
    current: RwLock<Current>,
    /// Whether the files cannot be taken up at the moment.
    outage: Outage,
}

/// What was taken up last.
struct Current {
    contents: TlsContents,
    /// What new connections get.
    acceptor: TlsAcceptor,
    /// When the log was told how long its certificates are good; `None` if it was not yet.
    told: Option<SystemTime>,
}

impl Tls {
    /// With what the files hold now. What is worth a warning goes to the log.
    pub(super) fn open(files: TlsFiles, counts: Counts) -> Result<Self, TlsError> {
        let current = RwLock::new(Current::of(files.read()?, &files)?);
        let tls = Self {
            files,
            counts,
            current,
            outage: Outage::default(),
        };
        tls.counts.read(Source::Tls, Some(true));
        tls.warn();
        Ok(tls)
    }

    /// For the next connection.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.current.read().acceptor.clone()
    }

    /// Reads the files, and takes up what they hold if it is something new. Blocks.
    pub(super) fn look_again(&self) {
        let taken_up = self.take_up();
        self.counts.read(Source::Tls, Some(taken_up.is_ok()));
        match taken_up {
            Ok(()) if self.outage.works() => tracing::info!("the files of TLS can be read again"),
            Ok(()) => {}
            Err(error) => {
                let reason = error.to_string();
                if self.outage.fails_anew(&reason) {
                    tracing::warn!(reason, "TLS stays as it was");
                }
            }
        }
        self.warn();
    }

    fn take_up(&self) -> Result<(), TlsError> {
        let contents = self.files.read()?;
        if self.current.read().contents == contents {
            return Ok(());
        }
        let new = Current::of(contents, &self.files)?;
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
        let ends = ends(&current.contents, &self.files);
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

impl Current {
    /// What counts from now on.
    fn of(contents: TlsContents, files: &TlsFiles) -> Result<Self, TlsError> {
        let acceptor = TlsAcceptor::from(contents.config(files)?);
        Ok(Self {
            contents,
            acceptor,
            told: None,
        })
    }
}

/// When each certificate ends, with its file.
fn ends<'a>(contents: &TlsContents, files: &'a TlsFiles) -> Vec<(TlsPart, &'a Path, Time)> {
    let client_ca = files.client_ca.as_ref();
    let client_ca = client_ca.map(|path| (TlsPart::ClientCa, path));
    let mut ends = Vec::new();
    for (part, path) in iter::once((TlsPart::Cert, &files.cert)).chain(client_ca) {
        let all = contents.certificates(part);
        for one in all.iter().filter_map(|der| Certificate::from_der(der).ok()) {
            let end = one.tbs_certificate().validity().not_after;
            ends.push((part, path.as_path(), end));
        }
    }
    ends
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

#[cfg(test)]
mod tests {
    use std::fs;

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
    fn the_end_of_a_certificate_is_told_with_its_date() {
        let dir = tempfile::tempdir().unwrap();
        let files = TlsFiles {
            client_ca: None,
            ..files(dir.path())
        };
        let year = |year: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(year * 31_556_952);
        let (cert, key) = pair(2020);
        fs::write(&files.cert, cert).unwrap();
        fs::write(&files.key, key).unwrap();
        let contents = files.read().unwrap();
        let ends = ends(&contents, &files);
        assert_eq!(said_of(&ends, year(49)), Vec::<String>::new());
        for (now, words) in [
            (year(50) - 10 * DAY, "ends on 2020-01-01T00:00:00Z"),
            (year(51), "out of date since 2020-01-01T00:00:00Z"),
        ] {
            let lines = said_of(&ends, now);
            assert!(lines.len() == 1 && lines[0].contains(words), "{lines:?}");
        }
        // It is served all the same: a clock may be wrong, and clients decide.
        assert!(contents.config(&files).is_ok());
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
