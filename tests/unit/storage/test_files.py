"""Log files, their descriptors, and slices on their way to a socket."""

import errno
import os
import resource
from pathlib import Path
from unittest.mock import Mock

import pytest

from tidelog.storage import _files, _pools, replacing
from tidelog.storage._files import FileSlice, LogFile
from tidelog.storage.errors import OutOfDescriptorsError
from tidelog.wire.errors import ErrorCode


@pytest.fixture
def file(tmp_path: Path) -> LogFile:
    path = tmp_path / "0.log"
    path.write_bytes(b"")
    return LogFile(str(path))


def test_buffers_are_written_one_after_the_other(file: LogFile) -> None:
    file.write([b"abc", bytearray(b"de"), memoryview(b"f")], 0)
    file.write([b"XY"], 6)
    assert Path(file.path).read_bytes() == b"abcdefXY"


def test_more_buffers_than_one_call_takes(file: LogFile) -> None:
    buffers = [b"%04d" % number for number in range(3000)]
    file.write(buffers, 0)
    assert Path(file.path).read_bytes() == b"".join(buffers)


@pytest.mark.parametrize("step", [1, 3, 7])
def test_a_short_write_is_continued(file: LogFile, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may take fewer bytes than it was given; what is left must follow at the right place."""
    whole_pwrite = os.pwrite

    def short_pwrite(fd: int, data: bytes, position: int) -> int:
        return whole_pwrite(fd, bytes(data)[:step], position)

    def short_pwritev(fd: int, buffers: list[bytes], position: int) -> int:
        return whole_pwrite(fd, b"".join(buffers)[: step * 2], position)

    monkeypatch.setattr(os, "pwrite", short_pwrite)
    monkeypatch.setattr(os, "pwritev", short_pwritev)
    file.write([b"hello ", b"wide ", b"world"], 0)
    file.write([b"!!!!"], 16)
    assert Path(file.path).read_bytes() == b"hello wide world!!!!"


def test_a_slice_outlives_its_file(file: LogFile) -> None:
    file.write([b"0123456789"], 0)
    piece = FileSlice(file.open(), 2, 5)
    file.release()
    os.unlink(file.path)
    assert piece.read() == b"23456"
    assert len(piece) == 5


def test_the_descriptor_closes_with_the_last_reference(file: LogFile) -> None:
    piece = FileSlice(file.open(), 0, 0)
    fd = piece.fd
    file.release()
    os.fstat(fd)
    del piece
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_only_so_many_files_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is in use keeps its descriptor; of the idle ones the oldest gives it up."""
    pool = _pools.Pool(share=0.0, fewest=4)
    monkeypatch.setattr(_files, "DESCRIPTORS", pool)
    files = []
    for number in range(10):
        path = tmp_path / f"{number}.log"
        path.write_bytes(b"%d" % number)
        files.append(LogFile(str(path)))
    for used in files:
        used.open()
        files[0].open()
        assert len(pool) <= 4
    assert files[0].handle is not None
    assert files[1].handle is None
    assert [used.read(0, 1) for used in files] == [b"%d" % number for number in range(10)]


def test_a_released_file_leaves_the_pool(file: LogFile) -> None:
    before = len(_pools.DESCRIPTORS)
    file.open()
    file.open()
    assert len(_pools.DESCRIPTORS) == before + 1
    file.release()
    file.release()
    assert len(_pools.DESCRIPTORS) == before


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    replacing.write_atomically(str(path), b"one")
    replacing.write_atomically(str(path), b"two")
    assert path.read_bytes() == b"two"
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint"]


def test_syncing_what_is_gone_is_no_error(tmp_path: Path) -> None:
    replacing.sync_path(str(tmp_path / "gone"))
    assert not replacing.unlink_if_exists(str(tmp_path / "gone"))


def test_running_out_of_descriptors_closes_idle_files_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ten files open and no descriptor left, an eleventh opens: it is no reason to give up a directory."""
    pool = _pools.Pool(share=0.5, fewest=100)
    monkeypatch.setattr(_files, "DESCRIPTORS", pool)
    monkeypatch.setattr(_pools, "DESCRIPTORS", pool)
    monkeypatch.setattr(_pools, "MAPPINGS", _pools.Pool(share=0.5, fewest=100))
    files = []
    for number in range(11):
        path = tmp_path / f"{number}.log"
        path.write_bytes(b"%d" % number)
        files.append(LogFile(str(path)))
    for used in files[:10]:
        used.open()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    probe = os.open(tmp_path, os.O_RDONLY)
    os.close(probe)
    resource.setrlimit(resource.RLIMIT_NOFILE, (probe, hard))
    try:
        assert files[10].read(0, 2) == b"10"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert any(used.handle is None for used in files[:10])
    assert [used.read(0, 2) for used in files] == [b"%d" % number for number in range(11)]


def test_no_descriptor_at_all_is_an_error_that_clients_retry_and_no_failed_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails on 4724f6e, where the OSError took the log directory offline."""
    path = tmp_path / "0.log"
    path.write_bytes(b"data")
    exhausted = OSError(errno.EMFILE, "Too many open files")
    monkeypatch.setattr(os, "open", Mock(side_effect=exhausted))
    with pytest.raises(OutOfDescriptorsError, match=r"ulimit -n") as refused:
        LogFile(str(path)).read(0, 4)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert not isinstance(refused.value, OSError)
