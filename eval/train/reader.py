"""Trains the reader: `python -m train.reader --data DIR --encoder E5_FOLDER --out DIR`.

Resumes from OUT/checkpoint.pt when there is one. OUT then holds split.json, manifest.json,
log.jsonl, reader.pt and curves.svg; `train.reader_export` makes the ONNX files from reader.pt.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer

from .corpus import Corpus, Passage
from .curves import draw_curves
from .manifest import append_jsonl, write_manifest
from .reader_batches import MIX, Groups, batches, forward_by_length, group_loss
from .reader_data import evenly, gold_items, lacking_items, pattern_items, yes_no
from .reader_eval import evaluate, pools, torch_runner
from .reader_model import Reader, new_reader
from .records import sha256, shipped
from .splits import Split, make_split


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with 2wikimultihopqa/ and musique/")
    parser.add_argument("--datasets", type=Path, default=Path("datasets"), help="what must not be trained on")
    parser.add_argument("--encoder", type=Path, required=True, help="folder with model.onnx and tokenizer.json")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--lr", type=float, default=2.5e-4)
    parser.add_argument("--head-lr", type=float, default=1e-3)
    parser.add_argument("--frozen-layers", type=int, default=4)
    parser.add_argument("--groups", type=int, default=8, help="questions a step, three passages each")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--warmup", type=int, default=80)
    parser.add_argument("--save-every", type=int, default=100)
    parser.add_argument("--check-every", type=int, default=200)
    return parser.parse_args()


def closed_titles(split: Split, datasets: Path) -> set[str]:
    """Titles of validation's and of the shipped questions' gold passages: never read in training."""
    keys = set().union(*(q.keys for q in split.validation)) | shipped(datasets)[2]
    return {key[2:] for key in keys if key.startswith("t:")}


def make_groups(split: Split, corpus: Corpus, tokenizer: Tokenizer, datasets: Path, seed: int) -> Groups:
    rng = random.Random(seed)
    closed = closed_titles(split, datasets)
    gold = gold_items(split.train, corpus)
    pattern = pattern_items(corpus, closed)
    sources = {
        "gold": gold, "pattern": evenly(pattern, 600, rng),
        "yes_no": yes_no(gold + rng.sample(pattern, min(len(pattern), 4000)), rng),
        "lacking": lacking_items(pattern, rng),
    }
    shut: set[Passage] = {p for t in closed for p in corpus.by_title.get(t, [])}
    return Groups(sources, corpus, tokenizer, shut, seed)


def schedule(step: int, args: argparse.Namespace) -> float:
    if step < args.warmup:
        return (step + 1) / args.warmup
    return max(0.03, 1 - (step - args.warmup) / max(1, args.steps - args.warmup))


def optimizer_for(model: Reader, args: argparse.Namespace) -> torch.optim.AdamW:
    """The heads start from nothing and may move faster than the encoder."""
    body = [p for p in model.encoder.parameters() if p.requires_grad]
    heads = [*model.span.parameters(), *model.classify.parameters()]
    groups = [{"params": body, "peak": args.lr}, {"params": heads, "peak": args.head_lr}]
    return torch.optim.AdamW(groups, lr=args.lr, weight_decay=0.01)


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    split = make_split(args.data, args.datasets, args.seed)
    described = split.as_json(args.seed)
    (args.out / "split.json").write_text(json.dumps(described, indent=0))
    corpus = Corpus(args.data)
    tokenizer = Tokenizer.from_file(str(args.encoder / "tokenizer.json"))
    groups = make_groups(split, corpus, tokenizer, args.datasets, args.seed)
    checks = pools(split.validation, corpus)[:160]
    write_manifest(
        args.out / "manifest.json", model="reader", arguments=vars(args), mix=MIX,
        data=split.data_hashes | corpus.hashes, encoder_sha256=sha256(args.encoder / "model.onnx"),
        split_sha256=described["sha256"], items={n: len(i) for n, i in groups.sources.items()},
    )
    model = new_reader(args.encoder / "model.onnx", args.frozen_layers).to(args.device)
    optimizer = optimizer_for(model, args)
    step, at, checkpoint, log = 0, 0, args.out / "checkpoint.pt", args.out / "log.jsonl"
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step, at = saved["step"], saved["at"]
    model.train()
    mixed = torch.autocast(args.device.split(":")[0], torch.bfloat16, enabled=args.dtype == "bf16")
    for at, drawn in batches(groups, args.groups, at):
        if step >= args.steps:
            break
        began = time.time()
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * schedule(step, args)
        rows = [r for g in drawn for r in g]
        with mixed:
            outputs = forward_by_length(model, rows, args.device)
        span_loss, class_loss = group_loss(outputs, drawn)
        (span_loss + class_loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        if step % 10 == 0:
            append_jsonl(log, {"step": step, "span_loss": float(span_loss.detach()), "class_loss": float(class_loss.detach()),
                               "rows_per_s": round(len(rows) / (time.time() - began), 1), "at": round(time.time())})
        if step % args.save_every == 0 or step == args.steps:
            saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step, "at": at}
            torch.save(saved, checkpoint.with_suffix(".tmp"))
            checkpoint.with_suffix(".tmp").replace(checkpoint)
            torch.save(saved["model"], args.out / "reader.pt")
            draw_curves(log, args.out / "curves.svg", ["span_loss", "class_loss"], ["em", "f1"])
        if step % args.check_every == 0 or step == args.steps:
            model.eval()
            figures, _ = evaluate(torch_runner(model, args.device, mixed), tokenizer, checks)
            model.train()
            append_jsonl(log, {"step": step, **figures})


if __name__ == "__main__":
    main()
