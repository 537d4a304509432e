//! Small models, rewritten. What ONNX Runtime makes of a real one is tested in `spechop-embed`, which
//! has it.

use std::collections::HashMap;

use proptest::prelude::*;
use prost::Message;

use crate::proto::{
    Attribute, EXTERNAL, FLOAT, Graph, INT8, Model, Named, Node, OperatorSet, Tensor,
};
use crate::{QuantiseError, quantise, weights};

/// Just large enough.
const ROWS: usize = 96;
const COLUMNS: usize = 192;

/// Numbers without a pattern, between -1 and 1.
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|at| (at as f32 * 12.9898).sin()).collect()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn matrix(name: &str, rows: usize, columns: usize) -> Tensor {
    let values = bytes(&numbers(rows * columns));
    Tensor::new(name, FLOAT, &[rows, columns], values)
}

/// Two products of one input, one of another, by three matrices; and a table that is only looked into.
fn good() -> Model {
    let graph = Graph {
        node: vec![
            Node::new("Gather", &["table", "ids"], &["x"]),
            Node::new("MatMul", &["x", "w1"], &["a"]),
            Node::new("MatMul", &["x", "w2"], &["b"]),
            Node::new("Tanh", &["a"], &["c"]),
            Node::new("Gemm", &["c", "w3", "bias"], &["y"]).with("transB", 1),
            Node::new("MatMul", &["a", "b"], &["z"]),
        ],
        name: Some("small".into()),
        initializer: vec![
            matrix("table", 300, ROWS),
            matrix("w1", ROWS, COLUMNS),
            matrix("w2", ROWS, COLUMNS),
            matrix("w3", ROWS, COLUMNS),
            Tensor::new("bias", FLOAT, &[ROWS], bytes(&numbers(ROWS))),
        ],
        input: vec![named("ids"), named("w1")],
        output: vec![named("y"), named("z")],
        ..Graph::default()
    };
    Model {
        ir_version: Some(8),
        producer_name: Some("a test".into()),
        graph: Some(graph),
        opset_import: vec![OperatorSet {
            domain: None,
            version: Some(17),
        }],
        ..Model::default()
    }
}

fn named(name: &str) -> Vec<u8> {
    let name = Some(name.to_owned());
    Named { name }.encode_to_vec()
}

fn rewritten(model: &Model) -> Graph {
    let quantised = quantise(&model.encode_to_vec()).unwrap();
    Model::decode(&*quantised.file).unwrap().graph.unwrap()
}

/// The nodes of a graph, a line each.
fn lines(graph: &Graph) -> Vec<String> {
    let line = |node: &Node| {
        let op = node.op_type.as_deref().unwrap_or_default();
        format!("{} = {op}({})", node.output.join(" "), node.input.join(" "))
    };
    graph.node.iter().map(line).collect()
}

#[test]
fn products_by_large_matrices_compute_with_integers() {
    let quantised = quantise(&good().encode_to_vec()).unwrap();
    let (matrices, parameters) = (quantised.matrices, quantised.parameters);
    assert_eq!((matrices, parameters), (3, 3 * ROWS * COLUMNS));
    let model = Model::decode(&*quantised.file).unwrap();
    assert_eq!(model.producer_name.as_deref(), Some("a test"));
    let graph = model.graph.unwrap();
    assert_eq!(
        lines(&graph),
        [
            "x = Gather(table ids)",
            "x_int8_values x_int8_scale x_int8_nought = DynamicQuantizeLinear(x)",
            "a_int8_sums = MatMulInteger(x_int8_values w1_int8_values x_int8_nought w1_int8_noughts)",
            "a_int8_numbers = Cast(a_int8_sums)",
            "a_int8_scales = Mul(x_int8_scale w1_int8_scales)",
            "a = Mul(a_int8_numbers a_int8_scales)",
            "b_int8_sums = MatMulInteger(x_int8_values w2_int8_values x_int8_nought w2_int8_noughts)",
            "b_int8_numbers = Cast(b_int8_sums)",
            "b_int8_scales = Mul(x_int8_scale w2_int8_scales)",
            "b = Mul(b_int8_numbers b_int8_scales)",
            "c = Tanh(a)",
            "c_int8_values c_int8_scale c_int8_nought = DynamicQuantizeLinear(c)",
            "y_int8_sums = MatMulInteger(c_int8_values w3_turned_int8_values c_int8_nought w3_turned_int8_noughts)",
            "y_int8_numbers = Cast(y_int8_sums)",
            "y_int8_scales = Mul(c_int8_scale w3_turned_int8_scales)",
            "y_int8_product = Mul(y_int8_numbers y_int8_scales)",
            "y = Add(y_int8_product bias)",
            "z = MatMul(a b)",
        ]
    );
    let kept: Vec<&str> = graph.initializer.iter().map(Tensor::name).collect();
    assert_eq!(kept[..2], ["table", "bias"], "the matrices are gone");
    assert_eq!(kept.len(), 2 + 3 * 3);
    assert_eq!(
        graph.input,
        [named("ids")],
        "and so is the input that was a matrix"
    );
}

