"""The files by themselves: linters, schemas, and what must be the same in two places."""

import fnmatch
import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import yaml

import lab
from lab import DEPLOY, ROOT, needs, run, tool

MONITORING = DEPLOY / "monitoring"
UNIT = DEPLOY / "systemd" / "spechop.service"
# systemd's own measure, from 0 (nothing can happen) to 10; below 2 it says OK.
EXPOSURE_MAX = 2.0


def filled(value, given):
    """A value of compose.yaml, its variables filled in. What stands behind ":+" counts only if one is set."""
    value = re.sub(r"\$\{\w+:[+].*?\}", "", value)
    return re.sub(r"\$\{(\w+):-.*?\}", lambda match: given[match[1]], value)


def compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


class Images(unittest.TestCase):
    @needs("hadolint")
    def test_the_dockerfiles_have_no_lint(self):
        run(tool("hadolint"), "--no-color", "--failure-threshold", "warning", *sorted(DEPLOY.glob("*Dockerfile")))

    def test_nobody_is_root_in_an_image(self):
        for file in DEPLOY.glob("*Dockerfile"):
            users = re.findall(r"^(?:FROM .* AS (\w+)|USER (\S+))", file.read_text(encoding="utf-8"), re.M)
            self.assertEqual(users[-1][1], "65532:65532", file.name)

    def test_the_toolchain_and_the_packages_are_those_of_the_project(self):
        text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
        pinned = re.search(r'^channel = "(.*)"', (ROOT / "rust-toolchain.toml").read_text(encoding="utf-8"), re.M)[1]
        self.assertEqual(re.search(r"RUSTUP_TOOLCHAIN=(\S+)", text)[1], pinned)
        self.assertIn(f"ARG RUST=rust:{pinned}-", text)
        llama = (DEPLOY / "llama.Dockerfile").read_text(encoding="utf-8")
        tested = (DEPLOY / "requirements-test.txt").read_text(encoding="utf-8")
        self.assertIn(re.search(r"xllamacpp==\S+", llama)[0], tested.split())

    def test_the_builder_gets_all_that_cargo_reads(self):
        """The packages of the workspace still load if only what .dockerignore lets through is there."""
        lets = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
        files = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines()
        through = [file for file in files if any(file == one or file.startswith(one + "/") for one in lets)]
        with tempfile.TemporaryDirectory() as folder:
            for file in through:
                copy = pathlib.Path(folder) / file
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.symlink_to(ROOT / file)
            loaded = json.loads(
                subprocess.run(
                    ["cargo", "metadata", "--offline", "--no-deps", "--locked", "--format-version=1"],
                    cwd=folder, check=True, capture_output=True, text=True,
                ).stdout
            )  # fmt: skip
        self.assertIn("spechop", [package["name"] for package in loaded["packages"]])
        # Without it cargo builds another llama.cpp, in silence.
        for settings in run("git", "ls-files", ".cargo", cwd=ROOT).splitlines():
            self.assertTrue(settings in through, settings)
        # What sources outside of tests take into the program.
        for source in (ROOT / file for file in through if file.endswith(".rs") and "/tests" not in file):
            before_tests = source.read_text(encoding="utf-8").split("#[cfg(test)]")[0]
            for taken in re.findall(r'include_(?:str|bytes)!\(\s*"([^"]+)"', before_tests):
                path = str((source.parent / taken).resolve().relative_to(ROOT))
                self.assertIn(path, through, f"{source.relative_to(ROOT)} takes it into the program")

    def test_no_secret_goes_to_the_builder(self):
        lets = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
        for secret in (".env", "deploy/secrets.env", "tls.key", ".git/config"):
            self.assertFalse(any(fnmatch.fnmatch(secret, one + "*") for one in lets), secret)


