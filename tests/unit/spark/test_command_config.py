"""Settings in a file count as options, and no error shows what the file holds."""

import os
import stat
from pathlib import Path

import pytest

from tidelog.spark.command_config import private_file
from tidelog.spark.options import OptionError, Options


def test_each_setting_of_the_file_is_an_option_and_given_options_win(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=a:1\nsasl.mechanism=PLAIN\nsecurity.protocol=SASL_SSL\n")
    options = Options({"COMMANDCONFIG": str(path), "kafka.sasl.mechanism": "GSSAPI"})

    assert options.bootstrap_servers() == "a:1"
    assert options.kafka_settings({}) == {
        "bootstrap.servers": "a:1",
        "sasl.mechanism": "GSSAPI",
        "security.protocol": "SASL_SSL",
    }


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "cannot be read: No such file"), (b"\xff=secret", "is not UTF-8"), (b"password=secret\\u12", "line 1")],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "client.properties"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(OptionError, match=reason) as refused:
        Options({"commandConfig": str(path)})
    assert str(path) in str(refused.value)
    assert "secret" not in str(refused.value)


def test_settings_of_a_definition_are_in_a_file_that_only_its_user_can_read() -> None:
    pem = "-----BEGIN PRIVATE KEY-----\nabc=\n-----END PRIVATE KEY-----\n"
    path = private_file({"ssl.keystore.key": pem, "sasl.mechanism": "PLAIN"})

    assert private_file({"sasl.mechanism": "PLAIN", "ssl.keystore.key": pem}) == path
    assert [stat.S_IMODE(os.stat(each).st_mode) for each in (path, Path(path).parent)] == [0o600, 0o700]
    assert Options({"commandConfig": path}).kafka_settings({})["ssl.keystore.key"] == pem.strip()
