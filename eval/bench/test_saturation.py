"""What a saturation run takes over from one that was stopped, and what it prints."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

import saturation

RUN = {
    "commit": "c1",
    "machine": {"cpu": "some", "cores": 2, "load_average": [0, 0, 0]},
    "of": {"program": "p", "index": "i", "questions": "q"},
    "ways": ["1", "auto"],
}


def load(blocks: int, took: float = 10.0) -> dict:
    of_block = saturation.LOADS[16][0]
    return {"blocks_s": [took] * blocks, "cpu_s": [5.0] * blocks, "questions_s": [1.0] * of_block * blocks, "peak_mib": 800}


class Resumed(unittest.TestCase):
    def kept(self, **more):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / "results.json"
        path.write_text(json.dumps({**RUN, "starts": 1, "at_once": {"16": {"1": load(3)}}, **more}))
        return path

    def test_turns_of_the_same_run_are_taken_over(self):
        busier = {**RUN, "machine": {**RUN["machine"], "load_average": [9, 9, 9]}}
        self.assertEqual(len(saturation.resumed(self.kept(), busier)["at_once"]["16"]["1"]["blocks_s"]), 3)

    def test_nothing_of_another_run_is(self):
        for other in (
            {"commit": "c1+"},
            {"ways": ["1", "3"]},
            {"of": {**RUN["of"], "program": "another"}},
            {"of": {**RUN["of"], "questions": "others"}},
            {"machine": {**RUN["machine"], "cores": 4}},
        ):
            with self.assertRaisesRegex(SystemExit, "remove it"):
                saturation.resumed(self.kept(**other), RUN)

    def test_a_new_run_has_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            found = saturation.resumed(pathlib.Path(folder) / "results.json", RUN)
        self.assertEqual(found, {"starts": 0, "at_once": {}})

    def test_a_load_that_was_stopped_is_not_printed(self):
        _, blocks, rounds = saturation.LOADS[16]
        found = {"16": {"1": load(blocks * rounds), "auto": load(blocks * rounds, 20.0)}, "8": {"1": load(1), "auto": load(0)}}
        rows = saturation.as_table(saturation.whole(found)).splitlines()[2:]
        self.assertEqual([row.split(" | ")[:3] for row in rows], [["| 16", "6.6", "1"], ["| 16", "3.3", "auto"]])
        self.assertEqual([row.split(" | ")[4] for row in rows], ["1.000", "0.500"])


class Again(unittest.TestCase):
    """The same command, run once more."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "manifest.json").write_text("{}")
        (self.folder / "program").write_text("")
        (self.folder / "questions").write_text("".join(json.dumps({"_id": str(n)}) + "\n" for n in range(1000)))

    def run_once(self):
        """How often a server was started meanwhile. It answers at once."""
        of_block = saturation.LOADS[16][0]
        files = ["--spechop", "program", "--index", "", "--questions", "questions", "--out", "out"]
        paths = [word if word.startswith("--") else str(self.folder / word) for word in files]
        with (
            unittest.mock.patch.object(saturation, "Server") as server,
            unittest.mock.patch.object(saturation, "circumstances", return_value=dict(RUN)),
            unittest.mock.patch.object(saturation, "size_mib", return_value=1),
            unittest.mock.patch.object(saturation.Bench, "ask", return_value=(10.0, 5.0, [1.0] * of_block)),
            unittest.mock.patch.object(sys, "argv", ["saturation.py", *paths, "--at-once", "16", "--ways", "1", "auto"]),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            saturation.main()
        return server.call_count

    def results(self):
        return json.loads((self.folder / "out" / "results.json").read_text())

    def test_a_whole_run_stays_as_it_is(self):
        self.assertEqual(self.run_once(), 1)
        printed = (self.folder / "out" / "printed.md").read_text()
        self.assertNotIn("was started", printed)
        self.assertEqual(self.run_once(), 0)
        self.assertEqual((self.folder / "out" / "printed.md").read_text(), printed)
        self.assertEqual(self.results()["starts"], 1)

    def test_a_run_that_was_stopped_counts_its_starts(self):
        self.run_once()
        stopped = self.results()
        for cell in stopped["at_once"]["16"].values():
            cell["blocks_s"].pop()
        (self.folder / "out" / "results.json").write_text(json.dumps(stopped))
        self.assertEqual(self.run_once(), 1)
        self.assertEqual(self.results()["starts"], 2)
        self.assertIn("was started 2 times", (self.folder / "out" / "printed.md").read_text())


if __name__ == "__main__":
    unittest.main()
