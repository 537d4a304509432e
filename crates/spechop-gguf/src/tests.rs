use proptest::prelude::*;
use spechop_testkit::gguf::{Gguf as File, Numbers, Tensor, Value};

use super::*;

const WIDTH: usize = 64;
const ROWS: usize = 6;
const RANK: usize = 2;
const ALPHA: f32 = 4.0;
const FORWARD: &str = "blk.0.ffn_up.weight";
const ATTENTION: &str = "blk.0.attn_q.weight";
const NORM: &str = "blk.0.attn_norm.weight";

/// Numbers around zero that look like weights.
fn noise(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let next = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f32::from((state >> 16) as u16) / f32::from(u16::MAX) - 0.5
    };
    std::iter::repeat_with(next).take(count).collect()
}

fn tensor(name: &str, row: usize, rows: usize, numbers: Numbers) -> Tensor {
    Tensor {
        name: name.to_owned(),
        row,
        rows,
        numbers,
    }
}

fn model() -> File {
    let levels = (0..WIDTH * ROWS).map(|at| (at * 7 % 16) as u8).collect();
    File {
        keys: vec![
            ("general.architecture", Value::Text("llama")),
            ("general.file_type", Value::Int(3)),
        ],
        tensors: vec![
            tensor(NORM, WIDTH, 1, Numbers::F32(noise(WIDTH, 1))),
            tensor(FORWARD, WIDTH, ROWS, Numbers::Q4_1(levels)),
            tensor(ATTENTION, WIDTH, ROWS, Numbers::F32(noise(WIDTH * ROWS, 2))),
        ],
    }
}

fn adapter() -> File {
    let halves = [FORWARD, ATTENTION]
        .into_iter()
        .enumerate()
        .flat_map(|(at, name)| {
            let seed = 10 + at as u32;
            [
                tensor(
                    &format!("{name}.lora_a"),
                    WIDTH,
                    RANK,
                    Numbers::F32(noise(WIDTH * RANK, seed)),
                ),
                tensor(
                    &format!("{name}.lora_b"),
                    RANK,
                    16,
                    Numbers::F32(noise(RANK * 16, seed + 5)),
                ),
            ]
        });
    File {
        keys: vec![
            ("adapter.type", Value::Text("lora")),
            ("adapter.lora.alpha", Value::Float(ALPHA)),
        ],
        tensors: halves.collect(),
    }
}

/// Model and adapter with 16 rows, which both have.
fn fitting() -> (Vec<u8>, Vec<u8>) {
    (fitting_model().bytes(), adapter().bytes())
}

fn fitting_model() -> File {
    let mut model = model();
    for tensor in &mut model.tensors[1..] {
        tensor.rows = 16;
        match &mut tensor.numbers {
            Numbers::F32(numbers) => *numbers = noise(WIDTH * 16, 3),
            Numbers::Q4_1(levels) => levels.resize(WIDTH * 16, 5),
        }
    }
    model
}

fn numbers_of(file: &[u8], name: &str) -> (u32, Vec<f32>) {
    let file = Gguf::read(file).unwrap();
    let tensor = by_name(&file)[name];
    (tensor.kind, numbers(tensor).unwrap())
}

/// What is left by rounding is half of the widest gap between levels, beside what the choice of the scale gives
/// away.
#[track_caller]
fn are_near(name: &str, is: &[f32], should: &[f32]) {
    assert_eq!(is.len(), should.len());
    for (is, should) in is.chunks(BLOCK).zip(should.chunks(BLOCK)) {
        let largest = should
            .iter()
            .fold(0.0_f32, |most, weight| most.max(weight.abs()));
        for (is, should) in is.iter().zip(should) {
            let error = (is - should).abs();
            assert!(
                error <= largest * 0.121,
                "{name}: {is} for {should}, of {largest}"
            );
        }
    }
}

/// A matrix of the model with its pair added.
fn sum(model: &[u8], adapter: &[u8], name: &str) -> Vec<f32> {
    let (_, mut sum) = numbers_of(model, name);
    let (_, a) = numbers_of(adapter, &format!("{name}.lora_a"));
    let (_, b) = numbers_of(adapter, &format!("{name}.lora_b"));
    for (at, weight) in sum.iter_mut().enumerate() {
        let (row, column) = (at / WIDTH, at % WIDTH);
        for rank in 0..RANK {
            *weight += ALPHA / RANK as f32 * b[row * RANK + rank] * a[rank * WIDTH + column];
        }
    }
    sum
}

/// As of a vocabulary with a token too many.
#[test]
fn an_adapter_has_any_number_of_rows() {
    let mut adapter = adapter();
    for half in &mut adapter.tensors {
        if half.rows == 16 {
            half.rows = ROWS;
            half.numbers = Numbers::F32(noise(RANK * ROWS, 31));
        }
    }
    let (model, adapter) = (model().bytes(), adapter.bytes());
    let merged = merge(&model, &adapter).unwrap();
    for name in [ATTENTION, FORWARD] {
        let (_, is) = numbers_of(&merged, name);
        are_near(name, &is, &sum(&model, &adapter, name));
    }
}

#[test]
fn a_merged_matrix_is_the_sum_as_nearly_as_its_form_can_say_it() {
    let (model, adapter) = fitting();
    let merged = merge(&model, &adapter).unwrap();
    for name in [ATTENTION, FORWARD] {
        let (kind, is) = numbers_of(&merged, name);
        assert_eq!(kind, Form::WRITTEN.kind(), "{name}");
        are_near(name, &is, &sum(&model, &adapter, name));
    }
    let (before, after) = (Gguf::read(&model).unwrap(), Gguf::read(&merged).unwrap());
    assert_eq!(by_name(&before)[NORM].data, by_name(&after)[NORM].data);
    assert_eq!(
        after.text("general.architecture"),
        Some(b"llama".as_slice())
    );
    assert_eq!(after.int("general.file_type"), Some(MOSTLY_IQ4_NL));
    assert_eq!(merged, merge(&model, &adapter).unwrap());
}

