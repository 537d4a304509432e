//! Opening a corpus: a file, plain or compressed; or standard input or a pipe, of which a copy without
//! a name is kept.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;

use crate::error::BuildError;

/// A corpus that can be opened as often as it is read.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Where it lies; of a copy only what messages call it.
    pub(crate) path: PathBuf,
    /// The content of a stream.
    copy: Option<Arc<File>>,
}

impl Source {
    /// A file or a folder.
    pub(crate) fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            copy: None,
        }
    }

    /// Refused if there is nothing to read. A stream is left alone, for it can be read only once.
    pub(crate) fn check(path: &Path) -> Result<(), BuildError> {
        if path.as_os_str() == "-" || can_be_read_once(path) {
            return Ok(());
        }
        let opened = File::open(path).map(drop);
        opened.map_err(BuildError::io("reading", path))
    }

    /// A corpus by the name that was given. A stream can be read only once, so it is copied to the disk,
    /// in the folder of `spool`: `-`, which is standard input, or a pipe.
    pub(crate) fn of(corpus: &Path, spool: &Path) -> Result<Self, BuildError> {
        if corpus.as_os_str() == "-" {
            return Self::copied("standard input".into(), &mut io::stdin().lock(), spool);
        }
        if !can_be_read_once(corpus) {
            return Ok(Self::at(corpus));
        }
        let mut stream = File::open(corpus).map_err(BuildError::io("reading", corpus))?;
        Self::copied(corpus.to_owned(), &mut stream, spool)
    }

    /// The copy loses its name before it is filled: it goes with this process, even if that is killed.
    fn copied(path: PathBuf, stream: &mut dyn Read, spool: &Path) -> Result<Self, BuildError> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        let opened = options.open(spool);
        let mut file = opened.map_err(BuildError::io("creating", spool))?;
        fs::remove_file(spool).map_err(BuildError::io("removing", spool))?;
        io::copy(stream, &mut file).map_err(BuildError::io("copying the corpus to", spool))?;
        Ok(Self {
            path,
            copy: Some(Arc::new(file)),
        })
    }

    /// Whether it was a stream.
    pub(crate) fn is_copy(&self) -> bool {
        self.copy.is_some()
    }

    fn reader(&self) -> Result<Box<dyn Read + Send>, BuildError> {
        if let Some(copy) = &self.copy {
            let file = Arc::clone(copy);
            return Ok(Box::new(Again { file, at: 0 }));
        }
        let path = &self.path;
        if can_be_read_once(path) {
            let shown = path.display();
            return Err(BuildError::Setting(format!(
                "{shown} is a pipe or a device, and is read more than once: write it to a file first"
            )));
        }
        let file = File::open(path).map_err(BuildError::io("reading", path))?;
        Ok(Box::new(file))
    }
}

/// Reads a file from its beginning. Others may read it meanwhile.
struct Again {
    file: Arc<File>,
    at: u64,
}

impl Read for Again {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// A file, unpacked while it is read. What it is packed with shows in its first bytes, whatever it is
/// called.
pub(crate) fn open(source: &Source) -> Result<Box<dyn BufRead + Send>, BuildError> {
    let failed = || BuildError::io("reading", &source.path);
    let mut file = BufReader::with_capacity(1 << 16, source.reader()?);
    let start = file.fill_buf().map_err(failed())?;
    let packed = |magic: &[u8]| start.starts_with(magic);
    if packed(b"\x1f\x8b") {
        return Ok(Box::new(BufReader::new(MultiGzDecoder::new(file))));
    }
    // `pzstd` begins with a frame that is to be skipped: it says how long the next one is.
    if packed(b"\x28\xb5\x2f\xfd") || matches!(start, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]) {
        let unpacked = zstd::stream::read::Decoder::with_buffer(file).map_err(failed())?;
        return Ok(Box::new(BufReader::new(unpacked)));
    }
    for (magic, tool) in [(&b"BZh"[..], "bzcat"), (b"\xfd7zXZ\0", "xzcat")] {
        if packed(magic) {
            let shown = source.path.display();
            return Err(BuildError::Setting(format!(
                "{shown} is packed in a way that is not read here: pipe what `{tool}` makes of it into \
                 this command, with --corpus -"
            )));
        }
    }
    Ok(Box::new(file))
}

/// Whether it is a pipe or the like, as `<(zcat corpus.gz)` is to a shell. Whatever is read of it is gone.
fn can_be_read_once(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
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
        read(&Source::at(&path))
    }

    fn read(source: &Source) -> Result<Vec<u8>, String> {
        let mut file = open(source).map_err(|error| error.to_string())?;
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
        // As `pzstd` does it.
        let skipped = b"\x50\x2a\x4d\x18\x04\0\0\0size";
        let zstd = zstd::encode_all(text.as_bytes(), 1).unwrap();
        let skipping = [&skipped[..], &zstd, skipped, &zstd].concat();
        assert_eq!(opened(&skipping).unwrap().len(), 2 * text.len());
        let error = opened(b"BZh91AY").unwrap_err();
        assert!(error.contains("pipe what `bzcat` makes"), "{error}");
        assert_eq!(opened(b"").unwrap(), b"");
    }

    #[test]
    fn a_pipe_is_copied_and_never_read_twice() {
        let dir = tempfile::tempdir().unwrap();
        let spool = dir.path().join(".index.corpus");
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"text").unwrap();
        drop(writer);
        let path = PathBuf::from(format!("/proc/self/fd/{}", reader.as_raw_fd()));
        let error = open(&Source::at(&path)).err().unwrap().to_string();
        assert!(error.ends_with("write it to a file first"), "{error}");
        let source = Source::of(&path, &spool).unwrap();
        assert!(source.is_copy() && source.path == path);
        for _ in 0..2 {
            assert_eq!(read(&source).unwrap(), b"text");
        }
        // What can be read again is not copied.
        let file = dir.path().join("corpus");
        fs::write(&file, "text").unwrap();
        for corpus in [&*file, dir.path()] {
            assert!(!Source::of(corpus, &spool).unwrap().is_copy());
        }
    }

    /// So that nothing is left of it if the process is killed.
    #[test]
    fn a_copy_of_a_stream_has_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let spool = dir.path().join(".index.corpus");
        fs::write(&spool, "left by one that was killed").unwrap();
        let source = Source::copied("a stream".into(), &mut &b"text"[..], &spool).unwrap();
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
        assert_eq!(read(&source).unwrap(), b"text");
        let nowhere = dir.path().join("no/where");
        let error = Source::copied("a stream".into(), &mut &b""[..], &nowhere).unwrap_err();
        assert!(error.to_string().starts_with("creating "), "{error}");
    }
}
