"""A setting that is accepted works, or says that it does not: declarations against what the code reads.

The other half is in the declarations: `ignored` is a claim that nothing reads the setting, and the same test holds
it to that, so that a setting which begins to work is no longer announced as one without effect.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidelog
from tidelog.config import (
    BrokerConfig,
    ConfigError,
    LogConfig,
    load_broker_config,
    settings_without_effect,
    topic_settings_without_effect,
)
from tidelog.config.declaration import Settings
from tidelog.config.dynamic_only import DynamicOnlySettings
from tidelog.config.entities import GroupConfig
from tidelog.config.layers import ConfigLayers
from tidelog.config.updates import checked_topic, updated_layers

PACKAGE = Path(tidelog.__file__).parent

# Clients have settings of the same names; declarations, checks among settings and updates decide nothing in a broker.
ROOMS = ("broker", "cluster", "network", "replication", "storage", "metadata", "security", "config")
NO_READERS = ("_cross_checks.py", "updates.py")
# Brokers log in to each other as clients do.
SHARED = (PACKAGE / "client" / "logins.py", PACKAGE / "client" / "oauth_login.py")


def sources() -> Iterator[Path]:
    yield from SHARED
    for room in ROOMS:
        for path in (PACKAGE / room).rglob("*.py"):
            is_declaration = path.name.endswith("_settings.py") or path.name in ("log_config.py", "dynamic_only.py")
            if not is_declaration and path.name not in NO_READERS:
                yield path


def names_read() -> set[str]:
    """Every attribute that is read, and every text: some fields are read by name."""
    read: set[str] = set()
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                read.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                read.add(node.value)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                # `LogManagerConfig` and its like take the settings that their fields are named after.
                read.add(node.target.id)
    return read


@pytest.fixture(scope="module")
def read() -> set[str]:
    return names_read()


def effects_of_own_settings(read: set[str]) -> set[str]:
    """Broker settings that are the default of a topic's or group's setting which is read."""
    return {
        synonym.name
        for declared in (*LogConfig.settings.values(), *GroupConfig.settings.values())
        if declared.field in read
        for synonym in declared.synonyms
    }


@pytest.mark.parametrize("group", [BrokerConfig, LogConfig, GroupConfig, DynamicOnlySettings])
def test_every_setting_is_read_or_declared_without_effect(group: type[Settings], read: set[str]) -> None:
    """The test fails on 4724f6e, where 107 settings were accepted and read by nothing."""
    defaults = effects_of_own_settings(read) if group is BrokerConfig else set()
    wrong = [
        f"{name}: declared {'with' if declared.has_effect else 'without'} effect"
        for name, declared in group.settings.items()
        if declared.refused is None and declared.has_effect != (declared.field in read or name in defaults)
    ]
    assert wrong == []


REFUSED = {
    "authorizer.class.name": "org.example.Authorizer",
    "zookeeper.ssl.crl.enable": "true",
    "zookeeper.ssl.ocsp.enable": "true",
    "zookeeper.ssl.cipher.suites": "TLS_AES_256_GCM_SHA384",
    "sasl.server.callback.handler.class": "org.example.Handler",
    "sasl.jaas.config": "org.example.Module required;",
    "principal.builder.class": "org.example.Builder",
    "create.topic.policy.class.name": "org.example.Policy",
    "alter.config.policy.class.name": "org.example.Policy",
    "client.quota.callback.class": "org.example.Callback",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_protect_is_refused_until_it_works(name: str) -> None:
    """Fails on 4724f6e, which ignored them."""
    with pytest.raises(ConfigError, match=name.replace(".", r"\.")) as refused:
        load_broker_config({name: REFUSED[name]})
    assert "secret" not in str(refused.value).replace("secret.key", "")


def test_the_default_of_a_refused_setting_is_accepted() -> None:
    load_broker_config({"authorizer.class.name": "", "security.inter.broker.protocol": "PLAINTEXT"})


def test_a_dynamic_change_is_refused_by_the_same_rule() -> None:
    with pytest.raises(ConfigError, match=r"principal\.builder\.class"):
        updated_layers(ConfigLayers({}), {"principal.builder.class": "org.example.Builder"}, is_cluster=False)
    with pytest.raises(ConfigError, match=r"remote\.storage\.enable: tiered storage"):
        checked_topic(ConfigLayers({}), {"remote.storage.enable": "true"})


def test_a_setting_without_effect_is_named_once_and_only_if_it_was_changed() -> None:
    properties = {
        "num.io.threads": "16",
        "num.network.threads": "3",
        "ssl.keystore.location": "/keys",
        "ssl.provider": "other",
        "listener.name.plaintext.ssl.client.auth": "required",
        "listener.name.plaintext.num.network.threads": "9",
        "listener.name.plaintext.max.connections": "5",
        "listener.name.sasl_ssl.ssl.client.auth": "required",  # there is no such listener
        "num.partitions": "4",
    }
    load_broker_config(properties)
    assert settings_without_effect(properties) == [
        "listener.name.plaintext.num.network.threads",
        "listener.name.sasl_ssl.ssl.client.auth",
        "num.io.threads",
        "ssl.provider",
    ]
    overrides = {"local.retention.ms": "1000", "local.retention.bytes": "-2", "retention.ms": "1000"}
    assert topic_settings_without_effect(overrides) == ["local.retention.ms"]


def test_the_description_says_that_a_setting_has_no_effect() -> None:
    assert (
        BrokerConfig.settings["num.io.threads"]
        .described()
        .startswith("**No effect:** a broker process runs requests on one core: set tidelog.cores for more. ")
    )
    assert BrokerConfig.settings["zookeeper.ssl.crl.enable"].described().startswith("**Only the default is accepted:**")
    assert not BrokerConfig.settings["num.partitions"].described().startswith("**")
