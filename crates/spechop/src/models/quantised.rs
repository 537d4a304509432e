//! A folder of an encoder in eight bits, made of one in full precision and compared with it.
//!
//! It grows in `OUT.quantising` beside `OUT`, and takes its place once it has been found good. (`OUT.partial` is what
//! `spechop models pull` loads.)

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;
use spechop_embed::{EncoderOptions, OnnxEncoder, RECIPE_FILE, Recipe};
use spechop_eval::write_whole;
use spechop_ports::{Call, Encoder, TextKind};
use spechop_server::model_note::{FileNote, ModelNote, NOTE, compare_at};
use tokio::time::Instant;

use super::pull::remove;
use super::{digest, record};

/// The lowest cosine that is good enough: far below what E5 and its like come to, and far above what a
/// broken model does.
pub(crate) const COSINE_MIN: f32 = 0.98;

const MODEL: &str = "model.onnx";
const TOKENIZER: &str = "tokenizer.json";
/// Texts of a turn.
const TURN: usize = 32;
/// At least so many texts are encoded, for the sake of the times.
const TIMED_TEXTS: usize = 64;

/// A folder in the making. What is not published is removed in the end.
pub(crate) struct Folder {
    source: PathBuf,
    recipe: Recipe,
    name: String,
    partial: PathBuf,
    out: PathBuf,
}

/// What has been written.
#[derive(Debug)]
pub(crate) struct Made {
    /// Matrices in eight bits.
    pub(crate) matrices: usize,
    /// Numbers in them.
    pub(crate) parameters: usize,
    /// Bytes of the ONNX file.
    pub(crate) bytes: u64,
    /// And of the one that it was made of.
    pub(crate) bytes_before: u64,
}

/// How the two models differ, on the same texts and the same threads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Compared {
    /// How many texts.
    pub(crate) texts: usize,
    /// The lowest cosine between the two vectors of a text.
    pub(crate) cosine_min: f32,
    /// The mean cosine.
    pub(crate) cosine_mean: f32,
    /// Of the new model.
    pub(crate) texts_per_second: f64,
    /// Of the old one.
    pub(crate) texts_per_second_before: f64,
}

impl Folder {
    /// Reads what the model in `source` says about itself, and checks that `out` may be written.
    pub(crate) fn new(source: &Path, out: &Path) -> anyhow::Result<Self> {
        let recipe = Recipe::read(source)?;
        compare_at(source)?;
        let name = out.file_name().and_then(|name| name.to_str());
        let name = name.with_context(|| format!("{} is no folder to write", out.display()))?;
        may_be_replaced(out)?;
        Ok(Self {
            source: source.to_owned(),
            name: format!("{}-int8", recipe.name),
            recipe,
            partial: out.with_file_name(format!("{name}.quantising")),
            out: out.to_owned(),
        })
    }

    /// The name of the new model, for people and for the fingerprint.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Writes the files of the new model.
    pub(crate) fn make(&self) -> anyhow::Result<Made> {
        let path = self.source.join(&self.recipe.model);
        let file = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let quantised = spechop_onnx::quantise(&file)
            .with_context(|| format!("cannot quantise {}", path.display()))?;
        let partial = &self.partial;
        remove(partial)?;
        fs::create_dir_all(partial)
            .with_context(|| format!("cannot create {}", partial.display()))?;
        let recipe = Recipe {
            name: self.name.clone(),
            model: MODEL.to_owned(),
            tokenizer: TOKENIZER.to_owned(),
            alone: true,
            ..self.recipe.clone()
        };
        let tokenizer = self.source.join(&self.recipe.tokenizer);
        let tokenizer =
            fs::read(&tokenizer).with_context(|| format!("cannot read {}", tokenizer.display()))?;
        let recipe = toml::to_string(&recipe)?;
        for (name, bytes) in [
            (MODEL, &quantised.file[..]),
            (TOKENIZER, &tokenizer),
            (RECIPE_FILE, recipe.as_bytes()),
        ] {
            write_whole(&partial.join(name), bytes)?;
        }
        Ok(Made {
            matrices: quantised.matrices,
            parameters: quantised.parameters,
            bytes: quantised.file.len() as u64,
            bytes_before: file.len() as u64,
        })
    }

