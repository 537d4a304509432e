"""The Helm chart: what it renders to, and the commands that its jobs and its servers run.

Helm takes minutes to compile, so what it renders is kept in chart/. Every run checks that, and that the chart is still
the one that was rendered. With Helm (make check-deploy) it is rendered anew, and must be the same.
`UPDATE=1 deploy/checks/run.sh test_chart` keeps what is rendered now.
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
import urllib.request

import kubernetes_validate
import yaml

import lab
from lab import DEPLOY, Running, needs, needs_spechop, run, spechop, tool

CHART = DEPLOY / "helm" / "spechop"
KEPT = DEPLOY / "checks" / "chart"
KUBERNETES = "1.34"
# Kinds of the Prometheus Operator; the schemas of Kubernetes do not know them.
OTHERS_KINDS = {"PodMonitor", "PrometheusRule"}
# A Prometheus that the network policy admits.
SCRAPED = "prometheusOperator.enabled=true,networkPolicy.metricsFrom[0].podSelector.matchLabels.app=prometheus"


def fingerprint():
    """Of all that Helm reads."""
    files = sorted(file for file in CHART.rglob("*") if file.is_file()) + sorted(KEPT.glob("*.values.yaml"))
    together = hashlib.sha256()
    for file in files:
        together.update(f"{file.relative_to(DEPLOY)}\n{len(file.read_bytes())}\n".encode() + file.read_bytes())
    return together.hexdigest()


def render(values, *more, name="answers"):
    """What Helm makes of the chart with these values, or the error that it ends with."""
    command = [tool("helm"), "template", name, CHART, "--namespace", "search", "--kube-version", f"{KUBERNETES}.0"]
    done = subprocess.run([*command, "--values", values, *more], capture_output=True, text=True, check=False)
    return done.stdout, done.stderr if done.returncode else None


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


def setUpModule():  # pylint: disable=invalid-name
    if not os.environ.get("UPDATE"):
        return
    for case in cases():
        text, error = render(KEPT / f"{case}.values.yaml")
        if error:
            raise AssertionError(error)
        (KEPT / f"{case}.yaml").write_text(text, encoding="utf-8")
    (KEPT / "fingerprint").write_text(fingerprint() + "\n")


class Rendered(unittest.TestCase):
    def test_the_kept_manifests_are_those_of_the_chart(self):
        if tool("helm"):
            for case in cases():
                text, error = render(KEPT / f"{case}.values.yaml")
                self.assertIsNone(error)
                self.assertEqual(text, (KEPT / f"{case}.yaml").read_text(encoding="utf-8"), "render it: UPDATE=1")
        self.assertEqual(
            fingerprint(), (KEPT / "fingerprint").read_text().strip(),
            "the chart has changed since it was rendered: run 'make check-deploy UPDATE=1' and look at the difference",
        )  # fmt: skip

    def test_kubernetes_takes_every_manifest(self):
        for case in cases():
            for one in kept(case):
                if one["kind"] not in OTHERS_KINDS:
                    with self.subTest(case=case, kind=one["kind"]):
                        kubernetes_validate.validate(one, KUBERNETES, strict=True)
        with self.assertRaises(kubernetes_validate.ValidationError):
            wrong = kept("default")[0] | {"spelt": "wrong"}
            kubernetes_validate.validate(wrong, KUBERNETES, strict=True)

    def test_containers_can_do_no_more_than_they_must(self):
        for case in cases():
            for name, pod in pods(case):
                with self.subTest(case=case, name=name):
                    self.assertTrue(pod["securityContext"]["runAsNonRoot"])
                    self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
                    self.assertFalse(pod["automountServiceAccountToken"])
                    for container in pod["containers"] + pod.get("initContainers", []):
                        self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"]})
                        self.assertTrue(container["securityContext"]["readOnlyRootFilesystem"])
                        self.assertFalse(container["securityContext"]["allowPrivilegeEscalation"])
                        self.assertIn("memory", container["resources"]["limits"])
                        self.assertNotIn(":latest", container["image"])

    def test_every_pod_is_behind_a_network_policy(self):
        for case in cases():
            policies = of_kind(case, "NetworkPolicy")
            selectors = [policy["spec"]["podSelector"]["matchLabels"].items() for policy in policies]
            for one in kept(case):
                if one["kind"] in ("Deployment", "StatefulSet", "Job"):
                    labels = one["spec"]["template"]["metadata"]["labels"].items()
                    self.assertTrue(any(selector <= labels for selector in selectors), one["metadata"]["name"])

    def test_every_selector_finds_its_pods(self):
        for case in cases():
            labels = [
                one["spec"]["template"]["metadata"]["labels"].items()
                for one in kept(case)
                if one["kind"] in ("Deployment", "StatefulSet")
            ]
            for one in of_kind(case, "Service") + of_kind(case, "PodDisruptionBudget"):
                selector = one["spec"]["selector"]
                items = selector.get("matchLabels", selector).items()
                self.assertTrue(any(items <= those for those in labels), one["metadata"]["name"])

    def test_the_jobs_have_what_the_servers_have(self):
        for case in ("volume", "everything"):
            jobs = {name: pod["containers"][0] for name, pod in pods(case) if "-parts-" in name or "-join-" in name}
            (server,) = (pod["containers"][0] for name, pod in pods(case) if name == "answers")
            for name, job in jobs.items():
                if case == "everything":
                    self.assertEqual(job["envFrom"], server["envFrom"], name)
                if "-parts-" in name:
                    self.assertIn({"name": "config", "mountPath": "/etc/spechop", "readOnly": True}, job["volumeMounts"])
        (join,) = (job["command"][-1] for name, job in jobs.items() if "-join-" in name)
        self.assertIn("--api-key-env QDRANT_KEY --replicas 2 default\n", join)

    def test_another_index_starts_the_servers_anew_once_it_is_there(self):
        template = of_kind("volume", "Deployment")[0]["spec"]["template"]
        index = template["metadata"]["annotations"]["checksum/index"]
        self.assertIn(f"= {index} ]", template["spec"]["initContainers"][0]["command"][-1])

    def test_servers_wait_for_what_the_join_writes(self):
        for case in ("volume", "everything"):
            (join,) = (pod["containers"][0]["command"][-1] for name, pod in pods(case) if "-join-" in name)
            (server,) = (pod for name, pod in pods(case) if name == "answers")
            waited = re.search(r"indexes/(\w+\.of)", server["initContainers"][0]["command"][-1])[1]
            self.assertEqual(waited, "pushed.of" if "index push" in join else "default.of")
            self.assertIn(f">{waited}\n", join)

    def test_servers_that_need_each_other_are_started_together(self):
        for one in of_kind("everything", "StatefulSet"):
            self.assertEqual(one["spec"].get("podManagementPolicy"), "Parallel")

    def test_with_tls_nothing_says_that_there_is_none(self):
        for case, said in (("default", "kubernetes.io/h2c"), ("everything", None)):
            service = next(one for one in of_kind(case, "Service") if one["metadata"]["name"] == "answers")
            self.assertEqual(service["spec"]["ports"][0].get("appProtocol"), said)
        monitor = of_kind("everything", "PodMonitor")[0]["spec"]["podMetricsEndpoints"][0]
        self.assertEqual(monitor["tlsConfig"]["serverName"], "answers.search.svc")

    def test_a_server_that_waits_for_its_index_is_not_down(self):
        """Its pod has an address already, and nobody answers there: `up` would be 0 for hours."""
        monitor = of_kind("everything", "PodMonitor")[0]["spec"]["podMetricsEndpoints"][0]
        pending = {"sourceLabels": ["__meta_kubernetes_pod_phase"], "regex": "Pending", "action": "drop"}
        self.assertIn(pending, monitor["relabelings"])

    def test_who_waits_for_the_parts_leaves_them_the_cores(self):
        """Else the servers and the join that wait hold all cores of a small cluster, and no part ever begins."""
        cores = {
            name: pod["containers"][0]["resources"]["requests"]["cpu"]
            for name, pod in pods("volume")
            if "-parts-" in name or "-join-" in name
        }
        (part,) = (cpu for name, cpu in cores.items() if "-parts-" in name)
        (join,) = (cpu for name, cpu in cores.items() if "-join-" in name)
        self.assertEqual((part, join), ("2", "100m"))

    def test_what_is_mounted_is_there(self):
        for case in cases():
            for name, pod in pods(case):
                volumes = {volume["name"] for volume in pod.get("volumes", [])}
                if name.endswith("-qdrant"):
                    volumes.add("storage")
                for container in pod["containers"] + pod.get("initContainers", []):
                    mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
                    self.assertLessEqual(mounted, volumes, f"{case}: {name}")

    def test_variables_mean_something_to_the_program(self):
        if "SPECHOP_SERVER_KEYS_FILE" not in lab.config_keys():
            self.skipTest("the program has neither keys nor TLS: the chart offers them for nothing")
        for case in cases():
            for name, pod in pods(case):
                for container in pod["containers"]:
                    variables = [one["name"] for one in container.get("env", [])]
                    self.assertEqual(lab.unknown_variables(variables), [], f"{case}: {name}")

    def test_the_network_is_trusted_only_if_callers_show_nothing(self):
        for case, trusts in (("default", True), ("volume", True), ("everything", False)):
            container = of_kind(case, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0]
            names = [one["name"] for one in container["env"]]
            self.assertEqual("SPECHOP_SERVER_ALLOW_REMOTE" in names, trusts, case)

    @needs("promtool")
    def test_the_operator_gets_the_alerts(self):
        rule = of_kind("everything", "PrometheusRule")[0]
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            yaml.safe_dump(rule["spec"], file)
            file.flush()
            run(tool("promtool"), "check", "rules", file.name)
        self.assertEqual(rule["spec"], yaml.safe_load(lab.ALERTS.read_text(encoding="utf-8")))


@needs("helm")
class Refused(unittest.TestCase):
    def test_what_cannot_work_or_is_open_is_said(self):
        for settings, said in (
            ("networkPolicy.enabled=false", "every pod of the cluster could ask"),
            ("index.target=disk", 'index.target is "disk"; it is volume or qdrant'),
            ("index.target=qdrant", "set qdrant.enabled, or qdrantUrls"),
            ("index.build.enabled=true", "needs index.build.corpusClaim"),
            ("tls.clientAuthoritySecret=x", "needs tls.existingSecret"),
            ("prometheusOperator.enabled=true", "needs networkPolicy.metricsFrom"),
            (f"{SCRAPED},keys.existingSecret=x", "needs prometheusOperator.authorization"),
            (f"{SCRAPED},tls.existingSecret=x", "needs prometheusOperator.tlsConfig: the authority"),
            (
                f"{SCRAPED},tls.existingSecret=x,tls.clientAuthoritySecret=y,prometheusOperator.tlsConfig.ca.secret.name=z",
                "needs prometheusOperator.tlsConfig.cert and keySecret",
            ),
            ("qdrantKeyEnv=KEY", "needs existingSecret"),
        ):
            with self.subTest(settings):
                _, error = render(KEPT / "default.values.yaml", "--set", settings)
                self.assertIn(said, error or "")

    def test_tls_alone_asks_nobody_who_they_are(self):
        _, error = render(KEPT / "default.values.yaml", "--set", "networkPolicy.enabled=false,tls.existingSecret=x")
        self.assertIn("every pod of the cluster could ask", error or "")

    def test_questions_may_have_longer_to_end(self):
        text, error = render(KEPT / "default.values.yaml", "--set", "terminationGracePeriodSeconds=90")
        self.assertIn("terminationGracePeriodSeconds: 90", text, error)

    def test_with_tls_readiness_is_more_than_an_open_port(self):
        for setting, expected in (
            ("tls.existingSecret=x", {"httpGet": {"path": "/readyz", "port": 50051, "scheme": "HTTPS"}}),
            ("tls.existingSecret=x,tls.clientAuthoritySecret=y", {"tcpSocket": {"port": 50051}}),
            ("replicas=2", {"grpc": {"port": 50051}}),
        ):
            text, error = render(KEPT / "default.values.yaml", "--set", setting)
            self.assertIsNone(error)
            (server,) = (one for one in yaml.safe_load_all(text) if one and one["kind"] == "Deployment")
            probe = server["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]
            self.assertEqual(probe, expected | {"periodSeconds": 5})

    def test_a_long_release_name_leaves_room_for_the_pods(self):
        # A pod's label is the name of its StatefulSet, and ten digits with a dash before them. It has 63 characters.
        text, error = render(KEPT / "everything.values.yaml", name="a" * 53)
        self.assertIsNone(error)
        rendered = [one for one in yaml.safe_load_all(text) if one]
        (name,) = (one["metadata"]["name"] for one in rendered if one["kind"] == "StatefulSet")
        self.assertLessEqual(len(name), 52)
        self.assertIn(f"http://{name}:6334", text)

    def test_open_on_purpose_is_allowed(self):
        for more in ("allowUnprotected=true", "keys.existingSecret=x"):
            _, error = render(KEPT / "default.values.yaml", "--set", f"networkPolicy.enabled=false,{more}")
            self.assertIsNone(error)

    def test_parts_may_request_nothing(self):
        text, error = render(KEPT / "volume.values.yaml", "--set", "index.build.resources=null")
        self.assertIn("answers-parts-", text, error)

    def test_a_scraper_that_is_admitted_is_allowed(self):
        _, error = render(KEPT / "default.values.yaml", "--set", SCRAPED)
        self.assertIsNone(error)

    def test_a_job_that_would_change_has_another_name(self):
        def jobs(*more):
            text, error = render(KEPT / "volume.values.yaml", *more)
            self.assertIsNone(error)
            found = (one for one in yaml.safe_load_all(text) if one and one["kind"] == "Job")
            return {one["metadata"]["name"]: one["spec"] for one in found}

        before = jobs()
        for setting, both in (
            ("image.tag=0.2.0", True),
            ("index.build.revision=2", True),
            ("index.build.resources.limits.memory=8Gi", False),
            ("index.build.joinResources.limits.memory=8Gi", False),
            ("nodeSelector.disk=ssd", True),
            ("image.pullPolicy=Always", True),
            ("index.build.corpusPath=other.jsonl", True),
            ("index.build.parallelism=1", False),
            ("replicas=7", None),
        ):
            with self.subTest(setting):
                after = jobs("--set", setting)
                same = {name for name in after if name in before}
                self.assertEqual(len(same), {True: 0, False: 1, None: 2}[both])
                for name in same:
                    self.assertEqual(after[name], before[name])

    def test_lint_finds_nothing(self):
        said = run(tool("helm"), "lint", "--strict", CHART)
        self.assertIn("0 chart(s) failed", said)


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
        run(*waiting[:2], self.here(waiting[2]), timeout=10)
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
            with urllib.request.urlopen("http://127.0.86.10:6333/cluster", timeout=20) as answer:
                return len(json.load(answer)["result"]["peers"]) == len(servers)

        lab.wait_for("a cluster of all servers", peers)


if __name__ == "__main__":
    unittest.main()
