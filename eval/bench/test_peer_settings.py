"""The server beside the peer does no more than the peer."""

import re
import unittest
from pathlib import Path

from peer_settings import settings

REFERENCE = Path(__file__).resolve().parents[2] / "docs/CONFIG.md"


class Settings(unittest.TestCase):
    def test_the_server_has_the_window_of_the_peer(self):
        told = settings(Path("index"), draft_tokens=True)
        self.assertEqual([told[f"question.{key}"] for key in ("salvage", "plan_ahead", "chance_min")], ["false", "false", 0.0])

    def test_only_a_server_that_is_told_so_drafts_no_tokens(self):
        drafts = [settings(Path("index"), draft_tokens=on).get("generator.draft_tokens") for on in (True, False)]
        self.assertEqual(drafts, [None, "false"])

    def test_every_key_is_one_of_the_server(self):
        section, known = "", set()
        for line in REFERENCE.read_text(encoding="utf-8").splitlines():
            if heading := re.fullmatch(r"## `\[(.+)\]`", line):
                section = heading[1]
            elif row := re.match(r"\| `(\w+)` \|", line):
                known.add(f"{section}.{row[1]}")
        self.assertLessEqual(settings(Path("index"), draft_tokens=False).keys(), known)


if __name__ == "__main__":
    unittest.main()
