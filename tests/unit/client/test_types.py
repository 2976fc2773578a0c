import pytest

from tidelog.client.types import (
    OffsetAndMetadata,
    TopicPartition,
    as_names,
    as_partition,
    as_partitions,
    as_places,
    milliseconds,
)

AT = TopicPartition("t", 0)


def test_partitions_and_offsets_may_be_plain() -> None:
    assert as_partitions([AT, ("t", 1)]) == (AT, TopicPartition("t", 1))
    assert as_places({("t", 0): 5, ("t", 1): OffsetAndMetadata(6, "note")}) == {  # type: ignore[dict-item]
        AT: OffsetAndMetadata(5),
        TopicPartition("t", 1): OffsetAndMetadata(6, "note"),
    }


@pytest.mark.parametrize("given", ["t", "ab", ["t", 0], [AT], ("t", "0"), ("t", -1), (0, "t"), ("t", 0, 1), None])
def test_what_is_no_partition_is_named(given: object) -> None:
    with pytest.raises(ValueError, match="is not a partition; give TopicPartition"):
        as_partition(given)


@pytest.mark.parametrize("given", [-1, 1 << 63, "5", None, 1.5, (5,)])
def test_what_is_no_offset_is_named(given: object) -> None:
    with pytest.raises(ValueError, match="is not an offset; give a number"):
        as_places({AT: given})  # type: ignore[dict-item]


def test_offsets_without_partitions_are_refused() -> None:
    with pytest.raises(ValueError, match="are not offsets by partition"):
        as_places([AT])  # type: ignore[arg-type]


def test_one_name_is_not_a_list_of_names() -> None:
    assert as_names(iter(["a", "b"])) == ["a", "b"]
    with pytest.raises(ValueError, match="'orders' is one name"):
        as_names("orders")
    with pytest.raises(ValueError, match="5 is not a name"):
        as_names(["a", 5])  # type: ignore[list-item]


@pytest.mark.parametrize(("given", "expected"), [(0, 0), (0.0015, 1), (10, 10_000), (float("inf"), 10**12)])
def test_seconds_become_milliseconds(given: float, expected: int) -> None:
    assert milliseconds(given) == expected


@pytest.mark.parametrize("given", [-1, float("nan"), "5", None])
def test_what_is_no_duration_is_named(given: object) -> None:
    with pytest.raises(ValueError, match="must be a number of seconds, 0 or higher"):
        milliseconds(given)  # type: ignore[arg-type]
