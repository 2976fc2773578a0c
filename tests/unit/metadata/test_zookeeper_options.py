"""Kafka's settings `zookeeper.*`, as options of the store."""

import ssl
from pathlib import Path

import pytest

from tidelog.config import BrokerConfig, load_broker_config
from tidelog.config.errors import ConfigError
from tidelog.metadata.zookeeper_options import ZooKeeperOptions, ZooKeeperTls, zookeeper_options


def config(**changed: str) -> BrokerConfig:
    """A broker's settings, of which some are given: `set_acl` is `zookeeper.set.acl`."""
    return load_broker_config({f"zookeeper.{name.replace('_', '.')}": value for name, value in changed.items()})


def test_the_defaults_are_those_of_the_settings() -> None:
    assert zookeeper_options(config()) == ZooKeeperOptions()


def test_each_setting_has_its_option() -> None:
    options = zookeeper_options(
        config(
            session_timeout_ms="1",
            connection_timeout_ms="2",
            max_in_flight_requests="3",
            set_acl="true",
            ssl_client_enable="true",
            ssl_keystore_location="/client.pem",
            ssl_keystore_password="secret",
            ssl_truststore_location="/authorities",
            ssl_truststore_type="PEM",
            ssl_enabled_protocols="TLSv1.3,TLSv1.2",
            ssl_endpoint_identification_algorithm="",
        )
    )
    assert options == ZooKeeperOptions(
        session_timeout_ms=1,
        connection_timeout_ms=2,
        max_in_flight_requests=3,
        set_acl=True,
        tls=ZooKeeperTls(
            ca_file="/authorities",
            certificate_file="/client.pem",
            key_password="secret",
            checks_host_name=False,
            version_min=ssl.TLSVersion.TLSv1_2,
            version_max=ssl.TLSVersion.TLSv1_3,
        ),
    )


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"set_acl": "true"}, r"zookeeper\.set\.acl needs .* set zookeeper\.ssl\.client\.enable and"),
        ({"ssl_protocol": "SSLv3"}, r"SSLv3 is none of TLSv1\.2, TLSv1\.3"),
        ({"ssl_keystore_location": "/k.jks"}, r"/k\.jks is not a PEM file"),
        ({"ssl_truststore_location": "/t.p12"}, r"truststore\.location: /t\.p12 is not a PEM file"),
        ({"ssl_endpoint_identification_algorithm": "htpps"}, r"algorithm=htpps is neither https nor empty"),
    ],
)
def test_what_cannot_be_done_is_refused(changed: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        zookeeper_options(config(ssl_client_enable="true", **changed))


def test_files_that_cannot_be_read_are_named_with_their_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"zookeeper\.ssl\.truststore\.location: /none\.pem cannot be read"):
        ZooKeeperTls(ca_file="/none.pem").context()
    (tmp_path / "bad.pem").write_text("rubbish")
    with pytest.raises(ConfigError, match=r"zookeeper\.ssl\.keystore\.location: .*bad\.pem cannot be read"):
        ZooKeeperTls(certificate_file=str(tmp_path / "bad.pem")).context()


def test_versions_that_are_not_supported_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    read = zookeeper_options(config(ssl_client_enable="true", ssl_enabled_protocols="TLSv1.1,TLSv1.3,TLSv1.2"))
    assert read.tls is not None
    assert (read.tls.version_min.name, read.tls.version_max.name) == ("TLSv1_2", "TLSv1_3")
    assert "zookeeper.ssl.enabled.protocols: TLSv1.1 is not supported and left out" in caplog.text
