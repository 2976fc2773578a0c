"""What differs between brokers is found, and nothing that is each broker's own or secret."""

from tidelog.client.aio.admin.types import ConfigEntry, ConfigSource
from tidelog.console.comparison import Difference, differences


def settings(**values):
    """Settings by name, with dashes for dots."""
    named = {name.replace("_", "."): value for name, value in values.items()}
    return {name: entry(name, value) for name, value in named.items()}


def entry(name, value, is_sensitive=False):
    return ConfigEntry(name, value, ConfigSource.STATIC_BROKER, False, is_sensitive)


def test_a_value_that_others_do_not_have_is_named_with_theirs():
    found = differences(
        {1: settings(a="1", b="x"), 2: settings(a="2", b="x"), 3: settings(a="2", b="x"), 4: settings(a="1", b="x")}, 1
    )
    assert found == [Difference("a", "1", {"2": [2, 3], "1": [4]})]


def test_brokers_of_one_kind_have_no_differences():
    same = settings(a="1", broker_id="1", listeners="here")
    assert differences({1: same, 2: {**same, **settings(broker_id="2", listeners="there")}}, 1) == []
    assert differences({1: same}, 1) == []


def test_a_setting_that_another_version_lacks_is_said():
    assert differences({1: settings(a="1"), 2: {}}, 1) == [Difference("a", "1", {"no such setting": [2]})]


def test_secrets_are_not_compared():
    one, other = ({"p": entry("p", value, is_sensitive=True)} for value in ("x", "y"))
    assert differences({1: one, 2: other}, 1) == []
