"""What is shipped beside the package: image, compose file, service unit, chart, workflows and the site.

Nothing here needs a container engine: the commands that these files hold are run as they stand, with the ports and
directories of the test.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.cli_support import SOURCE
from tests.unit.present import present
from tidelog.client import Admin
from tidelog.cluster.zookeeper import free_port

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "ops/docker/Dockerfile"
COMPOSE = ROOT / "ops/docker/compose.yml"
UNIT = ROOT / "ops/systemd/tidelog.service"
CHART = ROOT / "ops/helm/tidelog"
PORT = re.compile(r"(?<=:)\d{4}\b")
HOST = re.compile(r"://(?!127\.|0\.0\.0\.0)[^:/]+:")
"""Names of brokers elsewhere, which are advertised."""
READY_SECONDS_MAX = 60


def last_instruction(name: str) -> list[str]:
    """The words of an instruction of the image in its JSON form."""
    found = re.findall(rf"^{name} (\[.*\])$", DOCKERFILE.read_text(), re.MULTILINE)
    words: list[str] = json.loads(found[-1])
    return words


def starts_and_stops(words: Sequence[str], tmp_path: Path) -> None:
    """Run `tidelog serve …` as it stands, on free ports and in the test's directory; a client reaches it."""
    assert Path(words[0]).name == "tidelog"
    ports = {port: str(free_port()) for port in sorted({each for word in words for each in PORT.findall(word)})}
    here = [PORT.sub(lambda found: ports[found[0]], word) for word in words[1:]]
    here = [HOST.sub("://127.0.0.1:", word.replace("/var/lib/tidelog", str(tmp_path / "data"))) for word in here]
    process = subprocess.Popen(
        [sys.executable, "-m", "tidelog", *here],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": SOURCE},
    )
    deadline = threading.Timer(READY_SECONDS_MAX, process.kill)
    deadline.start()
    try:
        line = present(process.stdout).readline().decode()
        assert line.startswith("tidelog ready "), present(process.stderr).read().decode()
        port = line.rpartition(":")[2].strip()
        with Admin(bootstrap_servers=f"127.0.0.1:{port}") as admin:
            assert admin.list_topics() == []
    finally:
        deadline.cancel()
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=READY_SECONDS_MAX)
    assert process.returncode == 0, said.decode()


def test_the_image_starts_a_broker(tmp_path: Path) -> None:
    starts_and_stops([*last_instruction("ENTRYPOINT"), *last_instruction("CMD")], tmp_path)


def test_the_composed_broker_starts_with_both_of_its_listeners(tmp_path: Path) -> None:
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    starts_and_stops([*last_instruction("ENTRYPOINT"), *services["tidelog"]["command"]], tmp_path)


def test_the_service_starts_with_the_settings_of_its_file(tmp_path: Path) -> None:
    (command,) = re.findall(r"^ExecStart=(.*)$", UNIT.read_text(), re.MULTILINE)
    settings = tmp_path / "server.properties"
    settings.write_text("listeners=PLAINTEXT://127.0.0.1:0\n")
    starts_and_stops(shlex.split(command.replace("/etc/tidelog/server.properties", str(settings))), tmp_path)


@pytest.mark.parametrize("file", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda file: file.name)
def test_workflows_call_commands_that_exist(file: Path) -> None:
    jobs: dict[str, Any] = yaml.safe_load(file.read_text())["jobs"]
    runs = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = {word for run in runs for word in re.findall(r"make ([a-z-]+)", run)}
    assert called <= targets


def helm(*words: str) -> str:
    if shutil.which("helm") is None:
        pytest.skip("helm is not on this machine")
    done = subprocess.run(["helm", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rendered(*settings: str) -> list[dict[str, Any]]:
    words = [word for setting in settings for word in ("--set", setting)]
    text = helm("template", "shop", str(CHART), "--kube-version", "1.31", *words)
    return [document for document in yaml.safe_load_all(text) if document]


def test_the_chart_is_sound() -> None:
    helm("lint", "--strict", str(CHART))


def test_the_charts_broker_starts(tmp_path: Path) -> None:
    (brokers,) = [each for each in rendered(r"settings.num\.partitions=3") if each["kind"] == "StatefulSet"]
    (container,) = brokers["spec"]["template"]["spec"]["containers"]
    words = [word.replace("$(POD_INDEX)", "0") for word in (*container["command"], *container["args"])]
    assert "--set=num.partitions=3" in words
    starts_and_stops(words, tmp_path)


def test_the_chart_refuses_several_brokers_without_a_zookeeper() -> None:
    if shutil.which("helm") is None:
        pytest.skip("helm is not on this machine")
    words = ["helm", "template", "shop", str(CHART), "--kube-version", "1.31", "--set", "brokers=3"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode
    assert "set zookeeper" in done.stderr


@pytest.mark.long
def test_the_site_is_built_and_every_link_in_it_leads_somewhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, done.stderr
    assert "AsyncProducer" in (tmp_path / "reference/clients.html").read_text()
