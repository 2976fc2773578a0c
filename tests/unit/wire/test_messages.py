"""The package of messages: what is found in it, and that every declaration is sound."""

from typing import Any

import pytest

import tidelog.wire.messages as package
from tests.compat.wire.samples import all_messages
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.fields import Declared
from tidelog.wire.messages import share_acknowledge, share_fetch
from tidelog.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from tidelog.wire.schema import Message, Struct

# What Kafka 3.9 advertises in ZooKeeper mode, what its brokers say to each other there, the requests of the newer group
# protocol, the metrics of clients, ListConfigResources, DescribeTopicPartitions, and the requests of share groups and
# streams groups.
_SERVED = {*range(52), *range(55, 70), *range(71, 80), *range(83, 94)}


def _structs(cls: type[Declared]) -> set[type[Declared]]:
    found = {cls}
    for field in cls.fields.values():
        if isinstance(field.element, type):
            found |= _structs(field.element)
    return found


def test_every_api_has_a_request_and_a_response_of_the_same_versions() -> None:
    by_key: dict[int, list[type[Message]]] = {}
    for cls in all_messages():
        by_key.setdefault(cls.api_key, []).append(cls)
    assert set(by_key) == _SERVED
    for key, (request, response) in by_key.items():
        api = "".join(word.capitalize() for word in ApiKey(key).name.split("_"))
        assert (request.__name__, response.__name__) == (f"{api}Request", f"{api}Response")
        assert request.versions == response.versions
        assert request.flexible_from == response.flexible_from


def test_no_field_hides_a_name_of_the_schema() -> None:
    reserved = set(dir(Message)) | {"api_key", "versions", "flexible_from"}
    for message in all_messages():
        for cls in _structs(message):
            taken = reserved if cls is message else set(dir(Struct))
            assert not taken & set(cls.fields), cls


def test_a_message_is_found_by_its_name_in_the_module_of_its_api() -> None:
    for cls in all_messages():
        assert getattr(package, cls.__name__) is cls


@pytest.mark.parametrize("name", ["NoSuchRequest", "DeletableTopicResult", "Request", "schema"])
def test_a_name_that_is_no_message_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        getattr(package, name)


def test_an_error_message_fits_into_every_reply() -> None:
    """Handlers quote what was asked for; a reply that could not be written would cost the results of all others."""
    result = DeletableTopicResult(name="t", error_message="é" * 40_000)
    encoded = DeleteTopicsResponse(responses=[result]).encode(6)
    (read,) = DeleteTopicsResponse.decode(encoded, 6).responses
    assert read.error_message == "é" * 1_000 + "… (40000 characters)"


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("batch_class", [share_acknowledge.AcknowledgementBatch, share_fetch.AcknowledgementBatch])
def test_a_delay_is_a_tagged_field_that_is_only_there_if_it_is_set(batch_class: Any, version: int) -> None:
    """Kafka's brokers skip it, and Kafka's clients neither send nor see it."""

    def encoded(**values: int) -> bytes:
        batch = batch_class(first_offset=5, last_offset=6, acknowledge_types=[2], **values)
        partitions = [share_acknowledge.AcknowledgePartition(acknowledgement_batches=[batch])]
        topics = [share_acknowledge.AcknowledgeTopic(partitions=partitions)]
        request = share_acknowledge.ShareAcknowledgeRequest(group_id="g", member_id="m", topics=topics)
        return request.encode(version)

    plain, delayed = encoded(), encoded(delay_ms=60_000)
    tag_and_size = b"\x01\x90\x4e\x08"  # one tagged field: 10000 as a varint, eight bytes
    assert tag_and_size + (60_000).to_bytes(8) in delayed
    assert len(delayed) == len(plain) + len(tag_and_size) - 1 + 8
