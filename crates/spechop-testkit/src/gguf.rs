//! GGUF files of a few kilobytes: adapters with something wrong in them, models that fit in a test.
//!
//! The format is GGUF 3: a header of keys and tensors, then the tensors' numbers, aligned.

/// Numbers of a tensor start at multiples of this many bytes.
const ALIGNMENT: usize = 32;

/// Weights that share a scale and a minimum in [`Numbers::Q4_1`].
const BLOCK: usize = 32;

/// Scale and minimum of every block of [`Numbers::Q4_1`], as half floats: 2⁻⁶, and -7.5 times that.
const SCALE: [u8; 2] = 0x2400_u16.to_le_bytes();
const MINIMUM: [u8; 2] = 0xaf80_u16.to_le_bytes();

/// A file in the making.
#[derive(Clone, Debug, Default)]
pub struct Gguf {
    /// Names and values of the header.
    pub keys: Vec<(&'static str, Value)>,
    /// What follows the header.
    pub tensors: Vec<Tensor>,
}

/// A value of the header.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// A string.
    Text(&'static str),
    /// A 32-bit float.
    Float(f32),
    /// An unsigned integer of 32 bits.
    Int(u32),
    /// A list of strings.
    Texts(&'static [String]),
}

/// A named matrix.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// As llama.cpp calls it, e.g. `blk.0.attn_q.weight`.
    pub name: String,
    /// Length of a row: the width of what the matrix is applied to.
    pub row: usize,
    /// Number of rows; 1 for a vector.
    pub rows: usize,
    /// Its numbers, row by row.
    pub numbers: Numbers,
}

/// The numbers of a tensor.
#[derive(Clone, Debug)]
pub enum Numbers {
    /// 32-bit floats.
    F32(Vec<f32>),
    /// One number of 0 to 15 for each weight, which makes it -0.117 to 0.117. Stored as `Q4_1`, so
    /// that a model of them runs on the kernels of a quantised one. Rows must be multiples of 32.
    Q4_1(Vec<u8>),
}

impl Gguf {
    /// The file with this value of `key`, or, for `None`, without it.
    pub fn with(mut self, key: &'static str, value: Option<Value>) -> Self {
        self.keys.retain(|(other, _)| *other != key);
        self.keys.extend(value.map(|value| (key, value)));
        self
    }

    /// What is to be written to disk.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF\x03\0\0\0".to_vec();
        put_long(&mut out, self.tensors.len());
        put_long(&mut out, self.keys.len());
        for (key, value) in &self.keys {
            put_text(&mut out, key);
            value.put(&mut out);
        }
        let mut data = Vec::new();
        for tensor in &self.tensors {
            put_text(&mut out, &tensor.name);
            put_int(&mut out, 2);
            put_long(&mut out, tensor.row);
            put_long(&mut out, tensor.rows);
            put_int(&mut out, tensor.numbers.kind());
            put_long(&mut out, data.len());
            tensor.numbers.put(&mut data);
            data.resize(data.len().next_multiple_of(ALIGNMENT), 0);
        }
        out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
        out.extend(data);
        out
    }
}

impl Value {
    /// `GGUF_TYPE_…`, then the value.
    fn put(self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => {
                put_int(out, 8);
                put_text(out, text);
            }
            Self::Float(value) => {
                put_int(out, 6);
                out.extend(value.to_le_bytes());
            }
            Self::Int(value) => {
                put_int(out, 4);
                put_int(out, value);
            }
            Self::Texts(texts) => {
                put_int(out, 9);
                put_int(out, 8);
                put_long(out, texts.len());
                texts.iter().for_each(|text| put_text(out, text));
            }
        }
    }
}

impl Numbers {
    /// `GGML_TYPE_…`.
    fn kind(&self) -> u32 {
        match self {
            Self::F32(_) => 0,
            Self::Q4_1(_) => 3,
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::F32(values) => out.extend(values.iter().flat_map(|value| value.to_le_bytes())),
            Self::Q4_1(values) => {
                for block in values.chunks_exact(BLOCK) {
                    out.extend(SCALE.iter().chain(&MINIMUM));
                    // The first half of a block is in the low halves of its bytes.
                    let (low, high) = block.split_at(BLOCK / 2);
                    out.extend(low.iter().zip(high).map(|(low, high)| low | high << 4));
                }
            }
        }
    }
}

fn put_int(out: &mut Vec<u8>, value: u32) {
    out.extend(value.to_le_bytes());
}

fn put_long(out: &mut Vec<u8>, value: usize) {
    out.extend((value as u64).to_le_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_long(out, text.len());
    out.extend(text.as_bytes());
}
