"""A query that began with one connector goes on with the other: they agree on what a checkpoint says."""

from pathlib import Path

import pytest

from tests.compat.spark_connector.conftest import MakeTopic
from tests.compat.spark_connector.connectors import Connector
from tests.compat.spark_connector.topics import numbered, produce
from tests.unit.present import present


@pytest.mark.long
def test_a_query_changes_over_to_ours_and_back(
    official: Connector, ours: Connector, servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """No record is read twice and none is left out."""
    topic = make_topic("changes-over", 2)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    read = []
    for turn, connector in enumerate((official, ours, ours, official)):
        produce(servers, topic, numbered(10, 2, start=10 * turn))
        read.append([present(row.value) for row in connector.stream(options, tmp_path).rows])
    assert [sorted(values) for values in read] == [
        sorted(b"value %d" % number for number in range(10 * turn, 10 * turn + 10)) for turn in range(4)
    ]


def test_a_query_that_began_with_ours_changes_over(
    official: Connector, ours: Connector, servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Once it has done its second micro-batch: the first says where it began, which only ours understands."""
    topic = make_topic("begins-with-ours")
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    for turn, connector in enumerate((ours, ours, official)):
        produce(servers, topic, numbered(5, start=5 * turn))
        rows = connector.stream(options, tmp_path).rows
        assert [row.offset for row in rows] == list(range(5 * turn, 5 * turn + 5))
