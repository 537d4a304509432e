//! How a collection is made. The names and values are those of Qdrant's REST interface, and a
//! setting that is not given is left to the server.

use qdrant_client::qdrant::{
    BinaryQuantization, CompressionRatio, CreateCollection, Datatype, Distance, HnswConfigDiff,
    Memory, OptimizersConfigDiff, PayloadStorageParams, ProductQuantization, QuantizationConfig,
    QuantizationType, ScalarQuantization, TurboQuantBitSize, TurboQuantization, VectorParams,
    VectorsConfig, WalConfigDiff, quantization_config, vectors_config,
};
use serde::Deserialize;
use serde::de::Error;

/// What Qdrant is told about a new collection.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CollectionSettings {
    /// Parts of the collection, which the servers share.
    pub shard_number: Option<u32>,
    /// Servers that hold each part.
    pub replication_factor: Option<u32>,
    /// Servers that must have written a passage before the write counts.
    pub write_consistency_factor: Option<u32>,
    /// Whether payloads stay on disk (servers before 1.19).
    pub on_disk_payload: Option<bool>,
    payload: Payload,
    vectors: Vectors,
    hnsw_config: Option<Hnsw>,
    quantization_config: Option<Quantization>,
    optimizers_config: Option<Optimizers>,
    wal_config: Option<Wal>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Payload {
    memory: Option<Place>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Vectors {
    on_disk: Option<bool>,
    memory: Option<Place>,
    datatype: Option<Type>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Hnsw {
    m: Option<u64>,
    ef_construct: Option<u64>,
    full_scan_threshold: Option<u64>,
    max_indexing_threads: Option<u64>,
    on_disk: Option<bool>,
    memory: Option<Place>,
    inline_storage: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Quantization {
    Scalar(Scalar),
    Product(Product),
    Binary(Binary),
    #[serde(alias = "turbo")]
    Turboquant(Turbo),
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scalar {
    #[serde(rename = "type")]
    _type: Int8,
    quantile: Option<f32>,
    always_ram: Option<bool>,
    memory: Option<Place>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Int8 {
    Int8,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Product {
    compression: Ratio,
    always_ram: Option<bool>,
    memory: Option<Place>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Binary {
    always_ram: Option<bool>,
    memory: Option<Place>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Turbo {
    bits: Option<Bits>,
    always_ram: Option<bool>,
    memory: Option<Place>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Optimizers {
    deleted_threshold: Option<f64>,
    vacuum_min_vector_number: Option<u64>,
    default_segment_number: Option<u64>,
    max_segment_size: Option<u64>,
    memmap_threshold: Option<u64>,
    indexing_threshold: Option<u64>,
    flush_interval_sec: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Wal {
    wal_capacity_mb: Option<u64>,
    wal_segments_ahead: Option<u64>,
    wal_retain_closed: Option<u64>,
}

/// Where something lies (servers since 1.19).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Place {
    Cold,
    Cached,
    Pinned,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Type {
    Float32,
    Float16,
    Turbo4,
    Turbo8,
    Turbo16,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Ratio {
    X4,
    X8,
    X16,
    X32,
    X64,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
enum Bits {
    #[serde(rename = "bits1")]
    One,
    #[serde(rename = "bits1_5")]
    OneAndHalf,
    #[serde(rename = "bits2")]
    Two,
    #[serde(rename = "bits4")]
    Four,
    #[serde(rename = "bits8")]
    Eight,
}

impl CollectionSettings {
    /// Reads the JSON that Qdrant's REST interface takes for a new collection. `vectors` may say
    /// where they lie, but neither `size` nor `distance`, which the index decides.
    ///
    /// # Errors
    ///
    /// What cannot be read.
    pub fn parse(json: &str) -> Result<Self, serde_json::Error> {
        let value: serde_json::Value = serde_json::from_str(json)?;
        // A list would be taken for the fields of a section in their order.
        if has_list(&value) {
            return Err(serde_json::Error::custom("no setting is a list"));
        }
        serde_json::from_value(value)
    }

    /// With eight-bit scalar quantisation, unless a quantisation is given.
    #[must_use]
    pub fn or_int8(mut self) -> Self {
        self.quantization_config
            .get_or_insert(Quantization::Scalar(Scalar {
                _type: Int8::Int8,
                quantile: None,
                always_ram: None,
                memory: None,
            }));
        self
    }

    #[expect(deprecated, reason = "servers before 1.19 know no other names")]
    pub(crate) fn create(&self, collection: &str, width: usize) -> CreateCollection {
        let vectors = VectorParams {
            size: width as u64,
            distance: Distance::Dot.into(),
            on_disk: self.vectors.on_disk,
            memory: place(self.vectors.memory),
            datatype: self.vectors.datatype.map(|datatype| datatype.wire().into()),
            ..VectorParams::default()
        };
        let memory = place(self.payload.memory);
        CreateCollection {
            collection_name: collection.to_owned(),
            vectors_config: Some(VectorsConfig {
                config: Some(vectors_config::Config::Params(vectors)),
            }),
            shard_number: self.shard_number,
            replication_factor: self.replication_factor,
            write_consistency_factor: self.write_consistency_factor,
            on_disk_payload: self.on_disk_payload,
            payload: memory.map(|memory| PayloadStorageParams {
                memory: Some(memory),
            }),
            hnsw_config: self.hnsw_config.as_ref().map(Hnsw::wire),
            quantization_config: self.quantization_config.as_ref().map(Quantization::wire),
            optimizers_config: self.optimizers_config.as_ref().map(Optimizers::wire),
            wal_config: self.wal_config.as_ref().map(Wal::wire),
            ..CreateCollection::default()
        }
    }
}

fn has_list(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Array(_) => true,
        serde_json::Value::Object(fields) => fields.values().any(has_list),
        _ => false,
    }
}

fn place(place: Option<Place>) -> Option<i32> {
    let memory = match place? {
        Place::Cold => Memory::Cold,
        Place::Cached => Memory::Cached,
        Place::Pinned => Memory::Pinned,
    };
    Some(memory.into())
}

impl Type {
    fn wire(self) -> Datatype {
        match self {
            Self::Float32 => Datatype::Float32,
            Self::Float16 => Datatype::Float16,
            Self::Turbo4 => Datatype::Turbo4,
            Self::Turbo8 => Datatype::Turbo8,
            Self::Turbo16 => Datatype::Turbo16,
        }
    }
}

impl Hnsw {
    #[expect(deprecated, reason = "servers before 1.19 know no other name")]
    fn wire(&self) -> HnswConfigDiff {
        HnswConfigDiff {
            m: self.m,
            ef_construct: self.ef_construct,
            full_scan_threshold: self.full_scan_threshold,
            max_indexing_threads: self.max_indexing_threads,
            on_disk: self.on_disk,
            memory: place(self.memory),
            inline_storage: self.inline_storage,
            ..HnswConfigDiff::default()
        }
    }
}

impl Quantization {
    #[expect(deprecated, reason = "servers before 1.19 know no other name")]
    fn wire(&self) -> QuantizationConfig {
        use quantization_config::Quantization as Wire;
        let quantization = match self {
            Self::Scalar(scalar) => Wire::Scalar(ScalarQuantization {
                r#type: QuantizationType::Int8.into(),
                quantile: scalar.quantile,
                always_ram: scalar.always_ram,
                memory: place(scalar.memory),
            }),
            Self::Product(product) => Wire::Product(ProductQuantization {
                compression: match product.compression {
                    Ratio::X4 => CompressionRatio::X4,
                    Ratio::X8 => CompressionRatio::X8,
                    Ratio::X16 => CompressionRatio::X16,
                    Ratio::X32 => CompressionRatio::X32,
                    Ratio::X64 => CompressionRatio::X64,
                }
                .into(),
                always_ram: product.always_ram,
                memory: place(product.memory),
            }),
            Self::Binary(binary) => Wire::Binary(BinaryQuantization {
                always_ram: binary.always_ram,
                memory: place(binary.memory),
                ..BinaryQuantization::default()
            }),
            Self::Turboquant(turbo) => Wire::Turboquant(TurboQuantization {
                always_ram: turbo.always_ram,
                bits: turbo.bits.map(|bits| bits.wire().into()),
                memory: place(turbo.memory),
            }),
        };
        QuantizationConfig {
            quantization: Some(quantization),
        }
    }
}

impl Bits {
    fn wire(self) -> TurboQuantBitSize {
        match self {
            Self::One => TurboQuantBitSize::Bits1,
            Self::OneAndHalf => TurboQuantBitSize::Bits15,
            Self::Two => TurboQuantBitSize::Bits2,
            Self::Four => TurboQuantBitSize::Bits4,
            Self::Eight => TurboQuantBitSize::Bits8,
        }
    }
}

impl Optimizers {
    fn wire(&self) -> OptimizersConfigDiff {
        OptimizersConfigDiff {
            deleted_threshold: self.deleted_threshold,
            vacuum_min_vector_number: self.vacuum_min_vector_number,
            default_segment_number: self.default_segment_number,
            max_segment_size: self.max_segment_size,
            memmap_threshold: self.memmap_threshold,
            indexing_threshold: self.indexing_threshold,
            flush_interval_sec: self.flush_interval_sec,
            ..OptimizersConfigDiff::default()
        }
    }
}

impl Wal {
    fn wire(&self) -> WalConfigDiff {
        WalConfigDiff {
            wal_capacity_mb: self.wal_capacity_mb,
            wal_segments_ahead: self.wal_segments_ahead,
            wal_retain_closed: self.wal_retain_closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_decided_that_nobody_has_asked_for() {
        let create = CollectionSettings::default().create("c", 384);
        let vectors = VectorParams {
            size: 384,
            distance: Distance::Dot.into(),
            ..VectorParams::default()
        };
        let plain = CreateCollection {
            collection_name: "c".to_owned(),
            vectors_config: Some(VectorsConfig {
                config: Some(vectors_config::Config::Params(vectors)),
            }),
            ..CreateCollection::default()
        };
        assert_eq!(create, plain);
    }

    #[test]
    fn what_is_asked_for_arrives() {
        for (json, shown) in [
            (r#"{"shard_number":6}"#, "shard_number: Some(6)"),
            (r#"{"replication_factor":2}"#, "replication_factor: Some(2)"),
            (r#"{"on_disk_payload":true}"#, "on_disk_payload: Some(true)"),
            (r#"{"payload":{"memory":"cold"}}"#, "memory: Some(Cold)"),
            (r#"{"vectors":{"memory":"cached"}}"#, "memory: Some(Cached)"),
            (
                r#"{"vectors":{"datatype":"turbo4"}}"#,
                "datatype: Some(Turbo4)",
            ),
            (r#"{"hnsw_config":{"m":32}}"#, "m: Some(32)"),
            (
                r#"{"hnsw_config":{"memory":"pinned"}}"#,
                "memory: Some(Pinned)",
            ),
            (
                r#"{"quantization_config":{"scalar":{"type":"int8","quantile":0.5}}}"#,
                "quantile: Some(0.5)",
            ),
            (
                r#"{"quantization_config":{"product":{"compression":"x16"}}}"#,
                "compression: X16",
            ),
            (
                r#"{"quantization_config":{"binary":{"always_ram":true}}}"#,
                "always_ram: Some(true)",
            ),
            (
                r#"{"quantization_config":{"turbo":{"bits":"bits4"}}}"#,
                "bits: Some(Bits4)",
            ),
            (
                r#"{"optimizers_config":{"indexing_threshold":0}}"#,
                "indexing_threshold: Some(0)",
            ),
            (
                r#"{"wal_config":{"wal_capacity_mb":64}}"#,
                "wal_capacity_mb: Some(64)",
            ),
        ] {
            let settings = CollectionSettings::parse(json).unwrap();
            let create = format!("{:?}", settings.create("c", 4));
            assert!(create.contains(shown), "{json}: {create}");
        }
    }

    #[test]
    fn a_slip_of_the_finger_is_refused() {
        for json in [
            r#"{"shards":6}"#,
            r#"{"vectors":{"size":384}}"#,
            r#"{"hnsw_config":{"ef":100}}"#,
            r#"{"quantization_config":{"scalar":{"type":"int4"}}}"#,
            r#"{"payload":{"memory":"warm"}}"#,
            "[]",
            r#"{"hnsw_config":[32]}"#,
            "",
        ] {
            assert!(CollectionSettings::parse(json).is_err(), "{json}");
        }
    }

    #[test]
    fn eight_bits_stand_in_for_no_quantisation_only() {
        let quantisation = |settings: CollectionSettings| {
            let create = settings.or_int8().create("c", 4);
            format!("{:?}", create.quantization_config)
        };
        assert!(quantisation(CollectionSettings::default()).contains("Scalar"));
        let binary = CollectionSettings::parse(r#"{"quantization_config":{"binary":{}}}"#);
        assert!(quantisation(binary.unwrap()).contains("Binary"));
    }
}
