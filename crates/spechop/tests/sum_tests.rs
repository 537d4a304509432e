//! `deploy/sum-tests.sh`, which ends `make test`: one line over several commands, and nothing that has
//! gone wrong counts as success.

use std::path::Path;
use std::process::Command;

/// What a test binary of two tests prints at its end.
const GOOD: &str = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured'";
const BAD: &str = "echo 'test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured'; exit 101";
const DEAD: &str = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured'; kill -9 $$";

#[test]
fn one_line_over_all_commands() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/sum-tests.sh");
    for (commands, last_line, success) in [
        (&[GOOD][..], "2 passed, 0 failed", true),
        (&[GOOD, GOOD], "4 passed, 0 failed", true),
        (&[BAD], "1 passed, 2 failed", false),
        (&[BAD, GOOD], "3 passed, 2 failed", false),
        (&[GOOD, BAD], "3 passed, 2 failed", false),
        // Two binaries of one command.
        (
            &["echo 'test result: ok. 2 passed;'; echo 'test result: ok. 3 passed;'"],
            "5 passed, 0 failed",
            true,
        ),
        // It dies, does not compile, is not there, runs nothing.
        (&[DEAD], "2 passed, 1 failed", false),
        (&[DEAD, GOOD], "4 passed, 1 failed", false),
        (&[GOOD, "exit 101"], "2 passed, 1 failed", false),
        (&["no-such-command-here", GOOD], "2 passed, 1 failed", false),
        (&["true", GOOD], "2 passed, 1 failed", false),
        (&[], "0 passed, 0 failed", false),
    ] {
        let output = Command::new(&script).args(commands).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said.lines().last(), Some(last_line), "{commands:?}");
        assert_eq!(output.status.success(), success, "{commands:?}");
    }
}