class Compose(unittest.TestCase):
    @needs("check-jsonschema")
    def test_it_has_the_form_of_a_compose_file(self):
        run(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml")

    def test_the_default_is_the_server_alone(self):
        services = compose()["services"]
        self.assertEqual([name for name, service in services.items() if "profiles" not in service], ["spechop"])

    def test_ports_are_published_on_loopback_only(self):
        for name, service in compose()["services"].items():
            for port in service.get("ports", []):
                self.assertTrue(port.startswith("127.0.0.1:"), f"{name}: {port}")

    def test_strangers_names_do_not_count_as_the_servers(self):
        self.assertEqual(compose()["services"]["spechop"]["environment"]["SPECHOP_SERVER_HOSTS"], "spechop${HOSTS:+,$HOSTS}")

    def test_services_can_do_no_more_than_they_must(self):
        for name, service in compose()["services"].items():
            self.assertTrue(service["read_only"], name)
            self.assertEqual(service["cap_drop"], ["ALL"], name)
            self.assertEqual(service["security_opt"], ["no-new-privileges:true"], name)
            self.assertNotIn(":latest", service["image"], name)
            self.assertRegex(service["image"], r":v?\d", name)

    def test_what_needs_no_way_out_has_none(self):
        self.assertTrue(compose()["networks"]["inside"]["internal"])
        for name in ("qdrant", "llama"):
            self.assertEqual(compose()["services"][name]["networks"], ["inside"])

    def test_its_variables_mean_something_to_the_program(self):
        self.assertEqual(lab.unknown_variables(compose()["services"]["spechop"]["environment"]), [])
        self.assertEqual(lab.unknown_variables(["SPECHOP_QUESTION_KK"]), ["SPECHOP_QUESTION_KK"])

    @lab.needs_spechop()
    def test_the_program_takes_what_each_profile_sets(self):
        written = compose()["services"]["spechop"]["environment"]
        for target, generator in (("index", "local"), ("qdrant", "openai"), ("web", "local")):
            given = {
                "TARGET": target, "GENERATOR": generator, "SPECHOP_GENERATOR_MODEL": "local",
                "SPECHOP_GENERATOR_BASE_URL": "http://llama:8080/v1",
            }  # fmt: skip
            variables = {name: filled(value, given) for name, value in written.items()}
            with self.subTest(given):
                # This machine need not have an index.
                wrong = [one for one in lab.mistakes(variables) if not one.startswith("index.dir ")]
                self.assertEqual(wrong, [])
        self.assertTrue(lab.mistakes(written | {"SPECHOP_TARGET_KIND": "wbe"}))

    def test_its_files_exist(self):
        for name, service in compose()["services"].items():
            for volume in service.get("volumes", []):
                if volume.startswith("./"):
                    self.assertTrue((DEPLOY / volume.split(":")[0]).is_file(), f"{name}: {volume}")

    def test_qdrant_is_the_version_that_is_tested(self):
        tested = re.search(r"^qdrant=(\S+)", (DEPLOY / "test-tools.sh").read_text(encoding="utf-8"), re.M)[1]
        self.assertEqual(compose()["services"]["qdrant"]["image"], f"qdrant/qdrant:v{tested}-unprivileged")
        chart = DEPLOY / "helm" / "spechop" / "charts" / "qdrant"
        self.assertIn(f"tag: v{tested}-unprivileged", (chart / "values.yaml").read_text(encoding="utf-8"))

    def test_searxng_answers_in_json(self):
        settings = yaml.safe_load((DEPLOY / "compose" / "searxng.yml").read_text(encoding="utf-8"))
        self.assertIn("json", settings["search"]["formats"])
        self.assertNotIn("secret_key", settings["server"])


class Versions(unittest.TestCase):
    def test_all_files_say_the_version_of_the_program(self):
        version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(encoding="utf-8"), re.M)[1]
        services = compose()["services"]
        self.assertEqual(services["spechop"]["image"], f"spechop:{version}")
        chart = DEPLOY / "helm" / "spechop"
        self.assertEqual(yaml.safe_load((chart / "Chart.yaml").read_text())["appVersion"], version)
        self.assertEqual(str(yaml.safe_load((chart / "values.yaml").read_text())["image"]["tag"]), version)


class Alerts(unittest.TestCase):
    @needs("promtool")
    def test_rules_and_their_cases(self):
        run(tool("promtool"), "check", "rules", lab.ALERTS)
        run(tool("promtool"), "test", "rules", MONITORING / "alerts_test.yml")

    @needs("promtool")
    def test_prometheus_takes_its_configuration(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            text = (MONITORING / "prometheus.yml").read_text(encoding="utf-8")
            file.write(text.replace("/etc/prometheus/", f"{lab.ALERTS.parent}/"))
            file.flush()
            run(tool("promtool"), "check", "config", file.name)

    def test_every_alert_has_a_case_in_which_it_rings(self):
        rules = yaml.safe_load(lab.ALERTS.read_text(encoding="utf-8"))["groups"][0]["rules"]
        cases = yaml.safe_load((MONITORING / "alerts_test.yml").read_text(encoding="utf-8"))["tests"]
        ringing = {
            one["alertname"] for case in cases for one in case.get("alert_rule_test", []) if one.get("exp_alerts")
        }
        self.assertEqual(ringing, {rule["alert"] for rule in rules if "alert" in rule})


class Unit(unittest.TestCase):
    def setUp(self):
        # Verified by systemd, which wants the program to be there.
        self.folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(self.folder.cleanup)
        self.unit = pathlib.Path(self.folder.name) / UNIT.name
        self.unit.write_text(UNIT.read_text(encoding="utf-8").replace("/usr/local/bin/spechop", "/bin/true"))

    @needs("systemd-analyze")
    def test_systemd_understands_every_line(self):
        self.assertEqual(run("systemd-analyze", "verify", self.unit), "")

    @needs("systemd-analyze")
    def test_little_can_happen_to_the_machine(self):
        options = ["--offline=true", "--no-pager", f"--threshold={int(EXPOSURE_MAX * 10)}"]
        said = run("systemd-analyze", "security", *options, self.unit)
        self.assertLess(float(re.search(r"exposure level for .*: ([\d.]+)", said)[1]), EXPOSURE_MAX)

    @needs("systemd-sysusers")
    def test_its_user_can_be_made(self):
        run("systemd-sysusers", "--dry-run", DEPLOY / "systemd" / "spechop.sysusers")

    def test_its_variables_mean_something_to_the_program(self):
        names = re.findall(r"(SPECHOP_[A-Z_]+)=", UNIT.read_text(encoding="utf-8"))
        self.assertIn("SPECHOP_DATA_DIR", names)
        self.assertEqual(lab.unknown_variables(names), [])


class Dashboard(unittest.TestCase):
    def test_grafana_finds_what_it_is_given(self):
        board = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
        ids = [panel["id"] for panel in board["panels"]]
        self.assertEqual(len(ids), len(set(ids)))
        places = [tuple(panel["gridPos"].values()) for panel in board["panels"]]
        self.assertEqual(len(places), len(set(places)))
        for panel in board["panels"]:
            if panel["type"] != "row":
                self.assertTrue(panel["description"], panel["title"])
                self.assertLessEqual(panel["gridPos"]["x"] + panel["gridPos"]["w"], 24, panel["title"])
        provider = yaml.safe_load((MONITORING / "grafana" / "dashboards.yml").read_text(encoding="utf-8"))
        path = provider["providers"][0]["options"]["path"]
        mounted = [volume.split(":")[1] for volume in compose()["services"]["grafana"]["volumes"]]
        self.assertIn(f"{path}/spechop.json", mounted)


if __name__ == "__main__":
    unittest.main()
