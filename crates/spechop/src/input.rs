//! Texts that are read: files and standard input. Texts packed with gzip are unpacked, whatever the name of the file.
//! The mark that some editors put in front of a text is passed over.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::path::Path;

use anyhow::Context;
use flate2::bufread::MultiGzDecoder;

/// The beginning of everything that gzip has packed.
const GZIP: &[u8] = b"\x1f\x8b";
/// The mark: it says that a text is in UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Opens a file; `-` is standard input.
pub(crate) fn open(path: &Path) -> anyhow::Result<Box<dyn BufRead>> {
    if path.as_os_str() == "-" {
        return stdin();
    }
    let opened = File::open(path).map(BufReader::new).and_then(text);
    opened.with_context(|| format!("cannot read {}", path.display()))
}

/// Opens standard input.
pub(crate) fn stdin() -> anyhow::Result<Box<dyn BufRead>> {
    text(io::stdin().lock()).context("cannot read stdin")
}

/// The whole text of a file; `-` is standard input.
pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    let read = io::read_to_string(open(path)?);
    read.with_context(|| format!("cannot read {}", path.display()))
}

fn text(packed: impl BufRead + 'static) -> io::Result<Box<dyn BufRead>> {
    let (is_packed, packed) = begins(packed, GZIP)?;
    match is_packed {
        true => unmarked(BufReader::new(MultiGzDecoder::new(packed))),
        false => unmarked(packed),
    }
}

fn unmarked(text: impl BufRead + 'static) -> io::Result<Box<dyn BufRead>> {
    let (is_marked, mut text) = begins(text, MARK)?;
    if is_marked {
        text.consume(MARK.len());
    }
    Ok(Box::new(text))
}

/// A text whose beginning was looked at.
type Begun<T> = Chain<Cursor<Vec<u8>>, T>;

/// Whether a text begins so, and all of it. A pipe may give a byte at a time.
fn begins<T: BufRead>(mut text: T, with: &[u8]) -> io::Result<(bool, Begun<T>)> {
    let mut start = Vec::new();
    let length = with.len() as u64;
    text.by_ref().take(length).read_to_end(&mut start)?;
    Ok((start == with, Cursor::new(start).chain(text)))
}

#[cfg(test)]
mod tests {
    use std::io::{self, BufReader, Cursor, Write};

    use flate2::Compression;
    use flate2::write::GzEncoder;

    #[test]
    fn marks_and_packings_are_no_part_of_a_text() {
        let marked = "\u{feff}{\"a\":\"\u{feff}\"}\n";
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(marked.as_bytes()).unwrap();
        let packed = packed.finish().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text");
        for (bytes, read) in [
            (marked.as_bytes(), "{\"a\":\"\u{feff}\"}\n"),
            (&packed[..], "{\"a\":\"\u{feff}\"}\n"),
            (b"", ""),
        ] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(super::read(&path).unwrap(), read, "{bytes:?}");
            let slow = BufReader::with_capacity(1, Cursor::new(bytes.to_vec()));
            let slow = io::read_to_string(super::text(slow).unwrap());
            assert_eq!(slow.unwrap(), read, "{bytes:?}");
        }
        std::fs::write(&path, &packed[..packed.len() - 4]).unwrap();
        let cut = super::read(&path).unwrap_err().to_string();
        assert!(cut.starts_with("cannot read "), "{cut}");
    }
}
