"""Dead letters of Spring and Connect, with headers as those write them."""

import pytest

from tidelog.client.retry.conventions import CONNECT, SPRING, decode_other, strip_other
from tidelog.client.retry.headers import HeaderError, Origin, Trail

# As DeadLetterPublishingRecoverer of spring-kafka 3 writes them: numbers are big-endian.
SPRING_HEADERS = (
    ("trace", b"1"),
    ("kafka_dlt-exception-fqcn", b"org.springframework.kafka.listener.ListenerExecutionFailedException"),
    ("kafka_dlt-exception-cause-fqcn", b"java.lang.IllegalStateException"),
    ("kafka_dlt-exception-message", "Prüfung".encode()),
    ("kafka_dlt-exception-stacktrace", b"at a.B"),
    ("kafka_dlt-original-topic", b"orders"),
    ("kafka_dlt-original-partition", (2).to_bytes(4, "big")),
    ("kafka_dlt-original-offset", (5_000_000_000).to_bytes(8, "big")),
    ("kafka_dlt-original-timestamp", (1_700_000_000_000).to_bytes(8, "big")),
    ("kafka_dlt-original-timestamp-type", b"CreateTime"),
    ("kafka_dlt-original-consumer-group", b"billing"),
)
# As DeadLetterQueueReporter of Apache Kafka 3.9 writes them: numbers are text.
CONNECT_HEADERS = (
    ("__connect.errors.topic", b"orders"),
    ("__connect.errors.partition", b"3"),
    ("__connect.errors.offset", b"17"),
    ("__connect.errors.connector.name", b"jdbc-sink"),
    ("__connect.errors.task.id", b"0"),
    ("__connect.errors.stage", b"VALUE_CONVERTER"),
    ("__connect.errors.class.name", b"org.apache.kafka.connect.json.JsonConverter"),
    ("__connect.errors.exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
    ("__connect.errors.exception.message", b"Converting failed"),
    ("__connect.errors.exception.stacktrace", None),
    ("trace", b"1"),
)


def test_a_letter_of_spring_is_read_and_its_headers_are_removed() -> None:
    origin = Origin("orders", 2, 5_000_000_000, 1_700_000_000_000)
    trail = Trail("billing", 0, "java.lang.IllegalStateException", "Prüfung", -1, origin)
    assert decode_other(SPRING_HEADERS) == (SPRING, trail)
    assert strip_other(SPRING_HEADERS, SPRING) == (("trace", b"1"),)


def test_attempts_of_springs_retry_topics_are_counted() -> None:
    found = decode_other((*SPRING_HEADERS, ("retry_topic-attempts", (4).to_bytes(4, "big"))))
    assert found is not None
    assert found[1].attempts == 4


def test_a_letter_of_connect_is_read_and_its_headers_are_removed() -> None:
    error = "org.apache.kafka.connect.errors.DataException", "Converting failed"
    assert decode_other(CONNECT_HEADERS) == (CONNECT, Trail("jdbc-sink", 0, *error, -1, Origin("orders", 3, 17, -1)))
    assert strip_other(CONNECT_HEADERS, CONNECT) == (("trace", b"1"),)


@pytest.mark.parametrize("headers", [(), (("trace", b"1"),), (("kafka_dlt-original-topic", None),)])
def test_other_records_are_no_letters(headers: tuple[tuple[str, bytes | None], ...]) -> None:
    assert decode_other(headers) is None


@pytest.mark.parametrize(
    "header",
    [("kafka_dlt-original-offset", b"17"), ("kafka_dlt-original-partition", b""), ("retry_topic-attempts", b"x")],
)
def test_numbers_that_cannot_be_read_are_refused(header: tuple[str, bytes]) -> None:
    with pytest.raises(HeaderError):
        decode_other((*SPRING_HEADERS, header))
