"""A small LoRA (Hu et al., arXiv 2106.09685) for every linear layer of a llama-like model.

Own code instead of `peft`: forty lines, and the export needs to know exactly where each pair
of matrices sits. The master copies of A and B stay in float32 and are cast to the activations'
type in the forward pass, so a bfloat16 base can be trained without losing small updates.
"""

from __future__ import annotations

import math

import torch
from torch import nn

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class LoraLinear(nn.Module):
    """y = W x + (alpha / r) * B (A x), with W frozen."""

    def __init__(self, base: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        self.base = base
        self.scale = alpha / rank
        self.lora_a = nn.Parameter(torch.empty(rank, base.in_features))
        # Zero, so that training starts at the base model exactly.
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low = nn.functional.linear(x, self.lora_a.to(x.dtype))
        # Scaling the narrow matrix costs less than scaling the wide output.
        return self.base(x) + nn.functional.linear(low, (self.lora_b * self.scale).to(x.dtype))


def add_lora(model: nn.Module, rank: int, alpha: float) -> dict[str, nn.Parameter]:
    """Wraps every target layer in place; returns the trainable parameters by name."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if name in TARGETS and isinstance(child, nn.Linear):
                setattr(parent, name, LoraLinear(child, rank, alpha))
    # Only the A and B matrices.
    return {n: p for n, p in model.named_parameters() if n.endswith((".lora_a", ".lora_b"))}


def state_of(params: dict[str, nn.Parameter]) -> dict[str, torch.Tensor]:
    """What is trained, on the CPU, in float32."""
    return {n: p.detach().float().cpu().clone() for n, p in params.items()}


def load_state(params: dict[str, nn.Parameter], state: dict[str, torch.Tensor]) -> None:
    """Puts saved weights back; a missing or surplus name is an error."""
    if params.keys() != state.keys():
        raise ValueError("what was saved does not fit this model's layers")
    with torch.no_grad():
        for name, value in state.items():
            params[name].copy_(value)


@torch.no_grad()
def merge_lora(model: nn.Module) -> None:
    """Adds the adapter to the weights in place, for inference."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, LoraLinear):
                child.base.weight += (child.lora_b @ child.lora_a * child.scale).to(child.base.weight.dtype)
                setattr(parent, name, child.base)
