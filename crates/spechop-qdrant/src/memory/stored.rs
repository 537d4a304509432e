//! An entry of a memory as a point of its collection, and back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use qdrant_client::Payload;
use qdrant_client::qdrant::vector_output::Vector;
use qdrant_client::qdrant::{Value, VectorsOutput};
use spechop_ports::{Record, Remembered, Version};
use spechop_types::{Owned, Tenant};

use crate::point;

/// An entry with what belongs to its writing.
pub(super) struct Stored {
    pub(super) key: String,
    pub(super) entry: Remembered,
    pub(super) version: Version,
}

impl Stored {
    /// The error is the field that cannot be used.
    pub(super) fn read(
        payload: &HashMap<String, Value>,
        vectors: Option<&VectorsOutput>,
    ) -> Result<Self, &'static str> {
        let text = |name: &'static str| {
            let value = payload.get(name).and_then(|value| value.as_str());
            value.ok_or(name).cloned()
        };
        let number = |name: &'static str| {
            let value = payload.get(name).and_then(Value::as_integer);
            value
                .and_then(|value| u64::try_from(value).ok())
                .ok_or(name)
        };
        let record = |right: &'static str, wrong: &'static str| -> Result<Record, &'static str> {
            let count = |name: &'static str| {
                Ok::<_, &'static str>(u32::try_from(number(name)?).unwrap_or(u32::MAX))
            };
            Ok(Record {
                right: count(right)?,
                wrong: count(wrong)?,
            })
        };
        Ok(Self {
            key: text("key")?,
            entry: Remembered {
                tenant: Tenant::try_from(text("tenant")?).map_err(|_| "tenant")?,
                asked: text("asked")?.into(),
                answer: text("answer")?.into(),
                own: record("own_right", "own_wrong")?,
                neighbour: record("neighbour_right", "neighbour_wrong")?,
                vector: vectors.and_then(components),
            },
            version: Version {
                number: number("version")?,
                writers: text("writers")?.into(),
            },
        })
    }

    pub(super) fn payload(&self) -> Payload {
        let entry = &self.entry;
        // Until the year 294,000.
        let written = SystemTime::now().duration_since(UNIX_EPOCH);
        let written = written.unwrap_or_default().as_micros();
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let fields: [(&str, Value); 11] = [
            ("tenant", entry.tenant.as_str().into()),
            ("key", self.key.as_str().into()),
            ("asked", (&*entry.asked).into()),
            ("answer", (&*entry.answer).into()),
            ("own_right", number(entry.own.right.into()).into()),
            ("own_wrong", number(entry.own.wrong.into()).into()),
            (
                "neighbour_right",
                number(entry.neighbour.right.into()).into(),
            ),
            (
                "neighbour_wrong",
                number(entry.neighbour.wrong.into()).into(),
            ),
            ("version", number(self.version.number).into()),
            ("writers", (&*self.version.writers).into()),
            ("written", i64::try_from(written).unwrap_or(i64::MAX).into()),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), value));
        Payload::from(HashMap::from(fields))
    }
}

/// No tenant's name holds a newline.
pub(super) fn id(key: &Owned<Arc<str>>) -> String {
    point::id(&format!("{}\n{}", key.tenant.as_str(), key.item))
}

/// The vector of a point in whole numbers; `None` if it has none, or only zeros. Its length was taken from
/// it when it was stored, which says nothing of its direction.
fn components(vectors: &VectorsOutput) -> Option<Vec<i8>> {
    let Some(Vector::Dense(dense)) = vectors.get_vector() else {
        return None;
    };
    let most = dense.data.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    #[expect(
        clippy::cast_possible_truncation,
        reason = "no more than 127; what is no number becomes 0"
    )]
    let whole = |x: &f32| (x * 127.0 / most).round() as i8;
    (most > 0.0).then(|| dense.data.iter().map(whole).collect())
}
