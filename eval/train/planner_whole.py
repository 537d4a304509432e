"""A trained planner as one GGUF model: its adapter merged, or its own weights in place of the base's.

`python -m train.planner_whole --trained adapter.pt|weights.pt --base model.gguf --out planner.gguf [--type q8_0|q4_0]`.
Any base that `train.planner` takes will do. What is served is made by `spechop models pull`; this is for comparisons.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import torch
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter
from gguf.quants import quantize

from .generate import load_trained
from .lora import merge_lora
from .planner_export import LINEAR, permute, write

_OTHERS = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}
_TYPES = {"q8_0": GGMLQuantizationType.Q8_0, "q4_0": GGMLQuantizationType.Q4_0}
# What the reader gives beside the file's own fields, and what the writer writes by itself.
_NOT_COPIED = ("GGUF.", "general.architecture", "general.file_type")


def gguf_name(name: str) -> str:
    """`model.layers.3.self_attn.q_proj.bias`: `blk.3.attn_q.bias`."""
    module, side = name.rsplit(".", 1)
    layer = re.fullmatch(r"model\.layers\.(\d+)\.(.+)", module)
    if layer is None:
        return f"{_OTHERS[module]}.{side}"
    return f"blk.{layer[1]}.{(LINEAR | _OTHERS)[layer[2]]}.{side}"


def tensors(model) -> dict[str, torch.Tensor]:
    """The model's weights under their GGUF names, in the order of rows that llama.cpp wants of a llama."""
    config, named = model.config, {}
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for name, value in model.state_dict().items():
        module = name.rsplit(".", 2)[-2]
        if config.model_type == "llama" and module in heads:
            value = permute(value, heads[module])
        named[gguf_name(name)] = value.float().contiguous()
    return named


def copy_fields(reader: GGUFReader, writer: GGUFWriter) -> None:
    for field in reader.fields.values():
        if not field.name.startswith(_NOT_COPIED):
            inner = field.types[1] if field.types[0] == GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=inner)


def export(trained: Path, base: Path, out: Path, kind: str) -> int:
    """Writes the file; returns its size."""
    model = load_trained(base, trained)
    merge_lora(model)
    reader, named = GGUFReader(base), tensors(model)
    writer = GGUFWriter(str(out), reader.fields["general.architecture"].contents())
    copy_fields(reader, writer)
    for tensor in reader.tensors:
        value = named[tensor.name].numpy()
        form = _TYPES[kind] if value.ndim == 2 else GGMLQuantizationType.F32
        writer.add_tensor(tensor.name, quantize(value, form), raw_dtype=form)
    return write(writer, out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trained", type=Path, required=True)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--type", choices=tuple(_TYPES), default="q8_0")
    args = parser.parse_args()
    print(f"{args.out}: {export(args.trained, args.base, args.out, args.type)} bytes")


if __name__ == "__main__":
    main()
