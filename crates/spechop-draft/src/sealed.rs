//! The file of patterns: JSON with a format and a checksum, one pattern a line.

use serde::{Deserialize, Serialize};

use crate::after::AfterPattern;
use crate::form::Slot;
use crate::patterns::{Patterns, QuestionPattern, in_order};
use crate::{Form, InvalidForm};

/// Changes whenever an older program would misread a new file, or the other way round.
pub const FORMAT: u64 = 1;
/// Longer files are not ours: the shipped one has about 100 kB.
const BYTES_MAX: usize = 16 << 20;

/// Why a text holds no patterns.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// More than the reader takes.
    #[error("it has {0} bytes, more than {BYTES_MAX}: it is not a file of patterns")]
    TooLong(usize),
    /// No JSON, or other fields.
    #[error("it is not a file of patterns, or it is damaged: mine it again")]
    Damaged(#[source] serde_json::Error),
    /// Of another version of this program.
    #[error("it is of format {found}, not {FORMAT}: mine it again with this version")]
    Format {
        /// Its format.
        found: u64,
    },
    /// The content is not what was written.
    #[error("its checksum is {found}, not {wanted}: it was changed or damaged, so mine it again")]
    Checksum {
        /// The content's.
        found: String,
        /// The file's.
        wanted: String,
    },
    /// A slot that nothing fills.
    #[error("the pattern `{form}` cannot be filled in")]
    Slot {
        /// The pattern's form.
        form: Form,
        /// The slot.
        source: InvalidForm,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    questions: Vec<QuestionPattern>,
    after: Vec<AfterPattern>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[expect(dead_code, reason = "it was read before, as that of any file")]
    format: u64,
    crc32: String,
    patterns: Content,
}

/// What is read of a file of any format.
#[derive(Deserialize)]
struct AnyFile {
    format: u64,
}

pub(crate) fn read(json: &str) -> Result<Patterns, PatternError> {
    if json.len() > BYTES_MAX {
        return Err(PatternError::TooLong(json.len()));
    }
    let AnyFile { format } = serde_json::from_str(json).map_err(PatternError::Damaged)?;
    if format != FORMAT {
        return Err(PatternError::Format { found: format });
    }
    let file: File = serde_json::from_str(json).map_err(PatternError::Damaged)?;
    let found = checksum(&lines(&file.patterns.questions, &file.patterns.after)?);
    if found != file.crc32 {
        return Err(PatternError::Checksum {
            found,
            wanted: file.crc32,
        });
    }
    for pattern in &file.patterns.questions {
        let names = in_order(&pattern.form, Slot::Name);
        let checked = names.and_then(|names| pattern.steps.checked(names, 0));
        checked.map_err(|source| PatternError::Slot {
            form: pattern.form.clone(),
            source,
        })?;
    }
    for pattern in &file.patterns.after {
        pattern.checked().map_err(|source| PatternError::Slot {
            form: pattern.form.clone(),
            source,
        })?;
    }
    Ok(Patterns::new(file.patterns.questions, file.patterns.after))
}

pub(crate) fn write(patterns: &Patterns) -> Result<String, PatternError> {
    let content = lines(&patterns.questions.items, &patterns.after.items)?;
    let crc32 = checksum(&content);
    Ok(format!(
        "{{\"format\":{FORMAT},\"crc32\":\"{crc32}\",\"patterns\":{content}}}\n"
    ))
}

fn checksum(content: &str) -> String {
    format!("{:08x}", crc32fast::hash(content.as_bytes()))
}

/// The content as JSON, one pattern a line.
fn lines(questions: &[QuestionPattern], after: &[AfterPattern]) -> Result<String, PatternError> {
    fn list<T: Serialize>(items: &[T]) -> Result<String, PatternError> {
        let lines: Result<Vec<_>, _> = items.iter().map(serde_json::to_string).collect();
        Ok(lines.map_err(PatternError::Damaged)?.join(",\n"))
    }
    Ok(format!(
        "{{\"questions\":[\n{}\n],\"after\":[\n{}\n]}}",
        list(questions)?,
        list(after)?
    ))
}
