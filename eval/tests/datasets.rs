//! The loaders, over the files that ship and over files that are wrong.

#![expect(clippy::unwrap_used, reason = "a test's own helpers")]

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use spechop_eval::dataset::{LoadError, load, only, read_ids};
use spechop_eval::{Dataset, Question};

fn shipped(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("datasets")
        .join(file)
}

fn shipped_questions(dataset: Dataset) -> Vec<Question> {
    let file = match dataset {
        Dataset::Wiki => "2wikimultihopqa/questions.jsonl.gz",
        Dataset::Musique => "musique/questions.jsonl.gz",
        Dataset::DeepResearch => "deepresearch/sample.jsonl",
    };
    load(dataset, &[shipped(file)]).unwrap()
}

fn corpus_titles(file: &str) -> HashSet<String> {
    let packed = fs::File::open(shipped(file)).unwrap();
    let lines = std::io::read_to_string(GzDecoder::new(packed)).unwrap();
    let title = |line: &str| {
        let passage: Value = serde_json::from_str(line).unwrap();
        passage["title"].as_str().unwrap().to_owned()
    };
    lines.lines().map(title).collect()
}

fn kinds(questions: &[Question]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for question in questions {
        *counts.entry(question.kind.as_str()).or_default() += 1;
    }
    counts
}

#[test]
fn shipped_questions_are_whole() {
    for (dataset, corpus) in [
        (Dataset::Wiki, "2wikimultihopqa/corpus.jsonl.gz"),
        (Dataset::Musique, "musique/corpus.jsonl.gz"),
    ] {
        let (questions, corpus) = (shipped_questions(dataset), corpus_titles(corpus));
        assert_eq!(questions.len(), 120, "{dataset}");
        for question in &questions {
            let id = &question.id;
            assert_eq!(question.dataset, dataset);
            let answers = &question.answers;
            assert!(answers.iter().all(|answer| !answer.is_empty()) && !answers.is_empty());
            let titles: HashSet<&String> = question.titles.iter().collect();
            assert_eq!(
                titles.len(),
                question.titles.len(),
                "{id} names a page twice"
            );
            assert!(titles.len() >= 2, "{id} has one page");
            assert!(titles.iter().all(|&title| corpus.contains(title)), "{id}");
            assert!(question.hops.len() >= 2, "{id}");
            let steps = match dataset {
                Dataset::Musique => question.hops.len(),
                _ => titles.len(),
            };
            assert_eq!(question.hop_budget as usize, steps + 2, "{id}");
        }
    }
}

#[test]
fn shipped_questions_are_of_the_kinds_that_their_pages_say() {
    let wiki = shipped_questions(Dataset::Wiki);
    let wanted = [
        ("bridge_comparison", 28),
        ("comparison", 29),
        ("compositional", 50),
        ("inference", 13),
    ];
    assert_eq!(kinds(&wiki), BTreeMap::from(wanted));
    let musique = shipped_questions(Dataset::Musique);
    let wanted = [
        ("2hop", 88),
        ("3hop1", 20),
        ("3hop2", 2),
        ("4hop1", 8),
        ("4hop3", 2),
    ];
    assert_eq!(kinds(&musique), BTreeMap::from(wanted));
    let deep = shipped_questions(Dataset::DeepResearch);
    assert_eq!(
        kinds(&deep),
        BTreeMap::from([("L1", 2), ("L2", 2), ("L3", 2)])
    );
    for question in deep {
        assert_eq!(question.hop_budget, 10);
        assert!(question.id.starts_with("dr-") && question.id.len() == 19);
        assert!(question.titles.is_empty() && question.hops.is_empty());
    }
}

/// Written by pyarrow, with a nested column.
#[test]
fn parquet_holds_the_same_questions() {
    let parquet = shipped("deepresearch/sample.parquet");
    let rows = load(Dataset::DeepResearch, std::slice::from_ref(&parquet)).unwrap();
    assert_eq!(rows, shipped_questions(Dataset::DeepResearch));
    let told = load(Dataset::Wiki, &[parquet]).unwrap_err().to_string();
    assert!(
        told.contains("sample.parquet, record 1 looks like DeepResearch-9K"),
        "{told}"
    );
}

