//! The messages of an ONNX file, as far as they are read or changed.
//!
//! Written after `onnx/onnx.proto` of ONNX 1.19 (<https://github.com/onnx/onnx>, Apache-2.0). Tags and
//! types are those of the original, and every field of these messages is named here, so that none is
//! lost. Messages that only pass through are bytes: on the wire a message within a message is a length
//! and bytes.

use prost::Message;

/// `TensorProto.DataType`: the two that are written or read.
pub(crate) const FLOAT: i32 = 1;
pub(crate) const INT8: i32 = 3;
/// `TensorProto.DataLocation`.
pub(crate) const EXTERNAL: i32 = 1;
/// `AttributeProto.AttributeType`.
const ATTRIBUTE_INT: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Model {
    #[prost(int64, optional, tag = "1")]
    pub(crate) ir_version: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub(crate) producer_name: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub(crate) producer_version: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub(crate) domain: Option<String>,
    #[prost(int64, optional, tag = "5")]
    pub(crate) model_version: Option<i64>,
    #[prost(string, optional, tag = "6")]
    pub(crate) doc_string: Option<String>,
    #[prost(message, optional, tag = "7")]
    pub(crate) graph: Option<Graph>,
    #[prost(message, repeated, tag = "8")]
    pub(crate) opset_import: Vec<OperatorSet>,
    #[prost(bytes = "vec", repeated, tag = "14")]
    pub(crate) metadata_props: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "20")]
    pub(crate) training_info: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "25")]
    pub(crate) functions: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "26")]
    pub(crate) configuration: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OperatorSet {
    #[prost(string, optional, tag = "1")]
    pub(crate) domain: Option<String>,
    #[prost(int64, optional, tag = "2")]
    pub(crate) version: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Graph {
    #[prost(message, repeated, tag = "1")]
    pub(crate) node: Vec<Node>,
    #[prost(string, optional, tag = "2")]
    pub(crate) name: Option<String>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) initializer: Vec<Tensor>,
    #[prost(string, optional, tag = "10")]
    pub(crate) doc_string: Option<String>,
    /// See [`Named`].
    #[prost(bytes = "vec", repeated, tag = "11")]
    pub(crate) input: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "12")]
    pub(crate) output: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "13")]
    pub(crate) value_info: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "14")]
    pub(crate) quantization_annotation: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "15")]
    pub(crate) sparse_initializer: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "16")]
    pub(crate) metadata_props: Vec<Vec<u8>>,
}

/// `ValueInfoProto`, to be read only.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Named {
    #[prost(string, optional, tag = "1")]
    pub(crate) name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Node {
    #[prost(string, repeated, tag = "1")]
    pub(crate) input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(crate) output: Vec<String>,
    #[prost(string, optional, tag = "3")]
    pub(crate) name: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub(crate) op_type: Option<String>,
    /// See [`Attribute`].
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub(crate) attribute: Vec<Vec<u8>>,
    #[prost(string, optional, tag = "6")]
    pub(crate) doc_string: Option<String>,
    #[prost(string, optional, tag = "7")]
    pub(crate) domain: Option<String>,
    #[prost(string, optional, tag = "8")]
    pub(crate) overload: Option<String>,
    #[prost(bytes = "vec", repeated, tag = "9")]
    pub(crate) metadata_props: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "10")]
    pub(crate) device_configurations: Vec<Vec<u8>>,
}

/// `AttributeProto`: what is read of one, and what is written of a new one.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Attribute {
    #[prost(string, optional, tag = "1")]
    pub(crate) name: Option<String>,
    #[prost(float, optional, tag = "2")]
    pub(crate) f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub(crate) i: Option<i64>,
    #[prost(bytes = "vec", optional, tag = "6")]
    pub(crate) g: Option<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "11")]
    pub(crate) graphs: Vec<Vec<u8>>,
    #[prost(int32, optional, tag = "20")]
    pub(crate) kind: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Tensor {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub(crate) dims: Vec<i64>,
    #[prost(int32, optional, tag = "2")]
    pub(crate) data_type: Option<i32>,
    #[prost(bytes = "vec", optional, tag = "3")]
    pub(crate) segment: Option<Vec<u8>>,
    #[prost(float, repeated, tag = "4")]
    pub(crate) float_data: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    pub(crate) int32_data: Vec<i32>,
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub(crate) string_data: Vec<Vec<u8>>,
    #[prost(int64, repeated, tag = "7")]
    pub(crate) int64_data: Vec<i64>,
    #[prost(string, optional, tag = "8")]
    pub(crate) name: Option<String>,
    #[prost(bytes = "vec", optional, tag = "9")]
    pub(crate) raw_data: Option<Vec<u8>>,
    #[prost(double, repeated, tag = "10")]
    pub(crate) double_data: Vec<f64>,
    #[prost(uint64, repeated, tag = "11")]
    pub(crate) uint64_data: Vec<u64>,
    #[prost(string, optional, tag = "12")]
    pub(crate) doc_string: Option<String>,
    #[prost(bytes = "vec", repeated, tag = "13")]
    pub(crate) external_data: Vec<Vec<u8>>,
    #[prost(int32, optional, tag = "14")]
    pub(crate) data_location: Option<i32>,
    #[prost(bytes = "vec", repeated, tag = "16")]
    pub(crate) metadata_props: Vec<Vec<u8>>,
}

impl Node {
    /// A node of the ONNX standard that has no attribute.
    pub(crate) fn new(op: &str, input: &[&str], output: &[&str]) -> Self {
        let own = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Self {
            name: output.first().map(|output| format!("{output}/{op}")),
            op_type: Some(op.to_owned()),
            input: own(input),
            output: own(output),
            ..Self::default()
        }
    }

    /// With an attribute that is a whole number.
    pub(crate) fn with(mut self, name: &str, i: i64) -> Self {
        let attribute = Attribute {
            name: Some(name.to_owned()),
            i: Some(i),
            kind: Some(ATTRIBUTE_INT),
            ..Attribute::default()
        };
        self.attribute.push(attribute.encode_to_vec());
        self
    }

    /// Its attributes, as far as they are read.
    pub(crate) fn attributes(&self) -> Result<Vec<Attribute>, prost::DecodeError> {
        let attributes = self.attribute.iter();
        attributes
            .map(|bytes| Attribute::decode(bytes.as_slice()))
            .collect()
    }

    /// Whether it is this operator of the ONNX standard.
    pub(crate) fn is(&self, op: &str) -> bool {
        let domain = self.domain.as_deref().unwrap_or_default();
        matches!(domain, "" | "ai.onnx") && self.op_type.as_deref() == Some(op)
    }
}

impl Tensor {
    /// A tensor whose bytes are given in the order of the file, which is little-endian.
    pub(crate) fn new(name: &str, data_type: i32, dims: &[usize], raw: Vec<u8>) -> Self {
        Self {
            dims: dims.iter().map(|&dim| dim as i64).collect(),
            data_type: Some(data_type),
            name: Some(name.to_owned()),
            raw_data: Some(raw),
            ..Self::default()
        }
    }
}