    /// Encodes `texts` with both models. They take turns, so that whatever else the machine does is
    /// shared by both; few texts are encoded several times.
    pub(crate) async fn compare(
        &self,
        options: &EncoderOptions,
        texts: &[String],
    ) -> anyhow::Result<Compared> {
        let before = OnnxEncoder::open(&self.source, options)?;
        let after = OnnxEncoder::open(&self.partial, options)?;
        let rounds = TIMED_TEXTS.div_ceil(texts.len().max(1));
        let (mut lowest, mut sum) = (f32::INFINITY, 0.0_f64);
        let (mut seconds, mut seconds_before) = (0.0, 0.0);
        for turn in (0..rounds).flat_map(|_| texts.chunks(TURN)) {
            let was = encode(&before, turn, &mut seconds_before).await?;
            let is = encode(&after, turn, &mut seconds).await?;
            for (was, is) in was.iter().zip(&is) {
                let cosine: f32 = was.iter().zip(is).map(|(a, b)| a * b).sum();
                // What is not a number is no likeness.
                lowest = if cosine >= lowest { lowest } else { cosine };
                sum += f64::from(cosine);
            }
        }
        let encoded = (rounds * texts.len()) as f64;
        let rate = |seconds: f64| encoded / seconds.max(1e-6);
        Ok(Compared {
            texts: texts.len(),
            cosine_min: lowest,
            cosine_mean: (sum / encoded) as f32,
            texts_per_second: rate(seconds),
            texts_per_second_before: rate(seconds_before),
        })
    }

    /// Puts the new folder into its place, if it was found good. `runtime` is the library that was named
    /// for that.
    pub(crate) fn publish(
        &self,
        compared: &Compared,
        cosine_min: f32,
        runtime: Option<&Path>,
    ) -> anyhow::Result<()> {
        let lowest = compared.cosine_min;
        anyhow::ensure!(
            lowest >= cosine_min,
            "{} is not good enough, and was not kept: the cosine of a text to what it was before is \
             {lowest:.4}, and {cosine_min} is wanted at least (--cosine-min)",
            self.name
        );
        let files = [MODEL, TOKENIZER, RECIPE_FILE].map(|name| {
            let sha256 = digest::of_file(&self.partial.join(name))?.sha256;
            anyhow::Ok(FileNote::of(&self.partial, name, &sha256)?)
        });
        let files = files.into_iter().collect::<Result<_, _>>()?;
        // Whoever is told it may stand elsewhere.
        let whole = |path: &Path| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            path.to_string_lossy().into_owned()
        };
        let (source, out) = (whole(&self.source), whole(&self.out));
        let words = ["spechop", "models", "quantize", &source, "--out", &out];
        let mut words = Vec::from(words.map(str::to_owned));
        // Without them the same command might come to no model.
        if cosine_min != COSINE_MIN {
            words.push(format!("--cosine-min={cosine_min}"));
        }
        if let Some(runtime) = runtime {
            words.extend(["--runtime".to_owned(), whole(runtime)]);
        }
        let command = spechop_eval::command(words);
        let note = ModelNote::new(&self.name, files).made_by(command);
        note.write(&self.partial)?;
        // Much may have come there while the two were compared.
        may_be_replaced(&self.out)?;
        remove(&self.out)?;
        fs::rename(&self.partial, &self.out)
            .with_context(|| format!("cannot rename {}", self.partial.display()))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Published, never written, or of no use to anybody.
        let _ = fs::remove_dir_all(&self.partial);
    }
}

/// Refused if something at `out` would be lost.
fn may_be_replaced(out: &Path) -> anyhow::Result<()> {
    let shown = out.display();
    anyhow::ensure!(
        !out.exists() || is_ours(out),
        "{shown} is there, and this command did not make it: remove it, or name another folder with --out"
    );
    let files = [MODEL, TOKENIZER, RECIPE_FILE, NOTE];
    if let [stranger, ..] = &record::others(out, |name| files.contains(&name))[..] {
        anyhow::bail!(
            "{shown} holds {stranger:?}, which this command did not write and would remove: move it elsewhere first"
        );
    }
    Ok(())
}

/// Whether this command made a folder, which it may then make again.
fn is_ours(dir: &Path) -> bool {
    let note = ModelNote::read(dir).ok().flatten();
    note.is_some_and(|note| note.made_by.is_some())
}

/// The vectors of texts. Adds the time that they took.
async fn encode(
    encoder: &OnnxEncoder,
    texts: &[String],
    seconds: &mut f64,
) -> anyhow::Result<Vec<Vec<f32>>> {
    let started = Instant::now();
    let (call, texts) = (Call::authoritative(), texts.to_vec());
    let encoded = encoder.encode(&call, TextKind::Passage, texts).await?;
    *seconds += started.elapsed().as_secs_f64();
    Ok(encoded.vectors)
}

