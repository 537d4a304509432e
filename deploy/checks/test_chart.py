"""The Helm chart: what it renders to, and what it refuses.

Helm takes minutes to compile, so what it renders is kept in chart/. Every run checks that, and that the chart is still
the one that was rendered. With Helm (make check-deploy) it is rendered anew, and must be the same.
`UPDATE=1 deploy/checks/run.sh test_chart` keeps what is rendered now.
"""

import hashlib
import os
import re
import subprocess
import tempfile
import unittest

import kubernetes_validate
import yaml

import lab
from lab import DEPLOY, needs, run, tool
from manifests import KEPT, cases, kept, of_kind, pods

CHART = DEPLOY / "helm" / "spechop"
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


def render(case, *settings, name="answers"):
    """What Helm makes of the chart with the values of this case, or the error that it ends with."""
    command = [tool("helm"), "template", name, CHART, "--namespace", "search", "--kube-version", f"{KUBERNETES}.0"]
    command += ["--values", KEPT / f"{case}.values.yaml", *(f"--set={setting}" for setting in settings)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout, done.stderr if done.returncode else None


def rendered(*case, **name):
    text, error = render(*case, **name)
    if error is not None:
        raise AssertionError(error)
    return text


def setUpModule():  # pylint: disable=invalid-name
    if not os.environ.get("UPDATE"):
        return
    for case in cases():
        (KEPT / f"{case}.yaml").write_text(rendered(case), encoding="utf-8")
    (KEPT / "fingerprint").write_text(fingerprint() + "\n")


class Rendered(unittest.TestCase):
    def test_the_kept_manifests_are_those_of_the_chart(self):
        if tool("helm"):
            for case in cases():
                text = (KEPT / f"{case}.yaml").read_text(encoding="utf-8")
                self.assertEqual(rendered(case), text, "render it: UPDATE=1")
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
            done = re.search(rf"echo (\w+) >{waited}\n", join)[1]
            self.assertIn(f"= {done} ]", server["initContainers"][0]["command"][-1])

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
            ("index.target=disk", 'index.target is "disk"; it is volume, qdrant or none'),
            ("index.target=none,index.build.enabled=true", "an index that no server reads"),
            ("index.target=qdrant", "set qdrant.enabled, or qdrantUrls"),
            ("index.target=qdrant,qdrantUrls={http://qdrant.search:6334}", "needs networkPolicy.to"),
            ("index.target=qdrant,qdrant.enabled=true,index.build.hotFraction=0.5", "hold no hot subset"),
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
                _, error = render("default", settings)
                self.assertIn(said, error or "")

    def test_tls_alone_asks_nobody_who_they_are(self):
        _, error = render("default", "networkPolicy.enabled=false,tls.existingSecret=x")
        self.assertIn("every pod of the cluster could ask", error or "")

    def test_questions_may_have_longer_to_end(self):
        text = rendered("default", "terminationGracePeriodSeconds=90")
        self.assertIn("terminationGracePeriodSeconds: 90", text)

    def test_with_tls_readiness_is_more_than_an_open_port(self):
        for setting, expected in (
            ("tls.existingSecret=x", {"httpGet": {"path": "/readyz", "port": 50051, "scheme": "HTTPS"}}),
            ("tls.existingSecret=x,tls.clientAuthoritySecret=y", {"tcpSocket": {"port": 50051}}),
            ("replicas=2", {"grpc": {"port": 50051, "service": "spechop.v1.SpecHop"}}),
        ):
            text = rendered("default", setting)
            (server,) = (one for one in yaml.safe_load_all(text) if one and one["kind"] == "Deployment")
            probe = server["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]
            self.assertEqual(probe, expected | {"periodSeconds": 5})

    def test_a_long_release_name_leaves_room_for_the_pods(self):
        # A pod's label is the name of its StatefulSet, and ten digits with a dash before them. It has 63 characters.
        text = rendered("everything", name="a" * 53)
        objects = [one for one in yaml.safe_load_all(text) if one]
        (name,) = (one["metadata"]["name"] for one in objects if one["kind"] == "StatefulSet")
        self.assertLessEqual(len(name), 52)
        self.assertIn(f"http://{name}:6334", text)

    def test_open_on_purpose_is_allowed(self):
        for more in ("allowUnprotected=true", "keys.existingSecret=x"):
            rendered("default", f"networkPolicy.enabled=false,{more}")

    def test_parts_may_request_nothing(self):
        self.assertIn("answers-parts-", rendered("volume", "index.build.resources=null"))

    def test_a_scraper_that_is_admitted_is_allowed(self):
        rendered("default", SCRAPED)

    def test_a_job_that_would_change_has_another_name(self):
        def jobs(*settings):
            text = rendered("volume", *settings)
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
                after = jobs(setting)
                same = {name for name in after if name in before}
                self.assertEqual(len(same), {True: 0, False: 1, None: 2}[both])
                for name in same:
                    self.assertEqual(after[name], before[name])

    def test_another_collection_is_waited_for(self):
        def waited(*settings):
            text = rendered("everything", *settings)
            (server,) = (one for one in yaml.safe_load_all(text) if one and one["kind"] == "Deployment")
            return server["spec"]["template"]["spec"]["initContainers"][0]["command"][-1]

        for setting in ("index.collection=other", "qdrant.enabled=false,qdrantUrls={http://qdrant.search:6334}"):
            self.assertNotEqual(waited(setting), waited(), setting)

    def test_servers_without_an_index_claim_no_volume(self):
        text = rendered("default", "index.target=none")
        self.assertNotIn("PersistentVolumeClaim", text)
        self.assertNotIn("persistentVolumeClaim", text)
        self.assertNotIn("name: indexes", text)

    def test_lint_finds_nothing(self):
        said = run(tool("helm"), "lint", "--strict", CHART)
        self.assertIn("0 chart(s) failed", said)


if __name__ == "__main__":
    unittest.main()
