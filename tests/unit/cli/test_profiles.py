"""Profiles: what is written, which one a command gets, and that credentials stay with their cluster."""

import stat
from pathlib import Path

import pytest

from tidelog.__main__ import main
from tidelog.cli import _profiles
from tidelog.cli._clients import Connection
from tidelog.cli.errors import CommandError
from tidelog.client.aio.admin.admin import AdminSettings
from tidelog.config import parse_properties

CREATE = ("profile", "create", "prod", "--bootstrap-server", "prod:9092")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("TIDELOG_PROFILE", raising=False)
    monkeypatch.delenv("TIDELOG_BOOTSTRAP_SERVERS", raising=False)
    return tmp_path


def servers(connection: Connection) -> str:
    return str(connection.settings(AdminSettings)["bootstrap.servers"])


def test_a_profile_is_a_properties_file_that_only_its_owner_reads(home, capsys):
    assert main([*CREATE, "--set", "security.protocol=SASL_SSL", "--set", "acks=1"]) == 0
    path = home / "tidelog" / "profiles" / "prod.properties"
    assert parse_properties(path.read_text()) == {
        "bootstrap.servers": "prod:9092",
        "security.protocol": "SASL_SSL",
        "acks": "1",
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert capsys.readouterr() == (f"Created profile prod in {path}.\n", "")
    assert main(CREATE) == 1
    assert "there is a profile 'prod' already" in capsys.readouterr().err
    assert main([*CREATE, "--replace"]) == 0


def test_a_profile_is_made_of_a_file_and_options_and_options_win(tmp_path, capsys):
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=old:1\nrequest.timout.ms=5\n")
    assert main(["profile", "create", "a", "--from-file", str(file), "--bootstrap-server", "new:1", "--use"]) == 0
    assert "request.timout.ms (did you mean request.timeout.ms?)" in capsys.readouterr().err
    assert servers(Connection()) == "new:1"


def test_options_come_before_variables_and_variables_before_the_profile_in_use(monkeypatch):
    _profiles.write("one", {"bootstrap.servers": "one:1", "client.id": "of-one"}, replace=False)
    _profiles.write("two", {"bootstrap.servers": "two:1"}, replace=False)
    assert servers(Connection()) == "127.0.0.1:9092"
    _profiles.use("one")
    assert servers(Connection()) == "one:1"
    monkeypatch.setenv("TIDELOG_PROFILE", "two")
    assert servers(Connection()) == "two:1"
    assert servers(Connection(profile="one")) == "one:1"
    named = Connection("other:1", profile="one").settings(AdminSettings)
    assert (named["bootstrap.servers"], named["client.id"]) == ("other:1", "of-one")


def test_the_profile_in_use_stands_back_for_a_command_that_names_its_cluster(tmp_path):
    """Or the credentials of one cluster would be sent to another."""
    _profiles.write("prod", {"bootstrap.servers": "prod:1", "sasl.jaas.config": "secret"}, replace=False)
    _profiles.use("prod")
    assert "sasl.jaas.config" in Connection().settings(AdminSettings)
    assert "sasl.jaas.config" not in Connection("localhost:1").settings(AdminSettings)
    file = tmp_path / "client.properties"
    file.write_text("client.id=x\n")
    assert "sasl.jaas.config" not in Connection(None, file).settings(AdminSettings)


def test_settings_of_other_clients_are_no_concern_of_a_command(capsys):
    _profiles.write(
        "prod", {"bootstrap.servers": "prod:1", "acks": "1", "schema.registry.url": "http://r"}, replace=False
    )
    connection = Connection(profile="prod")
    assert "acks" not in connection.settings(AdminSettings)
    assert connection.registry_url == "http://r"
    assert capsys.readouterr().err == ""


def test_deleting_the_profile_in_use_leaves_none_in_use(capsys):
    main([*CREATE, "--use"])
    assert main(["profile", "list", "--format", "json"]) == 0
    assert main(["profile", "delete", "prod"]) == 0
    assert "Deleted profile prod. No profile is in use now." in capsys.readouterr().out
    assert (_profiles.names(), _profiles.name_in_use()) == ([], None)


@pytest.mark.parametrize("name", ["../x", "", "a b", ".hidden", "x" * 65])
def test_names_that_are_no_file_names_are_refused(name):
    with pytest.raises(CommandError, match="is not the name of a profile"):
        _profiles.read(name)


def test_a_profile_that_is_not_there_is_named_with_the_nearest():
    _profiles.write("staging", {"bootstrap.servers": "s:1"}, replace=False)
    with pytest.raises(CommandError, match="there is no profile 'stagin': did you mean 'staging'"):
        _profiles.read("stagin")


def test_a_profile_without_the_address_of_a_broker_is_refused(capsys):
    assert main(["profile", "create", "x", "--set", "acks=1"]) == 1
    assert "give --bootstrap-server" in capsys.readouterr().err