#[test]
fn a_matrix_that_is_used_otherwise_stays_beside() {
    let mut model = good();
    let graph = model.graph.as_mut().unwrap();
    graph.node.push(Node::new("Transpose", &["w2"], &["t"]));
    let graph = rewritten(&model);
    let names: Vec<&str> = graph.initializer.iter().map(Tensor::name).collect();
    assert!(
        names.contains(&"w2") && names.contains(&"w2_int8_values"),
        "{names:?}"
    );
}

#[test]
fn a_turned_matrix_is_turned() {
    let graph = rewritten(&good());
    let tensors: HashMap<&str, &Tensor> = graph
        .initializer
        .iter()
        .map(|tensor| (tensor.name(), tensor))
        .collect();
    let values = tensors["w3_turned_int8_values"];
    assert_eq!(values.data_type, Some(INT8));
    assert_eq!(values.dims, [COLUMNS as i64, ROWS as i64]);
    let scales = tensors["w3_turned_int8_scales"].raw_data.as_ref().unwrap();
    let raw = values.raw_data.as_ref().unwrap();
    let was = numbers(ROWS * COLUMNS);
    for (row, column) in [(0, 0), (COLUMNS - 1, 3), (5, ROWS - 1)] {
        let scale = f32::from_le_bytes(scales[4 * column..][..4].try_into().unwrap());
        let value = f32::from(raw[row * ROWS + column] as i8) * scale;
        let expected = was[column * COLUMNS + row];
        assert!((value - expected).abs() <= scale * 0.501, "{row} {column}");
    }
}

proptest! {
    /// Every number is at most half a step away, and no two products can leave sixteen bits.
    #[test]
    fn no_number_is_further_away_than_half_a_step(
        seed in prop::collection::vec(-3.0e4_f32..3.0e4, 64),
        size in prop::sample::select(vec![1e-38_f32, 1e-6, 1.0, 1e30]),
    ) {
        let (rows, columns) = (128, 128);
        let was: Vec<f32> = (0..rows * columns).map(|at| seed[at % 61] * size).collect();
        let tensor = Tensor::new("w", FLOAT, &[rows, columns], bytes(&was));
        let int8 = weights::quantise(&tensor, (rows, columns), false).unwrap();
        for (at, (&value, was)) in int8.values.iter().zip(&was).enumerate() {
            let scale = int8.scales[at % columns];
            prop_assert!(2 * 255 * i32::from(value.unsigned_abs()) <= i32::from(i16::MAX));
            prop_assert!((f32::from(value) * scale - was).abs() <= scale * 0.501);
        }
    }
}

fn first(model: &mut Model) -> &mut Tensor {
    &mut model.graph.as_mut().unwrap().initializer[1]
}

