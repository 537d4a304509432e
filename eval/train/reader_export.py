"""The trained reader as ONNX, in float32 and with int8 weights.

`python -m train.reader_export --encoder E5_FOLDER --weights reader.pt --out DIR` writes reader.onnx and
reader-int8.onnx. Quantisation is dynamic and per output channel: weights are stored as int8,
activations are quantised as they come, so no calibration data is needed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
import torch

from .reader_model import Reader, new_reader

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUTS = ("start_logits", "end_logits", "class_logits")
OPSET = 17


def to_onnx(model: Reader, out: Path) -> None:
    """One file, with free batch and sequence sizes."""
    model.eval()
    ids = torch.tensor([[101, 23032, 102, 2023, 102], [101, 2054, 102, 102, 0]])
    mask = (ids != 0).long()
    types = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 1, 0]])
    axes = {name: {0: "batch_size", 1: "sequence_length"} for name in (*INPUTS, *OUTPUTS[:2])}
    torch.onnx.export(
        model, (ids, mask, types), str(out), input_names=list(INPUTS), output_names=list(OUTPUTS),
        dynamic_axes=axes | {OUTPUTS[2]: {0: "batch_size"}}, opset_version=OPSET, dynamo=False,
    )


def to_int8(source: Path, out: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared = out.with_suffix(".prepared.onnx")
    quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
    quantize_dynamic(str(prepared), str(out), per_channel=True, weight_type=QuantType.QInt8)
    prepared.unlink()


def difference(model: Reader, path: Path) -> float:
    """Largest gap between torch and ONNX on random pairs of two sizes."""
    import onnxruntime as ort

    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    worst = 0.0
    for batch, width in ((2, 33), (5, 70)):
        ids = torch.randint(1000, 30000, (batch, width))
        types = (torch.arange(width) > 10).long().expand(batch, width).contiguous()
        mask = torch.ones_like(ids)
        mask[0, width - 9 :] = 0
        with torch.no_grad():
            ours = model(ids, mask, types)
        theirs = session.run(list(OUTPUTS), dict(zip(INPUTS, (ids.numpy(), mask.numpy(), types.numpy()))))
        worst = max(worst, *(float(np.abs(a.numpy() - b).max()) for a, b in zip(ours, theirs)))
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    model = new_reader(args.encoder / "model.onnx", 0)
    model.load_state_dict(torch.load(args.weights, weights_only=True))
    full, small = args.out / "reader.onnx", args.out / "reader-int8.onnx"
    to_onnx(model, full)
    to_int8(full, small)
    for path in (full, small):
        onnx.checker.check_model(str(path))
        print(f"{path}: {path.stat().st_size} bytes, largest difference to torch {difference(model, path):.2g}")


if __name__ == "__main__":
    main()
