"""The example that draws what happened to a question."""

import io
import pathlib
import sys
import unittest
import unittest.mock

from spechop.v1 import spechop_pb2 as wire

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))
import timeline  # type: ignore[import-not-found]


class Timeline(unittest.TestCase):
    def test_ends_a_bar_where_its_stage_ended(self) -> None:
        segment, target = wire.STAGE_SEGMENT, wire.STAGE_TARGET
        events = [
            wire.AskEvent(at_ms=0, branch=0, launched=wire.Launched(stage=target)),
            wire.AskEvent(at_ms=50, branch=0, failed=wire.Failed(stage=target, reason="no server")),
            wire.AskEvent(at_ms=60, branch=0, launched=wire.Launched(stage=target)),
            wire.AskEvent(at_ms=100, branch=1, launched=wire.Launched(stage=segment)),
            wire.AskEvent(at_ms=100, branch=1, launched=wire.Launched(stage=target)),
            wire.AskEvent(at_ms=200, branch=1, rolled_back=wire.RolledBack()),
            wire.AskEvent(at_ms=300, branch=0, observed=wire.Observed()),
            wire.AskEvent(at_ms=400, branch=2, launched=wire.Launched(stage=target)),
            wire.AskEvent(at_ms=500, branch=2, not_speculated=wire.NotSpeculated(stage=target)),
            wire.AskEvent(at_ms=600, branch=2, launched=wire.Launched(stage=target)),
            wire.AskEvent(at_ms=700, branch=2, observed=wire.Observed()),
            wire.AskEvent(at_ms=5000, answer=wire.AskResponse()),
        ]
        bars, rolled_back, over = timeline.bars(events)
        self.assertEqual([bar.end for bar in bars], [50, 300, 200, 200, 500, 700])
        self.assertEqual((bars[0].label, rolled_back, over), ("no server", {1}, 5000))

    def test_ends_the_bar_of_a_guess_that_was_dropped(self) -> None:
        events = [
            wire.AskEvent(at_ms=0, launched=wire.Launched(stage=wire.STAGE_TARGET)),
            wire.AskEvent(at_ms=0, launched=wire.Launched(stage=wire.STAGE_SPECULATION)),
        ]
        observed = wire.AskEvent(at_ms=100, observed=wire.Observed())
        committed = wire.AskEvent(at_ms=200, committed=wire.Committed())
        guessed = wire.AskEvent(at_ms=150, guessed=wire.Guessed(guess="a"))
        for more, expected in [
            ([observed, committed], (100, "dropped")),
            ([committed], (200, "dropped")),
            ([guessed, committed], (150, "a")),
            # It came after all.
            ([observed, guessed, committed], (150, "a")),
        ]:
            bars, _, _ = timeline.bars([*events, *more, wire.AskEvent(at_ms=5000, answer=wire.AskResponse())])
            self.assertEqual((bars[1].end, bars[1].label), expected)

    def test_fades_the_branches_of_a_model_whose_answer_it_is_not(self) -> None:
        segment = wire.STAGE_SEGMENT
        handed_over = wire.HandedOver(of_form=0.1)
        events = [
            wire.AskEvent(at_ms=0, branch=0, launched=wire.Launched(stage=segment)),
            wire.AskEvent(at_ms=50, branch=0, drafted=wire.Drafted(answer="a")),
            wire.AskEvent(at_ms=60, branch=1, launched=wire.Launched(stage=segment)),
            wire.AskEvent(at_ms=100, branch=2, handed_over=handed_over),
            wire.AskEvent(at_ms=100, branch=2, launched=wire.Launched(stage=segment)),
            wire.AskEvent(at_ms=200, branch=2, drafted=wire.Drafted(answer="b")),
        ]
        for answer, faded in [
            (wire.AskResponse(handed_over=handed_over), {0, 1}),
            # The fallback has failed.
            (wire.AskResponse(), {2}),
        ]:
            bars, rolled_back, _ = timeline.bars([*events, wire.AskEvent(at_ms=300, answer=answer)])
            self.assertEqual([bar.end for bar in bars], [50, 100, 200])
            self.assertEqual(rolled_back, faded)

    def test_is_utf_8_whatever_the_locale_is(self) -> None:
        events = [wire.AskEvent(sequence=1, answer=wire.AskResponse(answer="Żuławski"))]
        written = io.BytesIO()
        with (
            unittest.mock.patch.object(timeline, "SpecHop") as client,
            unittest.mock.patch.object(sys, "argv", ["timeline.py", "Who?"]),
            unittest.mock.patch.object(sys, "stdout", io.TextIOWrapper(written, encoding="ascii")) as stdout,
        ):
            client.return_value.__enter__.return_value.stream.return_value = events
            timeline.main()
            stdout.flush()
        self.assertIn("Żuławski", written.getvalue().decode())


if __name__ == "__main__":
    unittest.main()
