//! A reader of a few words, small enough to be written down: each word has its logits, whatever
//! stands around it.

use std::fs;
use std::path::Path;

/// Words and their logits: start, end, and the four classes (span, yes, no, not here). A pair's
/// class logits are the highest of its passage's words, and 0 at least.
const WORDS: &[(&str, f32, f32, [f32; 4])] = &[
    ("[PAD]", 0.0, 0.0, [0.0; 4]),
    ("[UNK]", 0.0, 0.0, [0.0; 4]),
    ("[CLS]", 50.0, 50.0, [0.0; 4]),
    ("[SEP]", 50.0, 50.0, [0.0; 4]),
    ("alice", 6.0, 2.0, [0.0; 4]),
    ("smith", 2.0, 6.0, [0.0; 4]),
    ("bob", 5.0, 1.0, [0.0; 4]),
    ("jones", 1.0, 5.0, [0.0; 4]),
    ("indeed", 6.0, 6.0, [0.0, 9.0, 0.0, 0.0]),
    ("never", 6.0, 6.0, [0.0, 0.0, 9.0, 0.0]),
    ("alas", 0.0, 0.0, [0.0, 0.0, 0.0, 30.0]),
    // Never answers: they stand in questions.
    ("query", 90.0, 90.0, [90.0; 4]),
    ("who", 90.0, 90.0, [90.0; 4]),
];

pub(crate) const RECIPE: &str = r#"
name = "tiny"
model = "model.onnx"
tokenizer = "tokenizer.json"
query_prefix = "query: "
tokens_max = 32
answer_tokens_max = 4
threshold = 0.5

[calibration]
scale = 1.0
shift = -6.0
"#;

