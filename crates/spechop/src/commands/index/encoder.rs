//! The encoder of an index: which one, and where it runs.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use spechop_config::{Encoder, Env, Written};
use spechop_server::encoders;

use crate::commands::configured::ConfigArgs;
use crate::commands::from_one;

/// The arguments that say which encoder is used, and how: those of `spechop serve`, and short forms
/// of a few keys.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Model {
    /// The encoder's folder [default: encoder.dir; else the one that `spechop models pull encoder`
    /// chose].
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// The ONNX Runtime library [default: runtime.onnxruntime; else the one that
    /// `spechop models pull onnxruntime` fetched].
    #[arg(long, value_name = "FILE")]
    runtime: Option<PathBuf>,
    /// Threads of the encoder [default: encoder.threads; else one for each core].
    #[arg(long, value_name = "N", value_parser = from_one)]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    config: ConfigArgs,
}

impl Model {
    /// Opens the encoder that `spechop serve` would have with the same configuration.
    pub(crate) async fn open(self, env: &Env) -> anyhow::Result<Arc<dyn spechop_ports::Encoder>> {
        let encoder = Encoder::read(self.written(env)?, env)?;
        Ok(encoders::for_building(&encoder).await?)
    }

    /// Whether the model or its runtime may be those of the data folder. A configuration file is not looked into.
    pub(super) fn needs_folders(&self) -> bool {
        let named = |flag: &Option<PathBuf>, key| flag.is_some() || self.config.sets(key);
        !(named(&self.model, "encoder.dir") && named(&self.runtime, "runtime.onnxruntime"))
    }

    /// The same, but the encoder in this folder.
    pub(crate) fn in_folder(self, dir: &Path) -> Self {
        let model = Some(dir.to_owned());
        Self { model, ..self }
    }

    fn written(self, env: &Env) -> anyhow::Result<Written> {
        let mut written = self.config.written(env)?;
        let mut say = |key: &str, flag: &str, value: String| {
            let flag = (key.to_owned(), flag.to_owned(), value);
            written.flags.push(flag);
        };
        if let Some(dir) = &self.model {
            say("encoder.kind", "--model", "onnx".to_owned());
            say("encoder.dir", "--model", text(dir)?);
        }
        if let Some(file) = &self.runtime {
            say("runtime.onnxruntime", "--runtime", text(file)?);
        }
        if let Some(threads) = self.threads {
            say("encoder.threads", "--threads", threads.to_string());
        }
        Ok(written)
    }
}

fn text(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.with_context(|| format!("{} is no UTF-8: rename it", path.display()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        model: Model,
    }

    #[test]
    fn a_folder_on_the_command_line_goes_before_any_other_encoder() {
        let env = Env::default();
        let set = [
            "index",
            "--set",
            "encoder.kind=tei",
            "--set",
            "encoder.dir=/a",
        ];
        let flags = |more: &[&str]| {
            let parsed = Command::parse_from(set.iter().chain(more));
            let written = parsed.model.written(&env).unwrap();
            let flags = written.flags.into_iter();
            // The last one holds.
            flags
                .map(|(key, _, value)| (key, value))
                .collect::<std::collections::BTreeMap<_, _>>()
        };
        assert_eq!(flags(&[])["encoder.kind"], "tei");
        let named = flags(&["--model", "/b", "--runtime", "/r.so", "--threads", "2"]);
        assert_eq!(named["encoder.kind"], "onnx");
        assert_eq!(named["encoder.dir"], "/b");
        assert_eq!(named["runtime.onnxruntime"], "/r.so");
        assert_eq!(named["encoder.threads"], "2");
    }
}
