//! The passage index: exact int8 rows, memory-mapped.
