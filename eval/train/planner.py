"""Trains the planner's LoRA: `python -m train.planner --data DIR --base model.gguf --out DIR`.

With `--start`, training goes on from an exported adapter; with `--whole`, every weight is trained instead. Resumes from
OUT/checkpoint.pt when there is one. OUT then holds split.json, manifest.json, log.jsonl, adapter.pt and curves.svg.
A stopped and continued process (SIGSTOP) loses nothing: the schedule counts steps, never seconds.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path

import torch

from .basemodel import load_base, load_tokenizer, open_weights
from .batches import MIX, Encoded, Source, batches, collate, encode
from .curves import draw_curves
from .lora import add_lora, load_state, state_of
from .manifest import append_jsonl, keep_until, refuse_other, write_manifest
from .planner_export import read_adapter
from .qamr import hashes, read_questions, read_sentences
from .records import sha256
from .splits import make_split, refuse_evaluated
from .trajectories import gold


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with 2wikimultihopqa/ and musique/")
    parser.add_argument("--datasets", type=Path, default=Path("datasets"), help="what must not be trained on")
    parser.add_argument("--base", type=Path, required=True, help="the packaged GGUF")
    parser.add_argument("--start", type=Path, help="an exported adapter to train further; rank and alpha are its own")
    parser.add_argument("--whole", action="store_true", help="train every weight, in float32 (a rate of 3e-4 suits it)")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1, help="of the split into training and validation questions")
    parser.add_argument("--draw-seed", type=int, help="of the drawn trajectories and the new weights; --seed if it is not given")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0, help="processes that draw trajectories ahead of the steps")
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--alpha", type=float, default=32)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--steps", type=int, default=1400)
    parser.add_argument("--warmup", type=int, default=40)
    parser.add_argument("--drawn", type=int, default=0, help="trajectories that the training of --start has drawn: these are not drawn again")
    parser.add_argument("--tokens", type=int, default=768, help="padded tokens a step")
    parser.add_argument("--save-every", type=int, default=100)
    parser.add_argument("--check-every", type=int, default=200)
    args = parser.parse_args()
    if args.whole and args.start:
        parser.error("--whole begins at the base: there is no adapter to go on from")
    return args


def learning_rate(step: int, args: argparse.Namespace) -> float:
    """Linear warm-up, then linear decay to a twentieth."""
    if step < args.warmup:
        return args.lr * (step + 1) / args.warmup
    left = 1 - (step - args.warmup) / max(1, args.steps - args.warmup)
    return args.lr * max(0.05, left)


def token_losses(model, ids: torch.Tensor, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Cross-entropy, weight and argmax-hit of each learnt token.

    The vocabulary is a third of the work, so only positions that are scored reach it.
    """
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
    mask = weights[:, 1:] > 0
    logits = model.lm_head(hidden[mask]).float()
    targets = ids[:, 1:][mask]
    losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    return losses, weights[:, 1:][mask], logits.argmax(-1) == targets