#[test]
fn a_vocabulary_that_is_looked_up_in_gets_a_copy_to_choose_from() {
    let (_, adapter) = fitting();
    let with = |names: &[&str], row: usize| {
        let mut file = fitting_model();
        for (seed, name) in (20..).zip(names) {
            let numbers = Numbers::F32(noise(row * 40, seed));
            file.tensors.push(tensor(name, row, 40, numbers));
        }
        file.bytes()
    };
    let model = with(&[EMBEDDING], WIDTH);
    let merged = merge(&model, &adapter).unwrap();
    let (kind, looked_up) = numbers_of(&model, EMBEDDING);
    assert_eq!(
        numbers_of(&merged, EMBEDDING),
        (kind, looked_up.clone()),
        "it stays"
    );
    let (kind, chosen_from) = numbers_of(&merged, OUTPUT);
    assert_eq!(kind, Form::WRITTEN.kind());
    are_near(OUTPUT, &chosen_from, &looked_up);
    let (file, copied) = (Gguf::read(&merged).unwrap(), Gguf::read(&model).unwrap());
    assert_eq!(
        by_name(&file)[OUTPUT].shape,
        by_name(&copied)[EMBEDDING].shape
    );
    // One that has its own keeps it, and rows that are no whole blocks stay alone.
    for (names, row, count) in [(&[EMBEDDING, OUTPUT][..], WIDTH, 5), (&[EMBEDDING], 40, 4)] {
        let model = with(names, row);
        let merged = merge(&model, &adapter).unwrap();
        let after = Gguf::read(&merged).unwrap();
        assert_eq!(after.tensors.len(), count, "{names:?}");
        for name in names {
            assert_eq!(numbers_of(&merged, name), numbers_of(&model, name));
        }
    }
}

#[test]
fn what_does_not_fit_is_one_clear_error() {
    let (model, adapter) = fitting();
    let other = super::tests::model().bytes();
    let lora = self::adapter;
    let without = |key| lora().with(key, None).bytes();
    let half = |keep: usize| {
        let mut file = lora();
        file.tensors.truncate(keep);
        file.bytes()
    };
    let aligned = |bytes| {
        let file = fitting_model();
        file.with("general.alignment", Some(Value::Int(bytes)))
            .bytes()
    };
    let twice = |mut file: File| {
        file.tensors.push(file.tensors[0].clone());
        file.bytes()
    };
    for (name, model, adapter, said) in [
        (
            "text",
            b"no model".to_vec(),
            adapter.clone(),
            "the model cannot be read: it is no GGUF file",
        ),
        (
            "version",
            [b"GGUF\x09\0\0\0".as_slice(), &model[8..]].concat(),
            adapter.clone(),
            "version 9",
        ),
        (
            "no adapter",
            model.clone(),
            model.clone(),
            "the adapter is none",
        ),
        (
            "no alpha",
            model.clone(),
            without("adapter.lora.alpha"),
            "the adapter is none",
        ),
        ("six rows", other, adapter.clone(), "has 6 rows of 64"),
        (
            "room for gigabytes between tensors",
            aligned(1 << 31),
            adapter.clone(),
            "`general.alignment` is 2147483648",
        ),
        (
            "no alignment",
            aligned(48),
            adapter.clone(),
            "`general.alignment` is 48",
        ),
        (
            "a name of two",
            twice(fitting_model()),
            adapter.clone(),
            "attn_norm.weight is damaged: another one has its name",
        ),
        ("half a pair", model.clone(), half(1), "lora_a is alone"),
        ("nothing in it", model.clone(), half(0), "changes no matrix"),
        (
            "of another model",
            adapter.clone(),
            adapter.clone(),
            "the model has no blk.0.ffn_up.weight",
        ),
        (
            "cut off",
            model[..model.len() - 100].to_vec(),
            adapter,
            "ends before its last number",
        ),
    ] {
        let error = merge(&model, &adapter).unwrap_err().to_string();
        assert!(error.contains(said), "{name}: {error}");
        assert!(!error.contains('\n'), "{name}: {error}");
    }
}

#[test]
fn a_form_says_again_what_it_has_written() {
    let form = Form::WRITTEN;
    let written = |weights: &[f32]| {
        let mut bytes = Vec::new();
        block::write(weights, &mut bytes);
        bytes
    };
    let read = |bytes: &[u8]| {
        let mut weights = vec![1.0; bytes.len() / form.block_bytes() * BLOCK];
        form.read(bytes, &mut weights);
        weights
    };
    let weights = noise(4 * BLOCK, 7);
    let said = read(&written(&weights));
    assert_eq!(said.len(), weights.len());
    for (once, twice) in said.iter().zip(read(&written(&said))) {
        assert!((once - twice).abs() < 2e-3, "{once} and {twice}");
    }
    // A block of noughts stays one.
    assert_eq!(read(&written(&[0.0; BLOCK])), [0.0; BLOCK]);
}

proptest! {
    #[test]
    fn a_damaged_file_is_refused_or_read_and_never_a_panic(
        at in any::<prop::sample::Index>(), byte: u8, cut in any::<prop::sample::Index>(), of_adapter: bool,
    ) {
        let (mut model, mut adapter) = fitting();
        let file = if of_adapter { &mut adapter } else { &mut model };
        let place = at.index(file.len());
        file[place] = byte;
        let _ = merge(&model, &adapter);
        let file = if of_adapter { &mut adapter } else { &mut model };
        file.truncate(cut.index(file.len()));
        let _ = merge(&model, &adapter);
    }
}
