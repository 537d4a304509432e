//! `spechop verify`: reads pairs and prints verdicts, one for each line.

use std::io::{BufRead, Write};

use anyhow::Context;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::Deserialize;
use spechop_types::VerifierMode;
use spechop_verifier::verify;

/// Run the verifier alone: compare guesses with observations. Reads `{"observed":"…","guess":"…"}`
/// lines and prints `{"accepted":…,"rule":"…","coverage":…,"jaccard":…}` lines.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// How strictly to compare: `rule` accepts the same meaning, `exact` only the same bytes. `paper`
    /// accepts on shared words, to the letter of the paper.
    #[arg(long, value_parser = verifiers(), default_value_t = VerifierMode::Rule)]
    pub(crate) mode: VerifierMode,
}

/// Reads the name of a way to verify.
pub(super) fn verifiers() -> impl TypedValueParser<Value = VerifierMode> {
    let names = VerifierMode::ALL.map(|mode| {
        PossibleValue::new(mode.as_str()).help(match mode {
            VerifierMode::Exact => "The same text. The answer is then the standard agent's",
            VerifierMode::Rule => "The same meaning, by rules that say what may differ",
            VerifierMode::Paper => {
                "The paper's rules to the letter, for comparison. Some wrong guesses pass them"
            }
        })
    });
    PossibleValuesParser::new(names).try_map(|name| name.parse())
}

/// One line of input. Other fields may stand beside these two.
#[derive(Deserialize)]
struct Pair {
    observed: String,
    guess: String,
}

/// Prints a verdict for every line of `input`, as soon as it is read; blank lines are skipped.
///
/// Fails at the first line that is not a pair, and names its number. The verdicts of the lines
/// before it have been printed whole by then.
pub(crate) fn run(
    args: &VerifyArgs,
    input: impl BufRead,
    mut output: impl Write,
) -> anyhow::Result<()> {
    for (number, line) in (1_u64..).zip(input.split(b'\n')) {
        let line = line.with_context(|| format!("cannot read line {number}"));
        match line.and_then(|line| judged(&line, args.mode, number)) {
            Ok(None) => {}
            // One write a line: what is out is whole, even when the next line fails.
            Ok(Some(verdict)) => writeln!(output, "{verdict}")?,
            Err(err) => {
                output.flush()?;
                return Err(err);
            }
        }
    }
    Ok(output.flush()?)
}

/// The verdict of one line as JSON; none for a blank line.
fn judged(line: &[u8], mode: VerifierMode, number: u64) -> anyhow::Result<Option<String>> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    let pair: Pair = serde_json::from_slice(line)
        .with_context(|| format!("line {number} is no {{\"observed\":…,\"guess\":…}} pair"))?;
    let verdict = verify(mode, &pair.observed, &pair.guess);
    Ok(Some(serde_json::to_string(&verdict)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mode: VerifierMode, input: &[u8]) -> (String, Option<String>) {
        let mut output = Vec::new();
        let result = run(&VerifyArgs { mode }, input, &mut output);
        let error = result.err().map(|err| format!("{err:#}"));
        (String::from_utf8(output).unwrap(), error)
    }

    #[test]
    fn prints_a_verdict_per_line() {
        let input = "{\"observed\":\"May 8, 1994\",\"guess\":\"8 May 1994\"}\r\n\n\
                     {\"guess\":\"Berlin\",\"observed\":\"Paris\",\"id\":7}";
        let (output, error) = check(VerifierMode::Rule, input.as_bytes());
        assert_eq!(error, None);
        assert_eq!(
            output,
            "{\"accepted\":true,\"rule\":\"equal\",\"coverage\":1.0,\"jaccard\":1.0}\n\
             {\"accepted\":false,\"rule\":\"different\",\"coverage\":0.0,\"jaccard\":0.0}\n"
        );
        let (output, _) = check(VerifierMode::Exact, input.as_bytes());
        assert!(output.starts_with("{\"accepted\":false"), "{output}");
    }

    #[test]
    fn a_bad_line_is_named_and_the_verdicts_before_it_are_whole() {
        for bad in [
            &b"{\"observed\":\"a\"}"[..],
            b"{\"observed\":1,\"guess\":\"a\"}",
            b"not json",
            b"[]",
            b"{\"observed\":\"\xff\",\"guess\":\"a\"}",
            b"{\"observed\":\"a\",\"gue",
        ] {
            let good = b"{\"observed\":\"Paris\",\"guess\":\"paris\"}\n";
            let input = [&good[..], bad, b"\n", &good[..]].concat();
            let (output, error) = check(VerifierMode::Rule, &input);
            let error = error.unwrap();
            assert!(error.starts_with("line 2 is no "), "{error}");
            assert_eq!(output.lines().count(), 1);
            for line in output.lines() {
                serde_json::from_str::<serde_json::Value>(line).unwrap();
            }
        }
    }

    #[test]
    fn nothing_in_nothing_out() {
        assert_eq!(check(VerifierMode::Rule, b""), (String::new(), None));
    }

    #[test]
    fn a_closed_pipe_is_an_error_not_a_panic() {
        let input = b"{\"observed\":\"Paris\",\"guess\":\"paris\"}\n";
        let mut full = [0_u8; 4];
        let args = VerifyArgs {
            mode: VerifierMode::Rule,
        };
        let result = run(&args, &input[..], &mut full[..]);
        assert!(result.is_err());
    }
}