/// For those who have no corpus at hand: short and long, with names, numbers and other alphabets.
pub(crate) const SENTENCES: [&str; 16] = [
    "Berlin",
    "Who directed the film that won the prize in 1994?",
    "Where was the mother of the composer born?",
    "Which river flows through the capital of Hungary?",
    "The Danube flows through ten countries and four capitals before it reaches the Black Sea.",
    "Marie Curie was born in Warsaw in 1867 and was the first person to receive two Nobel Prizes.",
    "The bridge was opened on 27 May 1937; it is 2,737 metres long and 227 metres high.",
    "Łódź, Gdańsk und Zürich liegen nicht am selben Fluss.",
    "Лев Толстой родился в Ясной Поляне.",
    "東京は日本の首都です。",
    "A lighthouse keeper wrote down the weather every evening for thirty years, and nobody read it until the \
     house was sold.",
    "The orchestra was founded in 1842 by musicians of the opera. It has no principal conductor: its members \
     invite guests, and they elect their own board. Its concert on New Year's morning is broadcast to more than \
     ninety countries.",
    "Photosynthesis turns carbon dioxide and water into sugar and oxygen. The light is caught by chlorophyll, \
     which absorbs red and blue and leaves green. Each year about a hundred thousand million tonnes of carbon \
     pass through it, on land and in the sea in nearly equal parts.",
    "The treaty was signed by both kings in the spring, after a war of eleven years. It gave the northern towns \
     to the younger brother, on the condition that their harbours stayed open to the ships of the elder. Neither \
     of them kept it. Within four years the younger had closed two harbours, and the elder had burnt a third.",
    "Halcyon is a novel in three parts. In the first, a surveyor comes to an island to measure it, and falls ill. \
     In the second, his notes are read aloud by the woman who nursed him. In the third, which is set forty years \
     later, her grandson finds that the island on the map and the island outside the window do not agree.",
    "To repair the clock, first let the weight down to the floor. Take the hands off, the minute hand before the \
     hour hand, and then the dial, which is held by four pins. Clean the wheels with a soft brush and a little \
     petrol. Put one drop of oil, never more, on each pivot, and none on the teeth. When the movement is back in \
     its case, level it, hang the weight, and listen: an even beat means that the pendulum hangs straight.",
];

#[cfg(test)]
mod tests {
    use super::*;

    const RECIPE: &str = "name = \"e5\"\nmodel = \"model.onnx\"\ntokenizer = \"tokenizer.json\"\nquery_prefix = \"\"\n\
        passage_prefix = \"\"\npooling = \"mean\"\nwidth = 3\nquery_tokens_max = 64\npassage_tokens_max = 64\n";

    fn compared(cosine_min: f32) -> Compared {
        Compared {
            texts: 1,
            cosine_min,
            cosine_mean: 1.0,
            texts_per_second: 1.0,
            texts_per_second_before: 1.0,
        }
    }

    #[test]
    fn only_a_good_folder_takes_its_place_and_only_that_of_its_own_kind() {
        let dir = tempfile::tempdir().unwrap();
        let models = dir.path().join("my models");
        let (source, out) = (models.join("e5"), models.join("e5-int8"));
        fs::create_dir_all(&source).unwrap();
        fs::write(source.join(RECIPE_FILE), RECIPE).unwrap();
        let listed = || {
            let entries = fs::read_dir(&models).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<String> = names.collect();
            names.sort();
            names
        };
        let written = || {
            let folder = Folder::new(&source, &out).unwrap();
            fs::create_dir(&folder.partial).unwrap();
            for name in [MODEL, TOKENIZER, RECIPE_FILE] {
                fs::write(folder.partial.join(name), name).unwrap();
            }
            folder
        };
        for bad in [0.97, f32::NAN] {
            let bad = compared(bad);
            let error = written().publish(&bad, COSINE_MIN, None).unwrap_err();
            assert!(error.to_string().contains("is not good enough"), "{error}");
            assert_eq!(listed(), ["e5"], "nothing is left behind");
        }
        let good = compared(0.99);
        written().publish(&good, COSINE_MIN, None).unwrap();
        assert_eq!(listed(), ["e5", "e5-int8"]);
        assert!(compare_at(&out).unwrap());

        // A damaged one says how it is made again.
        fs::write(out.join(TOKENIZER), "tokenizer.jsoN").unwrap();
        let damage = compare_at(&out).unwrap_err().to_string();
        assert!(damage.contains("`spechop models quantize '/"), "{damage}");
        assert!(damage.contains("my models/e5' --out '/"), "{damage}");
        let is_all = damage.contains("e5-int8'") && !damage.contains("--cosine-min");
        assert!(is_all, "{damage}");
        let runtime = Path::new("/lib/onnx.so");
        written().publish(&good, 0.9, Some(runtime)).unwrap();
        assert!(compare_at(&out).unwrap());
        let made_by = ModelNote::read(&out).unwrap().unwrap().made_by.unwrap();
        let flags = " --cosine-min=0.9 --runtime /lib/onnx.so";
        assert!(made_by.ends_with(flags), "{made_by}");

        // What somebody has put into it is not lost, even if that came while it was made.
        let (late, mine) = (written(), out.join("card.md"));
        fs::write(&mine, "mine").unwrap();
        let early = Folder::new(&source, &out).err().unwrap();
        let late = late.publish(&good, COSINE_MIN, None).unwrap_err();
        for error in [early, late].map(|error| error.to_string()) {
            assert!(error.contains("e5-int8 holds \"card.md\""), "{error}");
        }
        assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
        fs::remove_file(&mine).unwrap();

        // Anything else in its place is left alone.
        fs::remove_file(out.join(NOTE)).unwrap();
        let error = Folder::new(&source, &out).err().unwrap().to_string();
        assert!(error.contains("this command did not make it"), "{error}");
    }
}
