//! Names for contents.

use sha2::{Digest, Sha256};

/// The first 16 hexadecimal digits of the SHA-256.
pub fn short_hash(bytes: impl AsRef<[u8]>) -> String {
    let digest = Sha256::digest(bytes);
    let first = digest.iter().take(8);
    first.map(|byte| format!("{byte:02x}")).collect()
}
