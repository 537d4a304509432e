//! The flags of `spechop eval simulate` by which somebody brings guesses and verdicts.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context, ensure};
use spechop_eval::{Brought, Bundle, CASCADE, Control, Injected, is_name, short_hash};

use super::asked::counts;
use crate::input;

/// Flags that bring guesses and verdicts.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Bring your own")]
pub(crate) struct BroughtArgs {
    /// Play these guesses beside ours: JSON lines with question, hop, guess, ms and perhaps
    /// confidence. `--variant k=…,speculator=NAME` plays them alone, by the name that they have in
    /// tables. `-` reads stdin.
    #[arg(long, value_name = "FILE|-")]
    guesses: Option<String>,
    /// Play these verdicts beside our verifier's: JSON lines with question, hop, accept and perhaps
    /// ms. They are of the guesses of --guesses, else of one recorded speculator's: `hot`, or the
    /// one that each --variant names. `-` reads stdin.
    #[arg(long, value_name = "FILE|-")]
    verdicts: Option<String>,
    /// Play a speculator that knows nothing beside ours: `blind` guesses at the same hops, as fast,
    /// but what another question found; `silent` never guesses. May be repeated.
    #[arg(long, value_name = "blind|silent")]
    control: Vec<Control>,
    /// What `speculator=cascade` asks in a --variant: speculators that the bundle has, asked together
    /// as by a server. The first confident guess counts, e.g. `hot,llm`.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    cascade: Vec<String>,
    /// The name in tables of what is brought [default: the name of the file].
    #[arg(long, value_name = "NAME", value_parser = named)]
    name: Option<String>,
}

/// What was brought, and what tables and runs say of it.
pub(crate) struct Read {
    pub(crate) brought: Brought,
    /// Name and hash of each file, by part.
    pub(crate) parts: BTreeMap<String, String>,
    /// How many hops each file is about, a line each.
    pub(crate) told: Vec<String>,
}

impl BroughtArgs {
    /// Reads and checks what is brought.
    pub(crate) fn read(&self, bundle: &Bundle, injected: Option<Injected>) -> anyhow::Result<Read> {
        let mut read = Read {
            brought: Brought::default(),
            parts: BTreeMap::new(),
            told: Vec::new(),
        };
        let brings = self.guesses.is_some() || self.verdicts.is_some();
        ensure!(
            brings || self.name.is_none(),
            "--name names what --guesses or --verdicts bring"
        );
        let from_stdin = |file: &Option<String>| file.as_deref() == Some("-");
        ensure!(
            !(from_stdin(&self.guesses) && from_stdin(&self.verdicts)),
            "guesses and verdicts cannot both be read from stdin"
        );
        for control in BTreeSet::from_iter(&self.control) {
            read.brought.add_control(*control, bundle, injected);
            let name = control.as_str();
            read.parts
                .insert(format!("speculator {name}"), "a control".to_owned());
        }
        self.read_cascade(&mut read, bundle, injected)?;
        if !brings {
            return Ok(read);
        }
        let hops = counts(bundle);
        let all: u32 = hops.values().flatten().sum();
        if let Some(file) = &self.guesses {
            let (name, input) = (self.name(file), bytes(file)?);
            ensure!(
                !bundle.speculators().contains(&*name),
                "the bundle has guesses of `{name}` itself; give yours another --name"
            );
            ensure!(
                name.parse::<Control>().is_err(),
                "`{name}` is a control; give yours another --name"
            );
            ensure!(
                name != CASCADE || self.cascade.is_empty(),
                "`{name}` is what --cascade makes; give yours another --name"
            );
            read.brought
                .read_guesses(&name, shown(file), &*input, &hops)?;
            read.parts
                .insert(format!("speculator {name}"), part(file, &input));
            let count = read.brought.guesses();
            read.told
                .push(format!("{name}: guesses for {count} of {all} hops"));
        }
        if let Some(file) = &self.verdicts {
            let (name, input) = (self.name(file), bytes(file)?);
            ensure!(
                name != "ours",
                "our own verdicts are called `ours`; give yours another --name"
            );
            read.brought
                .read_verdicts(&name, shown(file), &*input, &hops)?;
            read.parts
                .insert(format!("verdicts {name}"), part(file, &input));
            let count = read.brought.verdicts();
            read.told
                .push(format!("{name}: verdicts for {count} of {all} hops"));
        }
        Ok(read)
    }

    fn read_cascade(
        &self,
        read: &mut Read,
        bundle: &Bundle,
        injected: Option<Injected>,
    ) -> anyhow::Result<()> {
        if self.cascade.is_empty() {
            return Ok(());
        }
        let recorded = bundle.speculators();
        ensure!(
            !recorded.contains(CASCADE),
            "the bundle has guesses of `{CASCADE}` itself: leave --cascade out"
        );
        for name in &self.cascade {
            ensure!(
                recorded.contains(name.as_str()),
                "the bundle has no guesses of `{name}`, but of {}",
                Vec::from_iter(recorded).join(", ")
            );
        }
        read.brought.add_cascade(&self.cascade, bundle, injected);
        let part = format!("speculator {CASCADE}");
        read.parts.insert(part, self.cascade.join(", "));
        Ok(())
    }

    /// The given name, or the file's without its folder and its ending.
    fn name(&self, file: &str) -> String {
        if let Some(name) = &self.name {
            return name.clone();
        }
        let stem = Path::new(file).file_stem().unwrap_or_default();
        let letter = |c: char| {
            if is_name(c.encode_utf8(&mut [0; 4])) {
                c
            } else {
                '-'
            }
        };
        match file {
            "-" => "stdin".to_owned(),
            _ => stem.to_string_lossy().chars().map(letter).collect(),
        }
    }
}

fn named(text: &str) -> Result<String, String> {
    match is_name(text) {
        true => Ok(text.to_owned()),
        false => Err("expected letters, digits, `-`, `.` and `_`".to_owned()),
    }
}

/// What messages call it.
fn shown(file: &str) -> &str {
    match file {
        "-" => "stdin",
        file => file,
    }
}

/// The whole of it. A file of guesses is small, and its hash belongs to the run.
fn bytes(file: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = input::open(file.as_ref())?.read_to_end(&mut bytes);
    read.with_context(|| format!("cannot read {}", shown(file)))?;
    Ok(bytes)
}

fn part(file: &str, bytes: &[u8]) -> String {
    let name = Path::new(shown(file)).file_name().unwrap_or_default();
    format!("{} {}", name.to_string_lossy(), short_hash(bytes))
}
