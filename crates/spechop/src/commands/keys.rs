//! `spechop keys`: API keys.

use std::fmt::Write as _;
use std::io::Write;

use clap::{Subcommand, ValueEnum};
use secrecy::ExposeSecret;
use spechop_config::api_keys::{Cost, KeyName, NewKey, Role};
use spechop_types::Tenant;

/// The arguments of `spechop keys`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a key: print it once, and the lines of configuration that hold its hash.
    New(New),
}

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
struct New {
    /// What the key is called: letters, digits, hyphens and underscores. It is part of the key.
    #[arg(long, value_parser = KeyName::new)]
    name: KeyName,
    /// On whose behalf the key may be used; `*` for whomever the caller names (a proxy that knows its
    /// clients) [default: the tenant without a name].
    #[arg(long, value_name = "TENANT", value_parser = tenant)]
    tenant: Option<String>,
    /// What the key may be used for. May be repeated.
    #[arg(long = "role", value_enum, value_name = "ROLE", default_value = "ask")]
    roles: Vec<Named>,
}

const HELP: &str = "\
The first line of the output is the key. Nobody can find it out again: give it to its owner, who
sends it as `authorization: Bearer KEY`. The other lines belong into the configuration, or into
the file that server.keys_file names.

Examples:
  spechop keys new --name laptop --tenant team-7
  spechop keys new --name grafana --role admin
  spechop keys new --name ci --tenant ci \\
    | tee >(umask 077; head -n 1 > ci.key) | tail -n +2 >> keys.toml";

/// A role as it is written.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Named {
    /// Questions and passages.
    Ask,
    /// The admin service and the metrics.
    Admin,
}

impl From<Named> for Role {
    fn from(named: Named) -> Self {
        match named {
            Named::Ask => Self::Ask,
            Named::Admin => Self::Admin,
        }
    }
}

fn tenant(name: &str) -> Result<String, String> {
    match name {
        "*" => Ok(name.to_owned()),
        name => {
            let tenant = Tenant::new(name).map_err(|error| error.to_string())?;
            Ok(tenant.into())
        }
    }
}

/// Makes a key, and prints it.
pub(crate) fn run(args: &Args, mut out: impl Write) -> anyhow::Result<()> {
    let Command::New(new) = &args.command;
    let made = NewKey::generate(&new.name, Cost::default())?;
    let mut roles: Vec<Role> = new.roles.iter().copied().map(Role::from).collect();
    roles.sort_unstable();
    roles.dedup();
    let roles: Vec<_> = roles
        .iter()
        .map(|role| format!("\"{}\"", role.as_str()))
        .collect();
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "{}\n\n[[keys]]\nname = \"{}\"\nhash = \"{}\"\nroles = [{}]\n",
        made.key.expose_secret(),
        new.name.as_str(),
        made.hash.as_str(),
        roles.join(", ")
    );
    if let Some(tenant) = &new.tenant {
        let _ = writeln!(text, "tenant = \"{tenant}\"");
    }
    Ok(out.write_all(text.as_bytes())?)
}
