//! SHA-256 of files, while they are copied or in place.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};
pub(crate) use spechop_index::hex;

use super::catalogue::ModelFile;

/// Read at once: large enough that system calls do not count.
const CHUNK_BYTES: usize = 1 << 20;

/// Size and SHA-256 of what was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

impl Fingerprint {
    /// Refuses anything but the file of the catalogue, and says how it differs.
    pub(crate) fn require(&self, file: &ModelFile) -> anyhow::Result<()> {
        if self.bytes != file.bytes {
            anyhow::bail!(
                "{} has {} bytes, not {}: refused",
                file.path,
                self.bytes,
                file.bytes
            );
        }
        if self.sha256 != file.sha256 {
            anyhow::bail!(
                "{} has SHA-256 {}…, not {}…: refused",
                file.path,
                &self.sha256[..12],
                &file.sha256[..12]
            );
        }
        Ok(())
    }
}

/// Copies `from` to `to` to its end; `on_bytes` hears how much each time.
pub(crate) fn copy(
    from: &mut dyn Read,
    to: &mut dyn Write,
    hasher: &mut Sha256,
    on_bytes: &dyn Fn(u64),
) -> io::Result<u64> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut total = 0;
    loop {
        let read = match from.read(&mut chunk) {
            Ok(0) => return Ok(total),
            Ok(read) => read,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
            Err(why) => return Err(why),
        };
        hasher.update(&chunk[..read]);
        to.write_all(&chunk[..read])?;
        total += read as u64;
        on_bytes(read as u64);
    }
}

/// Reads a whole file.
pub(crate) fn of_file(path: &Path) -> io::Result<Fingerprint> {
    let mut hasher = Sha256::new();
    let bytes = copy(
        &mut File::open(path)?,
        &mut io::sink(),
        &mut hasher,
        &|_| {},
    )?;
    Ok(Fingerprint {
        bytes,
        sha256: hex(hasher),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_text_has_its_known_hash() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        let found = of_file(file.path()).unwrap();
        assert_eq!(found.bytes, 3);
        assert_eq!(
            found.sha256,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
