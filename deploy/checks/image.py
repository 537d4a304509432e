#!/usr/bin/env python3
"""Makes what deploy/Dockerfile describes in a bare Debian root, and runs it as compose.yaml would. No container engine.

    image.py SPECHOP_BINARY [FOLDER]        FOLDER: where the roots are made (2 GB); they are removed at the end

The steps of the Dockerfile are read and performed, with two stand-ins: mmdebstrap makes the root of the base image, and
the binary given stands in for the stage `build`, which takes an hour on two cores. MODELS=FOLDER also stands in for the
pulling of the models; it holds what `spechop models pull default` makes.

The result runs as the image's user, without capabilities, on a root that cannot be written, with a clean environment: it
builds an index, starts, passes its own health check, answers a question, and ends at SIGTERM. Needs root and mmdebstrap.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
START_SECONDS_MAX = 120
QUESTION = "Where did Prince Ferdinand Of Bavaria's mother die?"


def instructions(text):
    """Each instruction and the rest of its line, comments left out and continued lines joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            word, rest = line.strip().split(None, 1)
            yield word.upper(), rest.strip()


def stages(text):
    """Name → (what it comes from, its instructions), arguments before the first stage filled in."""
    arguments, found, name = {}, {}, None
    for word, rest in instructions(text):
        if word == "FROM":
            parent, _, name = rest.split()
            found[name] = (re.sub(r"\$\{(\w+)\}", lambda match: arguments[match[1]], parent), [])
        elif name is None:
            key, _, value = rest.partition("=")
            arguments[key] = value
        else:
            found[name][1].append((word, rest))
    return found


class Builder:
    def __init__(self, folder, binary, models):
        self.folder, self.binary, self.models = folder, binary, models
        self.stages = stages(DOCKERFILE.read_text(encoding="utf-8"))
        self.made = {}

    def inside(self, root, command, env):
        """Runs a command in a root, by the functions that fresh.sh uses."""
        words = [f"{key}={value}" for key, value in env.items()] + command
        script = 'source deploy/root-lib.sh; root=$1; shift; inside "$root" "$@"'
        subprocess.run(["bash", "-euo", "pipefail", "-c", script, "-", root, *words], cwd=ROOT, check=True)

    def make(self, name):
        """The root of a stage, and its metadata."""
        if name in self.made:
            return self.made[name]
        parent, steps = self.stages[name]
        root = self.folder / name
        if parent in self.stages:
            from_root, meta = self.make(parent)
            subprocess.run(["cp", "-a", from_root, root], check=True)
            meta = {**meta, "env": dict(meta["env"])}
        else:
            suite = re.match(r"debian:([a-z]+)-", parent)[1]
            say(f"{name}: a bare Debian {suite} stands in for {parent}")
            subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "--include=ca-certificates", suite, root], check=True)
            network = 'source deploy/root-lib.sh; take_over_network "$1"'
            subprocess.run(["bash", "-euo", "pipefail", "-c", network, "-", root], cwd=ROOT, check=True)
            meta = {"env": {}, "workdir": "/", "user": None}
        for word, rest in steps:
            say(f"{name}: {word} {rest[:100]}")
            getattr(self, f"do_{word.lower()}")(root, meta, rest)
        self.made[name] = (root, meta)
        return self.made[name]

    def do_env(self, _, meta, rest):
        meta["env"].update(word.split("=", 1) for word in shlex.split(rest))

    def do_workdir(self, root, meta, rest):
        meta["workdir"] = rest
        (root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)

    def do_run(self, root, meta, rest):
        if "models pull" in rest and self.models:
            say(f"the models of {self.models} stand in")
            target = root / meta["env"]["SPECHOP_DATA_DIR"].lstrip("/") / "models"
            default = ("default-encoder", "e5-small-v2-int8", "onnxruntime", "spechop-planner-merged", "spechop-reader")
            target.mkdir(parents=True)
            for model in default:
                subprocess.run(["cp", "-a", self.models / model, target / model], check=True)
            return
        if "setup.sh" in rest and self.models:
            say("left out: it installs the clients that pull the models")
            return
        self.inside(root, ["bash", "-ec", f"cd {meta['workdir']}; {rest}"], meta["env"])

    def do_copy(self, root, meta, rest):
        words = rest.split()
        source = ROOT
        if words[0].startswith("--from="):
            stage = words.pop(0).removeprefix("--from=")
            if stage == "build":
                shutil.copy(self.binary, root / words[1].lstrip("/"))
                return
            source = self.make(stage)[0]
        there = words[1] if words[1].startswith("/") else f"{meta['workdir']}/{words[1]}"
        target = root / there.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", "--no-preserve=ownership", source / words[0].lstrip("/"), target], check=True)

    def do_user(self, _, meta, rest):
        meta["user"] = rest

    def do_expose(self, *_):
        pass

    def do_healthcheck(self, _, meta, rest):
        meta["health"] = json.loads(rest.split("CMD ", 1)[1])

    def do_entrypoint(self, _, meta, rest):
        meta["entrypoint"] = json.loads(rest)

    def do_cmd(self, _, meta, rest):
        meta["cmd"] = json.loads(rest)


