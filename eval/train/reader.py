"""Trains the reader: `python -m train.reader --data DIR --encoder E5_FOLDER --out DIR`.

With `--start`, training goes on from an exported int8 reader instead of E5 and two new heads.
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
from .manifest import append_jsonl, keep_until, refuse_other, write_manifest
from .qamr import hashes, named, qamr_items
from .reader_batches import Groups, batches, forward_by_length, group_loss
from .reader_data import evenly, generated_items, gold_items, lacking_items, pattern_items, yes_no
from .reader_eval import evaluate, pools, torch_runner
from .reader_model import Average, Reader, new_reader, start_from
from .records import load_questions, sha256, shipped
from .splits import Split, make_split, refuse_evaluated


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with 2wikimultihopqa/, musique/ and qamr/")
    parser.add_argument("--datasets", type=Path, default=Path("datasets"), help="what must not be trained on")
    parser.add_argument("--encoder", type=Path, required=True, help="folder with model.onnx and tokenizer.json")
    parser.add_argument("--start", type=Path, help="a reader.pt, or an exported int8 reader, to train further")
    parser.add_argument("--generated", type=Path, help="questions that train.questions_keep wrote, to train on as well")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1, help="of the split into training and validation questions")
    parser.add_argument("--draw-seed", type=int, help="of the drawn questions and the new heads; --seed if it is not given")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0, help="processes that draw questions ahead of the steps")
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--head-lr", type=float, default=5e-4)
    parser.add_argument("--average", type=float, default=0.997, help="decay of the running mean of the weights")
    parser.add_argument("--frozen-layers", type=int, default=4)
    parser.add_argument("--groups", type=int, default=8, help="questions a step")
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--decay", type=int, default=500, help="steps at the end over which the rate falls")
    parser.add_argument("--warmup", type=int, default=80)
    parser.add_argument("--drawn", type=int, default=0, help="questions that the training of --start has drawn: these are not drawn again")
    parser.add_argument("--save-every", type=int, default=100)
    parser.add_argument("--check-every", type=int, default=200)
    return parser.parse_args()


def closed_titles(split: Split, data: Path, datasets: Path) -> set[str]:
    """Titles of the gold passages of every question that is not trained on: no fact of theirs is read for training.

    A gold hop of a training question is trained on all the same, if it shares its passage with such a question.
    """
    trained = {q.id for q in split.train}
    keys = set().union(*(q.keys for q in load_questions(data)[0] if q.id not in trained)) | shipped(datasets)[2]
    return {key[2:] for key in keys if key.startswith("t:")}


def make_groups(
    split: Split, corpus: Corpus, tokenizer: Tokenizer, data: Path, datasets: Path, seed: int, generated: Path | None = None
) -> Groups:
    refuse_evaluated(split, datasets)
    rng = random.Random(seed)
    closed = closed_titles(split, data, datasets)
    shut: set[Passage] = {p for t in closed for p in corpus.by_title.get(t, [])}
    gold = gold_items(split.train, corpus)
    pattern = pattern_items(corpus, closed)
    # Of questions about things without a name a third will do: hops seldom ask for them.
    qamr = [i for i in qamr_items(data / "qamr", corpus, shut, closed, seed) if named(i) or rng.random() < 0.33]
    sources = {
        "musique": [i for i in gold if i.kind.startswith("musique/")], "2wiki": [i for i in gold if i.kind.startswith("2wiki/")],
        "qamr": qamr, "pattern": evenly(pattern, 600, rng),
        "yes_no": yes_no(gold + rng.sample(pattern, min(len(pattern), 4000)), rng),
        "lacking": lacking_items(pattern, rng),
    }
    if generated:
        sources["generated"] = generated_items(generated, corpus, closed)
    return Groups(sources, corpus, tokenizer, shut, seed)


def schedule(step: int, args: argparse.Namespace) -> float:
    """Even until the last steps, so that a running training may still be given more or fewer of them."""
    if step < args.warmup:
        return (step + 1) / args.warmup
    return max(0.03, min(1.0, (args.steps - step) / args.decay))


def optimizer_for(model: Reader, args: argparse.Namespace) -> torch.optim.AdamW:
    """The heads start from nothing and may move faster than the encoder."""
    body = [p for p in model.encoder.parameters() if p.requires_grad]
    heads = [*model.span.parameters(), *model.classify.parameters()]
    groups = [{"params": body, "peak": args.lr}, {"params": heads, "peak": args.head_lr}]
    return torch.optim.AdamW(groups, lr=args.lr, weight_decay=0.01)


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    drawing = args.seed if args.draw_seed is None else args.draw_seed
    torch.manual_seed(drawing)
    args.out.mkdir(parents=True, exist_ok=True)
    split = make_split(args.data, args.datasets, args.seed)
    described = split.as_json(args.seed)
    corpus = Corpus(args.data)
    tokenizer = Tokenizer.from_file(str(args.encoder / "tokenizer.json"))
    groups = make_groups(split, corpus, tokenizer, args.data, args.datasets, drawing, args.generated)
    checks = pools(split.validation, corpus)[:160]
    went_in = dict(
        model="reader", arguments=vars(args), mix=groups.mix,
        data=split.data_hashes | corpus.hashes | hashes(args.data / "qamr"), encoder_sha256=sha256(args.encoder / "model.onnx"),
        start_sha256=sha256(args.start) if args.start else None, generated_sha256=sha256(args.generated) if args.generated else None,
        split_sha256=described["sha256"], items={n: len(i) for n, i in groups.sources.items()},
    )
    model = new_reader(args.encoder / "model.onnx", args.frozen_layers).to(args.device)
    if args.start:
        start_from(model, args.start)
    average = Average(model, args.average)
    optimizer = optimizer_for(model, args)
    step, at, checkpoint, log = 0, args.drawn, args.out / "checkpoint.pt", args.out / "log.jsonl"
    if checkpoint.exists():
        refuse_other(args.out / "manifest.json", **went_in)
        saved = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        average.model.load_state_dict(saved["average"])
        optimizer.load_state_dict(saved["optimizer"])
        step, at = saved["step"], saved["at"]
        keep_until(log, step)
    (args.out / "split.json").write_text(json.dumps(described, indent=0))
    write_manifest(args.out / "manifest.json", **went_in)
    model.train()
    mixed = torch.autocast(args.device.split(":")[0], torch.bfloat16, enabled=args.dtype == "bf16")
    for at, drawn in batches(groups, args.groups, at, workers=args.workers):
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
        average.update(model, step)
        step += 1
        if step % 10 == 0:
            append_jsonl(log, {"step": step, "span_loss": float(span_loss.detach()), "class_loss": float(class_loss.detach()),
                               "rows_per_s": round(len(rows) / (time.time() - began), 1), "at": round(time.time())})
        if step % args.save_every == 0 or step == args.steps:
            saved = {"model": model.state_dict(), "average": average.model.state_dict(), "optimizer": optimizer.state_dict(),
                     "step": step, "at": at}
            torch.save(saved, checkpoint.with_suffix(".tmp"))
            checkpoint.with_suffix(".tmp").replace(checkpoint)
            torch.save(saved["average"], args.out / "reader.pt")
            draw_curves(log, args.out / "curves.svg", ["span_loss", "class_loss"], ["em", "f1"])
        if step % args.check_every == 0 or step == args.steps:
            figures, _ = evaluate(torch_runner(average.model, args.device, mixed), tokenizer, checks)
            append_jsonl(log, {"step": step, **figures})


if __name__ == "__main__":
    main()