@torch.no_grad()
def check(model, items: list[tuple[str, Encoded]], device: str, tokens: int = 2560) -> dict[str, float]:
    """Teacher-forced exact matches of whole segments, which equal greedy ones, by kind."""
    model.eval()
    order = sorted(range(len(items)), key=lambda i: len(items[i][1].ids))
    hits: dict[str, list[bool]] = {}
    total, count = 0.0, 0
    while order:
        take = [order.pop(0)]
        while order and (len(take) + 1) * len(items[order[0]][1].ids) <= tokens:
            take.append(order.pop(0))
        ids, weights = collate([items[i][1] for i in take], device)
        losses, _, right = token_losses(model, ids, weights)
        total, count = total + float(losses.sum()), count + losses.numel()
        grid = torch.ones_like(ids, dtype=torch.bool)
        inner = grid[:, 1:]
        inner[weights[:, 1:] > 0] = right
        for row, i in enumerate(take):
            kind, item = items[i]
            for n, (start, end) in enumerate(item.spans):
                what = "answer" if n == len(item.spans) - 1 else "ask"
                hits.setdefault(f"{what}/{kind}", []).append(bool(grid[row, start:end].all()))
    model.train()
    rows = {name: sum(h) / len(h) for name, h in sorted(hits.items())}
    for what in ("ask", "answer"):
        every = [x for name, h in hits.items() if name.startswith(f"{what}/") for x in h]
        rows[what] = sum(every) / max(1, len(every))
    return {"val_loss": total / count, **rows}


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    drawing = args.seed if args.draw_seed is None else args.draw_seed
    torch.manual_seed(drawing)
    args.out.mkdir(parents=True, exist_ok=True)
    split = make_split(args.data, args.datasets, args.seed)
    refuse_evaluated(split, args.datasets)
    described = split.as_json(args.seed)
    tokenizer = load_tokenizer(args.base)
    asked = [a.question for a in read_questions(args.data / "qamr", read_sentences(args.data / "qamr"))]
    source = Source(split.train, asked, drawing)
    # The drills of the check are drawn with an index that training never reaches.
    drills = [source.drills.comparison(random.Random(f"check:{i}")) for i in range(150)]
    checks = [(q.kind, encode(tokenizer, gold(q))) for q in split.validation]
    checks += [(f"drill_{t.kind}", encode(tokenizer, t)) for t in drills]

    # Steps too small for bfloat16 are most of what every weight learns: there only the products are computed in it.
    is_half = args.dtype == "bf16"
    model = load_base(args.base, torch.bfloat16 if is_half and not args.whole else torch.float32).to(args.device)
    start = read_adapter(args.start) if args.start else None
    if start:
        args.rank, args.alpha = start["rank"], start["alpha"]
    params = open_weights(model) if args.whole else add_lora(model, args.rank, args.alpha)
    if start:
        load_state(params, start["lora"])
    model.to(args.device)
    optimizer = torch.optim.AdamW(params.values(), lr=args.lr, weight_decay=0.0, betas=(0.9, 0.98))
    went_in = dict(
        model="planner", arguments=vars(args), mix=MIX,
        start_sha256=sha256(args.start) if args.start else None,
        data=split.data_hashes | hashes(args.data / "qamr"), base_sha256=sha256(args.base), split_sha256=described["sha256"],
        counts={"train": len(split.train), "validation": len(split.validation), "dropped": split.dropped},
    )
    step, at, checkpoint, log = 0, args.drawn, args.out / "checkpoint.pt", args.out / "log.jsonl"
    if checkpoint.exists():
        refuse_other(args.out / "manifest.json", **went_in)
        saved = torch.load(checkpoint, weights_only=True)
        load_state(params, saved.get("trained", saved.get("lora")))
        optimizer.load_state_dict(saved["optimizer"])
        step, at = saved["step"], saved["at"]
        keep_until(log, step)
    (args.out / "split.json").write_text(json.dumps(described, indent=0))
    write_manifest(args.out / "manifest.json", **went_in)
    model.train()
    seen = 0
    for at, items in batches(source, tokenizer, args.tokens, at, workers=args.workers):
        if step >= args.steps:
            break
        began = time.time()
        ids, weights = collate(items, args.device)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args)
        with torch.autocast(args.device, torch.bfloat16, enabled=is_half and args.whole):
            losses, scale, right = token_losses(model, ids, weights)
        loss = (losses * scale).sum() / scale.sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params.values(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step, seen = step + 1, seen + len(items)
        if step % 10 == 0:
            rate = ids.numel() / (time.time() - began)
            append_jsonl(log, {"step": step, "loss": float(loss.detach()), "right": float(right.float().mean()),
                               "seen": seen, "tokens_per_s": round(rate), "at": round(time.time())})
        if step % args.check_every == 0 or step == args.steps:
            append_jsonl(log, {"step": step, **check(model, checks, args.device)})
        if step % args.save_every == 0 or step == args.steps:
            saved = {"trained": state_of(params), "optimizer": optimizer.state_dict(), "step": step, "at": at}
            torch.save(saved, checkpoint.with_suffix(".tmp"))
            checkpoint.with_suffix(".tmp").replace(checkpoint)
            if args.whole:
                torch.save({"weights": saved["trained"]}, args.out / "weights.pt")
            else:
                torch.save({"lora": saved["trained"], "rank": args.rank, "alpha": args.alpha}, args.out / "adapter.pt")
            draw_curves(log, args.out / "curves.svg", ["loss", "val_loss"], ["ask", "answer"])


if __name__ == "__main__":
    main()
