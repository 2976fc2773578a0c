"""UpdateMetadata: brokers come and go, partitions change, grow and vanish."""

from __future__ import annotations

from tidelog.metadata.image import ClusterImage
from tidelog.metadata.updates import apply_update
from tidelog.wire.messages.update_metadata import (
    FULL,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

TOPIC_ID, OTHER_ID = bytes([1] * 16), bytes([2] * 16)


def state(
    index: int, leader: int = 1, epoch: int = 0, replicas: tuple[int, ...] = (1, 2)
) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        partition_index=index, leader=leader, leader_epoch=epoch, isr=list(replicas), replicas=list(replicas)
    )


def apply(
    image: ClusterImage,
    *states: UpdateMetadataPartitionState,
    topic_id: bytes = TOPIC_ID,
    brokers: tuple[int, ...] = (1, 2),
    name: str = "t",
    kind: int = 0,
) -> list[str]:
    request = UpdateMetadataRequest(
        controller_id=1,
        type=kind,
        controller_epoch=7,
        topic_states=[UpdateMetadataTopicState(topic_name=name, topic_id=topic_id, partition_states=list(states))]
        if states
        else [],
        live_brokers=[
            UpdateMetadataBroker(
                id=broker, endpoints=[UpdateMetadataEndpoint(port=9000 + broker, host="h", listener="PLAINTEXT")]
            )
            for broker in brokers
        ],
    )
    steps = apply_update(image, request)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            gone: list[str] = stop.value
            return gone


def test_brokers_and_the_controller_are_those_of_the_last_request() -> None:
    image = ClusterImage("c")
    apply(image, brokers=(1, 2))
    apply(image, brokers=(2, 3))
    assert image.broker_ids() == [2, 3]
    assert (image.controller_id, image.controller_epoch) == (1, 7)


def test_a_topic_appears_changes_and_grows() -> None:
    image = ClusterImage("c")
    apply(image, state(0), state(1))
    apply(image, state(1, leader=2, epoch=1))
    apply(image, state(2))
    topic = image.topic("t")
    assert topic is not None
    assert [(each.leader_id, each.leader_epoch) for each in topic.partitions] == [(1, 0), (2, 1), (1, 0)]
    assert image.topic_name(TOPIC_ID) == "t"


def test_a_partition_may_come_before_those_below_it() -> None:
    image = ClusterImage("c")
    apply(image, state(1))
    assert [each.leader_id for each in image.topic("t").partitions] == [-1, 1]  # type: ignore[union-attr]
    apply(image, state(0))
    assert [each.leader_id for each in image.topic("t").partitions] == [1, 1]  # type: ignore[union-attr]


def test_a_topic_is_gone_when_its_last_partition_is() -> None:
    image = ClusterImage("c")
    apply(image, state(0), state(1))
    assert apply(image, state(0, leader=-2)) == []
    assert apply(image, state(1, leader=-2)) == ["t"]
    assert image.topic("t") is None
    assert image.topic_name(TOPIC_ID) is None


def test_a_topic_that_was_deleted_and_created_again_has_a_new_id() -> None:
    image = ClusterImage("c")
    apply(image, state(0), state(1))
    apply(image, state(0, epoch=5), topic_id=OTHER_ID)
    topic = image.topic("t")
    assert topic is not None
    assert (topic.topic_id, len(topic.partitions)) == (OTHER_ID, 1)


def test_a_full_request_names_all_topics_that_are_left() -> None:
    image = ClusterImage("c")
    apply(image, state(0))
    apply(image, state(0), name="u", topic_id=OTHER_ID)
    assert apply(image, state(0, epoch=1)) == []
    assert apply(image, state(0, epoch=2), kind=FULL) == ["u"]
    assert image.topic("u") is None
    assert image.topic_name(OTHER_ID) is None
    assert image.partition("t", 0).leader_epoch == 2  # type: ignore[union-attr]
    assert apply(image, kind=FULL) == ["t"]


def test_replicas_on_brokers_that_are_gone_are_offline() -> None:
    image = ClusterImage("c")
    apply(image, state(0))
    apply(image, brokers=(1,))
    assert image.partition("t", 0).offline_replicas == (2,)  # type: ignore[union-attr]
