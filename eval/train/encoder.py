"""E5-small-v2's weights out of its ONNX file into a torch BertModel.

Only the ONNX export is at hand. Its biases keep their names; its matrices are anonymous and
transposed, but each MatMul node is named after the layer that it came from.
Model: Wang et al., arXiv 2212.03533 (MIT).
"""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import torch
from onnx import numpy_helper
from transformers import BertConfig, BertModel

CONFIG = {
    "vocab_size": 30522, "hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 12,
    "intermediate_size": 1536, "max_position_embeddings": 512, "type_vocab_size": 2,
    # Dropping attention costs a fifth of a training step on a CPU; the layers' outputs are still dropped.
    "attention_probs_dropout_prob": 0.0,
}


def lift_encoder(path: Path) -> BertModel:
    """The encoder, with every weight accounted for."""
    graph = onnx.load(str(path)).graph
    tensors = {i.name: torch.from_numpy(numpy_helper.to_array(i).copy()) for i in graph.initializer}
    state = {n: t for n, t in tensors.items() if n.startswith(("embeddings.", "encoder."))}
    state.pop("embeddings.position_ids", None)
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in tensors:
            name = re.sub(r"/MatMul$", "/weight", node.name).strip("/").replace("/", ".")
            state[name] = tensors[node.input[1]].T.contiguous()
    model = BertModel(BertConfig(**CONFIG), add_pooling_layer=False)
    missing, surplus = model.load_state_dict(state, strict=False)
    if missing or surplus:
        raise ValueError(f"not the encoder expected: missing {missing}, surplus {surplus}")
    return model
