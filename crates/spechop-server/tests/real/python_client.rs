//! The Python client: packed as users get it, installed, and used. Its own tests are in `clients/python`.

use std::path::{Path, PathBuf};

use spechop_testkit::Script;
use spechop_types::Stage;
use tokio::process::Command;

use super::support::Server;
use super::unmodified_client::{output, tool};

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python")
}

/// Installs the client of these sources into `folder`, without what it needs: the tools have that.
async fn install(folder: &Path) {
    let python = tool("venv/bin/python");
    // The builder leaves nothing in the sources.
    let wheels = folder.join("wheels");
    output(
        Command::new(&python)
            .args([
                "-m",
                "pip",
                "wheel",
                "--quiet",
                "--disable-pip-version-check",
            ])
            .args(["--no-deps", "--no-build-isolation", "--wheel-dir"])
            .arg(&wheels)
            .arg(sources()),
    )
    .await;
    output(
        Command::new(&python)
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ])
            .args(["--no-deps", "--no-index", "--target"])
            .arg(folder.join("site"))
            .arg("--find-links")
            .arg(&wheels)
            .arg("spechop-client"),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn packed_and_installed_it_passes_its_tests() {
    let folder = tempfile::tempdir().unwrap();
    install(folder.path()).await;
    let server = Server::start(Script::steady(&[true, false], 1, 10, 1)).await;
    let mut script = Script::instant(2);
    script.failures.insert((1, Stage::Target), u32::MAX);
    let failing = Server::start(script).await;
    output(
        Command::new(tool("venv/bin/python"))
            .args(["-B", "-m", "unittest", "discover", "--start-directory"])
            .arg(sources().join("tests"))
            .current_dir(folder.path())
            .env("PYTHONPATH", folder.path().join("site"))
            .env("SPECHOP_ADDRESS", server.address.to_string())
            .env("SPECHOP_FAILING", failing.address.to_string()),
    )
    .await;
    server.is_idle().await;
    failing.is_idle().await;
}

#[tokio::test]
async fn its_messages_are_those_of_the_proto_file() {
    let folder = tempfile::tempdir().unwrap();
    output(
        Command::new(sources().join("generate.sh"))
            .arg(folder.path())
            .env("PYTHON", tool("venv/bin/python")),
    )
    .await;
    for file in ["spechop_pb2.py", "spechop_pb2.pyi"] {
        let committed = std::fs::read(sources().join("src/spechop/v1").join(file)).unwrap();
        let written = std::fs::read(folder.path().join("spechop/v1").join(file)).unwrap();
        assert!(
            committed == written,
            "{file} is of another proto file: run clients/python/generate.sh"
        );
    }
}

#[tokio::test]
async fn its_types_hold() {
    output(
        Command::new(tool("venv/bin/python"))
            .args([
                "-m",
                "mypy",
                "--config-file",
                "pyproject.toml",
                "--cache-dir=/dev/null",
            ])
            .current_dir(sources()),
    )
    .await;
}
