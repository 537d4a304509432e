//! Whether passages are those that an unfinished index holds already.
//!
//! The inputs of an index name its corpus, but the rows of an earlier run are of what that run read: a
//! file may have been changed while it was read. The checksums of the files that hold the passages
//! tell, so nothing needs to be read back.

use super::IndexWriter;
use crate::layout::Kind;
use crate::manifest::FileEntry;
use crate::shard::PassageRef;

/// Passages, one after another, against those of the rows that a writer has. See
/// [`IndexWriter::compare_from`].
pub struct Comparison<'a> {
    writer: &'a IndexWriter,
    /// The row that comes next.
    row: usize,
    shard: usize,
    /// Rows of the shard that were compared.
    rows: usize,
    bytes: u64,
    crc32: crc32fast::Hasher,
    differs: bool,
}

impl IndexWriter {
    /// To compare passages with those that are written. Checksums are those of whole shards, so it
    /// begins with the shard of `row`: [`Comparison::row`] says where that is.
    pub fn compare_from(&self, row: usize) -> Comparison<'_> {
        let (mut shard, mut first) = (0, 0);
        while let Some((rows, _)) = self.passages_of(shard)
            && first + rows <= row
        {
            first += rows;
            shard += 1;
        }
        Comparison {
            writer: self,
            row: first,
            shard,
            rows: 0,
            bytes: 0,
            crc32: crc32fast::Hasher::new(),
            differs: false,
        }
    }

    /// Rows of a shard, and its file of passages.
    fn passages_of(&self, shard: usize) -> Option<(usize, FileEntry)> {
        let at = Kind::Passages as usize;
        match self.sealed.get(shard) {
            Some(entry) => Some((entry.rows, entry.files[at])),
            None if shard == self.sealed.len() => {
                let open = self.open.as_ref()?;
                Some((open.rows, open.files[at].entry()))
            }
            None => None,
        }
    }
}

impl Comparison<'_> {
    /// Number of the row whose passage is to be given next.
    pub fn row(&self) -> usize {
        self.row
    }

    /// Takes the passage that the next row should have.
    pub fn take(&mut self, passage: PassageRef<'_>) {
        let whose = self.writer.whose;
        if self.rows == 0 {
            self.bytes = 0;
            self.crc32 = crc32fast::Hasher::new();
            self.update(&Kind::Passages.header(self.shard, &whose));
        }
        let (head, fields) = passage.record(whose.format);
        self.update(&head);
        for field in fields {
            self.update(field);
        }
        self.row += 1;
        self.rows += 1;
        match self.writer.passages_of(self.shard) {
            Some((rows, written)) if rows == self.rows => {
                let crc32 = self.crc32.clone().finalize();
                let bytes = self.bytes;
                self.differs |= written != FileEntry { bytes, crc32 };
                self.shard += 1;
                self.rows = 0;
            }
            Some(_) => {}
            // More passages than rows.
            None => self.differs = true,
        }
    }

    /// Whether every row that is written has the passage that was given for it.
    pub fn is_equal(&self) -> bool {
        !self.differs && self.row == self.writer.rows()
    }

    fn update(&mut self, bytes: &[u8]) {
        self.crc32.update(bytes);
        self.bytes += bytes.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::inputs;

    fn passage(text: &str) -> PassageRef<'_> {
        PassageRef {
            id: text,
            text,
            ..PassageRef::default()
        }
    }

    #[test]
    fn rows_of_other_passages_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = IndexWriter::open(dir.path(), inputs(4, 10)).unwrap();
        for row in 0..25 {
            let text = format!("{row:02}");
            writer.push_quantised(passage(&text), &[1; 4], 1.0).unwrap();
        }
        writer.checkpoint().unwrap();
        drop(writer);
        let writer = IndexWriter::open(dir.path(), inputs(4, 10)).unwrap();
        for (from, rows, changed, equal) in [
            (0, 25, None, true),
            (0, 24, None, false),
            (0, 26, None, false),
            (0, 25, Some(0), false),
            (0, 25, Some(24), false),
            // The second shard begins at row 10.
            (19, 25, Some(9), true),
            (19, 25, Some(10), false),
            (20, 25, Some(19), true),
            (25, 25, None, true),
        ] {
            let mut written = writer.compare_from(from);
            for row in written.row()..rows {
                let text = match changed == Some(row) {
                    true => "xx".to_owned(),
                    false => format!("{row:02}"),
                };
                written.take(passage(&text));
            }
            assert_eq!(written.is_equal(), equal, "{from} {rows} {changed:?}");
        }
    }
}
