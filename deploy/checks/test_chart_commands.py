"""The commands that the jobs and the servers of the Helm chart run, on this machine."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
import urllib.request

import lab
from lab import Running, needs, needs_spechop, run, spechop, tool
from manifests import of_kind, pods


@needs_spechop()
class Commands(unittest.TestCase):
    """The scripts of the jobs, with folders of this machine in the place of the volumes."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("corpus", "indexes", "bin", "state"):
            (self.folder / name).mkdir()
        (self.folder / "bin" / "spechop").symlink_to(os.path.abspath(spechop()))
        # A part holds at least one batch of 256 passages. Short ones take a second.
        with open(self.folder / "corpus" / "corpus.jsonl", "w", encoding="utf-8") as corpus:
            for n in range(300):
                line = {"id": f"p{n}", "title": f"Town {n}", "text": f"It has {n} houses.", "in_degree": n % 7}
                corpus.write(json.dumps(line) + "\n")

    def here(self, text):
        for there, name in (("/corpus", "corpus"), ("/var/lib/spechop/indexes", "indexes"), ("/etc/spechop", ".")):
            text = re.sub(rf"(?<![\w/]){there}(?=/|\b)", str(self.folder / name), text)
        return text

    def job(self, case, part, **variables):
        jobs = {one["metadata"]["name"]: one for one in of_kind(case, "Job")}
        name = next(name for name in jobs if f"-{part}-" in name)
        container = jobs[name]["spec"]["template"]["spec"]["containers"][0]
        (self.folder / "spechop.toml").write_text(of_kind(case, "ConfigMap")[0]["data"]["spechop.toml"])
        given = {one["name"]: one["value"] for one in container.get("env", [])}
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        env = {**os.environ, **given, **variables, "PATH": path}
        *shell, script = container["command"]
        return run(*shell, self.here(script), env=env)

    def test_a_build_that_begins_meanwhile_keeps_its_parts(self):
        # The jobs of a build that was given up end after those of the next one have begun.
        program = self.folder / "bin" / "spechop"
        program.unlink()
        program.write_text("#!/bin/sh\nmkdir -p parts-ffff/0\n")
        program.chmod(0o755)
        indexes = self.folder / "indexes"
        shards = of_kind("volume", "Job")[0]["spec"]["completions"]
        script = next(pod["containers"][0]["command"][-1] for name, pod in pods("volume") if "-join-" in name)
        mine = re.search(r"rm -rf (parts-\w+)", script)[1]
        for part in [f"{mine}/{n}" for n in range(shards)] + ["parts-0000/0"]:
            (indexes / part).mkdir(parents=True)
            (indexes / part / "manifest.json").touch()
        self.job("volume", "join")
        self.assertEqual([one.name for one in indexes.glob("parts-*")], ["parts-ffff"])

    def test_who_is_told_to_end_ends(self):
        """Process 1 of a container hears only of signals that it has a trap for, and of none while a program runs in front."""
        for name, then in (("sleep", ""), ("spechop", "exec tail -f /dev/null --pid=$PPID >&- 2>&-")):
            program = self.folder / "bin" / name
            program.unlink(missing_ok=True)
            program.write_text(f"#!/bin/sh\nkill -TERM $PPID\n{then}\n")
            program.chmod(0o755)
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        env = {**os.environ, "PATH": path, "CORPUS": "corpus.jsonl", "JOB_COMPLETION_INDEX": "0"}
        scripts = [
            (name, container["command"])
            for name, pod in pods("volume")
            for container in pod.get("initContainers", []) + pod["containers"]
            if "command" in container
        ]
        self.assertEqual(len(scripts), 3)
        for name, (*shell, script) in scripts:
            with self.subTest(name):
                done = subprocess.run([*shell, self.here(script)], env=env, capture_output=True, timeout=lab.START_SECONDS_MAX, check=False)
                self.assertEqual(done.returncode, 143, done.stderr)

    def test_the_program_takes_what_the_servers_are_given(self):
        for case in ("default", "volume", "everything"):
            if case == "everything" and "SPECHOP_SERVER_KEYS_FILE" not in lab.config_keys():
                continue
            container = of_kind(case, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0]
            variables = {one["name"]: one["value"] for one in container["env"]} | {"QDRANT_KEY": "secret"}
            (self.folder / "spechop.toml").write_text(of_kind(case, "ConfigMap")[0]["data"]["spechop.toml"])
            # The index and the files of secrets are not on this machine.
            here = ("index.dir ", "server.tls_", "server.keys_file ")
            wrong = [one for one in lab.mistakes(variables, self.folder / "spechop.toml") if not one.startswith(here)]
            self.assertEqual(wrong, [], case)

    def test_parts_that_jobs_build_are_joined_and_served(self):
        shards = of_kind("volume", "Job")[0]["spec"]["completions"]
        # Of a build that was given up.
        (self.folder / "indexes" / "parts-0000" / "0").mkdir(parents=True)
        for part in range(shards):
            self.job("volume", "parts", JOB_COMPLETION_INDEX=str(part))
        self.job("volume", "join")
        index = self.folder / "indexes" / "default"
        # A job that is started once more, after the parts are gone, changes nothing.
        before = (index / "manifest.json").stat().st_mtime_ns
        self.job("volume", "join")
        self.assertEqual((index / "manifest.json").stat().st_mtime_ns, before)
        run(spechop(), "index", "verify", index)
        self.assertTrue((index / "hot").is_dir())
        self.assertEqual(list(index.parent.glob("parts-*")), [])
        # An index of another corpus came after it. Going back builds this one again.
        of = index.parent / "default.of"
        known, manifest = of.read_text(), (index / "manifest.json").read_bytes()
        of.write_text("another\n")
        shutil.rmtree(index)
        other = self.folder / "corpus" / "other.jsonl"
        towns = (self.folder / "corpus" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
        other.write_text("\n".join(towns[:280]) + "\n", encoding="utf-8")
        run(spechop(), "index", "build", "--corpus", other, "--out", index)
        self.assertNotEqual((index / "manifest.json").read_bytes(), manifest)
        for part in range(shards):
            self.job("volume", "parts", JOB_COMPLETION_INDEX=str(part))
        self.job("volume", "join")
        self.assertEqual(of.read_text(), known)
        self.assertEqual((index / "manifest.json").read_bytes(), manifest)
        # And a part that is started once more builds nothing.
        self.job("volume", "parts", JOB_COMPLETION_INDEX="0")
        self.assertEqual(list(index.parent.glob("parts-*")), [])

        pod = of_kind("volume", "Deployment")[0]["spec"]["template"]["spec"]
        waiting = pod["initContainers"][0]["command"]
        run(*waiting[:2], self.here(waiting[2]), timeout=lab.START_SECONDS_MAX)
        container = pod["containers"][0]
        (self.folder / "spechop.toml").write_text(of_kind("volume", "ConfigMap")[0]["data"]["spechop.toml"])
        env = {one["name"]: one["value"] for one in container["env"]} | {"SPECHOP_SERVER_LISTEN": "127.0.0.1:0"}
        env |= {"SPECHOP_INDEX_DIR": str(index), "SPECHOP_STATE_DIR": str(self.folder / "state")}
        server = Running(
            self.addCleanup, [spechop(), *map(self.here, container["args"])], env={**os.environ, **env}
        )
        server.until(r"^ready on (\S+)$")


@needs("qdrant")
class Qdrant(unittest.TestCase):
    """The command of the StatefulSet, with an address of this machine in the place of each pod's name."""

    def test_its_servers_find_each_other(self):
        folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(folder.cleanup)
        os.chmod(folder.name, 0o777)
        # Nobody cannot look into the data folder of root.
        program = shutil.copy(tool("qdrant"), folder.name)
        stateful = of_kind("everything", "StatefulSet")[0]
        container = stateful["spec"]["template"]["spec"]["containers"][0]
        given = {one["name"]: one["value"] for one in container["env"]}
        name, servers = stateful["metadata"]["name"], range(stateful["spec"]["replicas"])
        for n in servers:
            *shell, script = container["command"]
            script = script.replace("./qdrant", program).replace("$HOSTNAME.", "127.0.86.1${HOSTNAME##*-}.")
            script = script.replace(f"{name}-0.", "127.0.86.10.").replace(f".{name}-servers", "")
            home = pathlib.Path(folder.name) / str(n)
            home.mkdir(mode=0o777)
            home.chmod(0o777)
            env = {
                **os.environ, **given, "HOSTNAME": f"{name}-{n}", "QDRANT__SERVICE__HOST": f"127.0.86.1{n}",
                "QDRANT_INIT_FILE_PATH": str(home / "initialized"),
            }  # fmt: skip
            # It is a program of others: not as root.
            alone = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.getuid() == 0 else []
            server = Running(self.addCleanup, [*alone, *shell, script], env=env, cwd=home)
            server.until(r"gRPC listening on")
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                path = container[probe]["httpGet"]["path"]
                lab.wait_for(path, lambda at=f"http://127.0.86.1{n}:6333{path}": lab.status(at) == 200)

        def peers():
            with urllib.request.urlopen("http://127.0.86.10:6333/cluster", timeout=60) as answer:
                return len(json.load(answer)["result"]["peers"]) == len(servers)

        lab.wait_for("a cluster of all servers", peers)


if __name__ == "__main__":
    unittest.main()
