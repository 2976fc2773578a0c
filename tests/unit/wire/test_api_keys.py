"""The numbers of the APIs."""

import pytest

from tidelog.wire.api_keys import ApiKey


def test_keys_have_no_gaps() -> None:
    assert [int(key) for key in ApiKey] == list(range(94))


def test_keys_agree_with_kio() -> None:
    index = pytest.importorskip("kio.schema.index")
    # Kafka 4.1 gave this API another name, which some versions of kio follow.
    renamed = {"list_client_metrics_resources": "list_config_resources"}
    for key, name in index.api_key_map.items():
        if key < 93:
            assert ApiKey(key).name.lower() == renamed.get(name, name)
