//! What `make demo-web` does and prints, over a web that is many times as fast as the paper's.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::read::GzDecoder;
use serde_json::Value;
use spechop_testkit::assets;

use crate::indexed;
use crate::shell::output;

/// Mean and sigma of a look-up's latency, in milliseconds.
const WEB: &str = "300:100";

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// The passages that the data set gives with the demonstration's questions.
fn corpus() -> String {
    let wiki = repository("eval/datasets/2wikimultihopqa");
    let questions = fs::read_to_string(wiki.join("demo_questions.jsonl")).unwrap();
    let json = |line: &str| -> Value { serde_json::from_str(line).unwrap() };
    let titles: BTreeSet<String> = questions
        .lines()
        .flat_map(|line| json(line)["context"].as_array().unwrap().clone())
        .map(|page| page[0].as_str().unwrap().to_owned())
        .collect();
    let all = File::open(wiki.join("corpus.jsonl.gz")).unwrap();
    let lines = BufReader::new(GzDecoder::new(all))
        .lines()
        .map(Result::unwrap);
    let wanted = lines.filter(|line| titles.contains(json(line)["title"].as_str().unwrap()));
    wanted.map(|line| line + "\n").collect()
}

/// A row of the table: k, and what is in the columns, from the left.
fn row(line: &str) -> (String, Vec<f64>) {
    // `auto` says which k it has chosen.
    let (name, numbers) = match line.split_once(") ") {
        Some((name, numbers)) => (format!("{name})"), numbers),
        None => {
            let (name, numbers) = line.split_once(' ').unwrap();
            (name.to_owned(), numbers)
        }
    };
    let numbers = numbers.split_whitespace();
    (
        name,
        numbers.map(|number| number.parse().unwrap()).collect(),
    )
}

#[test]
fn the_demonstration_over_the_web_ends_in_a_table_of_k_1_3_and_auto() {
    let dir = tempfile::tempdir().unwrap();
    let data = assets::data_dir();
    let [pages, index] = indexed(dir.path(), &corpus());
    let mut demo = Command::new(repository("deploy/demo-web.sh"));
    demo.args([env!("CARGO_BIN_EXE_spechop"), &pages, WEB])
        .env("SPECHOP_DATA_DIR", data)
        .env("SPECHOP_INDEX_DIR", &index)
        // A busy machine misses no page, so the answers are the same at every k.
        .env("SPECHOP_WEB_PAGE_MS_MAX", "60000")
        .env("SPECHOP_WEB_RANK_MS_MAX", "60000")
        .stdin(Stdio::null());
    let (code, told, stderr) = output(&mut demo);
    assert_eq!(code, 0, "{told}{stderr}");

    let (_, table) = told
        .split_once("=== three questions over the web ===\n")
        .unwrap();
    let (table, said) = table.split_once("The same answer at every k: ").unwrap();
    let mut lines = table.lines();
    let columns = lines.next().unwrap();
    let columns: Vec<_> = columns.split("  ").map(str::trim).collect();
    let columns: Vec<_> = columns
        .into_iter()
        .filter(|name| !name.is_empty())
        .collect();
    let headings = "k, seconds, RelLat, RelLat*, simulated, first there, look-ups, wasted";
    assert_eq!(columns.join(", "), headings);
    let rows: Vec<_> = lines.map(row).collect();
    let rows: Vec<_> = rows.iter().map(|(k, row)| (k.as_str(), &row[..])).collect();
    let [("1", one), ("3", three), (auto, chosen)] = rows[..] else {
        panic!("{rows:?}");
    };
    assert!(auto.starts_with("auto ("), "{auto}");
    // No bound is given for k = 1.
    let &[seconds, rel_lat, simulated, first, look_ups, wasted] = one else {
        panic!("{one:?}");
    };
    assert_eq!([rel_lat, simulated, wasted], [1.0, 1.0, 0.0]);
    // The answer is there some microseconds before it is sent. A busy machine may pause in between, but not for as
    // long as a look-up takes.
    assert!((0.0..0.2).contains(&(seconds - first)), "{told}");
    for row in [three, chosen] {
        let &[own, rel_lat, bound, simulated, first, own_look_ups, wasted] = row else {
            panic!("{row:?}");
        };
        // As far as the digits of the seconds tell.
        assert!((rel_lat - own / seconds).abs() < 0.05, "{told}");
        assert!(bound > 0.0 && bound <= 1.0 && simulated > 0.0, "{told}");
        assert!(first > 0.0 && first <= own, "{told}");
        // The same hops, and what was looked up for nothing.
        assert_eq!(own_look_ups - wasted, look_ups, "{told}");
    }
    for words in [
        "3 of 3 questions. Measured over ",
        "\nauto chooses ",
        "RelLat*: the paper's bound from the p, alpha and beta measured just now",
        "Peak memory of the server: ",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(told.contains(&format!("mean and sigma {WEB} ms")), "{told}");
    assert!(told.contains("=== question 1 at k = 3: "), "{told}");
}