#[test]
fn a_model_that_cannot_be_quantised_is_refused_with_a_reason() {
    type Spoil = fn(&mut Model);
    let cases: [(&str, Spoil); 10] = [
        ("it holds no graph", |model| model.graph = None),
        ("of ONNX opset 10, and at least 11", |model| {
            model.opset_import[0].version = Some(10);
        }),
        ("of ONNX opset 0", |model| {
            model.opset_import[0].domain = Some("com.example".into());
        }),
        ("no large f32 weight", |model| {
            let graph = model.graph.as_mut().unwrap();
            graph.node.retain(|node| node.is("Gather"));
        }),
        ("no large f32 weight", |model| {
            for node in &mut model.graph.as_mut().unwrap().node {
                node.domain = Some("com.example".into());
            }
        }),
        ("w1 lie in another file: export the model as one", |model| {
            first(model).data_location = Some(EXTERNAL);
        }),
        ("w1 is damaged: it has another number", |model| {
            first(model).raw_data.as_mut().unwrap().truncate(400);
        }),
        ("w1 is damaged: its last value is cut off", |model| {
            first(model).raw_data.as_mut().unwrap().pop();
        }),
        ("w1 is damaged: it holds a value that is not", |model| {
            let raw = first(model).raw_data.as_mut().unwrap();
            raw[..4].copy_from_slice(&f32::NAN.to_le_bytes());
        }),
        ("operator If holds a graph of its own", |model| {
            let branch = Attribute {
                name: Some("then_branch".into()),
                g: Some(Vec::new()),
                kind: Some(5),
                ..Attribute::default()
            };
            let mut node = Node::new("If", &["ids"], &["i"]);
            node.name = None;
            node.attribute.push(branch.encode_to_vec());
            model.graph.as_mut().unwrap().node.push(node);
        }),
    ];
    for (words, spoil) in cases {
        let mut model = good();
        spoil(&mut model);
        let error = quantise(&model.encode_to_vec()).unwrap_err().to_string();
        assert!(
            error.contains(words) && !error.contains('\n'),
            "{words}: {error}"
        );
    }
    for bytes in [&b"<html>"[..], &[0xff; 40]] {
        let error = quantise(bytes).unwrap_err();
        assert!(matches!(error, QuantiseError::NotOnnx(_)), "{error}");
    }
    let once = quantise(&good().encode_to_vec()).unwrap().file;
    let twice = quantise(&once);
    assert!(
        matches!(twice, Err(QuantiseError::NothingToDo)),
        "{twice:?}"
    );
}

/// A `Gemm` that scales, and a matrix on the left.
#[test]
fn other_products_stay_as_they_are() {
    let mut model = good();
    let graph = model.graph.as_mut().unwrap();
    let scaled = Attribute {
        name: Some("alpha".into()),
        f: Some(0.5),
        kind: Some(1),
        ..Attribute::default()
    };
    graph.node[4].attribute.push(scaled.encode_to_vec());
    let left = Node::new("MatMul", &["w2", "x"], &["left"]);
    graph.node.push(left);
    let lines = lines(&rewritten(&model));
    for same in ["y = Gemm(c w3 bias)", "left = MatMul(w2 x)"] {
        assert!(lines.iter().any(|line| line == same), "{lines:?}");
    }
}

#[test]
fn nothing_is_lost_in_passing() {
    let mut model = good();
    model.functions = vec![named("f")];
    model.metadata_props = vec![named("key")];
    model.training_info = vec![named("t")];
    model.configuration = vec![named("c")];
    let graph = model.graph.as_mut().unwrap();
    graph.value_info = vec![named("a")];
    graph.quantization_annotation = vec![named("q")];
    graph.sparse_initializer = vec![named("s")];
    graph.node[0].metadata_props = vec![named("m")];
    graph.node[0].doc_string = Some("why".into());
    graph.initializer[0].metadata_props = vec![named("m")];
    let file = quantise(&model.encode_to_vec()).unwrap().file;
    let mut written = Model::decode(&*file).unwrap();
    let (was, is) = (model.graph.take().unwrap(), written.graph.take().unwrap());
    assert_eq!(written, model);
    assert_eq!(is.node[0], was.node[0]);
    assert_eq!(is.initializer[0], was.initializer[0]);
    assert_eq!(is.value_info, was.value_info);
    assert_eq!(is.quantization_annotation, was.quantization_annotation);
    assert_eq!(is.sparse_initializer, was.sparse_initializer);
    assert_eq!(is.output, was.output);
}
