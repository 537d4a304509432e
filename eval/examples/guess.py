#!/usr/bin/env python3
"""A speculator in a few lines: reads what `spechop eval questions` writes, and writes guesses for
`spechop eval simulate --guesses`. It guesses what sub-questions with the same first words were answered with
most often before. Standard library alone."""

import collections
import json
import sys

answered = collections.defaultdict(collections.Counter)
for line in sys.stdin:
    hop = json.loads(line)
    seen = answered[" ".join(hop["sub_question"].split()[:3])]
    if seen:
        guess, times = seen.most_common(1)[0]
        share = times / seen.total()
        print(json.dumps({"question": hop["question"], "hop": hop["hop"],
                          "guess": guess, "ms": 1.0, "confidence": share}))
    if hop["found"]:
        seen[hop["observed"]] += 1
