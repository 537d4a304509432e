//! The passage index: exact int8 rows in shards, the passages beside them.
//!
//! An index is a folder:
//!
//! ```text
//! manifest.json         what it was made of, every file's length and checksum; written last
//! vectors-00000.bin     int8 rows, each padded with zeros to a multiple of 64 bytes
//! scales-00000.bin      one f32 a row: component = int8 × scale
//! offsets-00000.bin     one u64 a row: where the passage's record ends
//! passages-00000.bin    records: id, title, text; in the extended format also URL and in-degree
//! vectors-00001.bin …   further shards, at most `shard_rows` rows each
//! hot/                  perhaps: the passages mentioned most, as an index of their own
//! ```
//!
//! Numbers are little-endian, and every file starts with a 64-byte header that names the index it
//! belongs to. A search compares the query with *every* row (no approximation but the eight bits),
//! as the E5 target of the SpecHop paper does. Equal inputs give equal files, byte for byte.
//!
//! What is guaranteed, whatever the size: [`PassageIndex::open`] never accepts a half-written index,
//! a missing file, a file of another length, another version or another index, scales or offsets
//! that are damaged or make no sense. An index of up to 32 MiB is read into memory, and every
//! checksum is proven (milliseconds): what happens to its files later does not matter.
//!
//! Of a larger index the vectors are mapped, and passages are read where they are needed.
//! [`PassageIndex::open_watched`] proves the remaining checksums in the background. Finished files are
//! only ever replaced by our own programs, never written in place, so an index that is open stays
//! whole while it is rebuilt. If somebody else writes to an open file, or cuts it, that is noticed
//! before the next rows are read and before any result is given out: searches fail, and the vital
//! signs tell. One gap remains: if a file of vectors is cut *while a search is running*, within the few
//! hundred microseconds between a look at its length and the end of the rows read behind it, the
//! system ends the process (SIGBUS). Replace an index with `spechop index build` or by renaming, not
//! with `cp` over its files.

mod check;
mod dots;
mod error;
mod file;
#[cfg(test)]
mod fixture;
mod index;
mod layout;
mod lexical;
mod manifest;
mod passages;
mod retriever;
mod rows;
mod scan;
pub mod sealed;
mod search;
mod shard;
mod write;

pub use error::{Fault, IndexError};
pub use index::PassageIndex;
pub use layout::HOT;
pub use lexical::LexicalWeight;
pub use manifest::{Inputs, MANIFEST, Part, Subset};
pub use passages::IndexPassages;
pub use retriever::IndexRetriever;
pub use scan::{Hit, Query};
pub use shard::{PassageRef, StoredPassage};
pub use write::{Comparison, IndexWriter, is_index_entry};
