"""The file of a spool keeps what it returned from, whatever is cut off or lost after that."""

import os
from pathlib import Path

import pytest

from tidelog.client.errors import IllegalState
from tidelog.client.spool.file import Spooled, SpoolFile, SpoolFull


def record(value: str, key: bytes | None = None, partition: int | None = None) -> Spooled:
    return Spooled("topic", partition, key, value.encode(), (("name", b"h"), ("name", None)), 1_700_000_000_000)


def opened(home: Path, **settings: int) -> SpoolFile:
    return SpoolFile(home, bytes_max=settings.get("bytes_max", 1 << 20), fsync=False)


def values(file: SpoolFile, limit: int = 100) -> list[bytes | None]:
    return [each.value for _, each in file.first(limit)]


def test_records_come_back_as_they_were_after_a_restart(tmp_path: Path) -> None:
    file = opened(tmp_path)
    kept = [record("a", b"k"), record("b", partition=3), record("c")]
    for each in kept:
        file.append(each)
    file.close()
    assert [each for _, each in opened(tmp_path).first(10)] == kept


def test_of_each_key_only_the_first_may_be_sent(tmp_path: Path) -> None:
    file = opened(tmp_path)
    for value, key in (("a1", b"a"), ("a2", b"a"), ("b1", b"b"), ("x", None), ("y", None)):
        file.append(record(value, key))
    assert values(file) == [b"a1", b"b1", b"x", b"y"]
    file.acknowledge([0])
    assert values(file) == [b"a2", b"b1", b"x", b"y"]
    assert file.holds(("topic", None, b"b"))
    assert not file.holds(("topic", None, b"c"))


def test_what_is_acknowledged_is_gone_after_a_restart_up_to_the_first_that_is_not(tmp_path: Path) -> None:
    file = opened(tmp_path)
    for value in "abcd":
        file.append(record(value))
    file.acknowledge([0, 2])
    assert len(file) == 2
    file.close()
    again = opened(tmp_path)
    assert values(again) == [b"b", b"c", b"d"], "one more time is allowed, one time less is not"
    assert again.append(record("e")) == 4


def test_an_empty_spool_has_an_empty_file_and_goes_on_counting(tmp_path: Path) -> None:
    file = opened(tmp_path)
    file.append(record("a"))
    file.acknowledge([0])
    assert file.size_bytes == 0
    file.close()
    again = opened(tmp_path)
    assert len(again) == 0
    assert again.append(record("b")) == 1
    again.close()
    assert values(opened(tmp_path)) == [b"b"]


@pytest.mark.parametrize("left", [1, 30, -1])
def test_half_a_record_at_the_end_is_cut_off(tmp_path: Path, left: int) -> None:
    file = opened(tmp_path)
    file.append(record("a"))
    whole = file.size_bytes
    file.append(record("b"))
    both = file.size_bytes
    file.close()
    os.truncate(tmp_path / "records.log", whole + left if left > 0 else both + left)
    again = opened(tmp_path)
    assert values(again) == [b"a"]
    again.append(record("c"))
    again.close()
    assert values(opened(tmp_path)) == [b"a", b"c"]


def test_a_record_whose_bytes_changed_ends_the_log(tmp_path: Path) -> None:
    file = opened(tmp_path)
    file.append(record("a"))
    whole = file.size_bytes
    file.append(record("b"))
    file.close()
    data = bytearray((tmp_path / "records.log").read_bytes())
    data[whole + 70] ^= 1
    (tmp_path / "records.log").write_bytes(data)
    assert values(opened(tmp_path)) == [b"a"]


def test_the_front_is_dropped_once_it_is_half_of_a_large_log(tmp_path: Path) -> None:
    file = opened(tmp_path, bytes_max=8 << 20)
    for _ in range(3):
        file.append(record("x" * 700_000))
    file.append(record("last"))
    before = file.size_bytes
    file.acknowledge([0, 1])
    assert file.size_bytes < before // 2
    file.acknowledge([2])
    file.close()
    assert values(opened(tmp_path)) == [b"last"]


def test_a_full_spool_says_what_to_raise(tmp_path: Path) -> None:
    file = opened(tmp_path, bytes_max=200)
    file.append(record("a"))
    with pytest.raises(SpoolFull, match="bytes_max=200"):
        file.append(record("b"))
    assert values(file) == [b"a"]


def test_two_of_one_directory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(*_: object) -> None:
        raise BlockingIOError

    monkeypatch.setattr("fcntl.lockf", locked)  # locks are between processes
    with pytest.raises(IllegalState, match="another process"):
        opened(tmp_path)
