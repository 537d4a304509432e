//! Recall of retrievers over a small index, with an encoder that follows a script.

#![expect(clippy::unwrap_used, reason = "a test's own helpers")]

use std::collections::HashSet;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use spechop_eval::Machine;
use spechop_eval::retrieval::{
    AskedHop, Fit, FitInfo, FittedOn, Found, LookUps, Measurement, PassageIndex, RetrievalError,
    RetrievalInfo, Searched, fit, keep, look_ups, of_sample, passage_ids, read_fit, write_fit,
};
use spechop_ports::{Call, Encoder, Retriever};
use spechop_store::{IndexRetriever, IndexWriter, Inputs, LexicalWeight, PassageRef};
use spechop_testkit::TextVectors;

const WIDTH: usize = 32;
const WEIGHT: f32 = 0.75;
const PASSAGES: [(&str, &str, &str); 8] = [
    ("oder", "Oder", "A river that ends in a lagoon."),
    ("ruhr", "Ruhr", "A river of the west."),
    ("elbe", "Elbe", "A river of the north."),
    ("isar", "Isar", "A river of the south."),
    ("main", "Main", "A river with many bends."),
    ("saale", "Saale", "A river between hills."),
    ("harz", "Harz", "Mountains that Goethe climbed."),
    ("alps", "Alps", "Mountains with snow in summer."),
];

/// Texts that begin with the same letter have the same vector: it knows no names. Whole 128ths, so that
/// eight bits lose nothing, and equals are equal.
fn vector(text: &str) -> Vec<f32> {
    let first = text.bytes().next().unwrap_or(0) as usize;
    let mut vector = vec![1.0 / 128.0; WIDTH];
    vector[first % WIDTH] = 127.0 / 128.0;
    vector
}

fn by_first_letter() -> Arc<impl Encoder> {
    Arc::new(TextVectors::new("by first letter", WIDTH, vector))
}

fn index(dir: &Path, encoder: &str, rows: std::ops::Range<usize>) -> PassageIndex {
    let inputs = Inputs {
        corpus_sha256: "c0".into(),
        encoder: encoder.into(),
        width: WIDTH,
        text: "title, newline, text".into(),
        batch_rows: 1,
        shard_rows: 3,
        subset: None,
        extended: false,
        part: None,
    };
    let mut writer = IndexWriter::open(dir, inputs).unwrap();
    for (id, title, text) in &PASSAGES[rows] {
        let passage = PassageRef {
            id,
            title,
            text,
            ..PassageRef::default()
        };
        let vector = vector(&format!("{title}\n{text}"));
        writer.push(passage, &vector).unwrap();
    }
    writer.finish().unwrap();
    PassageIndex::open(dir).unwrap()
}

fn question(id: &str, from: &str, gold: &[&str], asks: &str) -> LookUps {
    LookUps {
        id: id.to_owned(),
        kind: "2hop".to_owned(),
        from: from.to_owned(),
        question: format!("Which place is meant, {asks}"),
        gold: gold.iter().map(|id| vec![(*id).to_owned()]).collect(),
        hops: vec![AskedHop {
            asks: asks.to_owned(),
            gold: vec![gold[0].to_owned()],
        }],
    }
}

fn asked() -> Vec<LookUps> {
    vec![
        question(
            "q1",
            "questions.jsonl",
            &["harz", "oder"],
            "Who climbed the Harz?",
        ),
        question(
            "q2",
            "extra_questions.jsonl",
            &["saale"],
            "Is the Saale a river?",
        ),
    ]
}

fn found<'a>(rows: &'a [Found], retriever: &str, id: &str, hop: Option<usize>) -> &'a [String] {
    let mut rows = rows.iter();
    let row = rows.find(|row| row.retriever == retriever && row.id == id && row.hop == hop);
    &row.unwrap().found
}

