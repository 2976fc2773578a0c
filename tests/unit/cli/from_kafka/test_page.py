"""The map from Kafka: whole, true of the command line and the settings, and current in docs.

`tests/compat/metrics/test_names.py` holds its metrics to those of running brokers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest
import typer

from tests.unit.cli.test_app import commands
from tests.unit.config.test_reference import KAFKA, OTHER_DEFAULTS
from tidelog.__main__ import main
from tidelog.cli.app import build
from tidelog.cli.from_kafka import _page
from tidelog.cli.from_kafka._mbeans import ABSENT, mbeans
from tidelog.cli.from_kafka._page import SECTIONS, look_up, page
from tidelog.cli.from_kafka._tools import TOOLS
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.log_config import LogConfig

PAGE: Final = Path(__file__).parents[4] / "docs" / "from-kafka.md"
SCRIPTS: Final = Path(__file__).with_name("kafka_3_9_1_tools.txt").read_text().split()
"""What Kafka 3.9.1 has in `bin`."""
VERBS: Final = dict(commands(typer.main.get_command(build())))


def entries(title: str) -> dict[str, _page.Entry]:
    (section,) = [each for each in SECTIONS if each.title == title]
    return {each.kafka: each for each in section.entries()}


def test_the_page_in_docs_is_current() -> None:
    """Write it with `make docs`."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_tool_of_kafka_is_there() -> None:
    assert sorted(TOOLS) == SCRIPTS


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_has_a_command_that_there_is_or_a_reason(tool: str) -> None:
    for use in TOOLS[tool]:
        assert use.command or use.note
        words = use.command.removeprefix("tidelog ").split()
        verb = " ".join(word for word in words if not word.startswith("--"))
        if use.command:
            assert use.command.startswith("tidelog ")
            assert verb in VERBS, use
        options = {name for each in VERBS[verb].params for name in each.opts} if verb in VERBS else set()
        if verb != "serve":
            assert {word for word in words if word.startswith("--")} <= options, use


@pytest.mark.parametrize(("level", "title"), [("broker", "Settings of brokers"), ("topic", "Settings of topics")])
def test_every_setting_of_kafka_is_there(level: str, title: str) -> None:
    assert sorted({name for each, name, _ in KAFKA if each == level} - entries(title).keys()) == []


def test_what_differs_from_kafka_says_why() -> None:
    settings = {**entries("Settings of brokers"), **entries("Settings of topics")}
    assert {each.here for each in settings.values()} == {
        *("the same", "another default", "no effect", "only the default is accepted")
    }
    assert [each for each in settings.values() if each.here != "the same" and not each.note] == []
    assert _page.OTHER_DEFAULTS.keys() == OTHER_DEFAULTS.keys() | {"group.initial.rebalance.delay.ms"}


def test_settings_of_our_own_are_not_kafkas() -> None:
    ours = {name for group in (BrokerConfig, LogConfig) for name in group.settings if name.startswith("tidelog.")}
    assert ours
    assert {each.kafka for section in SECTIONS for each in section.entries()}.isdisjoint({*ours, "metrics.listeners"})


def test_what_has_no_metric_is_an_mbean() -> None:
    absent = [each for each in mbeans() if not each.metric]
    assert all(each.why for each in absent)
    assert {each.why for each in absent} == set(ABSENT.values()), "each reason belongs to an MBean"


def test_names_are_looked_up_by_their_parts_whatever_their_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["from-kafka", "underminisrpartitioncount", "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["kafka"] == "kafka.server:type=ReplicaManager,name=UnderMinIsrPartitionCount"
    assert found["here"] == "`kafka_server_replicamanager_underminisrpartitioncount`"
    assert [each.here for each in look_up(["kafka-get-offsets.sh"])] == ["`tidelog offsets`"]
    assert main(["from-kafka", "no.such.name"]) == 1
    assert "no tool, setting or MBean with 'no.such.name'" in capsys.readouterr().err