/// Cut off anywhere or with any byte wrong it is refused, or read as far as it says something: nothing panics.
#[test]
fn damaged_parquet_is_refused() {
    let whole = fs::read(shipped("deepresearch/sample.parquet")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rows.parquet");
    let read = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        load(Dataset::DeepResearch, std::slice::from_ref(&file))
    };
    for length in 0..whole.len() {
        let told = read(&whole[..length]).unwrap_err().to_string();
        assert!(
            told.contains("rows.parquet cannot be read as Parquet"),
            "{told}"
        );
    }
    for at in 0..whole.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut damaged = whole.clone();
            damaged[at] ^= flip;
            let _ = read(&damaged);
        }
    }
}

#[test]
fn no_model_was_trained_on_what_ships() {
    let list = shipped("untrained.json");
    for (dataset, parts) in [
        (Dataset::Wiki, ["shipped"].as_slice()),
        (Dataset::Musique, ["validation", "apart"].as_slice()),
    ] {
        let ids: HashSet<String> = parts
            .iter()
            .flat_map(|part| read_ids(&list, dataset, Some(part)).unwrap())
            .collect();
        let all = read_ids(&list, dataset, None).unwrap();
        assert!(ids.is_subset(&all) && ids.len() < all.len());
        let questions = shipped_questions(dataset);
        assert_eq!(only(questions.clone(), &ids).unwrap(), questions);
    }
}

#[test]
fn a_record_becomes_a_question() {
    let dir = tempfile::tempdir().unwrap();
    let mut record = wiki();
    record["answer_aliases"] = json!(["Bernard", "Bernard-Roger", " "]);
    let question = &load(Dataset::Wiki, &[written(&dir, &record.to_string())]).unwrap()[0];
    assert_eq!(question.answers, ["Bernard-Roger", "Bernard"]);
    assert_eq!(question.titles, ["Sancho", "Ermesinda"]);
    assert_eq!(question.hops[1].asks, "Ermesinda >> father");
    assert_eq!(question.hops[1].answer, "Bernard-Roger");
    assert_eq!(
        (question.kind.as_str(), question.hop_budget),
        ("inference", 4)
    );

    let with_paragraphs = load(Dataset::Musique, &[written(&dir, &musique().to_string())]).unwrap();
    let mut without = musique();
    without["paragraphs"] = json!([]);
    for (step, document) in ["Lloyd Dane_0", "Eldon, Missouri_12"].iter().enumerate() {
        without["question_decomposition"][step]["document_id"] = json!(document);
    }
    let without = load(Dataset::Musique, &[written(&dir, &without.to_string())]).unwrap();
    assert_eq!(with_paragraphs, without, "titles are found either way");
    let question = &without[0];
    assert_eq!(question.titles, ["Lloyd Dane", "Eldon, Missouri"]);
    assert_eq!(
        question.answers,
        ["Miller County", "Miller County, Missouri"]
    );
    assert_eq!(question.hops[1].asks, "#1 >> county");
    assert_eq!((question.kind.as_str(), question.hop_budget), ("2hop", 4));

    let level = json!({"question": "Who?", "difficulty": "L3", "answer": "Nobody", "id": "x"});
    let question = &load(Dataset::DeepResearch, &[written(&dir, &level.to_string())]).unwrap()[0];
    assert_eq!((question.kind.as_str(), question.id.as_str()), ("L3", "x"));
}

#[test]
fn lines_arrays_and_gzip_are_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (one, mut two) = (wiki(), wiki());
    two["_id"] = json!("w2");
    let lines = format!("\u{feff}{one}\r\n\n{two}\n");
    let from_lines = load(Dataset::Wiki, &[written(&dir, &lines)]).unwrap();
    let array = serde_json::to_string_pretty(&[one, two]).unwrap();
    assert_eq!(
        from_lines,
        load(Dataset::Wiki, &[written(&dir, &array)]).unwrap()
    );
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(lines.as_bytes()).unwrap();
    let file = dir.path().join("packed.gz");
    fs::write(&file, packed.finish().unwrap()).unwrap();
    assert_eq!(from_lines, load(Dataset::Wiki, &[file]).unwrap());
    assert_eq!(from_lines.len(), 2);
}

