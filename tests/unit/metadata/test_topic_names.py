import pytest

from tidelog.metadata.topic_names import check_topic_name
from tidelog.wire.errors import ApiError, ErrorCode


@pytest.mark.parametrize("name", ["a", "A-b_c.d", "...", "__consumer_offsets", "0", "x" * 249])
def test_names_that_kafka_allows(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a/b", "a b", "a:b", "ä", "a\0", "٣", "a\n"])
def test_names_that_kafka_refuses(name: str) -> None:
    with pytest.raises(ApiError, match="Topic name is invalid") as caught:
        check_topic_name(name)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
