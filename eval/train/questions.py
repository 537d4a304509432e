"""Questions that a language model asks of our passages: `python -m train.questions --data DIR --base MODEL --encoder E5_FOLDER --out DIR`.

The reader's human questions are few: 1,300 hops of MuSiQue, 2,900 of 2WikiMultihopQA, 16,000 of QAMR. A model that has
learnt from these how people ask writes more of them, with their answers, on passages that no question of any
sample is about. `questions_keep` then keeps those whose answer two readers find.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer

from .basemodel import load_base, load_tokenizer
from .batches import batches, collate
from .corpus import Corpus, Passage
from .generate import to_extend
from .lora import add_lora, merge_lora
from .manifest import append_jsonl, write_manifest
from .planner import token_losses
from .reader import closed_titles, make_groups
from .reader_data import Item, shown
from .records import normal, sha256
from .splits import make_split
from .trajectories import Trajectory

# Whose way of asking is learnt, and how often each is drawn. MuSiQue's hops are the fewest and the most like what is asked of us.
STYLES = {"musique": 0.35, "2wiki": 0.15, "qamr": 0.50}
# In which ways each passage is asked.
ASKED = ("musique", "musique", "qamr", "musique")
END = "<|endoftext|>"
ANSWER = "\nAnswer:"
PASSAGE_TOKENS_MAX = 170
WRITTEN_TOKENS_MAX = 48


@dataclass
class Asking:
    """Draws a passage with a person's question and its answer, reproducibly by index."""

    sources: dict[str, list[Item]]
    seed: int

    def draw(self, index: int) -> Trajectory:
        rng = random.Random(f"{self.seed}:ask:{index}")
        style = rng.choices(list(STYLES), list(STYLES.values()))[0]
        item = rng.choice(self.sources[style])
        written = f" {rng.choice(item.questions)}{ANSWER} {item.answers[0]}{END}"
        return Trajectory([(prompt(shown(item.gold), style), 0.0), (written, 1.0)], style)


def prompt(passage: str, style: str) -> str:
    return f"{passage}\n\n{style} question:"


def parse(line: str) -> tuple[str, str] | None:
    """Question and answer of what was written; None if it is not both."""
    question, found, answer = line.partition(ANSWER)
    question, answer = " ".join(question.split()), " ".join(answer.split())
    return (question, answer) if found and question.endswith("?") and answer else None


def learn(model, tokenizer, source: Asking, args: argparse.Namespace) -> None:
    """Trains an adapter and merges it; the rate falls to nothing."""
    params = add_lora(model, args.rank, args.rank)
    model.to(args.device).train()
    optimizer = torch.optim.AdamW(params.values(), lr=args.lr, weight_decay=0.0, betas=(0.9, 0.98))
    for step, (_, items) in enumerate(batches(source, tokenizer, args.tokens, 0, workers=args.workers)):
        if step == args.steps:
            break
        ids, weights = collate(items, args.device)
        for group in optimizer.param_groups:
            group["lr"] = args.lr * min(1.0, (step + 1) / 20) * (1 - step / args.steps)
        loss = token_losses(model, ids, weights)[0].mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params.values(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 10 == 0:
            append_jsonl(args.out / "log.jsonl", {"step": step, "loss": float(loss.detach()), "at": round(time.time())})
    merge_lora(model)


@torch.no_grad()
def write(model, tokenizer, passages: list[Passage], args: argparse.Namespace) -> None:
    """Writes OUT/raw.jsonl.gz: sampled questions on passage after passage, until there are no more or the time is up."""
    model.eval()
    end = tokenizer.encode(END, add_special_tokens=False)[0]
    known = torch.zeros(model.config.vocab_size, dtype=torch.bool)
    # A base whose rare tokens were left out has zeros in their place.
    known[: len(tokenizer)] = model.get_input_embeddings().weight.abs().sum(-1).cpu()[: len(tokenizer)] > 0
    never = torch.nonzero(~known).flatten().tolist() or None
    styles = ASKED[: args.each]
    behind = {style: tokenizer.encode(prompt("", style), add_special_tokens=False) for style in styles}
    began, stride = time.time(), max(1, args.batch // len(styles))
    with gzip.open(args.out / "raw.jsonl.gz", "wt", encoding="utf-8") as out:
        for at in range(0, len(passages), stride):
            if args.seconds and time.time() - began > args.seconds:
                break
            taken = passages[at : at + stride]
            given = [tokenizer.encode(shown(p), add_special_tokens=False)[:PASSAGE_TOKENS_MAX] for p in taken]
            asked = [(p, style, ids + behind[style]) for p, ids in zip(taken, given) for style in styles]
            rows = to_extend([row for _, _, row in asked], end, args.device)
            width = rows["input_ids"].shape[1]
            made = model.generate(
                **rows, max_new_tokens=WRITTEN_TOKENS_MAX, do_sample=True,
                temperature=args.temperature, top_k=40, top_p=1.0, repetition_penalty=1.0, eos_token_id=end, pad_token_id=end, suppress_tokens=never,
            )
            for (p, style, _), line in zip(asked, tokenizer.batch_decode(made[:, width:], skip_special_tokens=True)):
                if found := parse(line):
                    row = {"title": p.title, "text": p.text, "style": style, "question": found[0], "answer": found[1]}
                    out.write(json.dumps(row, ensure_ascii=False) + "\n")
            print(f"{at + len(taken)} of {len(passages)} passages, {time.time() - began:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--datasets", type=Path, default=Path("datasets"), help="what must not be trained on")
    parser.add_argument("--base", type=Path, required=True, help="the language model: a GGUF, or a folder of transformers")
    parser.add_argument("--encoder", type=Path, required=True, help="folder with the reader's tokenizer.json")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--lr", type=float, default=6e-4)
    parser.add_argument("--tokens", type=int, default=12288, help="padded tokens a step")
    parser.add_argument("--each", type=int, default=len(ASKED), help="questions a passage")
    parser.add_argument("--batch", type=int, default=2048, help="questions that are written at once")
    parser.add_argument("--temperature", type=float, default=0.9)
    parser.add_argument("--limit", type=int, help="only so many passages")
    parser.add_argument("--seconds", type=float, help="no new passages after so long")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    split = make_split(args.data, args.datasets, args.seed)
    corpus = Corpus(args.data)
    groups = make_groups(split, corpus, Tokenizer.from_file(str(args.encoder / "tokenizer.json")), args.data, args.datasets, args.seed)
    closed = closed_titles(split, args.data, args.datasets)
    passages = [p for p in corpus.passages if normal(p.title) not in closed]
    random.Random(args.seed).shuffle(passages)
    write_manifest(
        args.out / "manifest.json", model="questions", arguments=vars(args), styles=STYLES, asked=ASKED,
        data=split.data_hashes | corpus.hashes, passages=len(passages), base_sha256=sha256(args.base) if args.base.is_file() else None,
    )
    tokenizer = load_tokenizer(args.base)
    model = load_base(args.base, torch.bfloat16).to(args.device)
    learn(model, tokenizer, Asking({name: groups.sources[name] for name in STYLES}, args.seed), args)
    write(model, tokenizer, passages[: args.limit], args)


if __name__ == "__main__":
    main()
