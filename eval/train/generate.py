"""Greedy next lines, from torch and from llama.cpp, behind one function type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from transformers.modeling_utils import PreTrainedModel

from .basemodel import load_base, load_tokenizer, open_weights
from .lora import add_lora, load_state
from .trajectories import ARROW

LINE_TOKENS_MAX = 64
NOTE = "Compare:"
# Prompts to the lines that the planner writes after them, without the stop string.
NextLines = Callable[[list[str]], list[str]]


def with_notes(lines: NextLines) -> NextLines:
    """Lets the model go on after its own "Compare:" line; the line that counts comes next."""

    def both(prompts: list[str]) -> list[str]:
        first = lines(prompts)
        again = [i for i, line in enumerate(first) if line.startswith(NOTE)]
        second = lines([f"{prompts[i]}{first[i]}\n" for i in again])
        for i, line in zip(again, second):
            first[i] = f"{first[i]}\n{line}"
        return first

    return both


def cut(text: str) -> str:
    """A line ends at its line break, or at the arrow that asks for an answer."""
    return text.split("\n")[0].split(ARROW)[0].strip()


def to_extend(rows: list[list[int]], pad: int, device: str) -> dict[str, torch.Tensor]:
    """Padded to the left, so that every row is extended at its end."""
    width = max(map(len, rows))
    ids = torch.tensor([[pad] * (width - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    return {"input_ids": ids.to(device), "attention_mask": mask.to(device)}


def load_trained(base: Path, trained: Path) -> PreTrainedModel:
    """The base with an adapter beside its weights, or with weights of its own in their place."""
    model = load_base(base)
    saved = torch.load(trained, weights_only=True)
    if "weights" in saved:
        load_state(open_weights(model), saved["weights"])
    else:
        load_state(add_lora(model, saved["rank"], saved["alpha"]), saved["lora"])
    return model


def torch_lines(base: Path, adapter: Path, device: str = "cpu", batch: int = 32) -> NextLines:
    """What was trained, on the de-quantised base."""
    tokenizer = load_tokenizer(base)
    model = load_trained(base, adapter).to(device).eval()
    arrow = tokenizer.encode(ARROW, add_special_tokens=False)[0]
    line_break = tokenizer.encode("\n", add_special_tokens=False)[0]

    @torch.no_grad()
    def lines(prompts: list[str]) -> list[str]:
        encoded = [tokenizer.encode(p, add_special_tokens=False) for p in prompts]
        order = sorted(range(len(prompts)), key=lambda i: len(encoded[i]))
        out = [""] * len(prompts)
        for at in range(0, len(order), batch):
            take = order[at : at + batch]
            given = to_extend([encoded[i] for i in take], 0, device)
            made = model.generate(
                **given, max_new_tokens=LINE_TOKENS_MAX, do_sample=False, eos_token_id=[arrow, line_break], pad_token_id=0,
            )
            for row, i in enumerate(take):
                out[i] = cut(tokenizer.decode(made[row, given["input_ids"].shape[1] :], skip_special_tokens=True))
        return out

    return with_notes(lines)


def llama_lines(base: Path, adapter: Path | None, threads: int = 1) -> NextLines:
    """The exported adapter on the packaged Q4_1 base, or a model that it is merged into, in llama.cpp."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(base)
    params.n_ctx, params.n_parallel, params.warmup = 1024, 1, False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    if adapter:
        lora = xllamacpp.CommonAdapterLoraInfo()
        lora.path, lora.scale = str(adapter), 1.0
        params.lora_adapters = [lora]
    server = xllamacpp.Server(params)

    def lines(prompts: list[str]) -> list[str]:
        out = []
        for prompt in prompts:
            answer = server.handle_completions({
                "prompt": prompt, "max_tokens": LINE_TOKENS_MAX, "temperature": 0.0, "stop": ["\n", ARROW], "cache_prompt": True,
            })
            out.append(cut(answer["choices"][0]["text"]))
        return out

    return with_notes(lines)
