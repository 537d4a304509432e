"""What the Python reference reads, for tests/real/trained_reader.rs.

Run in eval/ with the training's environment whenever another reader is shipped:
`python ../crates/spechop-embed/tests/real/reader_reference.py --data DIR --reader READER_FOLDER`.
Texts: validation hops and passages of 2WikiMultihopQA (Apache-2.0), from Wikipedia (CC BY-SA 4.0); the odd ones are ours.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4] / "eval"))

from tokenizers import Tokenizer  # noqa: E402
from train.corpus import Corpus, Passage  # noqa: E402
from train.reader_answer import confidence, counts  # noqa: E402
from train.reader_eval import onnx_runner, pools, readings  # noqa: E402
from train.splits import make_split  # noqa: E402

HOPS = 13
LONG = "The film was shown in many towns, and in each of them people spoke of it. " * 14
ODD = [
    ("Who directed the film Wojna polsko-ruska?",
     [("Wojna polsko-ruska", "Wojna polsko-ruska is a 2009 film directed by Xawery Żuławski."), ("Łódź", "Łódź is a city in Poland.")]),
    # Decomposed letters, characters of four bytes, and a script that the tokenizer takes apart.
    ("Where was José born?", [("José 🦀", "José 🦀 (born 4 May 1901 in A Corun\u0303a, Spain) was a sailor."), ("東京", "東京 is the capital of 日本.")]),
    ("What is the capital of 日本?", [("東京", "東京 (Tōkyō) is the capital of 日本. 🦀 ﬁve ½")]),
    # The end of what the model reads at once is cut. (If the answer stood there, the server would read on, and this would not.)
    ("Who directed the film The Long Road?", [("The Long Road", "It was directed by Ann Lee. " + LONG), ("Road", "A road is a way.")]),
    ("Is Fulgencio Batista the spouse of Elisa Godínez Gómez?",
     [("Elisa Godínez Gómez", "Elisa Godínez Gómez (c. 1905 – June 19, 1993) was the first wife of Cuban President Fulgencio Batista.")]),
    ("When did Jan Kot die?", [("Jan Kot", "Jan Kot (born 1 April 1992) is a Polish footballer who plays as a forward."), ("", "")]),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--datasets", type=Path, default=Path("datasets"))
    parser.add_argument("--reader", type=Path, required=True, help="folder with model.onnx, tokenizer.json and reader.toml")
    args = parser.parse_args()
    model, recipe = args.reader / "model.onnx", tomllib.loads((args.reader / "reader.toml").read_text())
    tokenizer = Tokenizer.from_file(str(args.reader / "tokenizer.json"))
    checks = pools(make_split(args.data, args.datasets, 1).validation, Corpus(args.data))
    hops = [(item.questions[0], passages[1:4]) for item, passages in checks if item.kind.startswith("2wiki/")]
    odd = [(question, [Passage(*p) for p in passages]) for question, passages in ODD]
    run = onnx_runner(model)
    cases = []
    for question, passages in hops[:HOPS] + odd:
        reads = readings(run, tokenizer, question, passages)
        best = counts([confidence(r.score, **recipe["calibration"]) for r in reads], recipe.get("enough"))
        cases.append({
            "question": question, "passages": [{"title": p.title, "text": p.text} for p in passages],
            "answer": reads[best].text, "score": round(reads[best].score, 4), "passage": best,
        })
    reference = {
        "made_by": "crates/spechop-embed/tests/real/reader_reference.py",
        "model_sha256": hashlib.sha256(model.read_bytes()).hexdigest(), "cases": cases,
    }
    out = Path(__file__).with_name("reader_reference.json")
    out.write_text(json.dumps(reference, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
