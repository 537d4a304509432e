"""The reader: E5's encoder with a span head and a class head."""

from __future__ import annotations

import copy
from pathlib import Path

import onnx
import torch
from onnx import numpy_helper
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


def start_from(model: Reader, path: Path) -> None:
    """Sets the trained weights to those of a reader.pt, or of an exported int8 reader, to train it further.

    Of the latter, what is frozen stays E5's own, in full precision. Names and the evening out of channels are those of
    `reader_export`.
    """
    if path.suffix == ".pt":
        model.load_state_dict(torch.load(path, weights_only=True))
        return
    graph = onnx.load(str(path)).graph
    tensors = {i.name: torch.from_numpy(numpy_helper.to_array(i).copy()) for i in graph.initializer}
    state = {name: tensor for name, tensor in tensors.items() if name.endswith((".bias", "LayerNorm.weight"))}
    for node in graph.node:
        if node.op_type == "MatMulInteger" and node.input[1] in tensors:
            quantised = node.input[1].removesuffix("_quantized")
            scale, zero = tensors[f"{quantised}_scale"], tensors[f"{quantised}_zero_point"]
            weight = (tensors[node.input[1]].float() - zero.float()) * scale
            layer = node.name.removesuffix("_quant").removesuffix("_MatMul").removesuffix("/MatMul").removesuffix("/Gemm")
            even = tensors.get(f"{layer}/MatMul/even")
            weight = weight if even is None else weight * even.unsqueeze(1)
            # Modules of a Sequential are called "classify/classify.0".
            name = layer.strip("/").replace("classify/", "").replace("/", ".")
            state[f"{name}.weight"] = weight.T.contiguous()
    wanted = {name for name, p in model.named_parameters() if p.requires_grad}
    if wanted - state.keys():
        raise ValueError(f"{path} lacks {sorted(wanted - state.keys())}")
    model.load_state_dict({name: state[name] for name in wanted}, strict=False)


class Average:
    """A running mean of the trained weights: steadier than the last step's (Polyak and Juditsky, 1992)."""

    def __init__(self, model: Reader, decay: float) -> None:
        self.model = copy.deepcopy(model).requires_grad_(False).eval()
        self.decay = decay

    def update(self, model: Reader, step: int) -> None:
        pairs = [(a, p.detach()) for a, p in zip(self.model.parameters(), model.parameters()) if p.requires_grad]
        # At first the mean follows closely, so that it forgets where training began.
        torch._foreach_lerp_([a for a, _ in pairs], [p for _, p in pairs], 1 - min(self.decay, (1 + step) / (10 + step)))
