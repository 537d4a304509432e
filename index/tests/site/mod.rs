//! A corpus on disk, and an encoder that needs no model.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "helpers that not every test target uses"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use async_trait::async_trait;
use spechop_index::{Addition, Build, BuildError, Built, Changed, Hot, Progress, Reading};
use spechop_ports::{Call, Encoded, Encoder, PortError, TextKind};
use spechop_store::PassageIndex;

/// Bags of letter triples to vectors, without a model. Fails from a given passage on, and, as real
/// ones do in the last bits, lets the size of a batch touch the vectors.
pub struct Triples {
    fingerprint: &'static str,
    good_until: usize,
    pub encoded: AtomicUsize,
}

impl Triples {
    pub fn new(fingerprint: &'static str) -> Self {
        Self::failing_after(fingerprint, usize::MAX)
    }

    pub fn failing_after(fingerprint: &'static str, good_until: usize) -> Self {
        Self {
            fingerprint,
            good_until,
            encoded: AtomicUsize::new(0),
        }
    }

    fn vector(text: &str, company: usize) -> Vec<f32> {
        let mut sum = [0.0; 48];
        sum[47] = 0.1 + company as f32 * 1e-3;
        for triple in text.to_lowercase().as_bytes().windows(3) {
            let hash = triple
                .iter()
                .fold(7usize, |hash, byte| hash * 31 + usize::from(*byte));
            sum[hash % 47] += 1.0;
        }
        let norm = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
        sum.map(|x| x / norm).to_vec()
    }
}

#[async_trait]
impl Encoder for Triples {
    fn fingerprint(&self) -> &str {
        self.fingerprint
    }

    fn width(&self) -> usize {
        48
    }

    async fn encode(
        &self,
        _: &Call,
        kind: TextKind,
        texts: Vec<String>,
    ) -> Result<Encoded, PortError> {
        let company = match kind {
            TextKind::Query => 0,
            TextKind::Passage => texts.len(),
        };
        let encoded = self.encoded.fetch_add(company, Relaxed);
        if company > 0 && encoded + company > self.good_until {
            return Err(PortError::unavailable("the encoder", "told to fail"));
        }
        let vectors = texts.iter().map(|text| Self::vector(text, company));
        Ok(Encoded {
            vectors: vectors.collect(),
            tokens: None,
        })
    }
}

/// A folder with a corpus of 100 passages, in-degrees, and the build of an index over it.
pub struct Site {
    pub dir: tempfile::TempDir,
    pub build: Build,
}

impl Site {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let line = |n: usize| {
            let text = format!(
                "passage {n} is about the number {} and its square {}",
                n * 7,
                n * n
            );
            format!("{{\"id\":\"p{n}\",\"title\":\"Number {n}\",\"text\":\"{text}\"}}\n")
        };
        let corpus = dir.path().join("corpus.jsonl");
        fs::write(&corpus, (0..100).map(line).collect::<String>()).unwrap();
        // Ties at 5, a title that is not in the corpus, one that occurs twice.
        let in_degree = (0..60)
            .map(|n| (format!("Number {n}"), if n % 10 == 3 { 9 } else { 5 }))
            .chain([
                ("Elsewhere".into(), 99),
                ("Number 99".into(), 1),
                ("Number 99".into(), 10),
            ])
            .map(|(title, n)| {
                format!("{{\"title\":\"{title}\",\"mention_indegree\":{n},\"x\":0}}\n")
            });
        fs::write(
            dir.path().join("in_degree.jsonl"),
            in_degree.collect::<String>(),
        )
        .unwrap();
        let build = Build {
            batch_rows: 8,
            shard_rows: 36,
            ..Build::new(corpus, dir.path().join("index"))
        };
        Self { dir, build }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn hot(mut self, fraction: f64) -> Self {
        let in_degree = self.path("in_degree.jsonl");
        self.build.hot = Some(Hot {
            fraction,
            in_degree: Some(in_degree),
        });
        self
    }

    pub async fn run(&self, encoder: &Triples) -> Result<Built, BuildError> {
        self.build.run(encoder, &mut |_| {}).await
    }
}

/// A passage without a title, as a line of a corpus.
pub fn line(id: &str, text: &str) -> String {
    format!("{{\"id\":\"{id}\",\"title\":\"\",\"text\":\"{text}\"}}\n")
}

/// These lines, as an addition to the index of a site.
pub fn addition(site: &Site, name: &str, lines: &str) -> Addition {
    let corpus = site.path(name);
    fs::write(&corpus, lines).unwrap();
    Addition {
        index: site.build.out.clone(),
        corpus,
        reading: Reading::default(),
        replace: false,
    }
}

pub async fn add(addition: &Addition) -> Result<Changed, BuildError> {
    addition.run(&Triples::new("triples"), &mut |_| {}).await
}

/// Makes the squares of a corpus so long that one reading takes in only some passages ahead of time.
/// Returns what turns them into circles once the passages are about to be encoded.
pub fn changing(corpus: &Path) -> impl FnMut(Progress) + Send + use<> {
    let corpus = corpus.to_owned();
    let text = fs::read_to_string(&corpus).unwrap();
    let long = text.replace("square", &"square ".repeat(500));
    fs::write(&corpus, long).unwrap();
    move |progress: Progress| {
        if progress.done == 0 {
            let text = fs::read_to_string(&corpus).unwrap();
            fs::write(&corpus, text.replace("square", "circle")).unwrap();
        }
    }
}

/// The ids of an index, in the order of its rows.
pub fn ids(dir: &Path) -> Vec<String> {
    let index = PassageIndex::open(dir).unwrap();
    let id = |row| index.passage(row).unwrap().fields().id.to_owned();
    (0..index.rows()).map(id).collect()
}

/// The texts of an index, in the order of its rows.
pub fn texts(dir: &Path) -> Vec<String> {
    let index = PassageIndex::open(dir).unwrap();
    let text = |row| index.passage(row).unwrap().fields().text.to_owned();
    (0..index.rows()).map(text).collect()
}

/// Every file below a folder, by name.
pub fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = PathBuf::from(path.file_name().unwrap());
        if path.is_dir() {
            let inner = files(&path).into_iter();
            found.extend(inner.map(|(inner, bytes)| (name.join(inner), bytes)));
        } else {
            found.insert(name, fs::read(&path).unwrap());
        }
    }
    found
}
