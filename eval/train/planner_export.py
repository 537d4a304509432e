"""The trained LoRA as a GGUF adapter for llama.cpp.

`python -m train.planner_export --adapter adapter.pt --out planner.gguf [--type q8_0|f16]`.
Keys and names after llama.cpp's convert_lora_to_gguf.py. One thing is easily missed: GGUF stores a
llama model's q and k rows in another order than transformers (pairs side by side for its rotary
embedding), so the output side, lora_b, of q and k must be permuted the same way.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter
from gguf.quants import dequantize, quantize

HEADS, KV_HEADS = 9, 3
# The linear layers by their names in GGUF.
LINEAR = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}
_TYPES = {"q8_0": GGMLQuantizationType.Q8_0, "f16": GGMLQuantizationType.F16}


def permute(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """Row order of transformers to row order of GGUF (convert_hf_to_gguf.py, LlamaModel.permute)."""
    width = rows.shape[0] // heads
    return rows.reshape(heads, 2, width // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def tensors(state: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """The adapter's matrices under their GGUF names."""
    named = {}
    for name, value in state.items():
        layer, module, side = re.fullmatch(r"model\.layers\.(\d+)\.(.+)\.lora_([ab])", name).groups()
        if side == "b" and module.endswith(("q_proj", "k_proj")):
            value = permute(value, HEADS if module.endswith("q_proj") else KV_HEADS)
        named[f"blk.{layer}.{LINEAR[module]}.weight.lora_{side}"] = value.float().contiguous().numpy()
    return named


def unpermute(rows: np.ndarray, heads: int) -> np.ndarray:
    """What `permute` does, undone."""
    width = rows.shape[0] // heads
    return rows.reshape(heads, width // 2, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def read_adapter(path: Path) -> dict:
    """An exported adapter as training keeps one: lora, rank, alpha."""
    reader = GGUFReader(path)
    modules = {short: module for module, short in LINEAR.items()}
    lora = {}
    for tensor in reader.tensors:
        layer, short, side = re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight\.lora_([ab])", tensor.name).groups()
        value, module = dequantize(tensor.data, tensor.tensor_type), modules[short]
        if side == "b" and module.endswith(("q_proj", "k_proj")):
            value = unpermute(value, HEADS if module.endswith("q_proj") else KV_HEADS)
        lora[f"model.layers.{layer}.{module}.lora_{side}"] = torch.from_numpy(np.ascontiguousarray(value, dtype=np.float32))
    rank = next(v.shape[0] for n, v in lora.items() if n.endswith("lora_a"))
    return {"lora": lora, "rank": rank, "alpha": float(reader.fields["adapter.lora.alpha"].contents())}


def write(writer: GGUFWriter, out: Path) -> int:
    """Writes what was added to the file of the writer; returns its size."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out.stat().st_size


def export(adapter: Path, out: Path, kind: str) -> int:
    """Writes the file; returns its size."""
    saved = torch.load(adapter, weights_only=True)
    writer = GGUFWriter(str(out), "llama")
    writer.add_type("adapter")
    writer.add_name("SpecHop planner")
    writer.add_license("apache-2.0")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(saved["alpha"]))
    for name, value in sorted(tensors(saved["lora"]).items()):
        writer.add_tensor(name, quantize(value, _TYPES[kind]), raw_dtype=_TYPES[kind])
    return write(writer, out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--adapter", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--type", choices=tuple(_TYPES), default="q8_0")
    args = parser.parse_args()
    print(f"{args.out}: {export(args.adapter, args.out, args.type)} bytes")


if __name__ == "__main__":
    main()
