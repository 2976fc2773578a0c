from tidelog.config import load_broker_config
from tidelog.testing._settings import TEST_DEFAULTS, broker_properties, setting_text


def test_a_broker_under_test_gets_a_free_port_and_its_directory():
    properties = broker_properties({}, "/data", None)
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:0"
    assert properties["log.dirs"] == "/data"


def test_a_restarted_broker_keeps_its_port():
    assert broker_properties({}, "/data", ("127.0.0.1", 4711))["listeners"] == "PLAINTEXT://127.0.0.1:4711"


def test_settings_of_the_test_win():
    properties = broker_properties({"offsets.topic.num.partitions": 50, "listeners": "X://h:1"}, "/data", None)
    assert properties["offsets.topic.num.partitions"] == "50"
    assert properties["listeners"] == "X://h:1"


def test_values_are_written_as_kafka_writes_them():
    assert setting_text(True) == "true"
    assert setting_text(3) == "3"
    assert setting_text(["compact", "delete"]) == "compact,delete"


def test_the_defaults_are_settings_that_exist():
    load_broker_config(TEST_DEFAULTS)
