"""What deploy/ holds is true: its commands are ours, with their options; its names, ports, paths and times fit the code."""

from __future__ import annotations

import configparser
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.conftest import DEPLOY, ROLES
from windlass.cli.commands import COMMANDS, GROUPS, commands
from windlass.cli.serve import PORT
from windlass.clock import SECOND, duration
from windlass.config import NAMES, Settings, settings_from
from windlass.web.access import LOOPBACK
from windlass.web.routes import ROUTES
from windlass.worker.probing import place_of

ROOT = DEPLOY.parent
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())
COMPOSE = DEPLOY / "docker" / "compose.yaml"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
ENTRYPOINT = DEPLOY / "docker" / "entrypoint.sh"


def documents(path: Path) -> list[dict[str, Any]]:
    return [found for found in yaml.safe_load_all(path.read_text()) if found]


def kinds(kind: str) -> list[dict[str, Any]]:
    return [found for path in MANIFESTS for found in documents(path) if found["kind"] == kind]


def pods() -> list[dict[str, Any]]:
    return [found["spec"]["template"]["spec"] for kind in ("Deployment", "Job") for found in kinds(kind)]


def typed() -> Iterator[tuple[str, list[str]]]:
    """Every command line of ours that one of the files runs, or tells to run."""
    for name, service in yaml.safe_load(COMPOSE.read_text())["services"].items():
        if service.get("command"):
            yield name, service["command"]
    for pod in pods():
        yield from ((one["name"], one["args"]) for one in pod["containers"])
    named = "|".join(sorted({*COMMANDS, *GROUPS}, key=len, reverse=True))
    for path in FILES:
        text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", r"\1", path.read_text())  # what an alert fills in
        for line in re.findall(rf"\bwindlass (?:{named})\b(?:(?: [a-z]+)+(?= --))?(?: --?[\w-]+(?: [\w:.]+)?)*", text):
            yield path.name, shlex.split(line)


def test_every_command_is_one_of_ours_with_its_options() -> None:
    app, seen = commands(), set()
    for where, words in typed():
        if words in (["windlass", "tokens"], ["windlass", "worker"], ["windlass", "serve"]):  # in prose
            continue
        _, _, unused, _ = app.parse_known_args(words[1:])
        assert not unused, (where, words)
        seen.add(words[1])
    assert {"worker", "workers", "serve", "migrate", "tokens"} <= seen


def environments() -> Iterator[tuple[str, dict[str, str]]]:
    for name, service in yaml.safe_load(COMPOSE.read_text())["services"].items():
        yield name, service.get("environment", {})
    for found in kinds("ConfigMap"):
        yield found["metadata"]["name"], found["data"]
    for path in UNITS:
        said = dict(pair.split("=", 1) for pair in unit(path)["Service"]["Environment"].split())
        yield path.name, said
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    yield "Dockerfile", dict(re.findall(r"(WINDLASS_\w+)=(\S+)", text))


def test_every_setting_that_is_given_is_one_and_takes_its_value() -> None:
    given = list(environments())
    assert any("WINDLASS_URL" in said for _, said in given)
    for where, said in given:
        ours = {name: value for name, value in said.items() if name.startswith("WINDLASS_") and name != "WINDLASS_URL"}
        assert {name.removeprefix("WINDLASS_").lower() for name in ours} <= set(NAMES), where
        settings_from({}, ours)
    for path in FILES:
        for name in re.findall(r"\bWINDLASS_([A-Z_]+)\b", path.read_text()):
            assert name in ("URL", "URL_FILE") or name.lower() in NAMES, (path.name, name)


def test_ports_and_probes_are_those_of_the_server() -> None:
    asked = [path for path in FILES for found in re.findall(r"/(?:livez|readyz)\b", path.read_text())]
    assert asked
    open_to_all = {route.path for route in ROUTES if route.scope is None and route.method == "GET"}
    [serve] = [one for pod in pods() for one in pod["containers"] if one["name"] == "serve"]
    for probe in ("livenessProbe", "readinessProbe"):
        said = serve[probe]["httpGet"]
        assert said["path"] in open_to_all
        assert said["httpHeaders"] == [{"name": "Host", "value": "localhost"}]
    assert "localhost" in LOOPBACK
    assert serve["ports"] == [{"name": "http", "containerPort": PORT}]
    assert f"EXPOSE {PORT}\n" in (DEPLOY / "docker" / "Dockerfile").read_text()
    for path in FILES:
        for port in re.findall(r"--port[\", ]+(\d+)|127\.0\.0\.1:(\d+)[:/]", path.read_text()):
            assert str(PORT) in port, path.name


