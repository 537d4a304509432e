"""The trained reader as ONNX, in float32 and with int8 weights.

`python -m train.reader_export --data DIR --encoder E5_FOLDER --weights reader.pt --out DIR` writes reader.onnx
and reader-int8.onnx. Quantisation is dynamic and per output channel: weights are stored as int8,
activations are quantised as they come. One scale serves all channels of an activation, and a few channels
are ten times the others, so they are made more alike first, as in SmoothQuant (arXiv 2211.10438): what the
channels of a feed-forward layer's input are divided by, its weights are multiplied with. How large they are
is read off training items.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from tokenizers import Tokenizer

from .corpus import Corpus
from .reader import make_groups
from .reader_batches import Row, tensors
from .reader_model import Reader, new_reader
from .splits import make_split

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUTS = ("start_logits", "end_logits", "class_logits")
OPSET = 17
# How much of the unevenness goes over to the weights. 0.5 made it worse, 0.8 better than nothing, 0.65 best
# by the distance of the logits to float32's on fifty validation pools.
ALPHA = 0.65
CALIBRATION_GROUPS = 48


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


def to_int8(source: Path, out: Path, rows: list[list[Row]]) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared = out.with_suffix(".prepared.onnx")
    quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
    model = onnx.load(str(prepared))
    smooth(model, rows)
    onnx.save(model, str(prepared))
    quantize_dynamic(str(prepared), str(out), per_channel=True, weight_type=QuantType.QInt8)
    prepared.unlink()


def smooth(model: onnx.ModelProto, rows: list[list[Row]]) -> None:
    """Evens out the channels in front of the feed-forward layers; the function stays the same."""
    weights = {i.name: i for i in model.graph.initializer}
    layers = [
        node for node in model.graph.node
        if node.op_type == "MatMul" and node.input[1] in weights and is_feed_forward(weights[node.input[1]].dims)
    ]
    largest = channel_maxima(model, [node.input[0] for node in layers], rows)
    for node in layers:
        name, tensor = node.input[0], weights[node.input[1]]
        weight = numpy_helper.to_array(tensor)
        uneven = np.maximum(largest[name], 1e-5) ** ALPHA / np.maximum(np.abs(weight).max(1), 1e-5) ** (1 - ALPHA)
        scale = (uneven / np.exp(np.log(uneven).mean())).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(weight * scale[:, None], tensor.name))
        factor = f"{node.name}/even"
        model.graph.initializer.append(numpy_helper.from_array(1 / scale, factor))
        even = helper.make_node("Mul", [name, factor], [f"{factor}_out"], name=factor)
        node.input[0] = even.output[0]
        # A graph's nodes stand in the order of their use.
        model.graph.node.insert(list(model.graph.node).index(node), even)


def is_feed_forward(shape) -> bool:
    """The encoder's only matrices that are not square, but for the heads."""
    return len(shape) == 2 and max(shape) == 4 * min(shape) and min(shape) > 4


def channel_maxima(model: onnx.ModelProto, names: list[str], rows: list[list[Row]]) -> dict[str, np.ndarray]:
    import onnxruntime as ort

    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    probe.graph.output.extend(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names)
    session = ort.InferenceSession(probe.SerializeToString(), providers=["CPUExecutionProvider"])
    largest = {name: np.float32(0) for name in names}
    for group in rows:
        inputs = {name: tensor.numpy() for name, tensor in tensors(group, "cpu").items()}
        real = inputs["attention_mask"].astype(bool)
        for name, values in zip(names, session.run(names, inputs)):
            largest[name] = np.maximum(largest[name], np.abs(values[real]).max(0))
    return largest


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
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--datasets", type=Path, default=Path("datasets"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    model = new_reader(args.encoder / "model.onnx", 0)
    model.load_state_dict(torch.load(args.weights, weights_only=True))
    full, small = args.out / "reader.onnx", args.out / "reader-int8.onnx"
    to_onnx(model, full)
    split = make_split(args.data, args.datasets, args.seed)
    tokenizer = Tokenizer.from_file(str(args.encoder / "tokenizer.json"))
    groups = make_groups(split, Corpus(args.data), tokenizer, args.data, args.datasets, args.seed)
    to_int8(full, small, [groups.draw(i) for i in range(CALIBRATION_GROUPS)])
    for path in (full, small):
        onnx.checker.check_model(str(path))
        print(f"{path}: {path.stat().st_size} bytes, largest difference to torch {difference(model, path):.2g}")


if __name__ == "__main__":
    main()
