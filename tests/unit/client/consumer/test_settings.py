import pytest

from tests.unit.present import present
from tidelog.client.aio.consumer.settings import load_consumer_settings
from tidelog.client.errors import ClientConfigError
from tidelog.client.serialization import deserializer_of

AT = {"bootstrap.servers": "localhost:9092"}


def load(**more):
    return load_consumer_settings(AT, more)


def test_defaults_are_kafkas():
    settings = load(group_id="g")
    assert settings.max_poll_records == 500
    assert settings.max_poll_interval_ms == 300_000
    assert settings.session_timeout_ms == 45_000
    assert settings.heartbeat_interval_ms == 3_000
    assert settings.auto_commit_interval_ms == 5_000
    assert settings.fetch_max_wait_ms == 500
    assert settings.fetch_max_bytes == 52_428_800
    assert settings.max_partition_fetch_bytes == 1_048_576
    assert settings.partition_assignment_strategy == ("range", "cooperative-sticky")
    assert settings.auto_offset_reset == "latest"
    assert settings.isolation_level == "read_uncommitted"


def test_commits_are_automatic_in_a_group_by_default():
    assert load(group_id="g").commits_automatically
    assert not load(group_id="g", enable_auto_commit=False).commits_automatically
    assert not load(group_id="g", enable_auto_commit="false").commits_automatically
    assert not load().commits_automatically


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"enable_auto_commit": True}, "needs a group.id"),
        ({"group_id": ""}, "group.id=''"),
        ({"group_id": "g", "group_instance_id": ""}, "group.instance.id=''"),
        ({"heartbeat_interval_ms": 45_000}, "must be lower than"),
        ({"auto_offset_reset": "somewhere"}, "auto.offset.reset='somewhere'"),
        ({"partition_assignment_strategy": "fair"}, "'fair' is unknown"),
        ({"partition_assignment_strategy": [5]}, "has 5, which is not an assignor"),
        ({"isolation_level": "serializable"}, "isolation.level"),
        ({"max_poll_records": 0}, "max.poll.records"),
        ({"max_pol_records": 5}, "did you mean 'max.poll.records'"),
    ],
)
def test_mistakes_are_named(settings, said):
    with pytest.raises(ClientConfigError, match=said):
        load(**settings)


def test_strategies_may_be_text_names_or_objects():
    assert load(partition_assignment_strategy="sticky,range").partition_assignment_strategy == ("sticky", "range")


class Upper:
    def deserialize(self, topic, data):
        return f"{topic}:{data.decode()}"


class Versioned:
    def deserialize(self, topic, data, headers):
        return (topic, data, headers)


def test_a_deserializer_is_a_function_an_object_or_a_class():
    for given in (Upper, Upper()):
        assert present(deserializer_of(given, "key"))("t", b"x", ()) == "t:x"
    assert present(deserializer_of(bytes.decode, "value"))("t", b"x", ()) == "x"
    assert deserializer_of(None, "value") is None


def test_a_deserializer_sees_headers_if_it_has_a_parameter_for_them():
    headers = (("version", b"2"),)
    assert present(deserializer_of(Versioned(), "value"))("t", b"x", headers) == ("t", b"x", headers)


def test_what_is_no_deserializer_is_named():
    with pytest.raises(ClientConfigError, match=r"key\.deserializer=7"):
        deserializer_of(7, "key")
