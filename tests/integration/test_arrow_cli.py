"""`tidelog export` and `tidelog import` against a running broker."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.cli_support import Ran
from tidelog.cli.app import main
from tidelog.client import Producer
from tidelog.client.arrow.schema import SCHEMA
from tidelog.testing import Broker

ROWS = 3_000


@pytest.fixture(scope="module")
def broker():
    with Broker(process=True) as broker:
        yield broker


@pytest.fixture
def tidelog(broker, monkeypatch, capsys):
    """Runs a command in this process, which has imported Arrow already."""
    monkeypatch.setenv("TIDELOG_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*words):
        code = main([str(word) for word in words])
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return run


@pytest.fixture(scope="module")
def filled(broker):
    """A topic of three partitions with keys, nulls, times and headers."""
    broker.create_topic("filled", partitions=3)
    table = pa.table(
        {
            "key": [None if i % 5 == 0 else b"key-%d" % i for i in range(ROWS)],
            "value": [None if i % 7 == 0 else b"value-%d" % i for i in range(ROWS)],
            "partition": [i % 3 for i in range(ROWS)],
            "timestamp": pa.array([1_700_000_000_000 + i for i in range(ROWS)], pa.timestamp("ms", tz="UTC")),
            "headers": pa.array(
                [[{"key": "n", "value": b"%d" % i}] if i % 100 == 0 else None for i in range(ROWS)],
                SCHEMA.field("headers").type,
            ),
        }
    )
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send_arrow(
            table, topic="filled", partition="partition", timestamp="timestamp", headers="headers"
        ).result(20)
    return "filled"


def _sorted(file, *left_out):
    table = pq.read_table(file).sort_by([("partition", "ascending"), ("offset", "ascending")])
    return table.drop_columns(list(left_out)).to_pylist()


def test_a_topic_makes_the_round_trip_through_a_file(tidelog, broker, filled, tmp_path):
    first, second = tmp_path / "first.parquet", tmp_path / "second.parquet"
    summary = tidelog("export", filled, first, "--format", "json").document
    assert (summary["records"], summary["bytes"]) == (ROWS, first.stat().st_size)
    assert summary["partitions"]["2"] == {"start": 0, "end": 1000}
    assert pq.read_schema(first).equals(SCHEMA)
    broker.create_topic("copy", partitions=3)
    summary = tidelog("import", first, "copy", "--keep-partitions", "--compression", "lz4", "--format", "json").document
    assert summary["records"] == ROWS
    assert summary["partitions"] == {str(index): {"first": 0, "last": 999} for index in range(3)}
    assert tidelog("export", "copy", second).code == 0
    assert _sorted(first, "topic") == _sorted(second, "topic")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.parquet", "second.parquet"]


def test_a_range_of_one_partition_is_exported(tidelog, filled, tmp_path):
    file = tmp_path / "part.parquet"
    words = ("--partition", 1, "--offset", 100, "--end-offset", 150, "--column", "value", "--column", "offset")
    ran = tidelog("export", filled, file, *words)
    assert ran.code == 0, ran
    assert "50 records of filled" in ran.err
    table = pq.read_table(file)
    assert table.column_names == ["value", "offset"]
    assert table["offset"].to_pylist() == list(range(100, 150))


def test_progress_is_logged(tidelog, filled, tmp_path):
    ran = tidelog("export", filled, tmp_path / "progress.parquet")
    assert f"export filled: {ROWS:,} of {ROWS:,} after" in ran.err


def test_any_file_can_be_imported_by_naming_its_columns(tidelog, broker, tmp_path):
    file = tmp_path / "people.parquet"
    pq.write_table(pa.table({"name": ["ann", "bob"], "age": [3, 4], "note": ["x", None]}), file)
    broker.create_topic("people", partitions=1)
    assert tidelog("import", file, "people", "--key", "name", "--value", "note").code == 0
    read = tidelog("consume", "people", "--from-beginning", "--until-end", "--format", "json").lines
    assert [(record["key"], record["value"]) for record in read] == [("ann", "x"), ("bob", None)]


def test_what_cannot_be_done_is_said_in_a_line(tidelog, broker, filled, tmp_path):
    file, none = tmp_path / "some.parquet", tmp_path / "none.parquet"
    pq.write_table(pa.table({"age": [3], "partition": [9], "value": ["v"]}), file)
    (tmp_path / "text.parquet").write_text("no parquet at all")
    cases = [
        (("export", filled, file), "already exists"),
        (("export", filled, none, "--column", "vlaue"), "'vlaue'"),
        (("export", filled, none, "--partition", 7), "no partition 7"),
        (("export", filled, none, "--compression", "rar"), "'rar'"),
        (("import", file, filled, "--value", "unknown"), "no column 'unknown'"),
        (("import", file, filled, "--value", "age"), "make it binary or string"),
        (("import", file, filled, "--keep-partitions"), "partition 9 does not exist"),
        (("import", tmp_path / "text.parquet", filled), "text.parquet"),
        (("import", tmp_path / "missing.parquet", filled), "missing.parquet is not a file"),
        (("import", tmp_path, filled), "is not a file"),
    ]
    for words, expected in cases:
        ran = tidelog(*words)
        assert ran.code == 1, ran
        assert expected in ran.err
        assert len(ran.err.splitlines()) == 1, ran.err
    assert not none.exists()


@pytest.mark.parametrize("word", ["export", "import"])
def test_help_ends_with_an_example(tidelog, word):
    said = [line.strip() for line in tidelog(word, "--help").out.splitlines() if line.strip()]
    assert said[0].startswith(f"Usage: tidelog {word} ")
    assert said[-1].startswith(f"Example: tidelog {word} ")
