//! A server's middle over scripted ports: no socket, so that time can stand still.

use spechop_config::{Env, Written};
use spechop_testkit::{Script, ScriptedPorts, fill_home};

use super::*;
use crate::Bare;

/// The state of a server that plays a script with these lines of configuration.
pub(crate) fn state(script: Script, toml: &str) -> (Arc<ServerState>, ScriptedPorts) {
    let config = config(toml);
    let ports = ScriptedPorts::new(script);
    let toolbox = Toolbox::of(bare(&ports), &config);
    (ServerState::new(config, toolbox, Phases::default()), ports)
}

pub(crate) fn bare(ports: &ScriptedPorts) -> Bare {
    let port = Arc::new(ports.clone());
    Bare {
        planner: port.clone(),
        drawing: Vec::new(),
        reader: port.clone(),
        retriever: port.clone(),
        speculators: [(SpeculatorKind::Llm, port as _)].into(),
    }
}

pub(crate) fn config(toml: &str) -> Config {
    let home = tempfile::tempdir().unwrap();
    let env: Env = [fill_home(home.path())].into_iter().collect();
    let style = ["generator.style", "--set", "tagged"].map(str::to_owned);
    let written = Written {
        file: Some(("test.toml".into(), toml.to_owned())),
        flags: vec![style.into()],
    };
    Config::read(written, &env).unwrap()
}