/// What may be wrong with the model.
pub(crate) struct Tiny {
    pub(crate) inputs: [&'static str; 3],
    pub(crate) outputs: [&'static str; 3],
    /// Number of classes.
    pub(crate) classes: usize,
    /// Number of words that it knows.
    pub(crate) words: usize,
    /// Longest pair.
    pub(crate) tokens_max: usize,
    /// The start logit of every unknown word.
    pub(crate) unknown: f32,
}

impl Default for Tiny {
    fn default() -> Self {
        Self {
            inputs: ["input_ids", "attention_mask", "token_type_ids"],
            outputs: ["start_logits", "end_logits", "class_logits"],
            classes: 4,
            words: WORDS.len(),
            tokens_max: 32,
            unknown: 0.0,
        }
    }
}

/// Writes a folder that opens.
pub(crate) fn write(dir: &Path) {
    fs::write(dir.join("reader.toml"), RECIPE).expect("written");
    fs::write(dir.join("model.onnx"), Tiny::default().onnx()).expect("written");
    fs::write(dir.join("tokenizer.json"), tokenizer(PAIR, WORDS.len())).expect("written");
}

/// How pairs are put together, as BERT has it.
pub(crate) const PAIR: &str = r#"[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},
    {"SpecialToken":{"id":"[SEP]","type_id":0}},{"Sequence":{"id":"B","type_id":1}},{"SpecialToken":{"id":"[SEP]","type_id":1}}]"#;

/// As [`PAIR`], with the passage of the question's type.
pub(crate) fn untyped_pair() -> String {
    PAIR.replace("\"type_id\":1", "\"type_id\":0")
}

/// A tokenizer that knows so many words.
pub(crate) fn tokenizer(pair: &str, words: usize) -> String {
    let more = (WORDS.len()..words).map(|id| format!(r#""more{id}":{id}"#));
    let known = WORDS.iter().enumerate();
    let vocabulary: Vec<_> = known
        .map(|(id, (word, ..))| format!(r#""{word}":{id}"#))
        .chain(more)
        .collect();
    let vocabulary = vocabulary.join(",");
    format!(
        r#"{{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"decoder":null,
        "normalizer":{{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true}},
        "pre_tokenizer":{{"type":"BertPreTokenizer"}},
        "post_processor":{{"type":"TemplateProcessing","single":[{{"Sequence":{{"id":"A","type_id":0}}}}],"pair":{pair},
        "special_tokens":{{"[CLS]":{{"id":"[CLS]","ids":[2],"tokens":["[CLS]"]}},"[SEP]":{{"id":"[SEP]","ids":[3],"tokens":["[SEP]"]}}}}}},
        "model":{{"type":"WordLevel","vocab":{{{vocabulary}}},"unk_token":"[UNK]"}}}}"#
    )
}

impl Tiny {
    /// The model as an ONNX file (onnx.proto3 of ONNX 1.12, written by hand: a dependency would be
    /// larger than what it writes).
    pub(crate) fn onnx(&self) -> Vec<u8> {
        let [ids, mask, types] = self.inputs;
        let [start, end, class] = self.outputs;
        let words = &WORDS[..self.words];
        let mut starts: Vec<f32> = words.iter().map(|word| word.1).collect();
        starts[1] = self.unknown;
        let ends: Vec<f32> = words.iter().map(|word| word.2).collect();
        let classes: Vec<f32> = words
            .iter()
            .flat_map(|word| word.3.into_iter().cycle().take(self.classes))
            .collect();
        // Positions count from 1, and the table has no row for one too many.
        let positions = vec![0.0; self.tokens_max + 1];

        let mut graph = Message::default();
        for (op, inputs, output, attribute) in [
            ("CumSum", vec![mask, "one"], "position", None),
            ("Gather", vec!["positions", "position"], "nought", None),
            ("Gather", vec!["starts", ids], "from", None),
            ("Add", vec!["from", "nought"], start, None),
            ("Gather", vec!["ends", ids], end, None),
            ("Mul", vec![mask, types], "inside", None),
            ("Cast", vec!["inside"], "weight", Some(("to", 1))),
            ("Unsqueeze", vec!["weight", "two"], "weights", None),
            ("Gather", vec!["classes", ids], "each", None),
            ("Mul", vec!["each", "weights"], "counted", None),
            ("ReduceMax", vec!["counted"], class, Some(("keepdims", 0))),
        ] {
            let mut node = Message::default();
            for input in inputs {
                node.text(1, input);
            }
            node.text(2, output).text(4, op);
            if let Some((name, value)) = attribute {
                node.message(5, Message::default().text(1, name).int(3, value).int(20, 2));
            }
            if op == "ReduceMax" {
                node.message(5, Message::default().text(1, "axes").int(8, 1).int(20, 7));
            }
            graph.message(1, &node);
        }
        graph.text(2, "tiny");
        for (name, dims, values) in [
            ("starts", vec![self.words], &starts),
            ("ends", vec![self.words], &ends),
            ("classes", vec![self.words, self.classes], &classes),
            ("positions", vec![self.tokens_max + 1], &positions),
        ] {
            let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            graph.message(5, &tensor(name, 1, &dims, &bytes));
        }
        graph.message(5, &tensor("one", 7, &[], &1_i64.to_le_bytes()));
        graph.message(5, &tensor("two", 7, &[1], &2_i64.to_le_bytes()));
        for input in self.inputs {
            graph.message(11, &outlet(input, 7, &["batch", "tokens"]));
        }
        for output in [start, end] {
            graph.message(12, &outlet(output, 1, &["batch", "tokens"]));
        }
        graph.message(12, &outlet(class, 1, &["batch", "classes"]));

        let mut model = Message::default();
        let opset = Message::default().text(1, "").int(2, 17).clone();
        model.int(1, 8).message(7, &graph).message(8, &opset);
        model.0
    }
}

fn tensor(name: &str, kind: u64, dims: &[usize], raw: &[u8]) -> Message {
    let mut tensor = Message::default();
    for &dim in dims {
        tensor.int(1, dim as u64);
    }
    tensor.int(2, kind).text(8, name).bytes(9, raw);
    tensor
}

fn outlet(name: &str, kind: u64, dims: &[&str]) -> Message {
    let mut shape = Message::default();
    for dim in dims {
        shape.message(1, Message::default().text(2, dim));
    }
    let mut tensor = Message::default();
    tensor.int(1, kind).message(2, &shape);
    let kind = Message::default().message(1, &tensor).clone();
    let mut outlet = Message::default();
    outlet.text(1, name).message(2, &kind);
    outlet
}

/// A protobuf message.
#[derive(Clone, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn int(&mut self, field: u64, value: u64) -> &mut Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) -> &mut Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(&mut self, field: u64, text: &str) -> &mut Self {
        self.bytes(field, text.as_bytes())
    }

    fn message(&mut self, field: u64, message: &Self) -> &mut Self {
        self.bytes(field, &message.0)
    }
}
