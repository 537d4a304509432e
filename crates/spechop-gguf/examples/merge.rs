//! A trained adapter merged into its model, as `spechop models pull` does it:
//! `cargo run --release -p spechop-gguf --example merge -- MODEL.gguf ADAPTER.gguf OUT.gguf`.
#![allow(
    clippy::print_stdout,
    reason = "it says what the catalogue has to know"
)]

use std::error::Error;
use std::fs;

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<_> = std::env::args().skip(1).collect();
    let [model, adapter, out] = paths.as_slice() else {
        return Err("say the model, the adapter, and where the merged model goes".into());
    };
    let merged = spechop_gguf::merge(&fs::read(model)?, &fs::read(adapter)?)?;
    println!("{out}: {} bytes", merged.len());
    Ok(fs::write(out, merged)?)
}
