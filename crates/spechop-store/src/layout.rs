//! How the files of an index are named and headed.

/// The formats that are read. A new one comes whenever older programs would misread a new index.
///
/// [`PLAIN`] is still what is written if passages have neither URL nor in-degree: so older programs
/// read every index that does not need the newer format, and older indexes stay up to date.
pub(crate) const FORMATS: [u64; 2] = [PLAIN, EXTENDED];

/// Records of identifier, title and text.
pub(crate) const PLAIN: u64 = 1;

/// Records that also hold a URL and an in-degree; parts of an index that are still to be merged.
pub(crate) const EXTENDED: u64 = 2;

/// Name of the folder of a hot subset, within that of the index it is taken from.
pub const HOT: &str = "hot";

/// Bytes before the first row of every file.
pub(crate) const HEADER_BYTES: usize = 64;

/// Rows start at multiples of this many bytes: a cache line, and a full AVX-512 register.
pub(crate) const ALIGNMENT: usize = 64;

/// Names the index that a file belongs to: the SHA-256 of everything it is made of.
pub(crate) type Identity = [u8; 32];

/// The index that a file belongs to, as far as the file's header and its rows depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whose {
    pub(crate) format: u64,
    pub(crate) width: usize,
    pub(crate) identity: Identity,
}

/// The four files of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Vectors,
    Scales,
    Offsets,
    Passages,
}

impl Kind {
    pub(crate) const ALL: [Kind; 4] = [Kind::Vectors, Kind::Scales, Kind::Offsets, Kind::Passages];

    fn stem(self) -> &'static str {
        match self {
            Kind::Vectors => "vectors",
            Kind::Scales => "scales",
            Kind::Offsets => "offsets",
            Kind::Passages => "passages",
        }
    }

    /// `vectors-00003.bin`
    pub(crate) fn file_name(self, shard: usize) -> String {
        format!("{}-{shard:05}.bin", self.stem())
    }

    /// Length of a file of `rows` rows. `None` for passages, whose length is the last offset.
    pub(crate) fn length(self, rows: usize, width: usize) -> Option<u64> {
        let row = match self {
            Kind::Vectors => stride(width),
            Kind::Scales => size_of::<f32>(),
            Kind::Offsets => size_of::<u64>(),
            Kind::Passages => return None,
        };
        Some((HEADER_BYTES + rows * row) as u64)
    }

    /// Magic, format, kind, shard number, width, identity: enough to tell that a file of the right
    /// length lies in the wrong place, where checksumming everything would take too long.
    pub(crate) fn header(self, shard: usize, whose: &Whose) -> [u8; 64] {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(b"SPECHOP\0");
        header[8] = whose.format as u8;
        header[9] = self as u8;
        header[12..16].copy_from_slice(&(shard as u32).to_le_bytes());
        header[16..20].copy_from_slice(&(whose.width as u32).to_le_bytes());
        header[32..].copy_from_slice(&whose.identity);
        header
    }
}

/// Bytes from one row to the next.
pub(crate) fn stride(width: usize) -> usize {
    width.next_multiple_of(ALIGNMENT)
}

/// Whether an index may hold a file of this name.
pub(crate) fn is_file_name(name: &str) -> bool {
    Kind::ALL.iter().any(|kind| {
        name.strip_prefix(kind.stem())
            .and_then(|rest| rest.strip_prefix('-'))
            .and_then(|rest| rest.strip_suffix(".bin"))
            .is_some_and(|number| {
                number.len() >= 5 && number.bytes().all(|byte| byte.is_ascii_digit())
            })
    })
}
