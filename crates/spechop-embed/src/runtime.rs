//! The ONNX Runtime library, loaded once a process.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ort::environment::Environment;
use ort::logging::LogLevel;
use parking_lot::Mutex;

use crate::OpenError;

/// What this process runs on. ONNX Runtime allows one library and one environment a process, and
/// forgets the environment for good when its last holder goes, so it is held here.
static LOADED: Mutex<Option<(PathBuf, Environment)>> = Mutex::new(None);

/// The environment of the library at `path`, loading it where that has not been done.
pub(crate) fn environment(path: &Path) -> Result<Environment, OpenError> {
    // An absolute path, because a relative one is looked for beside the executable first.
    let path = path.canonicalize().map_err(|source| OpenError::Read {
        path: path.to_owned(),
        source,
    })?;
    let mut loaded = LOADED.lock();
    match &*loaded {
        Some((held, environment)) if *held == path => Ok(environment.clone()),
        Some((held, _)) => Err(OpenError::OtherRuntime {
            path,
            loaded: held.clone(),
        }),
        None => {
            let environment = load(&path)?;
            *loaded = Some((path, environment.clone()));
            Ok(environment)
        }
    }
}

fn load(path: &Path) -> Result<Environment, OpenError> {
    let failed = |source| OpenError::Runtime {
        path: path.to_owned(),
        source,
    };
    let environment = ort::init_from(path)
        .map_err(|error| failed(error.into()))?
        .with_name("spechop")
        .with_telemetry(false)
        .with_logger(Arc::new(log))
        .build()
        .map_err(|error| failed(error.to_string().into()))?;
    environment.set_log_level(LogLevel::Warning);
    Ok(environment)
}

/// Hands the library's own messages to our log instead of standard error.
fn log(level: LogLevel, _category: &str, _id: &str, location: &str, message: &str) {
    match level {
        LogLevel::Verbose | LogLevel::Info => tracing::debug!(location, "onnxruntime: {message}"),
        LogLevel::Warning => tracing::warn!(location, "onnxruntime: {message}"),
        LogLevel::Error | LogLevel::Fatal => tracing::error!(location, "onnxruntime: {message}"),
    }
}
