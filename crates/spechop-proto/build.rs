//! Compiles `proto/` without protoc: the messages and the client in one pass, the server, with its
//! own codec, in a second.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

const ROOT: &str = "../../proto";
const FILE: &str = "spechop/v1/spechop.proto";

#[expect(
    clippy::disallowed_methods,
    reason = "cargo speaks to build scripts through the environment"
)]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={ROOT}");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut compiler = protox::Compiler::new([ROOT])?;
    compiler
        .include_source_info(true)
        .include_imports(true)
        .open_file(FILE)?;
    fs::write(
        out.join("descriptors.bin"),
        compiler.encode_file_descriptor_set(),
    )?;
    let files = compiler.file_descriptor_set();

    tonic_prost_build::configure()
        .build_server(false)
        .out_dir(&out)
        .compile_fds(files.clone())?;
    tonic_prost_build::configure()
        .build_client(false)
        .extern_path(".spechop.v1", "crate")
        .codec_path("crate::RequestCodec")
        .out_dir(folder(&out.join("server"))?)
        .compile_fds(files)?;
    Ok(())
}

fn folder(path: &Path) -> std::io::Result<&Path> {
    fs::create_dir_all(path)?;
    Ok(path)
}
