from tidelog.client.aio.metadata import MetadataCache
from tidelog.client.types import BrokerNode, TopicPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ID, OTHER_ID = bytes([1] * 16), bytes([2] * 16)


def reply(*leaders: tuple[int, int], topic_id: bytes = ID, name: str = "topic", error: int = 0) -> MetadataResponse:
    """One topic whose partitions have these leaders and epochs."""
    return MetadataResponse(
        cluster_id="cluster",
        controller_id=1,
        brokers=[MetadataResponseBroker(node_id=number, host=f"host{number}", port=9092) for number in (1, 2)],
        topics=[
            MetadataResponseTopic(
                name=name,
                topic_id=topic_id,
                error_code=error,
                partitions=[
                    MetadataResponsePartition(partition_index=index, leader_id=leader, leader_epoch=epoch)
                    for index, (leader, epoch) in enumerate(leaders)
                ],
            )
        ],
    )


def cache(*leaders: tuple[int, int], now_ms: int = 0) -> MetadataCache:
    made = MetadataCache(max_age_ms=1000)
    made.update(reply(*leaders), now_ms, wanted=["topic"])
    return made


def test_leaders_topics_and_controller_are_found() -> None:
    known = cache((1, 5), (2, 0))
    assert known.leader("topic", 1) == BrokerNode(2, "host2", 9092)
    assert known.leader_epoch("topic", 0) == 5
    assert known.partition_count("topic") == 2
    assert known.topic_id("topic") == ID
    assert known.topic_name(ID) == "topic"
    assert known.controller == BrokerNode(1, "host1", 9092)
    assert known.leader("topic", 2) is None
    assert known.leader("nowhere", 0) is None
    assert known.partition_count("nowhere") == 0


def test_an_older_epoch_does_not_replace_a_newer_one() -> None:
    """Brokers hear of changes at different moments; a late answer must not send us back to the old leader."""
    known = cache((1, 5))
    known.update(reply((2, 4)), 10, wanted=["topic"])
    assert known.leader("topic", 0) == BrokerNode(1, "host1", 9092)
    known.update(reply((2, 6)), 20, wanted=["topic"])
    assert known.leader("topic", 0) == BrokerNode(2, "host2", 9092)


def test_a_topic_created_again_begins_its_epochs_again() -> None:
    known = cache((1, 5))
    known.update(reply((2, 0), topic_id=OTHER_ID), 10, wanted=["topic"])
    assert known.leader_epoch("topic", 0) == 0
    assert known.topic_name(ID) is None


def test_metadata_ages_and_can_be_called_stale() -> None:
    known = cache((1, 0), now_ms=100)
    assert known.refresh_in_ms(100) == 1000
    assert known.refresh_in_ms(700) == 400
    assert known.refresh_in_ms(5000) == 0
    known.request_update()
    assert known.refresh_in_ms(100) == 0


def test_a_missing_leader_or_topic_keeps_it_stale() -> None:
    assert cache((-1, 0)).refresh_in_ms(0) == 0
    known = cache((1, 0))
    known.update(reply(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), 0, wanted=["topic"])
    assert known.refresh_in_ms(0) == 0
    assert known.partition_count("topic") == 0
    known.update(reply(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED), 0, wanted=["topic"])
    assert known.refresh_in_ms(0) == 1000, "asking again would bring the same refusal"


def test_topics_no_longer_used_are_forgotten() -> None:
    known = cache((1, 0))
    known.update(reply((1, 0), name="other", topic_id=OTHER_ID), 0, wanted=["other"])
    assert list(known.topics) == ["other"]
    known.update(reply((1, 0), name="third", topic_id=OTHER_ID), 0, wanted=None)
    assert list(known.topics) == ["third"], "all were asked for, and this is all there is"


def test_a_leader_named_by_a_reply_is_taken_over_if_it_is_news() -> None:
    known = cache((1, 5), (1, 5))
    version = known.version
    new = BrokerNode(3, "host3", 9093)
    assert known.update_leader(TopicPartition("topic", 1), 3, 6, [new])
    assert known.leader("topic", 1) == new
    assert known.leader("topic", 0) == BrokerNode(1, "host1", 9092)
    assert known.version == version + 1
    assert not known.update_leader(TopicPartition("topic", 1), 2, 6)
    assert not known.update_leader(TopicPartition("topic", 1), -1, 9)
    assert not known.update_leader(TopicPartition("topic", 1), 77, 9), "a broker without a known address"
    assert not known.update_leader(TopicPartition("nowhere", 0), 1, 9)
