//! Writing an index: rows are appended shard by shard, and the manifest comes last.
//!
//! Work survives a kill: a journal beside the files says how far they are known to be good. Going
//! on from there gives the same bytes as never having stopped.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Fault, IndexError};
use crate::layout::{HEADER_BYTES, HOT, Kind, Whose, is_file_name};
use crate::manifest::{FileEntry, Inputs, MANIFEST, Manifest, ShardEntry, write_sealed};
use crate::scan::quantise;
use crate::sealed;
use crate::shard::PassageRef;

mod compare;

pub use compare::Comparison;

const JOURNAL: &str = "journal.json";

/// Whether the folder of an index may hold an entry of this name.
pub fn is_index_entry(name: &str) -> bool {
    let hot = name.strip_prefix(HOT);
    // The one being replaced is hidden; older programs did not hide it.
    let hidden = name.strip_prefix('.');
    let hidden = hidden.and_then(|name| name.strip_prefix(HOT));
    matches!(hot, Some("" | ".partial" | ".old"))
        || hidden == Some(".old")
        || is_part_of_index(name)
}

/// Whether an index, or one being built, has a file of this name.
fn is_part_of_index(name: &str) -> bool {
    let name = name.strip_suffix(".new").unwrap_or(name);
    matches!(name, MANIFEST | JOURNAL) || is_file_name(name)
}

/// Appends rows to an index that is not there yet.
pub struct IndexWriter {
    dir: PathBuf,
    inputs: Inputs,
    whose: Whose,
    sealed: Vec<ShardEntry>,
    open: Option<OpenShard>,
    rows: usize,
    row: Vec<i8>,
}

/// How far the files are good.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Journal {
    format: u64,
    inputs: Inputs,
    sealed: Vec<ShardEntry>,
    open: Option<ShardEntry>,
}

struct OpenShard {
    rows: usize,
    whose: Whose,
    /// In the order of [`Kind::ALL`].
    files: [Appender; 4],
}

impl IndexWriter {
    /// Starts an index in `dir`, or goes on with one of equal inputs that was begun there; rows
    /// that are not proven good are dropped, as is everything where the inputs differ.
    ///
    /// # Errors
    ///
    /// If a file cannot be written, or not be read: what the system does not show may be good, and is
    /// not dropped.
    pub fn open(dir: &Path, inputs: Inputs) -> Result<Self, IndexError> {
        let failed = |fault| IndexError::new(dir, fault);
        fs::create_dir_all(dir)
            .map_err(Fault::io("creating", dir))
            .map_err(failed)?;
        let mut writer = Self {
            dir: dir.to_owned(),
            whose: inputs.whose(),
            inputs,
            sealed: Vec::new(),
            open: None,
            rows: 0,
            row: Vec::new(),
        };
        if let Some(journal) = writer.journal().map_err(failed)? {
            writer.resume(journal).map_err(failed)?;
        }
        if writer.rows == 0 {
            writer.clear().map_err(failed)?;
        }
        Ok(writer)
    }

    /// Rows written so far, those of an earlier run included.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Appends a passage and its vector.
    pub fn push(&mut self, passage: PassageRef<'_>, vector: &[f32]) -> Result<(), IndexError> {
        let width = self.inputs.width;
        let mut row = std::mem::take(&mut self.row);
        let scale = if vector.len() == width {
            quantise(vector, &mut row).ok_or("a component is no finite number".to_owned())
        } else {
            Err(format!("{} components instead of {width}", vector.len()))
        };
        let pushed = match scale {
            Ok(scale) => self.push_quantised(passage, &row, scale),
            Err(detail) => Err(self.failed(Fault::Vector {
                id: passage.id.to_owned(),
                detail,
            })),
        };
        self.row = row;
        pushed
    }

    /// Appends a passage and a row as [`crate::PassageIndex::vector`] gives it.
    pub fn push_quantised(
        &mut self,
        passage: PassageRef<'_>,
        row: &[i8],
        scale: f32,
    ) -> Result<(), IndexError> {
        self.append(passage, row, scale)
            .map_err(|fault| self.failed(fault))
    }

    /// Makes everything written so far survive a kill or a power cut.
    pub fn checkpoint(&mut self) -> Result<(), IndexError> {
        self.save().map_err(|fault| self.failed(fault))
    }