def test_nobody_is_killed_before_its_grace_is_over() -> None:
    least = Settings.grace / SECOND + 5
    [worker] = [found for found in kinds("Deployment") if found["metadata"]["name"] == "windlass-worker"]
    assert worker["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > least
    assert duration(yaml.safe_load(COMPOSE.read_text())["services"]["worker"]["stop_grace_period"]) / SECOND > least
    assert int(unit(DEPLOY / "systemd" / "windlass-worker.service")["Service"]["TimeoutStopSec"]) > least
    for _, words in typed():
        if "--grace" in words:
            assert duration(words[words.index("--grace") + 1]) == Settings.grace


# ------------------------------------------------------------------------------------------------------------ Kubernetes


def test_every_pod_has_no_more_rights_than_it_needs() -> None:
    assert len(pods()) == 3
    for pod in pods():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        mounted = {volume["name"] for volume in pod["volumes"]}
        for one in pod["containers"]:
            assert one["securityContext"] == {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
            }  # fmt: skip
            assert {mount["name"] for mount in one["volumeMounts"]} == mounted
            assert "password" not in str(one["env"]).lower()


def test_what_selects_selects_what_there_is() -> None:
    labels = [found["spec"]["template"]["metadata"]["labels"] for found in kinds("Deployment")]
    for found in (*kinds("Deployment"), *kinds("PodDisruptionBudget")):
        assert found["spec"]["selector"]["matchLabels"] in labels
    [service] = kinds("Service")
    assert service["spec"]["selector"] in labels
    names = {found["metadata"]["name"] for found in kinds("Deployment")}
    for found in kinds("ScaledObject"):
        assert found["spec"]["scaleTargetRef"]["name"] in names
        for trigger in found["spec"]["triggers"]:
            made = [one["metadata"]["name"] for one in kinds("TriggerAuthentication")]
            assert trigger["authenticationRef"]["name"] in made


def test_the_kustomization_names_every_manifest_but_the_scalers() -> None:
    [found] = documents(DEPLOY / "kubernetes" / "kustomization.yaml")
    scalers = {path.name for path in MANIFESTS if path.name.startswith("keda-")}
    assert {*found["resources"], *scalers, "kustomization.yaml"} == {path.name for path in MANIFESTS}


@pytest.mark.full  # `make test-all` installs it
def test_kubectl_puts_the_manifests_together() -> None:
    done = subprocess.run(["kubectl", "kustomize", DEPLOY / "kubernetes"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "image: shop-windlass:1" in done.stdout
    assert "image: windlass\n" not in done.stdout


# ---------------------------------------------------------------------------------------------------------------- Docker


def test_the_services_of_compose_fit_together() -> None:
    found = yaml.safe_load(COMPOSE.read_text())
    services, secrets = found["services"], found["secrets"]
    for name, service in services.items():
        assert set(service.get("depends_on", {})) <= set(services), name
        assert set(service.get("secrets", ())) <= set(secrets), name
        for variable, value in service.get("environment", {}).items():
            if variable.endswith("_FILE"):
                assert Path(value).name in service["secrets"], (name, variable)
            else:
                assert "PASSWORD" not in variable, (name, "a password is a file")
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("../") or source.endswith(".sh"):
                assert (COMPOSE.parent / source).exists(), source
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:")
    assert services["worker"]["read_only"] is True
    order = ["db", "roles", "migrate", "grants", "worker"]
    for before, after in itertools.pairwise(order):
        assert before in services[after]["depends_on"]


def test_every_login_is_of_a_role_that_the_script_makes() -> None:
    found = {role for path in FILES for role in re.findall(r"\bshop_([a-z]+)\b", path.read_text())}
    assert found
    assert found <= {*ROLES, "web", "migrate"}


def test_the_image_is_built_of_files_that_are_there_and_runs_as_nobody() -> None:
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    build, final = re.split(r"^FROM ", text, flags=re.M)[1:]
    sent = (DEPLOY / "docker" / "Dockerfile.dockerignore").read_text().split()
    for line in re.findall(r"^COPY (?!--from)(?:--chmod=\d+ )?(.*) \S+$", text, re.M):
        for source in line.split():
            assert (ROOT / source).exists(), source
            assert f"!{source}" in sent, source
    assert re.search(r"^USER 10001:10001$", final, re.M)
    assert "root" not in re.findall(r"^USER (.*)$", text, re.M)
    assert "HEALTHCHECK" in final
    assert "pip install" not in final
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"postgres", "server", "crypto"} <= set(re.findall(r"--extra (\w+)", build)) <= set(extras)
    uids = {str(pod["securityContext"]["runAsUser"]) for pod in pods()}
    assert uids == {"10001"}


def test_the_entrypoint_reads_secrets_from_files(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("it's $HOME `x`\n")
    said = {"PATH": os.environ["PATH"], "PGPASSWORD_FILE": str(secret)}
    done = subprocess.run([ENTRYPOINT, "env"], env=said, capture_output=True, text=True, check=True)
    assert "PGPASSWORD=it's $HOME `x`\n" in done.stdout
    assert "PGPASSWORD_FILE" not in done.stdout
    missing = subprocess.run([ENTRYPOINT, "true"], env={**said, "PGPASSWORD_FILE": "/nowhere"}, capture_output=True)
    assert missing.returncode != 0


def probe() -> str:
    """As the image has it."""
    found: list[str] = re.findall(r'"sh", "-c", "(windlass workers .*)"\]', (DEPLOY / "docker" / "Dockerfile").read_text())
    [in_image] = found
    return in_image


def test_a_pod_is_killed_for_its_own_fault_alone() -> None:
    """Not because the store is slow, or may not be written: then none of them would be left."""
    [worker] = [one for pod in pods() for one in pod["containers"] if one["name"] == "worker"]
    asked = {name: worker[name]["httpGet"]["path"] for name in worker if name.endswith("Probe")}
    assert asked == {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
    assert {worker[name]["httpGet"]["port"] for name in asked} == {"metrics"}
    [port] = worker["ports"]
    host, number = place_of(worker["args"][worker["args"].index("--metrics") + 1])
    assert (host.strip("0."), number) == ("", port["containerPort"])  # the kubelet comes by the pod's address


def test_the_probe_blames_a_worker_for_its_silence_and_not_for_a_database_that_is_gone(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    def answer(url: str) -> int:
        said = {"PATH": path, "WINDLASS_URL": url, "WINDLASS_STORE_TIMEOUT": "500ms"}
        return subprocess.run([ENTRYPOINT, "sh", "-c", probe()], env=said, capture_output=True).returncode

    subprocess.run(["windlass", "migrate"], env={"PATH": path, "WINDLASS_URL": f"sqlite:///{tmp_path}/jobs.db"}, check=True)
    assert answer(f"sqlite:///{tmp_path}/jobs.db") == 1
    assert answer("postgresql://x@127.0.0.1:1/x") == 0


# --------------------------------------------------------------------------------------------------------------- systemd


def unit(path: Path) -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None, strict=True, delimiters=("=",), comment_prefixes=("#",))
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read_string(path.read_text())
    return found


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_starts_one_of_our_commands_and_waits_for_its_word(path: Path) -> None:
    service = unit(path)["Service"]
    words = shlex.split(service["ExecStart"])
    assert words[0].endswith("/windlass")
    assert not commands().parse_known_args(words[1:])[2]
    assert service["Type"] == "notify"  # tests/telemetry/test_notify.py has both commands give their word
    assert int(service["WatchdogSec"]) >= 60
    assert service["User"] != "root"
    assert {service[name] for name in ("NoNewPrivileges", "ProtectHome", "PrivateTmp")} == {"yes"}
    assert service["ProtectSystem"] == "strict"
    logs = re.search(r"WINDLASS_LOG_ROOT=(\S+)", service["Environment"])
    assert logs is not None
    assert logs[1].startswith(f"/var/lib/{service['StateDirectory']}/")  # the one place that may be written


@pytest.mark.full
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_knows_every_line_of_a_unit(path: Path, tmp_path: Path) -> None:
    text = re.sub(r"^ExecStart=\S+", f"ExecStart={shutil.which('true')}", path.read_text(), flags=re.M)
    (tmp_path / path.name).write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", tmp_path / path.name], capture_output=True, text=True)
    assert path.name not in done.stderr, done.stderr