#[tokio::test]
async fn every_retriever_is_asked_and_the_mixture_is_that_of_the_index() {
    let (dir, hot) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let encoder = by_first_letter();
    let whole = Arc::new(index(dir.path(), encoder.fingerprint(), 0..8));
    let mut measurement = Measurement::new(encoder.clone(), &whole)
        .unwrap()
        .mixing(WEIGHT);
    let subset = index(hot.path(), encoder.fingerprint(), 0..3);
    measurement.add_index("hot".to_owned(), subset).unwrap();
    measurement.encode(&whole, &mut |_| ()).await.unwrap();
    let corpus = Searched::of("all", &whole, None).unwrap();
    let questions = asked();
    let mut quiet = |_| ();
    let asking = measurement.ask(&corpus, &questions, true, true, &mut quiet);
    let rows = asking.await.unwrap();
    // Six retrievers, and two questions with a hop each.
    assert_eq!(rows.len(), 6 * 4);

    // What the service finds with this weight.
    let mixed = PassageIndex::open(dir.path())
        .unwrap()
        .with_words(LexicalWeight::Fixed(WEIGHT))
        .unwrap();
    let service = IndexRetriever::new(encoder, Arc::new(mixed)).unwrap();
    for question in asked() {
        for (hop, text) in [
            (None, &question.question),
            (Some(0), &question.hops[0].asks),
        ] {
            let passages = service
                .retrieve(&Call::authoritative(), text, 5)
                .await
                .unwrap();
            let ids: Vec<String> = passages.iter().map(|p| p.id.to_string()).collect();
            assert_eq!(found(&rows, "mixed, weight 0.75", &question.id, hop), ids);
        }
    }
    // Eight bits are enough here.
    let exact = found(&rows, "vectors, fp32", "q1", None);
    assert_eq!(found(&rows, "vectors, int8 rows", "q1", None), exact);
    assert_eq!(found(&rows, "BM25", "q1", Some(0))[0], "harz");
    assert_eq!(found(&rows, "hot", "q1", None).len(), 3);

    // A smaller corpus: nothing else is found, and only HippoRAG's sample is asked.
    let within = ["harz", "oder", "alps"].map(str::to_owned).into();
    let small = Searched::of("small", &whole, Some(&within)).unwrap();
    let sample = of_sample(&asked(), &within);
    assert_eq!((small.passages(), sample.len()), (3, 1));
    let asking = measurement.ask(&small, &sample, false, false, &mut quiet);
    let few = asking.await.unwrap();
    assert_eq!(few.len(), 5, "the subset is of the whole index");
    assert!(
        few.iter()
            .flat_map(|row| &row.found)
            .all(|id| within.contains(id))
    );

    let out = tempfile::tempdir().unwrap();
    let machine = Machine {
        cores: 1,
        cpu: "a processor".to_owned(),
    };
    let info = RetrievalInfo {
        set: "A set".to_owned(),
        parts: [("index".to_owned(), "i 0123".to_owned())].into(),
        passages: [("all".to_owned(), 8)].into(),
        weight: Some(WEIGHT),
        commit: "c0ffee".to_owned(),
        machine,
        command: "spechop eval retrieval".to_owned(),
    };
    let all: Vec<Found> = [rows, few].concat();
    let report = keep(out.path(), &info, &asked(), &all).unwrap();
    assert!(
        report.contains("all: whole question (2 questions)"),
        "{report}"
    );
    assert!(
        report.contains("all: per hop (2 hops of 2 questions)"),
        "{report}"
    );
    assert!(
        report.contains("small: whole question (1 questions)"),
        "{report}"
    );
    assert!(report.contains("i 0123"), "{report}");
    let kept = fs::read_to_string(out.path().join("rows.jsonl")).unwrap();
    assert_eq!(kept.lines().count(), all.len());
}

