#!/usr/bin/env python3
"""The bill of materials of `spechop`, as CycloneDX JSON, on standard output: sbom.py

Every package of the lock file that is compiled into the program or runs while it is built, with its licence, its hash
and what it uses. Packages that only tests use are not in it. C and C++ code is named with the package that brings it.
Needs cyclonedx-python-lib (deploy/checks/requirements.txt) and the sources that cargo has fetched.
"""

import json
import pathlib
import re
import subprocess
import sys
from collections import deque

from cyclonedx.factory.license import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = "spechop"
# Package → what it compiles that is not Rust.
NATIVE = {
    "llama-cpp-sys-2": "llama.cpp and ggml",
    "onig_sys": "Oniguruma",
    "ring": "parts of BoringSSL",
    "zstd-sys": "zstd",
}


def metadata():
    host = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
    host = next(line.split()[1] for line in host.splitlines() if line.startswith("host:"))
    command = ["cargo", "metadata", "--locked", "--offline", "--format-version=1", "--filter-platform", host]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)


def used(data):
    """Package → those that it uses, tests aside; of the program and all that it leads to."""
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    start = next(one["id"] for one in data["packages"] if one["name"] == PROGRAM)
    found, open_ = {}, deque([start])
    while open_:
        package = open_.popleft()
        if package in found:
            continue
        found[package] = [
            dep["pkg"] for dep in nodes[package]["deps"] if any(kind["kind"] != "dev" for kind in dep["dep_kinds"])
        ]
        open_.extend(found[package])
    return start, found


def component(package, hashes, licences):
    ours = package["source"] is None
    name, version = package["name"], package["version"]
    properties = [Property(name="spechop:native", value=NATIVE[name])] if name in NATIVE else []
    digest = hashes.get((name, version))
    return Component(
        type=ComponentType.APPLICATION if name == PROGRAM else ComponentType.LIBRARY,
        name=name,
        version=version,
        bom_ref=f"{name}@{version}",
        description=package["description"],
        purl=None if ours else PackageURL("cargo", name=name, version=version),
        # Some old packages write a slash for OR.
        licenses=[licences.make_from_string(package["license"].replace("/", " OR "))] if package["license"] else [],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)] if digest else [],
        properties=properties,
    )


def main():
    data = metadata()
    start, uses = used(data)
    # Not read as TOML: Python 3.10 has no reader of it.
    entry = re.compile(r'name = "(.+)"\nversion = "(.+)"\nsource = ".+"\nchecksum = "(.+)"')
    lock = (ROOT / "Cargo.lock").read_text(encoding="utf-8")
    hashes = {(name, version): digest for name, version, digest in entry.findall(lock)}
    licences = LicenseFactory()
    packages = {one["id"]: component(one, hashes, licences) for one in data["packages"] if one["id"] in uses}
    bom = Bom(components=[packages[id_] for id_ in sorted(uses) if id_ != start])
    bom.metadata.component = packages[start]
    for id_, others in uses.items():
        bom.register_dependency(packages[id_], [packages[other] for other in others])
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    # The same program has the same bill: without the time, and without a number drawn at random.
    document["metadata"].pop("timestamp", None)
    document.pop("serialNumber", None)
    json.dump(document, sys.stdout, indent=1, ensure_ascii=False)
    print()


if __name__ == "__main__":
    main()
