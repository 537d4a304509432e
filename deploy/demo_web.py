#!/usr/bin/env python3
"""The table of demo-web.sh: FOLDER holds K.N.text (`spechop ask --json` of question N at K), tuning.json and expected."""

import json
import pathlib
import sys

KS = ["1", "3", "auto"]


def main(folder):
    expected = (folder / "expected").read_text(encoding="utf-8").splitlines()
    answers = {
        k: [json.loads((folder / f"{k}.{n}.text").read_text(encoding="utf-8")) for n in range(len(expected))] for k in KS
    }
    tunings = [json.loads(line) for line in (folder / "tuning.json").read_text(encoding="utf-8").splitlines()]
    tuning = next((one for one in tunings if one["speculator"] == "index"), None)

    print("\n=== answers ===")
    for n, wanted in enumerate(expected):
        for k in KS:
            answer = answers[k][n]
            hops = ", ".join(f"{hop['guess']!r} {kind(hop)}" for hop in answer["hops"] if hop.get("guess")) or "no guess"
            print(f"question {n + 1}, k = {k:4}: {answer['answer']} (the data set says {wanted}); guesses: {hops}")

    print("\n=== three questions over the web ===")
    print(f"{'k':10} {'seconds':>8} {'RelLat':>7} {'RelLat*':>8} {'simulated':>10} {'first there':>12} {'look-ups':>9} {'wasted':>7}")
    base = mean(answer["elapsed_ms"] for answer in answers["1"])
    for k in KS:
        those = answers[k]
        chosen = {answer["applied"]["options"].get("k") for answer in those}
        name = k if k != "auto" else f"auto ({', '.join(map(str, sorted(filter(None, chosen))))})"
        seconds = mean(answer["elapsed_ms"] for answer in those)
        first = mean((answer.get("first_answer") or {}).get("at_ms", answer["elapsed_ms"]) for answer in those)
        started = sum(answer["usage"]["targets"]["started"] for answer in those)
        wasted = sum(answer["usage"]["targets"]["wasted"] for answer in those)
        bound = "" if k == "1" else number(tuning and tuning["rel_lat_star"])
        print(
            f"{name:10} {seconds / 1000:8.2f} {seconds / base:7.3f} {bound:>8} {simulated(tuning, chosen):>10} "
            f"{first / 1000:12.2f} {started:9d} {wasted:7d}"
        )
    same = sum(len({answers[k][n]["answer"] for k in KS}) == 1 for n in range(len(expected)))
    print(f"The same answer at every k: {same} of {len(expected)} questions.", end=" ")
    if tuning:
        values = ", ".join(f"{name} {number(tuning[name] and tuning[name]['value'])}" for name in ("p", "alpha", "beta"))
        print(f"Measured over {tuning['hops']} hops: {values}.")
        if tuning["why"]:
            print(f"auto chooses {tuning['k']}: {tuning['why']}.")


def simulated(tuning, chosen):
    """The mean over the chosen k, each as the server simulates it."""
    played = {at["k"]: at["rel_lat"] for at in tuning["what_if"]} if tuning else {}
    values = [played[k] for k in chosen if k in played]
    return number(mean(values)) if values else "-"


def kind(hop):
    return "confirmed" if hop["kind"] == "COMMIT_KIND_ACCEPTED" else "rejected"


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def number(value):
    return "-" if value is None else f"{value:.3f}"


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
