//! A tool of an MCP server as the target (`[target.mcp]`).

use spechop_mcp::{Ahead, Arguments, Form, McpOptions, Path, Program, Server, Shape};
use spechop_web::HttpEndpoint;

use super::keys::Keys;
use super::models::api_key;
use super::target::must_be_usable;
use crate::Env;

/// Variables that everybody has, so that nobody misses them.
const ENV: [&str; 2] = ["PATH", "HOME"];

pub(super) fn mcp(keys: &mut Keys<'_>, env: &Env, is_used: bool) -> McpOptions {
    let server = server(keys, env, is_used);
    let tool = keys.text("target.mcp.tool");
    if is_used && tool.is_none() {
        keys.mistake(
            "target.mcp.tool",
            "expected the name of the tool; with any name, the error at the start lists the tools \
             that there are",
        );
    }
    let usual = McpOptions::new(server, tool.unwrap_or_default());
    McpOptions {
        arguments: arguments(keys),
        shape: shape(keys),
        ahead: ahead(keys),
        start: keys.millis("target.mcp.start_ms_max"),
        attempt: keys.millis("target.mcp.ms_max"),
        total: keys.millis("target.mcp.total_ms_max"),
        bytes_max: keys.count("target.mcp.bytes_max").get(),
        ..usual
    }
}

fn server(keys: &mut Keys<'_>, env: &Env, is_used: bool) -> Server {
    let command = keys.words("target.mcp.command");
    let url = keys.text("target.mcp.url");
    let variable = keys.text("target.mcp.api_key_env");
    let names = keys.list("target.mcp.env");
    let dir = keys.path("target.mcp.dir");
    if is_used && command.is_some() == url.is_some() {
        keys.mistake(
            "target.mcp.command",
            "kind = \"mcp\" needs either a program (target.mcp.command) or an address \
             (target.mcp.url)",
        );
    }
    if let Some(url) = url {
        let mut endpoint = HttpEndpoint::new("mcp", url);
        if is_used {
            endpoint.key =
                variable.and_then(|name| api_key(keys, "target.mcp.api_key_env", &name, env));
            must_be_usable(keys, "target.mcp", &endpoint);
        }
        return Server::Http(endpoint);
    }
    let names = names.unwrap_or_default();
    let mut passed = Vec::new();
    for name in names {
        match env.secret(&name) {
            Some(value) => passed.push((name, value)),
            None if !is_used || ENV.contains(&&*name) => {}
            None => {
                let problem = format!("the environment variable {name:?} is not set");
                keys.mistake("target.mcp.env", problem);
            }
        }
    }
    Server::Program(Program {
        command: command.unwrap_or_default(),
        env: passed,
        dir,
    })
}

fn arguments(keys: &mut Keys<'_>) -> Arguments {
    let Some(text) = keys.text("target.mcp.arguments") else {
        return Arguments::default();
    };
    text.parse().unwrap_or_else(|error| {
        keys.mistake("target.mcp.arguments", format!("{error}"));
        Arguments::default()
    })
}

fn shape(keys: &mut Keys<'_>) -> Shape {
    let forms = [
        ("auto", Form::Auto),
        ("text", Form::Text),
        ("json", Form::Json),
    ];
    let form = keys.one_of("target.mcp.result", &forms);
    let mut path = |name: &str| {
        let text = keys.verbatim(&format!("target.mcp.{name}_at"));
        text.map(|text| Path::from(&*text))
    };
    Shape {
        items: path("items"),
        id: path("id"),
        title: path("title"),
        text: path("text"),
        url: path("url"),
        form: form.unwrap_or_default(),
    }
}

fn ahead(keys: &mut Keys<'_>) -> Ahead {
    let words = [
        ("annotated", Ahead::Annotated),
        ("always", Ahead::Always),
        ("never", Ahead::Never),
    ];
    keys.one_of("target.mcp.ahead", &words)
        .unwrap_or(Ahead::Annotated)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The options of a section, or its mistakes.
    fn read(text: &str, variables: &[(&str, &str)]) -> Result<McpOptions, Vec<String>> {
        let file = format!("[target.mcp]\n{text}");
        Keys::meaning(&file, variables, |keys, env| mcp(keys, env, true))
    }

    const KEY: (&str, &str) = ("NOTES_KEY", "secret-1");

    #[test]
    fn a_program_gets_what_is_named() {
        let text = "command = [\"notes\", \"my folder\"]\ntool = \"find\"\n\
                    env = [\"PATH\", \"NOTES_KEY\"]\nresult = \"json\"\nitems_at = \"a.b\"\n\
                    arguments = '{\"q\": \"{question}\"}'\nahead = \"never\"";
        let options = read(text, &[KEY, ("PATH", "/bin"), ("HOME", "/root")]).unwrap();
        let Server::Program(program) = &options.server else {
            panic!("it is a program")
        };
        assert_eq!(program.command, ["notes", "my folder"]);
        let names: Vec<_> = program.env.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["PATH", "NOTES_KEY"]);
        assert!(!format!("{options:?}").contains("secret-1"));
        assert_eq!(options.ahead, Ahead::Never);
        assert_eq!(options.shape.items, Some(Path::from("a.b")));
        // As one text, e.g. in a variable.
        let options = read("command = \"notes --all\"\ntool = \"find\"", &[]).unwrap();
        let Server::Program(program) = &options.server else {
            panic!("it is a program")
        };
        assert_eq!(program.command, ["notes", "--all"]);
    }

    #[test]
    fn an_address_may_have_a_key() {
        let text = "url = \"http://127.0.0.1:1/mcp\"\ntool = \"find\"\napi_key_env = \"NOTES_KEY\"";
        let options = read(text, &[KEY]).unwrap();
        let Server::Http(endpoint) = &options.server else {
            panic!("it is an address")
        };
        assert!(endpoint.key.is_some());
        assert!(!format!("{options:?}").contains("secret-1"));
    }

    #[test]
    fn what_cannot_be_is_a_mistake() {
        for (text, said) in [
            ("tool = \"find\"", "needs either a program"),
            (
                "tool = \"find\"\nurl = \"http://h/\"\ncommand = \"x\"",
                "needs either a program",
            ),
            ("command = \"x\"", "expected the name of the tool"),
            (
                "command = \"x\"\ntool = \"t\"\narguments = \"{}\"",
                "no argument holds {question}",
            ),
            (
                "command = \"x\"\ntool = \"t\"\nenv = [\"NONE\"]",
                "\"NONE\" is not set",
            ),
            (
                "command = \"x\"\ntool = \"t\"\nahead = \"perhaps\"",
                "\"annotated\" or",
            ),
            (
                "url = \"http://h/\"\ntool = \"t\"\napi_key_env = \"NONE\"",
                "NONE is not set",
            ),
            (
                "url = \"127.0.0.1:8000/mcp\"\ntool = \"t\"",
                "target.mcp.url (c.toml): the base URL of mcp is unusable",
            ),
        ] {
            let mistakes = read(text, &[]).unwrap_err();
            assert_eq!(mistakes.len(), 1, "{mistakes:?}");
            assert!(mistakes[0].contains(said), "{mistakes:?}");
        }
    }
}
