"""Reader items to tensors: each question with its passage and some that do not answer it.

The passages of a question share one softmax over start, one over end and one over the pairs of both
(the shared-norm loss of Clark and Gardner, arXiv 1710.10723), so that at run time the logits of
different passages can be compared.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer

from .ahead import ahead
from .corpus import Corpus, Passage
from .reader_answer import SPAN_TOKENS_MAX
from .reader_data import NOT_HERE, SPAN, Item, cloze, find, shown
from .reader_model import OUTSIDE

# Share of each source among the drawn items. QAMR's are the most that people asked, MuSiQue's hops the hardest and few.
MIX = {"musique": 0.16, "2wiki": 0.19, "qamr": 0.46, "pattern": 0.08, "cloze": 0.02, "yes_no": 0.03, "lacking": 0.06}
# Share of generated questions, if there are any; the others are as above among themselves.
GENERATED = 0.35
# Passages a question. Hops are asked of a retriever's best, which lie close together; the other questions
# teach where in a passage an answer is, and a QAMR question may not even name what it is about.
GROUP = {"musique": 4, "2wiki": 3, "generated": 3}
GROUP_OTHERWISE = 2
QUERY_PREFIX = "query: "
TOKENS_MAX = 256
# Training cuts sooner: few answers stand that far back, and attention pays for every token.
TRAIN_TOKENS_MAX = 200


def tokenize(tokenizer: Tokenizer, question: str, passage: str, limit: int = TOKENS_MAX):
    """The pair as the service encodes it; only the passage is ever cut."""
    encoded = tokenizer.encode(QUERY_PREFIX + question, passage)
    encoded.truncate(limit)
    return encoded


@dataclass
class Row:
    """One (question, passage) pair. `starts[i]` and `ends[i]` belong together."""

    ids: list[int]
    types: list[int]
    starts: list[int]
    ends: list[int]
    label: int


def row(
    tokenizer: Tokenizer, question: str, passage: Passage, answers: list[str], label: int, span: tuple[int, int] | None = None
) -> Row:
    """`span`: the only place of the answer; without it every occurrence of an answer is one."""
    text = shown(passage)
    encoded = tokenize(tokenizer, question, text, TRAIN_TOKENS_MAX)
    starts, ends = [], []
    if label == SPAN:
        at = {}
        for i, ((a, b), kind) in enumerate(zip(encoded.offsets, encoded.type_ids)):
            if kind == 1 and b > a:
                at.setdefault(("start", a), i)
                at[("end", b)] = i
        # The title is left out unless only it has the answer: "Paris. Paris is …" would teach copying it.
        spans = [span] if span else find(answers, text)
        body = [s for s in spans if s[0] > len(passage.title)]
        for a, b in body or spans:
            start, end = at.get(("start", a)), at.get(("end", b))
            if start is not None and end is not None and end < start + SPAN_TOKENS_MAX:
                starts.append(start)
                ends.append(end)
        if not starts:
            label = NOT_HERE  # cut off, not at a token's border, or longer than any answer may be
    return Row(encoded.ids, encoded.type_ids, starts, ends, label)


class Groups:
    """Draws groups of rows, reproducibly by index."""

    def __init__(self, sources: dict[str, list[Item]], corpus: Corpus, tokenizer: Tokenizer, closed: set[Passage], seed: int) -> None:
        """`sources`: by the names of `MIX`, without clozes; "generated" may be missing."""
        self.sources, self.corpus, self.tokenizer = sources, corpus, tokenizer
        left = 1 - GENERATED if "generated" in sources else 1.0
        self.mix = {name: share * left for name, share in MIX.items()} | ({"generated": GENERATED} if left < 1 else {})
        self.closed, self.seed = closed, seed
        self.found: dict[str, list[Passage]] = {}

    def draw(self, index: int) -> list[Row]:
        rng = random.Random(f"{self.seed}:{index}")
        name = rng.choices(list(self.mix), list(self.mix.values()))[0]
        item = None
        while item is None:
            if name == "cloze":
                passage = rng.choice(self.corpus.passages)
                item = None if passage in self.closed else cloze(passage, rng)
            else:
                item = rng.choice(self.sources[name])
        question = item.questions[0] if rng.random() < 0.6 else rng.choice(item.questions)
        rows = [row(self.tokenizer, question, item.gold, item.answers, item.label, item.span)]
        for passage in self._others(item, GROUP.get(name, GROUP_OTHERWISE) - 1, rng):
            rows.append(row(self.tokenizer, question, passage, [], NOT_HERE))
        return rows

    def _others(self, item: Item, count: int, rng: random.Random) -> list[Passage]:
        """Passages without the answer: half of them neighbours, half what BM25 takes for an answer."""
        key = item.questions[0]
        if key not in self.found:
            self.found[key] = [
                p for p in self.corpus.search(key, 12)
                if p != item.gold and p not in self.closed and not find(item.answers, shown(p))
                # Another passage under the gold title may well state the fact in other words.
                and p.title != item.gold.title
            ]
        pools = [pool for pool in (item.near, self.found[key]) if pool]
        others = []
        while len(others) < count:
            pool = rng.choice(pools) if pools and rng.random() < 0.95 else self.corpus.passages
            others.append(rng.choice(pool))
        return others


def batches(groups: Groups, size: int, start: int, pool: int = 192, workers: int = 0) -> Iterator[tuple[int, list[list[Row]]]]:
    """Endless batches of `size` groups of like length; yields the index to resume from too."""

    def cuts(at: int) -> tuple[int, list[list[list[Row]]]]:
        drawn = [groups.draw(i) for i in range(at, at + pool)]
        drawn.sort(key=lambda g: max(len(r.ids) for r in g))
        made = [drawn[i : i + size] for i in range(0, pool, size)]
        random.Random(f"{groups.seed}:cuts:{at}").shuffle(made)
        return at + pool, made

    for at, made in ahead(cuts, start, pool, workers):
        for cut in made:
            yield at, cut


def tensors(rows: list[Row], device: str) -> dict[str, torch.Tensor]:
    """Padded inputs; the mask says what is padding."""
    width = max(len(r.ids) for r in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask, types = torch.zeros_like(ids), torch.zeros_like(ids)
    for i, r in enumerate(rows):
        n = len(r.ids)
        ids[i, :n], mask[i, :n], types[i, :n] = torch.tensor(r.ids), 1, torch.tensor(r.types)
    return {"input_ids": ids.to(device), "attention_mask": mask.to(device), "token_type_ids": types.to(device)}


def forward_by_length(model: torch.nn.Module, rows: list[Row], device: str, chunks: int = 3) -> tuple[torch.Tensor, ...]:
    """The model's outputs for rows of very different lengths, with a third less padding.

    Rows of one group must meet in one softmax, but not in one pass through the encoder.
    """
    order = sorted(range(len(rows)), key=lambda i: len(rows[i].ids))
    size = -(-len(rows) // chunks)
    width = len(rows[order[-1]].ids)
    parts = []
    for at in range(0, len(order), size):
        starts, ends, classes = model(**tensors([rows[i] for i in order[at : at + size]], device))
        pad = (0, width - starts.shape[1])
        starts, ends = (torch.nn.functional.pad(x, pad, value=OUTSIDE) for x in (starts, ends))
        parts.append((starts, ends, classes))
    back = torch.tensor(sorted(range(len(order)), key=order.__getitem__), device=device)
    return tuple(torch.cat(kind)[back] for kind in zip(*parts))


def group_loss(outputs: tuple[torch.Tensor, ...], groups: list[list[Row]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Span loss over each answerable group, class loss over every row.

    Half of the span loss is over starts and ends apart, half over the pairs that may be answered with: the
    service takes the best pair, and apart nothing says which end goes with which start.
    """
    starts, ends, classes = outputs
    rows = [r for g in groups for r in g]
    labels = torch.tensor([r.label for r in rows], device=classes.device)
    class_loss = torch.nn.functional.cross_entropy(classes.float(), labels)
    own, targets, at = [], [], 0
    for group in groups:
        # Any occurrence will do: their probabilities are summed.
        found = [(at + i, s, e) for i, r in enumerate(group) for s, e in zip(r.starts, r.ends)]
        if found:
            own.append([(at + i,) for i in range(len(group))])
            targets.append(found)
        at += len(group)
    if not targets:
        return class_loss * 0, class_loss
    starts, ends = starts.float(), ends.float()
    # All groups at once: one by one, a GPU would be waited for at each.
    (row,), among = padded(own, classes.device)
    (i, s, e), there = padded(targets, classes.device)
    totals = starts.logsumexp(-1), ends.logsumexp(-1), pair_total(starts, ends)
    rights = starts[i, s], ends[i, e], starts[i, s] + ends[i, e]
    start, end, pair = (
        total[row].masked_fill(~among, -torch.inf).logsumexp(-1) - right.masked_fill(~there, -torch.inf).logsumexp(-1)
        for total, right in zip(totals, rights)
    )
    return ((start + end + pair) / 4).mean(), class_loss


def padded(lists: list[list[tuple[int, ...]]], device: torch.device) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    """Lists of tuples of different length as one tensor for each place of the tuples, and what of them is no padding."""
    width, arity = max(map(len, lists)), len(lists[0][0])
    full = torch.tensor([some + [(0,) * arity] * (width - len(some)) for some in lists])
    there = torch.arange(width) < torch.tensor([len(some) for some in lists]).unsqueeze(-1)
    return full.to(device).unbind(-1), there.to(device)


def pair_total(starts: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Of each row: log of the summed exp(start + end) over the pairs that `best_spans` chooses from."""
    behind = torch.nn.functional.pad(ends, (0, SPAN_TOKENS_MAX - 1), value=2 * OUTSIDE).unfold(1, SPAN_TOKENS_MAX, 1)
    return (starts.unsqueeze(-1) + behind).flatten(1).logsumexp(-1)
