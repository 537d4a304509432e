//! Certificates of the tests' own making, and clients that trust them.
#![allow(dead_code, unreachable_pub, reason = "no test file uses all of it")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

/// An authority that certifies whomever the test wants.
pub struct Authority {
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, PEM.
pub struct Pair {
    pub cert: String,
    pub key: String,
}

impl Authority {
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Self { pem, issuer }
    }

    /// For a server on this machine.
    pub fn server(&self) -> Pair {
        self.certify(ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// For a client.
    pub fn client(&self) -> Pair {
        self.certify(ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn certify(&self, usage: ExtendedKeyUsagePurpose) -> Pair {
        let names = ["localhost", "127.0.0.1"].map(str::to_owned);
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap().pem();
        Pair {
            cert,
            key: key.serialize_pem(),
        }
    }

    /// How a gRPC client trusts its servers.
    pub fn trusted(&self) -> ClientTlsConfig {
        let ca = Certificate::from_pem(&self.pem);
        ClientTlsConfig::new()
            .ca_certificate(ca)
            .domain_name("localhost")
    }

    /// A TLS connection to a server of this authority, after the handshake, with these protocols offered.
    pub async fn connect(
        &self,
        address: SocketAddr,
        protocols: &[&str],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap();
        roots.add(ca).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap();
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().into())
            .collect();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TcpStream::connect(address).await?;
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
    }
}

impl Pair {
    pub fn identity(&self) -> Identity {
        Identity::from_pem(&self.cert, &self.key)
    }
}

/// A folder in which a server finds its certificate.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Puts a certificate there, in one step, as Kubernetes does: a link points to another folder.
    pub fn put(&self, pair: &Pair) {
        let content = tempfile::Builder::new()
            .tempdir_in(self.0.path())
            .unwrap()
            .keep();
        fs::write(content.join("tls.crt"), &pair.cert).unwrap();
        fs::write(content.join("tls.key"), &pair.key).unwrap();
        self.point_to(&content);
    }

    /// Puts something there that is no certificate.
    pub fn put_rubbish(&self) {
        self.put(&Pair {
            cert: "rubbish".to_owned(),
            key: "rubbish".to_owned(),
        });
    }

    fn point_to(&self, content: &Path) {
        let new = self.path("..new");
        std::os::unix::fs::symlink(content, &new).unwrap();
        fs::rename(new, self.path("..data")).unwrap();
    }

    /// The lines of `[server]` that name it.
    pub fn keys(&self) -> String {
        format!(
            "tls_cert = \"{}\"\ntls_key = \"{}\"\n",
            self.path("..data/tls.crt").display(),
            self.path("..data/tls.key").display()
        )
    }
}

/// A gRPC client over TLS.
pub async fn channel(
    address: SocketAddr,
    tls: ClientTlsConfig,
) -> Result<Channel, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(format!("https://{address}")).unwrap();
    endpoint.tls_config(tls)?.connect().await
}