class Container:
    """Runs commands in an image, on a root that cannot be written, with these folders as volumes."""

    SCRIPT = """
        root=$1 user=$2 group=$3; shift 3
        mount --rbind "$root" "$root"; mount -o remount,bind,ro "$root"
        mount -t proc proc "$root/proc"; mount --rbind /dev "$root/dev"; mount -t tmpfs tmpfs "$root/tmp"
        while [ "$1" != -- ]; do mount --bind "$1" "$root$2"; shift 2; done; shift
        exec chroot "$root" setpriv --reuid="$user" --regid="$group" --clear-groups --no-new-privs \
          --bounding-set=-all --inh-caps=-all env -i "$@"
    """

    def __init__(self, root, meta, volumes):
        self.root, self.meta, self.volumes = root, meta, volumes

    def command(self, words, env=None):
        path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        variables = [f"{key}={value}" for key, value in {**self.meta["env"], **(env or {})}.items()]
        mounts = [word for pair in self.volumes.items() for word in pair]
        user, group = self.meta["user"].split(":")
        return [
            "unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-euc", self.SCRIPT, "-",
            str(self.root), user, group, *map(str, mounts), "--", path, *variables, *words,
        ]  # fmt: skip

    def run(self, words, **options):
        return subprocess.run(self.command(words), check=True, text=True, **options)


def say(text):
    print(f"image: {text}", file=sys.stderr, flush=True)


def corpus(folder):
    os.environ.setdefault("SPECHOP_DATA_DIR", "/nonexistent")
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    import lab  # pylint: disable=import-outside-toplevel

    lab.write_corpus(folder)


def try_out(root, meta, folder):
    """Uses the image as README.md says; returns what was observed."""
    volumes = {}
    for name, there in (("corpus", "/mnt"), ("indexes", "/var/lib/spechop/indexes"), ("state", "/var/lib/spechop/state")):
        (folder / name).mkdir()
        volumes[folder / name] = there
        # A volume that is made anew takes the owner of the folder that it covers.
        owner = (root / there.lstrip("/")).stat()
        os.chown(folder / name, owner.st_uid, owner.st_gid)
    corpus(folder / "corpus")
    image = Container(root, meta, volumes)
    spechop = meta["entrypoint"]
    who = image.run(["bash", "-c", "id -u; touch /usr/x 2>&1 || true; cat /proc/self/status"], capture_output=True).stdout
    assert who.startswith(meta["user"].split(":")[0]), who
    assert "Read-only file system" in who, who
    assert re.search(r"^CapBnd:\s+0+$", who, re.M), who
    image.run([*spechop, "index", "build", "--corpus", "/mnt/corpus.jsonl"])

    # Without a word to the contrary it keeps to loopback.
    env = {"SPECHOP_SERVER_LISTEN": "127.0.0.1:50051"}
    begin = time.monotonic()
    server = subprocess.Popen(image.command([*spechop, *meta["cmd"]], env), stdout=subprocess.PIPE, text=True)
    try:
        line = server.stdout.readline()
        assert line == "ready on 127.0.0.1:50051\n", f"the server says {line!r}"
        ready = time.monotonic() - begin
        image.run(meta["health"])
        answer = image.run([*spechop, "ask", QUESTION], capture_output=True).stdout.splitlines()[0]
    finally:
        # The process that unshare has forked is the server itself.
        child = subprocess.run(["pgrep", "-P", str(server.pid)], capture_output=True, text=True, check=False).stdout.split()
        for process in map(int, child):
            os.kill(process, signal.SIGTERM)
        end = server.wait(60)
    assert end == 0, f"the server ended with {end}"
    refused = subprocess.run(image.command(meta["health"]), capture_output=True, check=False).returncode
    assert refused != 0, "the health check passes without a server"
    assert (folder / "state" / "tuning.json").is_file(), "what was learnt is not in the volume"
    assert answer, "there is no answer"
    return ready, answer


def main(binary, folder="/var/tmp/spechop-image"):
    models = os.environ.get("MODELS")
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(dir=folder))
    try:
        builder = Builder(folder, binary, models and pathlib.Path(models))
        sizes = {}
        for target in ("bare", "spechop"):
            root, meta = builder.make(target)
            size = subprocess.run(["du", "-sm", root], capture_output=True, text=True, check=True).stdout
            sizes[target] = int(size.split()[0])
            if target == "bare":
                shutil.rmtree(root)
        ready, answer = try_out(root, meta, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    said = ", ".join(f"{target} {size} MiB" for target, size in sizes.items())
    print(f"image: {said}; ready after {ready:.1f} s as user {meta['user']}; {QUESTION} {answer}")


if __name__ == "__main__":
    main(*sys.argv[1:])
