//! Which tool is called, and how.

use std::cmp::Reverse;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use spechop_ports::retry::Retries;
use spechop_web::HttpEndpoint;

use crate::arguments::Arguments;
use crate::result::Shape;

/// Shorter values of an environment are switches (`1`, `error`), and to cut them would leave holes in words. No key
/// is as short.
const SECRET_BYTES_MIN: usize = 8;
/// Variables that every program may have, and whose values are no secrets.
const PLAIN: [&str; 8] = [
    "PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "TMPDIR", "NODE_ENV",
];

/// A tool, where it is, and what its calls may take. Its `Debug` shows no secret.
#[derive(Clone, Debug)]
pub struct McpOptions {
    /// The server that has the tool.
    pub server: Server,
    /// The tool's name.
    pub tool: String,
    /// What it is told.
    pub arguments: Arguments,
    /// How its result becomes passages.
    pub shape: Shape,
    /// Whether it may be called before an answer needs it.
    pub ahead: Ahead,
    /// For starting and opening: a process may have to be downloaded first.
    pub start: Duration,
    /// For one attempt.
    pub attempt: Duration,
    /// For the whole call: attempts and their pauses included.
    pub total: Duration,
    /// What to do about failures that may pass. A tool that may have effects is not called again once
    /// a call may have reached it.
    pub retries: Retries,
    /// Longest message of the server, in bytes.
    pub bytes_max: usize,
}

impl McpOptions {
    /// `{"query": "…"}`, results of any shape, 60 s to start, 10 s an attempt, 30 s in all, 4 MiB.
    pub fn new(server: Server, tool: impl Into<String>) -> Self {
        Self {
            server,
            tool: tool.into(),
            arguments: Arguments::default(),
            shape: Shape::default(),
            ahead: Ahead::Annotated,
            start: Duration::from_secs(60),
            attempt: Duration::from_secs(10),
            total: Duration::from_secs(30),
            retries: Retries::default(),
            bytes_max: 4 * 1024 * 1024,
        }
    }
}

/// The server that has the tool.
#[derive(Clone, Debug)]
pub enum Server {
    /// A program that is started, and spoken to over its standard input and output.
    Program(Program),
    /// An address of streamable HTTP. Its `time_limit` is for connecting.
    Http(HttpEndpoint),
}

impl Server {
    /// What it may repeat and nobody is to hear, since its words go to whoever asks: the key of its address, or what
    /// its program finds in the environment. The longest first, for one may be a part of another.
    pub(crate) fn secrets(&self) -> Vec<&str> {
        let mut secrets: Vec<&str> = match self {
            Self::Program(program) => {
                let hidden = (program.env.iter()).filter(|(name, _)| !PLAIN.contains(&&**name));
                let values = hidden.map(|(_, value)| value.expose_secret().trim());
                values
                    .filter(|value| value.len() >= SECRET_BYTES_MIN)
                    .collect()
            }
            Self::Http(endpoint) => {
                let key = endpoint.key.iter().map(|key| key.expose_secret().trim());
                key.filter(|key| !key.is_empty()).collect()
            }
        };
        secrets.sort_by_key(|secret| Reverse(secret.len()));
        secrets
    }
}

impl fmt::Display for Server {
    /// For messages, which go to whoever asks: the program without its arguments, among which there may be secrets, or
    /// the address.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(program) => {
                f.write_str(program.command.first().map_or("", String::as_str))
            }
            Self::Http(endpoint) => f.write_str(&endpoint.base_url),
        }
    }
}

/// A program that serves over its standard input and output.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program and its arguments. Never empty.
    pub command: Vec<String>,
    /// Its whole environment: names and values.
    pub env: Vec<(String, SecretString)>,
    /// The folder that it starts in; by default this process's own.
    pub dir: Option<PathBuf>,
}

/// Whether a tool may be called before an answer needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// If its server says that it only reads (`readOnlyHint`).
    Annotated,
    /// It only reads, whatever its server says.
    Always,
    /// Never.
    Never,
}

#[cfg(test)]
mod tests {
    use spechop_ports::reason;

    use super::*;

    #[test]
    fn no_message_has_the_arguments_of_a_program() {
        let command = ["notes", "--db", "postgres://me:hunter2@db/notes"];
        let program = Server::Program(Program {
            command: command.map(str::to_owned).into(),
            env: Vec::new(),
            dir: None,
        });
        assert_eq!(program.to_string(), "notes");
    }

    #[test]
    fn what_a_server_says_is_told_without_its_secrets() {
        let env = [
            ("PATH", "/usr/bin"),
            ("HOME", "/home/notes"),
            ("LOG_LEVEL", "error"),
            ("LANG", "C.UTF-8-en"),
            ("NONE", ""),
            ("USER_KEY", "notes-12"),
            ("KEY", " notes-12-of-34\n"),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), SecretString::from(value)));
        let program = Server::Program(Program {
            command: vec!["notes".to_owned()],
            env: Vec::from(env),
            dir: None,
        });
        for (said, told) in [
            ("no key notes-12-of-34", "no key [key]"),
            ("notes-12: 1 of 2 is gone", "[key]: 1 of 2 is gone"),
            (r#"{"error":"no key notes\u002d12"}"#, "no key [key]"),
            ("an error of C.UTF-8-en", "an error of C.UTF-8-en"),
            ("/usr/bin is no /home/notes", "/usr/bin is no /home/notes"),
        ] {
            assert_eq!(reason(said.as_bytes(), program.secrets()), told);
        }
        let mut endpoint = HttpEndpoint::new("notes", "http://127.0.0.1:1/mcp");
        let said = "abc is no key";
        assert!(Server::Http(endpoint.clone()).secrets().is_empty());
        // It is a key for certain, however short.
        endpoint.key = Some("abc".into());
        let told = reason(said.as_bytes(), Server::Http(endpoint).secrets());
        assert_eq!(told, "[key] is no key");
    }
}
