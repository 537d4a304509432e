"""The planner's base: SmolLM2-135M-Instruct, read from the very GGUF that ships.

The adapter is trained on the de-quantised Q4_1 weights and not on the original ones, because
those are the weights it will be added to: it then repairs quantisation instead of meeting it
for the first time in production. `transformers` de-quantises while loading.
"""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase
from transformers.modeling_utils import PreTrainedModel

EOL = "\n"


def load_tokenizer(gguf: Path) -> PreTrainedTokenizerBase:
    """The tokenizer that is stored inside the GGUF file."""
    return AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)


def load_base(gguf: Path, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """The de-quantised model, frozen. `save_pretrained` refuses on it; save state dicts."""
    model = AutoModelForCausalLM.from_pretrained(
        str(gguf.parent), gguf_file=gguf.name, dtype=dtype, attn_implementation="sdpa"
    )
    model.requires_grad_(False)
    return model