    /// Seals the index. From here on it opens.
    ///
    /// # Errors
    ///
    /// Also where no row was written: an index is never empty.
    pub fn finish(mut self) -> Result<(), IndexError> {
        let dir = self.dir.clone();
        let finished = self.seal().and_then(|()| {
            self.save()?;
            let manifest = Manifest {
                format: self.whose.format,
                rows: self.rows,
                inputs: self.inputs,
                shards: self.sealed,
            };
            manifest.check()?;
            manifest.write(&dir)?;
            let journal = dir.join(JOURNAL);
            fs::remove_file(&journal).map_err(Fault::io("removing", &journal))
        });
        finished.map_err(|fault| IndexError::new(&dir, fault))
    }

    /// Removes everything that was written, that of earlier runs included.
    pub fn abandon(self) -> Result<(), IndexError> {
        self.clear().map_err(|fault| self.failed(fault))
    }

    fn failed(&self, fault: Fault) -> IndexError {
        IndexError::new(&self.dir, fault)
    }

    fn append(&mut self, passage: PassageRef<'_>, row: &[i8], scale: f32) -> Result<(), Fault> {
        if self
            .open
            .as_ref()
            .is_some_and(|s| s.rows == self.inputs.shard_rows)
        {
            self.seal()?;
        }
        let shard = match &mut self.open {
            Some(shard) => shard,
            none => none.insert(OpenShard::create(&self.dir, self.sealed.len(), self.whose)?),
        };
        shard.append(passage, row, scale)?;
        self.rows += 1;
        Ok(())
    }

    fn seal(&mut self) -> Result<(), Fault> {
        if let Some(mut shard) = self.open.take() {
            self.sealed.push(shard.save()?);
        }
        Ok(())
    }

    fn save(&mut self) -> Result<(), Fault> {
        let open = self.open.as_mut().map(OpenShard::save).transpose()?;
        let journal = Journal {
            format: self.whose.format,
            inputs: self.inputs.clone(),
            sealed: self.sealed.clone(),
            open,
        };
        write_sealed(&self.dir.join(JOURNAL), &journal)
    }

    /// Removes all files of an index, and nothing else.
    fn clear(&self) -> Result<(), Fault> {
        let reading = || Fault::io("reading", &self.dir);
        for entry in fs::read_dir(&self.dir).map_err(reading())? {
            let entry = entry.map_err(reading())?;
            if entry.file_name().to_str().is_some_and(is_part_of_index) {
                let path = entry.path();
                fs::remove_file(&path).map_err(Fault::io("removing", &path))?;
            }
        }
        Ok(())
    }

    /// The journal of an earlier run over the same inputs.
    fn journal(&self) -> Result<Option<Journal>, Fault> {
        let path = self.dir.join(JOURNAL);
        let json = match fs::read(&path) {
            Ok(json) => json,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Fault::io("reading", &path)(error)),
        };
        let journal: Option<Journal> = sealed::open(&json);
        Ok(journal
            .filter(|journal| journal.format == self.whose.format && journal.inputs == self.inputs))
    }

    /// Takes over what the journal names, up to the first file that is not as it says.
    fn resume(&mut self, journal: Journal) -> Result<(), Fault> {
        for entry in journal.sealed {
            if self.reopen(&entry)?.is_none() {
                return Ok(());
            }
            self.rows += entry.rows;
            self.sealed.push(entry);
        }
        if let Some(entry) = journal.open {
            self.open = self.reopen(&entry)?;
        }
        self.rows += self.open.as_ref().map_or(0, |shard| shard.rows);
        Ok(())
    }

    /// The shard after the sealed ones, as an entry describes it.
    fn reopen(&self, entry: &ShardEntry) -> Result<Option<OpenShard>, Fault> {
        OpenShard::reopen(&self.dir, self.sealed.len(), entry, self.whose)
    }
}

impl OpenShard {
    fn create(dir: &Path, number: usize, whose: Whose) -> Result<Self, Fault> {
        let create = |kind: Kind| {
            let path = dir.join(kind.file_name(number));
            Appender::create(path, &kind.header(number, &whose))
        };
        Ok(Self {
            rows: 0,
            whose,
            files: [
                create(Kind::Vectors)?,
                create(Kind::Scales)?,
                create(Kind::Offsets)?,
                create(Kind::Passages)?,
            ],
        })
    }

