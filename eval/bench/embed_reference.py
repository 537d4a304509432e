#!/usr/bin/env python3
"""Writes crates/spechop-embed/tests/real/reference.json: vectors of the same texts from the same model
file, computed by other code (Python onnxruntime and tokenizers), one text a run, no padding.

    pip install onnxruntime==1.28.0 tokenizers numpy
    eval/bench/embed_reference.py > crates/spechop-embed/tests/real/reference.json
"""

import json
import os
import sys
from pathlib import Path

import numpy
import onnxruntime
from tokenizers import Tokenizer

HEAD = 8  # Components of each vector that are stored.

QUERIES = [
    "who directed the film",
    "Who is the paternal grandfather of Lady Helen Taylor?",
    "Where did Elisa Godínez Gómez De Batista's husband die?",
    "",
    "Which of the films " + "and ".join(f"number {n} " for n in range(40)) + "came first?",
]
PASSAGES = [
    "Roy Mack (director). Roy Mack (December 14, 1889, New Brunswick, New Jersey - January 16, "
    "1962, Los Angeles, California), born Roy McClure, was an American director of film shorts.",
    "Hirer Angti. Hirer Angti is a 1992 Bengali film by Rituporno Ghosh.",
    "A very long passage. " + "It repeats this sentence until the limit is far behind. " * 120,
    "x",
]


def main() -> None:
    default = Path(os.environ.get("XDG_DATA_HOME", Path.home() / ".local/share")) / "spechop"
    default = Path(os.environ.get("SPECHOP_DATA_DIR", default))
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else default / "models/e5-small-v2")
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()

    def vector(text: str, tokens_max: int) -> numpy.ndarray:
        tokenizer.enable_truncation(tokens_max)
        ids = numpy.array([tokenizer.encode(text).ids], dtype=numpy.int64)
        feed = {
            "input_ids": ids,
            "attention_mask": numpy.ones_like(ids),
            "token_type_ids": numpy.zeros_like(ids),
        }
        mean = session.run(None, feed)[0][0].mean(axis=0)
        return mean / numpy.linalg.norm(mean)

    queries = [vector("query: " + text, 64) for text in QUERIES]
    passages = [vector("passage: " + text, 512) for text in PASSAGES]

    def rows(texts, vectors):
        return [
            {"text": text, "head": [round(float(x), 6) for x in v[:HEAD]]}
            for text, v in zip(texts, vectors, strict=True)
        ]

    reference = {
        "made_by": "eval/bench/embed_reference.py",
        "with": f"e5-small-v2, onnxruntime {onnxruntime.__version__}",
        "queries": rows(QUERIES, queries),
        "passages": rows(PASSAGES, passages),
        # One row a query, one column a passage.
        "cosines": [[round(float(q @ p), 6) for p in passages] for q in queries],
    }
    json.dump(reference, sys.stdout, indent=1, ensure_ascii=False)
    print()


if __name__ == "__main__":
    main()
