//! Rows of Parquet files, as the JSON objects that other files hold.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Once;

use parquet::basic::Repetition;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use parquet::schema::types::Type;
use serde_json::Value;

use super::error::LoadError;

/// What every Parquet file begins with.
const MAGIC: &[u8; 4] = b"PAR1";
/// The nested columns that a data set is read from. Others can be large, as search trajectories are.
const NESTED: [&str; 5] = [
    "answer_aliases",
    "evidences",
    "paragraphs",
    "question_decomposition",
    "supporting_facts",
];

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

/// Gives every row to `take`, until it refuses one: its plain columns, and the nested ones that somebody reads.
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
    let columns = columns(&reader).map_err(wrong)?;
    let mut rows = caught(|| reader.get_row_iter(Some(columns))).map_err(wrong)?;
    for number in 1.. {
        let next = || Ok(rows.next().transpose()?.map(|row| object(&row)));
        let Some(row) = caught(next).map_err(wrong)? else {
            break;
        };
        take(number, &row)?;
    }
    Ok(())
}

fn object(row: &Row) -> Value {
    let columns = row.get_column_iter();
    let columns = columns.filter_map(|(name, field)| Some((name.clone(), value(field)?)));
    Value::Object(columns.collect())
}

/// Bytes that are not said to be a text are one if they can be read so, as some writers leave it unsaid, else they
/// are left out.
fn value(field: &Field) -> Option<Value> {
    Some(match field {
        Field::Bytes(bytes) => Value::String(bytes.as_utf8().ok()?.to_owned()),
        Field::Group(row) => object(row),
        Field::ListInternal(list) => list.elements().iter().filter_map(value).collect(),
        field => field.to_json_value(),
    })
}

thread_local! {
    /// Whether this thread is in [`caught`].
    static CATCHES: Cell<bool> = const { Cell::new(false) };
}

/// The library panics at some damaged files. What it had in hand is dropped behind that. The panic is not printed: the
/// error says which file is damaged.
fn caught<T>(read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !CATCHES.get() {
                print(panic);
            }
        }));
    });
    let damaged = || ParquetError::General("the file is damaged".to_owned());
    CATCHES.set(true);
    let read = catch_unwind(AssertUnwindSafe(read));
    CATCHES.set(false);
    read.map_err(|_| damaged())?
}

fn columns(reader: &SerializedFileReader<File>) -> Result<Type, ParquetError> {
    let schema = reader.metadata().file_metadata().schema();
    let fields = schema.get_fields().iter().filter(|field| {
        let is_repeated = field.get_basic_info().repetition() == Repetition::REPEATED;
        field.is_primitive() && !is_repeated || NESTED.contains(&field.name())
    });
    Type::group_type_builder(schema.name())
        .with_fields(fields.cloned().collect())
        .build()
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::Arc;

    use parquet::data_type::{ByteArray, ByteArrayType};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use serde_json::json;

    use super::*;

    /// The rows of a file that was written with one. A column with several values is a list, without one inside it.
    fn rows(schema: &str, columns: &[&[&[u8]]]) -> Result<Vec<Value>, LoadError> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rows.parquet");
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let out = File::create(&file).unwrap();
        let mut writer = SerializedFileWriter::new(out, schema, Arc::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        for column in columns {
            let values: Vec<ByteArray> = column.iter().map(|bytes| bytes.to_vec().into()).collect();
            let defined = vec![1_i16; values.len()];
            let repeated: Vec<i16> = (0..values.len()).map(|at| i16::from(at > 0)).collect();
            let is_list = values.len() > 1;
            let (defined, repeated) = (
                is_list.then_some(&defined[..]),
                is_list.then_some(&repeated[..]),
            );
            let mut column = group.next_column().unwrap().unwrap();
            let typed = column.typed::<ByteArrayType>();
            typed.write_batch(&values[..], defined, repeated).unwrap();
            column.close().unwrap();
        }
        group.close().unwrap();
        writer.close().unwrap();
        let mut found = Vec::new();
        let take = &mut |_, row: &Value| {
            found.push(row.clone());
            Ok(())
        };
        read(&file, take).map(|()| found)
    }

    #[test]
    fn bytes_are_text_or_nothing() {
        let schema = "message m { required binary question; required binary picture; }";
        let rows = rows(schema, &[&[b"Who?"], &[&[0xff, 0xd8]]]).unwrap();
        assert_eq!(rows, [json!({ "question": "Who?" })]);
    }

    #[test]
    fn what_the_library_panics_at_is_told_by_the_error_alone() {
        const EXACT: &str = "--exact";
        if std::env::args().any(|arg| arg == EXACT) {
            let two = "required binary a; required binary b;";
            let schema = format!("message m {{ required group evidences (LIST) {{ {two} }} }}");
            let error = rows(&schema, &[&[b"1"], &[b"2"]]).unwrap_err();
            assert!(matches!(error, LoadError::Parquet { .. }), "{error}");
            return;
        }
        // In a process of its own, whose stderr can be read.
        let name = "dataset::parquet::tests::what_the_library_panics_at_is_told_by_the_error_alone";
        let mut child = Command::new(std::env::current_exe().unwrap());
        let ended = child.args([EXACT, "--nocapture", name]).output().unwrap();
        // A name that is none passes as well.
        let has_run = String::from_utf8_lossy(&ended.stdout).contains("1 passed");
        let is_told = String::from_utf8_lossy(&ended.stderr).contains("panicked");
        assert!(has_run && !is_told, "{ended:?}");
    }

    #[test]
    fn nested_columns_are_read_if_a_data_set_has_them() {
        let list = |name: &str, element: &str| {
            format!("required group {name} (LIST) {{ repeated group list {{ {element} }} }}")
        };
        let texts = "required binary element;";
        let steps =
            "required group element { required binary question; required binary answer (UTF8); }";
        let schema = format!(
            "message m {{ {} {} {} }}",
            list("answer_aliases", texts),
            list("question_decomposition", steps),
            list("trajectory", texts)
        );
        let columns: &[&[&[u8]]] = &[
            &[b"Nobody", b"No one"],
            &[b"Who?", b"When?"],
            &[b"Nobody", b"Never"],
            &[b"much", b"more"],
        ];
        let row = json!({
            "answer_aliases": ["Nobody", "No one"],
            "question_decomposition": [
                { "question": "Who?", "answer": "Nobody" },
                { "question": "When?", "answer": "Never" },
            ],
        });
        assert_eq!(rows(&schema, columns).unwrap(), [row]);
    }
}
