"""Runs the tests of this folder, or of the modules that are named, and ends with one line as cargo's tests do."""

import sys
import unittest


def main(names):
    loader = unittest.defaultTestLoader
    suite = loader.loadTestsFromNames(names) if names else loader.discover(".")
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    left_out = len(result.skipped)
    # An error while a class is set up counts, though none of its tests has run.
    passed = max(result.testsRun - failed - left_out, 0)
    word = "FAILED" if failed else "ok"
    sys.stderr.flush()
    print(f"test result: {word}. {passed} passed; {failed} failed; {left_out} ignored; deploy/checks", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
