//! The questions of a load run.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{bail, ensure};
use serde::Deserialize;
use spechop_types::QUESTION_BYTES_MAX;

use crate::input;

/// Questions of `make demo`; `eval/datasets/2wikimultihopqa/demo_questions.jsonl` has them with their passages.
const DEMO: [&str; 3] = [
    "Where did Prince Ferdinand Of Bavaria's mother die?",
    "Who is older, Pattom A. Thanu Pillai or Francesco Boccapaduli?",
    "Which film has the director born first, Killer: Dead Or Alive or Adultery: A User'S Guide?",
];

/// A question as data sets have it.
#[derive(Deserialize)]
struct Asked {
    question: String,
}

/// Questions of `make demo`.
pub(super) fn of_the_demo() -> Vec<String> {
    DEMO.map(str::to_owned).to_vec()
}

/// A question a line: its text, or a JSON object that holds it. Blank lines, those that begin with `#`, and
/// questions that stood there before are passed over.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<String>> {
    let name = path.display();
    let text = input::read(path)?;
    let (mut questions, mut seen) = (Vec::new(), HashSet::new());
    for (at, line) in (1..).zip(text.lines().map(str::trim)) {
        let question = match line {
            "" => continue,
            line if line.starts_with('#') => continue,
            line if line.starts_with('{') => match serde_json::from_str::<Asked>(line) {
                Ok(asked) => asked.question,
                Err(error) => bail!("line {at} of {name} is no JSON with a `question`: {error}"),
            },
            line => line.to_owned(),
        };
        ensure!(
            question.len() <= QUESTION_BYTES_MAX,
            "line {at} of {name} is too long: a question has at most {QUESTION_BYTES_MAX} bytes"
        );
        if seen.insert(question.clone()) {
            questions.push(question);
        }
    }
    ensure!(!questions.is_empty(), "there is no question in {name}");
    Ok(questions)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn of(name: &str, bytes: &[u8]) -> Result<Vec<String>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        read(&path).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn lines_are_questions() {
        let text = "# mine\nWho is it?\n\nWho is it?\n  {\"question\": \"Where?\", \"answer\": \"there\"}\n";
        assert_eq!(
            of("q.txt", text.as_bytes()).unwrap(),
            ["Who is it?", "Where?"]
        );
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(text.as_bytes()).unwrap();
        assert_eq!(of("q.jsonl", &packed.finish().unwrap()).unwrap().len(), 2);
    }

    #[test]
    fn what_is_no_question_is_named_by_its_line() {
        for (text, words) in [
            (&b"Who?\n{\"id\": 1}"[..], "line 2 of"),
            (b"\n# none\n", "there is no question"),
            (&[b'x'; 5000], "too long"),
            (&[0xff, 0xfe], "cannot read"),
        ] {
            let error = of("q.txt", text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn the_demo_asks_the_same() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../eval/datasets/2wikimultihopqa/demo_questions.jsonl");
        assert_eq!(read(&file).unwrap(), DEMO);
    }
}
