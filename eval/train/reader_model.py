"""The reader: E5's encoder with a span head and a class head."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from .encoder import CONFIG, lift_encoder
from .reader_data import CLASSES

OUTSIDE = -1e4  # a logit that no softmax sees, and that float16 still holds


class Reader(nn.Module):
    """Start and end of the answer in the passage, and whether there is one at all."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        width = CONFIG["hidden_size"]
        self.span = nn.Linear(width, 2)
        # One hidden layer: [CLS] was trained to nothing in particular, since E5 pools by the mean.
        self.classify = nn.Sequential(nn.Linear(2 * width, width), nn.GELU(), nn.Linear(width, len(CLASSES)))

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Logits; start and end are `OUTSIDE` off the passage (segment 1 without its [SEP])."""
        hidden = self.encoder(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        ).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1.0)
        classes = self.classify(torch.cat([hidden[:, 0], mean], dim=-1))
        inside = (token_type_ids == 1) & (attention_mask == 1) & (input_ids != 102)
        spans = self.span(hidden).masked_fill(~inside.unsqueeze(-1), OUTSIDE)
        return spans[..., 0], spans[..., 1], classes


def new_reader(encoder: Path, frozen_layers: int) -> Reader:
    """Embeddings and the lowest layers stay E5's: few examples should not move them."""
    model = Reader(lift_encoder(encoder))
    model.encoder.embeddings.requires_grad_(False)
    for layer in model.encoder.encoder.layer[:frozen_layers]:
        layer.requires_grad_(False)
    return model
