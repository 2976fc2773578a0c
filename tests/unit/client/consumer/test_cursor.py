from tidelog.client.aio.consumer.cursor import Cursor
from tidelog.client.aio.consumer.types import ConsumerRecord, ConsumerRecords, TimestampType
from tidelog.client.types import OffsetAndMetadata, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def record(partition, offset):
    return ConsumerRecord(partition.topic, partition.partition, offset, 0, None, b"", (), TimestampType.CREATE_TIME, 5)


def walk():
    return Cursor(ConsumerRecords({T0: [record(T0, 3), record(T0, 8)], T1: [record(T1, 1)]}, {}))


def test_records_come_partition_by_partition():
    assert [(each.partition, each.offset) for each in walk()] == [(0, 3), (0, 8), (1, 1)]


def test_before_the_first_record_everything_is_held_back():
    assert walk().held_back() == {T0: OffsetAndMetadata(3), T1: OffsetAndMetadata(1)}


def test_the_record_in_hand_counts_as_taken():
    """The application commits it after processing, before it asks for the next one."""
    cursor = walk()
    walking = iter(cursor)
    next(walking)
    assert cursor.held_back() == {T0: OffsetAndMetadata(4, "", 5), T1: OffsetAndMetadata(1)}


def test_the_last_record_of_a_partition_lets_its_position_count():
    """It may be further on, past markers that have no records."""
    cursor = walk()
    walking = iter(cursor)
    next(walking)
    next(walking)
    assert cursor.held_back() == {T1: OffsetAndMetadata(1)}
    next(walking)
    assert cursor.held_back() == {}
