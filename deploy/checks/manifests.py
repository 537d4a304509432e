"""The manifests that the Helm chart renders to, as they are kept in chart/: one file for each case of its values."""

import yaml

from lab import DEPLOY

KEPT = DEPLOY / "checks" / "chart"


def cases():
    return sorted(file.name.removesuffix(".values.yaml") for file in KEPT.glob("*.values.yaml"))


def kept(case):
    return [one for one in yaml.safe_load_all((KEPT / f"{case}.yaml").read_text(encoding="utf-8")) if one]


def of_kind(case, kind):
    return [one for one in kept(case) if one["kind"] == kind]


def pods(case):
    """The name of each thing that makes pods, and their specification."""
    for one in kept(case):
        if one["kind"] in ("Deployment", "StatefulSet", "Job"):
            yield one["metadata"]["name"], one["spec"]["template"]["spec"]
