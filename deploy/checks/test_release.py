"""The release: what is in the archive, and what its bill of materials says."""

import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from lab import DEPLOY, ROOT, run, spechop


def tree():
    """The packages of the program, as cargo itself prints them."""
    command = ["cargo", "tree", "-p", "spechop", "-e", "normal,build", "--prefix", "none", "--locked", "--offline"]
    lines = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return {(line.split()[0], line.split()[1].removeprefix("v")) for line in lines if line}


@unittest.skipUnless(spechop(), "there is no program: cargo build")
class Release(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        # What tests build has debug symbols, which take long to pack.
        small = cls.folder / "stripped"
        run("strip", "--strip-all", "-o", small, spechop())
        # Some people's new files are theirs alone.
        cls.said = run(DEPLOY / "release.sh", cls.folder, small, umask=0o077)
        (cls.archive,) = cls.folder.glob("*.tar.gz")
        (bill,) = cls.folder.glob("*.cdx.json")
        cls.bill = bill.read_text(encoding="utf-8")

    def test_the_sums_are_right_and_the_program_runs(self):
        (sums,) = self.folder.glob("*.sha256")
        self.assertEqual(len(run("sha256sum", "--check", sums.name, cwd=self.folder).splitlines()), 2)
        run("tar", "-xzf", self.archive, "-C", self.folder)
        inside = self.folder / self.archive.name.removesuffix(".tar.gz")
        self.assertIn(f"spechop-{run(inside / 'spechop', '--version').split()[1]}-", inside.name)
        self.assertEqual(
            sorted(file.name for file in inside.iterdir()),
            ["CHANGELOG.md", "LICENSE", "README.md", "spechop", "spechop.example.toml", "spechop.service", "spechop.sysusers"],
        )
        self.assertRegex(self.said, r"glibc 2\.\d+ or later")

    def test_everybody_may_read_what_is_unpacked(self):
        with tarfile.open(self.archive) as archive:
            modes = {member.name.partition("/")[2]: member.mode for member in archive}
        self.assertEqual((modes[""], modes["spechop"], modes["LICENSE"]), (0o755, 0o755, 0o644))

    def test_the_bill_has_the_form_of_cyclonedx(self):
        validator = JsonStrictValidator(SchemaVersion.V1_6)
        self.assertIsNone(validator.validate_str(self.bill))
        self.assertIsNotNone(validator.validate_str(self.bill.replace('"components"', '"parts"', 1)))

    def test_the_bill_names_what_is_compiled_in_and_no_more(self):
        bill = json.loads(self.bill)
        parts = {(one["name"], one["version"]) for one in bill["components"] + [bill["metadata"]["component"]]}
        self.assertLessEqual(tree(), parts)
        # Features are those of the whole workspace, so a few may be named that the program does without.
        self.assertLess(len(parts - tree()), 15, sorted(parts - tree()))
        names = {name for name, _ in parts}
        self.assertLessEqual({"tokio", "llama-cpp-sys-2", "spechop-window"}, names)
        self.assertTrue(names.isdisjoint({"proptest", "insta", "spechop-testkit"}))
        for one in bill["components"]:
            self.assertTrue(one["licenses"], one["name"])
            if one.get("purl"):
                self.assertEqual(len(one["hashes"][0]["content"]), 64, one["name"])

    def test_the_same_commit_makes_the_same_bill(self):
        again = subprocess.run([sys.executable, DEPLOY / "sbom.py"], check=True, capture_output=True, text=True).stdout
        self.assertEqual(again, self.bill)


if __name__ == "__main__":
    unittest.main()
