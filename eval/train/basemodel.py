"""The planner's base: SmolLM2-135M-Instruct, read from the very GGUF that ships.

The adapter is trained on the de-quantised Q4_1 weights and not on the original ones, because
those are the weights it will be added to: it then repairs quantisation instead of meeting it
for the first time in production. `transformers` de-quantises while loading.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch.nn import Parameter
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase
from transformers.modeling_utils import PreTrainedModel

EOL = "\n"


def _where(base: Path) -> dict[str, str]:
    """A GGUF file, or a folder as transformers saves a model."""
    if base.is_dir():
        return {"pretrained_model_name_or_path": str(base)}
    return {"pretrained_model_name_or_path": str(base.parent), "gguf_file": base.name}


def load_tokenizer(base: Path) -> PreTrainedTokenizerBase:
    """The tokenizer that is stored beside the weights."""
    return AutoTokenizer.from_pretrained(**_where(base))


def load_base(base: Path, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """The de-quantised model, frozen. `save_pretrained` refuses on a GGUF's; save state dicts."""
    model = AutoModelForCausalLM.from_pretrained(**_where(base), dtype=dtype, attn_implementation="sdpa")
    model.requires_grad_(False)
    return model


def open_weights(model: PreTrainedModel) -> dict[str, Parameter]:
    """Every weight as one to be trained; the vocabulary's once, if it is tied."""
    model.requires_grad_(True)
    return dict(model.named_parameters())
