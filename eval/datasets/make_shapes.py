#!/usr/bin/env python3
"""Which hop of a question depends on which, counted over a dataset: shapes for `spechop simulate`.

    python3 eval/datasets/make_shapes.py --dataset 2wiki --order evidences FILE.jsonl … > shapes.jsonl

FILE is in the dataset's original format. 2WikiMultihopQA: a hop is an evidence (subject, relation, object), and
depends on the earlier ones whose object its subject is, by name or by entity. Where a later evidence of a
question that needs more than one page has no such link (another spelling), it is taken to depend on all before
it: nothing is salvaged that may not be. `--order evidences` asks in the order of the data (both directors, then
both birth dates); `--order chains` follows one chain to its end before the next is begun, as an agent that
completes one side first would. MuSiQue: a hop is a step of question_decomposition, and depends on the steps
that it names (#1, #2).
Questions that stand in several files count once. Standard library only.
"""

import argparse
import collections
import json
import re
import sys
import unicodedata


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", choices=("2wiki", "musique"), required=True)
    parser.add_argument("--order", choices=("evidences", "chains"), default="evidences")
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    seen, counts = set(), collections.Counter()
    for path in args.files:
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    record = json.loads(line)
                    name = record.get("_id") or record["id"]
                    if name not in seen:
                        seen.add(name)
                        counts[shape(record, args)] += 1
                except (KeyError, TypeError, ValueError) as error:
                    sys.exit(f"{path}, line {number}: no record of {args.dataset}: {error!r}")
    for (kind, depends_on), count in sorted(counts.items(), key=lambda item: (item[0][0], -item[1])):
        print(json.dumps({"type": kind, "depends_on": [list(hops) for hops in depends_on], "count": count}))


def shape(record, args):
    """The question's type and, for each hop, the earlier ones that it depends on, counted from 1."""
    if args.dataset == "musique":
        steps = record["question_decomposition"]
        named = [sorted({int(n) for n in re.findall(r"#(\d+)", step["question"])}) for step in steps]
        if any(n < 1 or n > at for at, hops in enumerate(named) for n in hops):
            raise ValueError("a step names one that is not before it")
        return record.get("id", "").split("__")[0] or "musique", tuple(map(tuple, named))
    depends_on = links(record)
    if args.order == "chains":
        depends_on = chains(depends_on)
    return record["type"], tuple(map(tuple, depends_on))


def links(record):
    """2Wiki: an evidence depends on the earlier ones whose object its subject is."""
    evidences = record["evidences"]
    entities = record.get("evidences_id") or evidences
    if len(entities) != len(evidences):
        entities = evidences
    depends_on = []
    for at, (evidence, entity) in enumerate(zip(evidences, entities)):
        linked = [
            before + 1
            for before in range(at)
            if fold(evidences[before][2]) == fold(evidence[0]) or entities[before][2] == entity[0]
        ]
        # Two sides that are compared ask about entities of the question itself; a bridge's second half,
        # and the second hop of a chain, do not.
        first = len(evidences) if record["type"] == "comparison" else max(1, len(evidences) // 2)
        if record["type"] in ("compositional", "inference"):
            first = 1
        depends_on.append(linked if linked or at < first else list(range(1, at + 1)))
    return depends_on


def chains(depends_on):
    """The same hops, each as soon as what it depends on is known and its chain was the last to move."""
    order, left = [], list(range(1, len(depends_on) + 1))
    while left:
        ready = [hop for hop in left if all(before in order for before in depends_on[hop - 1])]
        going_on = [hop for hop in ready if order and order[-1] in depends_on[hop - 1]]
        hop = (going_on or ready)[0]
        order.append(hop)
        left.remove(hop)
    place = {hop: at for at, hop in enumerate(order, 1)}
    return [sorted(place[before] for before in depends_on[hop - 1]) for hop in order]


def fold(name):
    """Lower case, without accents and what stands in brackets at the end."""
    bare = re.sub(r"\s*\([^)]*\)$", "", name)
    letters = unicodedata.normalize("NFKD", bare)
    return "".join(c for c in letters if not unicodedata.combining(c)).casefold().strip()


if __name__ == "__main__":
    main()
