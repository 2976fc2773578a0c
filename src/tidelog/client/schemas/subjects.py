"""Subject name strategies: under which name of the registry the schema of a topic's keys or values is kept.

A strategy is a function of the topic, of whether keys are written, and of the schema's record name (None where the
schema has no name). The three that Confluent's serializers have are here; any other function will do.
"""

from collections.abc import Callable

SubjectNameStrategy = Callable[[str, bool, str | None], str]


def topic_name(topic: str, is_key: bool, record_name: str | None) -> str:  # noqa: ARG001 - one signature for all
    """`orders-key` or `orders-value`: one schema, in its versions, for a topic. The default."""
    return f"{topic}-key" if is_key else f"{topic}-value"


def record_name(topic: str, is_key: bool, record_name: str | None) -> str:  # noqa: ARG001 - one signature for all
    """The record's full name: several kinds of records in a topic, each with one schema for all topics."""
    return _named(topic, record_name)


def topic_record_name(topic: str, is_key: bool, record_name: str | None) -> str:  # noqa: ARG001 - as above
    """`orders-com.example.Order`: several kinds of records in a topic, with schemas of its own."""
    return f"{topic}-{_named(topic, record_name)}"


def _named(topic: str, name: str | None) -> str:
    if not name:
        raise ValueError(f"the schema for topic {topic!r} has no record name, which its subject name needs")
    return name