/// A data set, what a file holds, and what is said of it.
type Wrong = (Dataset, String, &'static str);

#[test]
fn what_is_wrong_is_named() {
    use Dataset::{DeepResearch, Musique, Wiki};
    let without = |mut record: Value, field: &str| {
        record.as_object_mut().unwrap().remove(field);
        record.to_string()
    };
    let with = |mut record: Value, at: &str, value: Value| {
        *record.pointer_mut(at).unwrap() = value;
        record.to_string()
    };
    let deep = || json!({"question": "Who?", "difficulty": 1, "final answer": "Nobody"});
    let hotpot = json!({"_id": "h", "level": "hard", "supporting_facts": [], "question": "?"});
    let passage = json!({"id": "p", "title": "Paris", "text": "A city."});
    let long = "x".repeat(4097);
    let cases: Vec<Wrong> = vec![
        (
            Wiki,
            musique().to_string(),
            "FILE, line 1 looks like MuSiQue; 2WikiMultihopQA was asked for",
        ),
        (Wiki, hotpot.to_string(), "looks like HotpotQA"),
        (Wiki, passage.to_string(), "looks like a corpus"),
        (
            Musique,
            wiki().to_string(),
            "looks like 2WikiMultihopQA; MuSiQue was",
        ),
        (Musique, deep().to_string(), "looks like DeepResearch-9K"),
        (
            DeepResearch,
            format!("[{}, {}]", deep(), wiki()),
            "FILE, record 2 looks like 2Wiki",
        ),
        (Wiki, String::new(), "FILE holds no questions"),
        (Wiki, "\n \n".into(), "FILE holds no questions"),
        (Wiki, "[]".into(), "FILE holds no questions"),
        (
            Wiki,
            format!("{}\n{{\"_id\": ", wiki()),
            "FILE, line 2 is not JSON",
        ),
        (Wiki, "PAR1".into(), "FILE cannot be read as Parquet"),
        (Wiki, format!("[{},", wiki()), "FILE is not JSON"),
        (Wiki, "3".into(), "FILE, line 1 is not an object"),
        (Wiki, "[[]]".into(), "FILE, record 1 is not an object"),
        (Wiki, without(wiki(), "_id"), "FILE, line 1 has no `_id`"),
        (Wiki, without(wiki(), "type"), "has no `type`"),
        (Wiki, without(wiki(), "question"), "has no `question`"),
        (Wiki, without(wiki(), "answer"), "has no `answer`"),
        (
            Wiki,
            with(wiki(), "/answer", Value::Null),
            "has no `answer`",
        ),
        (Wiki, without(wiki(), "evidences"), "has no `evidences`"),
        (
            Wiki,
            without(wiki(), "supporting_facts"),
            "has no `supporting_facts`",
        ),
        (
            Wiki,
            with(wiki(), "/question", json!(" ")),
            "`question` is empty",
        ),
        (
            Wiki,
            with(wiki(), "/answer", json!("")),
            "`answer` is empty",
        ),
        (
            Wiki,
            with(wiki(), "/answer", json!(3)),
            "`answer` is not text",
        ),
        (
            Wiki,
            with(wiki(), "/supporting_facts", json!([])),
            "`supporting_facts` is empty",
        ),
        (
            Wiki,
            with(wiki(), "/supporting_facts/0", json!("x")),
            "`supporting_facts` is not a list of",
        ),
        (
            Wiki,
            with(wiki(), "/evidences/0", json!(["x"])),
            "`evidences` is not a list of",
        ),
        (
            Wiki,
            with(wiki(), "/question", json!(long)),
            "FILE, line 1: the question has 4097 bytes",
        ),
        (
            Wiki,
            format!("{0}\n{0}", wiki()),
            "`w1` stands twice, at FILE, line 1 and at FILE, line 2",
        ),
        (
            Musique,
            with(musique(), "/answerable", json!(false)),
            "FILE, line 1 is not answerable, so the file is of MuSiQue-Full",
        ),
        (
            Musique,
            without(musique(), "question_decomposition"),
            "has no `question_decomposition`",
        ),
        (
            Musique,
            with(musique(), "/question_decomposition", json!([])),
            "`question_decomposition` is empty",
        ),
        (
            Musique,
            with(musique(), "/question_decomposition/1/answer", json!("")),
            "`question_decomposition[1].answer` is empty",
        ),
        (
            Musique,
            with(musique(), "/question_decomposition/1", json!(1)),
            "`question_decomposition[1]` is not an object",
        ),
        (
            Musique,
            with(
                musique(),
                "/question_decomposition/0/paragraph_support_idx",
                json!(7),
            ),
            "`question_decomposition[0].paragraph_support_idx` is not",
        ),
        (
            Musique,
            without(musique(), "paragraphs"),
            "has no `question_decomposition[0].document_id`",
        ),
        (
            Musique,
            with(musique(), "/id", json!("x")),
            "`id` is not like",
        ),
        (
            Musique,
            with(musique(), "/answer_aliases", json!([1])),
            "`answer_aliases` is not a list of texts",
        ),
        (
            DeepResearch,
            without(deep(), "difficulty"),
            "has no `difficulty`",
        ),
        (
            DeepResearch,
            without(deep(), "final answer"),
            "has no `final answer`",
        ),
        (
            DeepResearch,
            with(deep(), "/difficulty", json!(4)),
            "`difficulty` is not 1, 2 or 3",
        ),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (dataset, content, wanted) in cases {
        let file = written(&dir, &content);
        let said = load(dataset, std::slice::from_ref(&file))
            .unwrap_err()
            .to_string();
        let said = said.replace(&file.display().to_string(), "FILE");
        assert!(said.contains(wanted), "{wanted:?} is not in {said:?}");
    }
}

#[test]
fn what_is_wrong_with_files_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let good = written(&dir, &wiki().to_string());
    let other = dir.path().join("other");
    let said = |files: &[PathBuf]| load(Dataset::Wiki, files).unwrap_err();
    assert!(matches!(said(&[]), LoadError::NoFiles(Dataset::Wiki)));
    assert!(matches!(
        said(&[good.clone(), other.clone()]),
        LoadError::Read { .. }
    ));
    fs::write(&other, b"\xff\xfe").unwrap();
    assert!(matches!(
        said(std::slice::from_ref(&other)),
        LoadError::NotText(_)
    ));
    fs::write(&other, b"\x1f\x8b broken").unwrap();
    assert!(matches!(
        said(std::slice::from_ref(&other)),
        LoadError::Read { .. }
    ));
    // A second file that is empty is a mistake too, however many questions the first has.
    fs::write(&other, b"").unwrap();
    assert!(matches!(
        said(&[good.clone(), other]),
        LoadError::NoQuestions(_)
    ));
    assert!(matches!(
        said(&[good.clone(), good]),
        LoadError::Duplicate { .. }
    ));
}

fn written(dir: &tempfile::TempDir, content: &str) -> PathBuf {
    let file = dir.path().join("questions");
    fs::write(&file, content).unwrap();
    file
}

fn wiki() -> Value {
    json!({
        "_id": "w1",
        "type": "inference",
        "question": "Who is Sancho's maternal grandfather?",
        "supporting_facts": [["Sancho", 1], ["Ermesinda", 0], ["Sancho", 2]],
        "evidences": [["Sancho", "mother", "Ermesinda"], ["Ermesinda", "father", "Bernard-Roger"]],
        "answer": "Bernard-Roger",
    })
}

fn musique() -> Value {
    json!({
        "id": "2hop__1_2",
        "question": "Which county does Lloyd Dane's birthplace belong to?",
        "question_decomposition": [
            {"id": 1, "question": "Lloyd Dane >> place of birth", "answer": "Eldon", "paragraph_support_idx": 3},
            {"id": 2, "question": "#1 >> county", "answer": "Miller County", "paragraph_support_idx": 1},
        ],
        "paragraphs": [
            {"idx": 1, "title": "Eldon, Missouri", "paragraph_text": "…", "is_supporting": true},
            {"idx": 2, "title": "Paris", "paragraph_text": "…", "is_supporting": false},
            {"idx": 3, "title": "Lloyd Dane", "paragraph_text": "…", "is_supporting": true},
        ],
        "answer": "Miller County",
        "answer_aliases": ["Miller County, Missouri", "Miller County"],
        "answerable": true,
    })
}

#[test]
fn questions_stop_early_as_in_the_paper() {
    let limits = Dataset::ALL.map(|dataset| (dataset.as_str(), dataset.not_found_max()));
    assert_eq!(limits, [("2wiki", 1), ("musique", 1), ("deepresearch", 2)]);
}
