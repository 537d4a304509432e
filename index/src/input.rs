//! Opening a corpus: a file, plain or compressed; or standard input or a pipe, kept in a file.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use crate::error::BuildError;

/// A file, unpacked while it is read. What it is packed with shows in its first bytes, whatever it is
/// called.
pub(crate) fn open(path: &Path) -> Result<Box<dyn BufRead + Send>, BuildError> {
    let failed = || BuildError::io("reading", path);
    if can_be_read_once(path) {
        let shown = path.display();
        return Err(BuildError::Setting(format!(
            "{shown} is a pipe or a device, and is read more than once: write it to a file first"
        )));
    }
    let file = File::open(path).map_err(failed())?;
    let mut file = BufReader::with_capacity(1 << 16, file);
    let start = file.fill_buf().map_err(failed())?;
    let packed = |magic: &[u8]| start.starts_with(magic);
    if packed(b"\x1f\x8b") {
        return Ok(Box::new(BufReader::new(MultiGzDecoder::new(file))));
    }
    if packed(b"\x28\xb5\x2f\xfd") {
        let unpacked = zstd::stream::read::Decoder::with_buffer(file).map_err(failed())?;
        return Ok(Box::new(BufReader::new(unpacked)));
    }
    for (magic, tool) in [(&b"BZh"[..], "bzcat"), (b"\xfd7zXZ\0", "xzcat")] {
        if packed(magic) {
            let shown = path.display();
            return Err(BuildError::Setting(format!(
                "{shown} is packed in a way that is not read here: pipe `{tool} {shown}` into this \
                 command, with --corpus -"
            )));
        }
    }
    Ok(Box::new(file))
}

/// Whether it is a pipe or the like, as `<(zcat corpus.gz)` is to a shell. Whatever is read of it is gone.
fn can_be_read_once(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// A copy of a stream on the disk, because a corpus is read more than once. It goes with this value.
#[derive(Debug)]
pub(crate) struct Spooled {
    pub(crate) path: PathBuf,
}

impl Spooled {
    /// Copies a corpus to `path` if it can be read only once: `-`, which is standard input, or a pipe.
    pub(crate) fn of(corpus: &Path, path: PathBuf) -> Result<Option<Self>, BuildError> {
        if corpus.as_os_str() == "-" {
            return Self::fill(path, &mut io::stdin().lock()).map(Some);
        }
        if !can_be_read_once(corpus) {
            return Ok(None);
        }
        let mut stream = File::open(corpus).map_err(BuildError::io("reading", corpus))?;
        Self::fill(path, &mut stream).map(Some)
    }

    /// Copies a stream to `path`; a copy that was left there by a build that was killed is replaced.
    fn fill(path: PathBuf, from: &mut dyn Read) -> Result<Self, BuildError> {
        let mut file = File::create(&path).map_err(BuildError::io("creating", &path))?;
        let spooled = Self { path };
        io::copy(from, &mut file)
            .map_err(BuildError::io("copying the corpus to", &spooled.path))?;
        Ok(spooled)
    }
}

impl Drop for Spooled {
    fn drop(&mut self) {
        // Nobody misses it; the next build with standard input writes it anew.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn opened(bytes: &[u8]) -> Result<Vec<u8>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("corpus");
        fs::write(&path, bytes).unwrap();
        let mut file = open(&path).map_err(|error| error.to_string())?;
        let mut read = Vec::new();
        let done = file.read_to_end(&mut read);
        done.map(|_| read)
            .map_err(|error| format!("{:?}", error.kind()))
    }

    #[test]
    fn what_is_packed_is_unpacked_and_a_cut_is_seen() {
        let text = "some text, ".repeat(2000);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        let gzip = gzip.finish().unwrap();
        let zstd = zstd::encode_all(text.as_bytes(), 1).unwrap();
        assert_eq!(opened(text.as_bytes()).unwrap(), text.as_bytes());
        for packed in [gzip, zstd] {
            assert_eq!(opened(&packed).unwrap(), text.as_bytes());
            // Packed in two pieces, as parallel programs do.
            let twice = [&packed[..], &packed].concat();
            assert_eq!(opened(&twice).unwrap().len(), 2 * text.len());
            let cut = opened(&packed[..packed.len() - 3]);
            assert_eq!(cut, Err("UnexpectedEof".to_owned()));
        }
        let error = opened(b"BZh91AY").unwrap_err();
        assert!(error.contains("pipe `bzcat "), "{error}");
        assert_eq!(opened(b"").unwrap(), b"");
    }

    #[test]
    fn a_pipe_is_copied_and_never_read_twice() {
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join(".index.corpus");
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"text").unwrap();
        drop(writer);
        let path = PathBuf::from(format!("/proc/self/fd/{}", reader.as_raw_fd()));
        let error = open(&path).err().unwrap().to_string();
        assert!(error.ends_with("write it to a file first"), "{error}");
        let spooled = Spooled::of(&path, copy.clone()).unwrap().unwrap();
        assert_eq!(fs::read(&spooled.path).unwrap(), b"text");
        // What can be read again is not copied.
        assert!(
            Spooled::of(&copy, dir.path().join("other"))
                .unwrap()
                .is_none()
        );
        assert!(
            Spooled::of(dir.path(), dir.path().join("other"))
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn a_copy_of_a_stream_goes_when_it_is_done() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".index.corpus");
        fs::write(&path, "left by one that was killed").unwrap();
        let spooled = Spooled::fill(path.clone(), &mut &b"text"[..]).unwrap();
        assert_eq!(fs::read(&spooled.path).unwrap(), b"text");
        drop(spooled);
        assert!(!path.exists());
        let error = Spooled::fill(dir.path().join("no/where"), &mut &b""[..]).unwrap_err();
        assert!(error.to_string().starts_with("creating "), "{error}");
    }
}
