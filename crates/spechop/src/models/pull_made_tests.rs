//! Models that are made of others.

use spechop_testkit::gguf::{Gguf, Numbers, Tensor, Value};

use super::*;

/// A model of one matrix, and an adapter that changes it.
fn pair() -> [Vec<u8>; 2] {
    let tensor = |name: &str, row, rows| Tensor {
        name: name.to_owned(),
        row,
        rows,
        numbers: Numbers::F32(vec![0.25; row * rows]),
    };
    let model = Gguf::default();
    let adapter = model
        .clone()
        .with("adapter.type", Some(Value::Text("lora")));
    let adapter = adapter.with("adapter.lora.alpha", Some(Value::Float(1.0)));
    let files = [
        (model, vec![tensor("w", 32, 32)]),
        (
            adapter,
            vec![tensor("w.lora_a", 32, 1), tensor("w.lora_b", 1, 32)],
        ),
    ];
    files.map(|(file, tensors)| Gguf { tensors, ..file }.bytes())
}

#[test]
fn a_merged_model_is_made_of_its_parts_and_held_against_the_catalogue() {
    let [base, adapter] = pair();
    let merged = spechop_gguf::merge(&base, &adapter).unwrap();
    let parts = entry("b", "generator", PACKAGE, "model.gguf", &base, "b")
        + &entry("a", "adapter", PACKAGE, "adapter.gguf", &adapter, "a");
    let made = |bytes: &[u8]| {
        entry(
            "m",
            "generator",
            "[models.made.merged]\nmodel = \"b\"\nadapter = \"a\"",
            "model.gguf",
            bytes,
            "",
        )
    };
    let catalogue = Catalogue::parse(&(parts.clone() + &made(&merged)), "any").unwrap();
    let model = catalogue.find("m").unwrap();
    assert_eq!(
        (model.origin(), model.download_bytes()),
        ("b and a".into(), 0)
    );

    let machine = Machine::new();
    let puller = machine.puller();
    let why = format!("{:#}", puller.pull(model, false).unwrap_err());
    assert!(why.contains("models pull b`"), "{why}");
    for (name, file, bytes) in [("b", "model.gguf", &base), ("a", "adapter.gguf", &adapter)] {
        fs::create_dir_all(machine.mirror().join(name)).unwrap();
        fs::write(machine.mirror().join(name).join(file), bytes).unwrap();
        puller.pull(catalogue.find(name).unwrap(), false).unwrap();
    }
    assert_eq!(puller.pull(model, false).unwrap(), Pulled::Fetched);
    assert_eq!(machine.installed().unwrap(), merged);
    assert_eq!(puller.pull(model, true).unwrap(), Pulled::AlreadyThere);
    // A mirror that holds it spares the making, unless it is that of another release.
    for (held, comes) in [(&base, false), (&merged, true)] {
        let machine = Machine::new();
        machine.mirror_file(held);
        assert_eq!(machine.puller().pull(model, false).is_ok(), comes);
        assert_eq!(machine.installed(), comes.then(|| merged.clone()));
    }

    // A program that merges otherwise than its catalogue says is no program to trust.
    let other = Catalogue::parse(&(parts + &made(&base)), "any").unwrap();
    let why = format!(
        "{:#}",
        puller.pull(other.find("m").unwrap(), true).unwrap_err()
    );
    assert!(why.contains("bytes"), "{why}");
    assert_eq!(machine.installed().unwrap(), merged, "what was there stays");
    // What it is made of must be known before it.
    let why = Catalogue::parse(&made(&merged), "any")
        .unwrap_err()
        .to_string();
    assert!(why.contains("m is made of b"), "{why}");
}
