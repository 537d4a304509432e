//! Rows of Parquet files, as the JSON objects that other files hold.

use std::fs::File;
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use parquet::basic::Repetition;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use parquet::schema::types::Type;
use serde_json::Value;

use super::error::LoadError;

/// What every Parquet file begins with.
const MAGIC: &[u8; 4] = b"PAR1";

/// Whether a file is meant to be one: by its name, or by its first bytes.
pub(super) fn is_meant(file: &Path) -> Result<bool, LoadError> {
    let named = file
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("parquet"));
    let mut begins = Vec::new();
    let mut first = opened(file)?.take(MAGIC.len() as u64);
    first
        .read_to_end(&mut begins)
        .map_err(|source| unreadable(file, source))?;
    Ok(named || begins == MAGIC)
}

fn opened(file: &Path) -> Result<File, LoadError> {
    File::open(file).map_err(|source| unreadable(file, source))
}

fn unreadable(file: &Path, source: io::Error) -> LoadError {
    LoadError::Read {
        file: file.to_owned(),
        source,
    }
}

/// Gives every row to `take`, until it refuses one: its plain columns, for nobody reads a nested one.
pub(super) fn read(
    file: &Path,
    take: &mut dyn FnMut(usize, &Value) -> Result<(), LoadError>,
) -> Result<(), LoadError> {
    let wrong = |source: ParquetError| LoadError::Parquet {
        file: file.to_owned(),
        source,
    };
    let open = opened(file)?;
    let reader = caught(|| SerializedFileReader::new(open)).map_err(wrong)?;
    let plain = plain_columns(&reader).map_err(wrong)?;
    let mut rows = caught(|| reader.get_row_iter(Some(plain))).map_err(wrong)?;
    for number in 1.. {
        let next = || Ok(rows.next().transpose()?.map(|row| object(&row)));
        let Some(row) = caught(next).map_err(wrong)? else {
            break;
        };
        take(number, &row)?;
    }
    Ok(())
}

/// Bytes that are not said to be a text are one if they can be read so, as some writers leave it unsaid, else they
/// are left out.
fn object(row: &Row) -> Value {
    let columns = row.get_column_iter().filter_map(|(name, field)| {
        let value = match field {
            Field::Bytes(bytes) => Value::String(bytes.as_utf8().ok()?.to_owned()),
            field => field.to_json_value(),
        };
        Some((name.clone(), value))
    });
    Value::Object(columns.collect())
}

/// The library panics at some damaged files. What it had in hand is dropped behind that.
fn caught<T>(read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    let damaged = || ParquetError::General("the file is damaged".to_owned());
    catch_unwind(AssertUnwindSafe(read)).map_err(|_| damaged())?
}

fn plain_columns(reader: &SerializedFileReader<File>) -> Result<Type, ParquetError> {
    let schema = reader.metadata().file_metadata().schema();
    let fields = schema.get_fields().iter().filter(|field| {
        let is_repeated = field.get_basic_info().repetition() == Repetition::REPEATED;
        field.is_primitive() && !is_repeated
    });
    Type::group_type_builder(schema.name())
        .with_fields(fields.cloned().collect())
        .build()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::data_type::{ByteArray, ByteArrayType};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use serde_json::json;

    use super::*;

    #[test]
    fn bytes_are_text_or_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rows.parquet");
        let schema = "message m { required binary question; required binary picture; }";
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let out = File::create(&file).unwrap();
        let mut writer = SerializedFileWriter::new(out, schema, Arc::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        for bytes in [&b"Who?"[..], &[0xff, 0xd8]] {
            let mut column = group.next_column().unwrap().unwrap();
            let values = [ByteArray::from(bytes.to_vec())];
            let typed = column.typed::<ByteArrayType>();
            typed.write_batch(&values, None, None).unwrap();
            column.close().unwrap();
        }
        group.close().unwrap();
        writer.close().unwrap();
        let mut found = Vec::new();
        let take = &mut |_, row: &Value| {
            found.push(row.clone());
            Ok(())
        };
        read(&file, take).unwrap();
        assert_eq!(found, [json!({ "question": "Who?" })]);
    }
}
