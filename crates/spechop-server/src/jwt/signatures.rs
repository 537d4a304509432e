//! Public-key signatures of tokens, by the one library of cryptography that TLS uses as well.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind, new_error};
use jsonwebtoken::signature::{Error as Mismatch, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::signature as kinds;
use ring::signature::{
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(unsupported()),
    verifier_factory: |algorithm, key| {
        Ok(Box::new(Signature {
            algorithm: *algorithm,
            key: key.clone(),
        }))
    },
    // Only thumbprints and the export of keys need them.
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes `jsonwebtoken` use it. The process has one; it does not matter who came first.
pub(super) fn install() {
    let _ = PROVIDER.install_default();
}

fn unsupported() -> Error {
    new_error(ErrorKind::UnsupportedAlgorithm)
}

/// Compares signatures of this kind with this key.
struct Signature {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl JwtVerifier for Signature {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for Signature {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), Mismatch> {
        let fits = match self.key.kind() {
            DecodingKeyKind::RsaModulusExponent { n, e } => {
                rsa(self.algorithm).is_some_and(|kind| {
                    let key = RsaPublicKeyComponents { n, e };
                    key.verify(kind, message, signature).is_ok()
                })
            }
            DecodingKeyKind::SecretOrDer(point) => curve(self.algorithm).is_some_and(|kind| {
                let key = UnparsedPublicKey::new(kind, point);
                key.verify(message, signature).is_ok()
            }),
        };
        fits.then_some(()).ok_or_else(Mismatch::new)
    }
}

/// Of keys of 2,048 to 8,192 bits.
fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        Algorithm::RS256 => &kinds::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::RS384 => &kinds::RSA_PKCS1_2048_8192_SHA384,
        Algorithm::RS512 => &kinds::RSA_PKCS1_2048_8192_SHA512,
        Algorithm::PS256 => &kinds::RSA_PSS_2048_8192_SHA256,
        Algorithm::PS384 => &kinds::RSA_PSS_2048_8192_SHA384,
        Algorithm::PS512 => &kinds::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

fn curve(algorithm: Algorithm) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match algorithm {
        Algorithm::ES256 => &kinds::ECDSA_P256_SHA256_FIXED,
        Algorithm::ES384 => &kinds::ECDSA_P384_SHA384_FIXED,
        Algorithm::EdDSA => &kinds::ED25519,
        _ => return None,
    })
}
