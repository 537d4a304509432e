"""What a saturation run takes over from one that was stopped, what it counts, and what it prints."""

import collections
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
K = 'spechop_question_k_bucket{le="1.0"}'
CORELESS = 'spechop_refused_total{stage="speculation",reason="no_core"}'


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


def seconds(of_block, number: int, rounds: int, at_once: int = 64) -> list:
    """Of a way that needs so many seconds for each question of a block, in the order in which `run` hands the blocks out."""
    size, blocks, _ = saturation.LOADS[at_once]
    return [of_block((turn + 2 * number) % blocks) for turn in range(rounds * blocks) for _ in range(size)]


class Noise(unittest.TestCase):
    def asked(self, of_block, number: int, rounds: int):
        return saturation.by_block(seconds(of_block, number, rounds), 64, number)

    def test_two_ways_are_compared_on_the_same_blocks(self):
        slow = lambda block: 1.0 + block
        first = self.asked(slow, 0, 2)
        for number in range(3):
            self.assertEqual(saturation.interval(self.asked(slow, number, 2), first), (1.0, 1.0))
        twice = self.asked(lambda block: 2.0 * slow(block), 1, 2)
        self.assertEqual(saturation.interval(twice, first), (2.0, 2.0))

    def test_the_noise_of_a_way_is_not_that_of_its_blocks_if_each_was_asked_twice(self):
        slow = lambda block: 1.0 + block
        self.assertEqual(saturation.itself(self.asked(slow, 1, 2)), (1.0, 1.0))
        low, high = saturation.itself(self.asked(slow, 1, 1))
        self.assertTrue(low < 1.0 < high, (low, high))

    def test_a_machine_that_is_slower_for_one_turn_is_its_noise(self):
        questions = seconds(lambda _: 1.0, 0, 2)
        questions[:264] = [1.25] * 264
        self.assertEqual(saturation.itself(saturation.by_block(questions, 64, 0)), (0.8, 1.25))


class Counted(unittest.TestCase):
    def test_a_server_tells_k_and_what_it_refused(self):
        text = f"# TYPE spechop_question_k histogram\nspechop_question_k_sum 12.0\n{K} 3\n{CORELESS} 7\nspechop_cores 2.0\n# EOF\n"
        with unittest.mock.patch("urllib.request.urlopen", return_value=io.BytesIO(text.encode())):
            found = saturation.metrics(unittest.mock.Mock(address="127.0.0.1:1"))
        self.assertEqual(found, {"spechop_question_k_sum": 12, K: 3, CORELESS: 7})

    def test_rows_tell_the_calls(self):
        row = {"segments": {"started": 5, "wasted": 2, "tokens": 9}, "speculations": {"started": 1, "wasted": 0}}
        expected = {"segments started": 10, "segments wasted": 4, "speculations started": 2, "speculations wasted": 0}
        self.assertEqual(saturation.calls([row, row]), expected)

    def test_it_is_a_table_of_its_own(self):
        counted = {
            "segments started": 330, "segments wasted": 33, "speculations started": 66, "spechop_question_k_count": 136, K: 102,
            "spechop_question_k_sum": 204, CORELESS: 68,
        }
        cell = {**load(2), "counted": counted}
        row = saturation.as_work({"16": {"1": load(2), "auto": cell}}).splitlines()[2:]
        self.assertEqual(row, ["| 16 | auto | 1.50 | 25.0% | 2.500 | 0.250 | 0.500 | 0.000 | 0.500 |"])
        self.assertEqual(saturation.as_work({"16": {"1": load(2)}}), "")


class Stored(unittest.TestCase):
    """`--print` needs neither a program nor an index."""

    def printed(self, at_once: dict) -> list:
        with tempfile.TemporaryDirectory() as folder:
            kept = json.dumps({"commit": "c0", "at_once": at_once})
            results = pathlib.Path(folder) / "results.json"
            results.write_text(kept)
            with (
                unittest.mock.patch.object(sys, "argv", ["saturation.py", "--print", folder]),
                contextlib.redirect_stdout(io.StringIO()) as out,
                self.assertRaises(SystemExit) as ended,
            ):
                saturation.main()
            self.assertEqual((ended.exception.code, results.read_text()), (0, kept))
            self.assertEqual((results.parent / "printed.md").read_text(), out.getvalue())
        return [line.split(" | ") for line in out.getvalue().splitlines()]

    def test_a_run_of_fewer_rounds_is_printed(self):
        head, _, *rows = self.printed({"16": {"1": load(12), "auto": load(12, 20.0)}, "8": {"1": load(12), "3": load(12)}})
        self.assertEqual([row[0] for row in rows], ["| 16", "| 16", "| 8", "| 8"])
        at = head.index("mean, s")
        self.assertEqual([row[at:at + 2] for row in rows], [["1.00", "1.000"]] * 4)
        at = head.index("against itself (95 %)")
        self.assertEqual([row[at] for row in rows], ["(1.000 to 1.000)"] * 4)

    def test_a_round_that_was_stopped_is_not(self):
        rows = self.printed({"16": {"1": load(12), "auto": load(11)}, "8": {"1": load(13), "3": load(13)}})[2:]
        self.assertEqual(rows, [])


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
        """How often a server was started meanwhile. It answers at once, but some blocks take longer than others."""
        files = ["--spechop", "program", "--index", "", "--questions", "questions", "--out", "out"]
        paths = [word if word.startswith("--") else str(self.folder / word) for word in files]
        with (
            unittest.mock.patch.object(saturation, "Server") as server,
            unittest.mock.patch.object(saturation, "circumstances", return_value=dict(RUN)),
            unittest.mock.patch.object(saturation, "size_mib", return_value=1),
            unittest.mock.patch.object(saturation.Bench, "ask", side_effect=self.ask),
            unittest.mock.patch.object(sys, "argv", ["saturation.py", *paths, "--at-once", "16", "--ways", "1", "auto"]),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            saturation.main()
        return server.call_count

    @staticmethod
    def ask(_server, _way, block, _at_once):
        counted = collections.Counter({"spechop_question_k_count": len(block) + 2, "spechop_question_k_sum": len(block) + 4})
        return 10.0, 5.0, [float(block[0])] * len(block), counted

    def results(self):
        return json.loads((self.folder / "out" / "results.json").read_text())

    def test_a_whole_run_stays_as_it_is(self):
        self.assertEqual(self.run_once(), 1)
        printed = (self.folder / "out" / "printed.md").read_text()
        self.assertNotIn("was started", printed)
        # Both ways have asked the same blocks, whatever turn that was in.
        self.assertIn("| 1.000 (1.000 to 1.000) |", printed)
        self.assertIn("| 16 | auto | 1.03 |", printed)
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
