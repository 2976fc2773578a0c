"""`tidelog security init` and `tidelog user`: from nothing to a secured broker with users."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli_support import Ran, run_here
from tidelog.config import parse_properties
from tidelog.testing import Broker


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("security") / "secured"
    assert run_here("security", "init", str(directory), "--host", "127.0.0.1", "--port", "0").code == 0
    return directory


@pytest.fixture(scope="module")
def broker(home: Path) -> Iterator[Broker]:
    """With what `init` wrote, on a free port."""
    settings = parse_properties((home / "server.properties").read_text())
    settings["listeners"] = "SASL_SSL://127.0.0.1:0"
    del settings["advertised.listeners"]
    with Broker(settings, data_dir=settings["log.dirs"]) as running:
        yield running


def command(broker: Broker, home: Path, *words: str) -> Ran:
    config = ("--command-config", str(home / "client.properties"))
    return run_here(*words, *config, server=broker.bootstrap_servers)


def test_keys_and_passwords_belong_to_their_owner_alone(home: Path) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in home.iterdir() if path.is_file()}
    assert {name for name, mode in modes.items() if mode == 0o600} == {
        "ca.key",
        "broker.pem",
        "client.pem",
        "server.properties",
        "client.properties",
    }
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_a_directory_with_something_in_it_is_left_alone(home: Path) -> None:
    before = (home / "ca.pem").read_text()
    refused = run_here("security", "init", str(home))
    assert (refused.code, "not empty" in refused.err) == (1, True)
    assert (home / "ca.pem").read_text() == before


def test_an_address_of_ipv6_is_written_as_clients_take_it(tmp_path: Path) -> None:
    made = run_here("security", "init", str(tmp_path / "six"), "--host", "::1", "--port", "9093")
    assert "--bootstrap-server [::1]:9093 " in made.out
    of_client = parse_properties((tmp_path / "six" / "client.properties").read_text())
    of_broker = parse_properties((tmp_path / "six" / "server.properties").read_text())
    assert of_client["bootstrap.servers"] == "[::1]:9093"
    assert of_broker["advertised.listeners"] == "SASL_SSL://[::1]:9093"


def test_the_administrator_may_do_everything_and_a_stranger_nothing(broker: Broker, home: Path) -> None:
    assert command(broker, home, "topic", "create", "orders").code == 0
    assert "orders" in command(broker, home, "topic", "list").out
    stranger = run_here("topic", "list", server=broker.bootstrap_servers)
    assert (stranger.code, "orders" in stranger.out) == (1, False)


def test_users_are_added_listed_and_deleted(broker: Broker, home: Path, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("alice-secret\n")
    added = command(broker, home, "user", "add", "alice", "--password-file", str(password))
    assert added.code == 0, added.err
    assert set(command(broker, home, "user", "list", "--format", "json").document) == {"admin", "alice"}
    as_alice = tmp_path / "alice.properties"
    settings = (home / "client.properties").read_text()
    jaas = next(line for line in settings.splitlines() if line.startswith("sasl.jaas.config"))
    module = (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="alice-secret";'
    )
    as_alice.write_text(settings.replace(jaas, f"sasl.jaas.config={module}"))
    words = ("topic", "list", "--command-config", str(as_alice))
    seen = run_here(*words, server=broker.bootstrap_servers)
    assert (seen.code, "orders" in seen.out) == (0, False), "she may log in, and has no rights yet"
    assert command(broker, home, "user", "delete", "alice").code == 0
    rejected = run_here(*words, server=broker.bootstrap_servers)
    assert rejected.code == 1
    assert "invalid credentials" in rejected.err
    assert "alice-secret" not in rejected.err
    gone = command(broker, home, "user", "delete", "alice")
    assert (gone.code, "does not exist" in gone.err) == (1, True)