#[tokio::test]
async fn a_weight_is_fitted_where_only_words_tell_passages_apart() {
    let dir = tempfile::tempdir().unwrap();
    let encoder = by_first_letter();
    let index = Arc::new(index(dir.path(), encoder.fingerprint(), 0..8));
    let corpus = Searched::of("all", &index, None).unwrap();
    let asked = [question("q", "x", &["saale"], "Elbe? No: the Saale")];
    let recall = fit(&*encoder, &corpus, &asked, &mut |_| ()).await.unwrap();
    let of_weight = |weight: f32| recall.iter().find(|(w, _)| *w == weight).unwrap().1;
    assert_eq!(of_weight(0.0), [0.0, 0.0]);
    assert_eq!(of_weight(5.0), [1.0, 1.0]);
    let none = fit(&*encoder, &corpus, &[], &mut |_| ()).await;
    assert!(matches!(none, Err(RetrievalError::Nothing(_))), "{none:?}");

    let on = FittedOn {
        look_ups_sha256: "00".to_owned(),
        index: "i".to_owned(),
        passages: 8,
        questions: 1,
        hops: 1,
        recall,
    };
    let info = FitInfo {
        held_out_sha256: "11".to_owned(),
        encoder: "e".to_owned(),
        commit: "c".to_owned(),
        machine: Machine {
            cores: 1,
            cpu: "a processor".to_owned(),
        },
        command: "spechop eval fit-words".to_owned(),
    };
    let fitted = Fit::of([("musique".to_owned(), on)].into(), info);
    assert!(fitted.weight > 0.0, "{fitted:?}");
    let path = dir.path().join("fits/fit.json");
    write_fit(&path, &fitted).unwrap();
    assert_eq!(read_fit(&path, "11", "e").unwrap(), fitted);
    let other = read_fit(&path, "22", "e");
    assert!(
        matches!(other, Err(RetrievalError::OtherHeldOut)),
        "{other:?}"
    );
    let other = read_fit(&path, "11", "e-int8");
    assert!(
        matches!(other, Err(RetrievalError::OtherEncoder { .. })),
        "{other:?}"
    );
    let nowhere = read_fit(&dir.path().join("no.json"), "11", "e");
    assert!(
        matches!(nowhere, Err(RetrievalError::File(_))),
        "{nowhere:?}"
    );
}

#[tokio::test]
async fn what_does_not_fit_together_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let encoder = by_first_letter();
    let other = index(dir.path(), "another encoder", 0..8);
    let refused = Measurement::new(encoder.clone(), &other).err().unwrap();
    let said = refused.to_string();
    assert!(
        said.contains("another encoder") && said.contains("by first letter"),
        "{said}"
    );

    let dir = tempfile::tempdir().unwrap();
    let index = Arc::new(index(dir.path(), encoder.fingerprint(), 0..8));
    let measurement = Measurement::new(encoder.clone(), &index).unwrap();
    let corpus = Searched::of("all", &index, None).unwrap();
    let strange = [question("q9", "x", &["volga"], "Where does the Volga end?")];
    let refused = measurement
        .ask(&corpus, &strange, true, true, &mut |_| ())
        .await;
    let said = refused.unwrap_err().to_string();
    assert!(said.contains("`q9`") && said.contains("`volga`"), "{said}");
    let refused = fit(&*encoder, &corpus, &strange, &mut |_| ()).await;
    assert!(matches!(refused, Err(RetrievalError::NoSuchPassage { .. })));
    let nothing = measurement.ask(&corpus, &[], true, true, &mut |_| ()).await;
    assert!(matches!(nothing, Err(RetrievalError::Nothing("ask"))));
    let nowhere = HashSet::from(["volga".to_owned()]);
    let nowhere = Searched::of("none", &index, Some(&nowhere)).err().unwrap();
    assert!(matches!(nowhere, RetrievalError::Nothing(_)), "{nowhere}");
}

#[test]
fn look_ups_are_read_whole_or_refused_with_their_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("look-ups.jsonl");
    let line = |question: &LookUps| serde_json::to_string(question).unwrap();
    let all = asked();
    fs::write(&path, format!("{}\n{}\n", line(&all[0]), line(&all[1]))).unwrap();
    assert_eq!(look_ups(&path).unwrap(), all);
    let no_gold = LookUps {
        gold: vec![vec![]],
        ..all[1].clone()
    };
    for (second, words) in [
        (line(&all[0]), "line 2 is no look-up (`q1` stands twice)"),
        (
            line(&no_gold),
            "line 2 is no look-up (a look-up has no gold passage)",
        ),
        (
            "{\"id\":\"q\"}".to_owned(),
            "line 2 is no look-up (missing field `kind`)",
        ),
        ("{".to_owned(), "line 2 is not JSON"),
    ] {
        fs::write(&path, format!("{}\n{second}\n", line(&all[0]))).unwrap();
        let refused = look_ups(&path).unwrap_err();
        let said = refused.to_string();
        assert!(said.contains(words), "{said} {:?}", refused.source());
    }
    fs::write(&path, "").unwrap();
    assert!(
        look_ups(&path)
            .unwrap_err()
            .to_string()
            .contains("holds no questions")
    );
    fs::write(&path, "{\"id\":\"a\",\"title\":\"A\"}\n{\"id\":\"b\"}\n").unwrap();
    assert_eq!(passage_ids(&path).unwrap().len(), 2);
}