    /// The shard as it was at a checkpoint; `None` where its files no longer hold that.
    fn reopen(
        dir: &Path,
        number: usize,
        entry: &ShardEntry,
        whose: Whose,
    ) -> Result<Option<Self>, Fault> {
        let reopen = |kind: Kind| {
            let path = dir.join(kind.file_name(number));
            let header = kind.header(number, &whose);
            Appender::reopen(path, &entry.files[kind as usize], &header)
        };
        let (Some(vectors), Some(scales), Some(offsets), Some(passages)) = (
            reopen(Kind::Vectors)?,
            reopen(Kind::Scales)?,
            reopen(Kind::Offsets)?,
            reopen(Kind::Passages)?,
        ) else {
            return Ok(None);
        };
        Ok(Some(Self {
            rows: entry.rows,
            whose,
            files: [vectors, scales, offsets, passages],
        }))
    }

    fn append(&mut self, passage: PassageRef<'_>, row: &[i8], scale: f32) -> Result<(), Fault> {
        let [vectors, scales, offsets, passages] = &mut self.files;
        for component in row.chunks(64) {
            let mut bytes = [0; 64];
            for (byte, component) in bytes.iter_mut().zip(component) {
                *byte = component.cast_unsigned();
            }
            vectors.append(&bytes[..component.len()])?;
        }
        scales.append(&scale.to_le_bytes())?;
        let (head, fields) = passage.record(self.whose.format);
        passages.append(&head)?;
        for field in fields {
            passages.append(field)?;
        }
        let end = passages.bytes - HEADER_BYTES as u64;
        offsets.append(&end.to_le_bytes())?;
        self.rows += 1;
        Ok(())
    }

    /// Brings everything to the disk and says what is there.
    fn save(&mut self) -> Result<ShardEntry, Fault> {
        let [vectors, scales, offsets, passages] = &mut self.files;
        Ok(ShardEntry {
            rows: self.rows,
            files: [
                vectors.save()?,
                scales.save()?,
                offsets.save()?,
                passages.save()?,
            ],
        })
    }
}

/// A file that grows, and the checksum of what it holds.
struct Appender {
    path: PathBuf,
    file: BufWriter<File>,
    bytes: u64,
    crc32: crc32fast::Hasher,
}

impl Appender {
    fn create(path: PathBuf, header: &[u8]) -> Result<Self, Fault> {
        let file = File::create(&path).map_err(Fault::io("creating", &path))?;
        let mut appender = Self {
            path,
            file: BufWriter::with_capacity(1 << 16, file),
            bytes: 0,
            crc32: crc32fast::Hasher::new(),
        };
        appender.append(header)?;
        Ok(appender)
    }

    /// Cuts a file back to what it held at a checkpoint. `None` where it holds something else, or is
    /// gone.
    fn reopen(path: PathBuf, entry: &FileEntry, header: &[u8]) -> Result<Option<Self>, Fault> {
        let mut file = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Fault::io("opening", &path)(error)),
        };
        let (start, crc32, bytes) =
            checksum(&mut file, header.len(), entry.bytes).map_err(Fault::io("reading", &path))?;
        if start != header || bytes != entry.bytes || crc32.clone().finalize() != entry.crc32 {
            return Ok(None);
        }
        file.set_len(bytes)
            .and_then(|()| file.seek(SeekFrom::End(0)))
            .map_err(Fault::io("cutting", &path))?;
        Ok(Some(Self {
            path,
            file: BufWriter::with_capacity(1 << 16, file),
            bytes,
            crc32,
        }))
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.file
            .write_all(bytes)
            .map_err(Fault::io("writing", &self.path))?;
        self.crc32.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn save(&mut self) -> Result<FileEntry, Fault> {
        let saved = self.file.flush();
        saved
            .and_then(|()| self.file.get_ref().sync_data())
            .map_err(Fault::io("writing", &self.path))?;
        Ok(self.entry())
    }

    /// What was appended so far, be it on the disk or not.
    fn entry(&self) -> FileEntry {
        FileEntry {
            bytes: self.bytes,
            crc32: self.crc32.clone().finalize(),
        }
    }
}

/// How a file begins, and the checksum and number of its first bytes. Of a shorter file, all there is.
fn checksum(
    file: &mut File,
    header_bytes: usize,
    bytes: u64,
) -> io::Result<(Vec<u8>, crc32fast::Hasher, u64)> {
    let mut start = Vec::with_capacity(header_bytes);
    Read::by_ref(file)
        .take(header_bytes as u64)
        .read_to_end(&mut start)?;
    file.rewind()?;
    let mut crc32 = Checksum(crc32fast::Hasher::new());
    let bytes = io::copy(&mut Read::by_ref(file).take(bytes), &mut crc32)?;
    Ok((start, crc32.0, bytes))
}

struct Checksum(crc32fast::Hasher);

impl Write for Checksum {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
