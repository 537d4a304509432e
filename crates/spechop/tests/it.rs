//! The command line, and what the repository says of itself.

mod architecture;
mod cli;
mod config_cli;
mod eval_brought;
mod eval_bundle;
mod eval_decisions;
mod eval_live;
mod eval_run;
mod index_cli;
mod index_remote;
mod keys_cli;
mod killed;
mod load_cli;
mod machine;
mod makefile;
mod patterns_cli;
#[path = "../../spechop-server/tests/support/pki.rs"]
mod pki;
mod prose;
mod setup;
mod shell;
mod simulate_bad_input;
mod simulate_cli;
mod sum_tests;
#[path = "../../spechop-server/tests/support/mod.rs"]
mod support;
mod theory_cli;
mod tools;
