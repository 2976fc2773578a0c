"""A cleaned segment takes the place of others: a crash at any step leaves either the old ones or the new one."""

import os
import shutil
from pathlib import Path

import pytest

from tests.unit.storage.cleaner.support import (
    NOW_MS,
    Kept,
    append,
    append_marker,
    clean_log,
    compact,
    fetched,
    files_in,
    make_log,
    plain,
    plan,
    records_of,
    reopen,
    run,
)
from tidelog.storage.cleaner.jobs import GroupCleaned
from tidelog.storage.cleaner.swap import (
    StaleGroupError,
    open_cleaned,
    remove_cleaned,
    replace_segments,
    sources_of,
)
from tidelog.storage.errors import LogDirFailure
from tidelog.storage.log import Log


class Crash(BaseException):
    """The process ends here: nothing after it happens."""


def _dirty_log(tmp_path: Path) -> Log:
    """Four segments with overwritten keys, a producer with snapshots and an aborted transaction."""
    log = make_log(tmp_path)
    for number in range(4):
        append(log, (b"k", b"%d" % number), (b"%d" % number, b"v"), producer_id=3, sequence=2 * number)
        append(log, (b"k", b"aborted"), producer_id=7, sequence=number, is_transactional=True)
        append_marker(log, 7, is_commit=False)
        log.roll(NOW_MS)
    append(log, (b"active", b"v"))
    return log


def _swap_all(log: Log) -> None:
    known = list(log.segments)
    for group in run(plan(log), plain()):
        if isinstance(group, GroupCleaned):
            replace_segments(log, open_cleaned(log, group, NOW_MS), sources_of(log, group, known))


def _steps(tmp_path: Path) -> int:
    """How many times a swap renames a file."""
    counted = 0

    def rename(source: str, target: str) -> None:
        nonlocal counted
        counted += 1
        original(source, target)

    original = os.rename
    os.rename = rename  # type: ignore[assignment]
    try:
        _swap_all(_dirty_log(tmp_path))
    finally:
        os.rename = original
    return counted


@pytest.mark.parametrize("is_flushed", [False, True])
def test_a_crash_at_any_rename_leaves_a_log_that_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_flushed: bool
) -> None:
    """Every state that a kill can leave on disk is opened again; nothing but what cleaning removes is missing.

    A log that had been flushed is not read again when it is opened: its files are believed, all but missing indexes.
    """
    (tmp_path / "counted").mkdir()
    steps = _steps(tmp_path / "counted")
    assert steps > 20
    expected = latest_committed(_dirty_log(_made(tmp_path / "expected")))
    outcomes = set()
    for step in range(steps + 1):
        log = _dirty_log(_made(tmp_path / f"crash-{step}"))
        if is_flushed:
            log.flush()
        before = {record for record in records_of(log) if record.value != b"aborted"}
        _crash_at(log, step, monkeypatch)
        reopened = reopen(log, is_clean=False)
        assert latest_committed(reopened) == expected, f"after {step} renames"
        kept = {record for record in records_of(reopened) if record.value != b"aborted"}
        assert kept <= before
        assert reopened.log_end_offset == log.log_end_offset
        assert reopened.producer_state.producers[3].last_sequence == 7
        assert fetched(reopened)[-1] == Kept(16, b"active", b"v")
        assert not [name for name in files_in(reopened) if name.endswith((".swap", ".cleaned", ".deleted"))]
        aborted = {entry.first_offset for entry in reopened.aborted_transactions(0, 17)}
        assert {record.offset for record in records_of(reopened) if record.value == b"aborted"} <= aborted
        outcomes.add(len(kept))
        compact(reopened)
        assert len({record for record in records_of(reopened) if record.key == b"k"}) == 1
    assert len(outcomes) == 2, "either the old segments or the new one"


def latest_committed(log: Log) -> dict[bytes | None, bytes | None]:
    """What a read-committed consumer ends with."""
    state = {record.key: record.value for record in records_of(log) if record.value != b"aborted"}
    return dict(state)


def _made(path: Path) -> Path:
    path.mkdir()
    return path


def _crash_at(log: Log, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    left = step
    original = os.rename

    def rename(source: str, target: str) -> None:
        nonlocal left
        if left == 0:
            raise Crash
        left -= 1
        original(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", rename)
        try:
            _swap_all(log)
        except Crash:
            pass
        else:
            assert left == 0


def test_a_crash_while_the_worker_writes_changes_nothing(tmp_path: Path) -> None:
    log = _dirty_log(tmp_path)
    before = records_of(log)
    run(plan(log), plain())
    cleaned = files_in(log, ".cleaned")
    assert len(cleaned) == 4, "log, both indexes and the transaction index"
    os.truncate(os.path.join(log.directory, cleaned[1]), 30)
    reopened = reopen(log, is_clean=False)
    assert records_of(reopened) == before
    assert files_in(reopened, ".cleaned") == []


def test_a_later_group_that_is_being_written_does_not_undo_an_earlier_swap(tmp_path: Path) -> None:
    log = _dirty_log(tmp_path)
    expected = latest_committed(log)
    known = list(log.segments)
    first, second, *_ = run(plan(log)._replace(segment_bytes=1), plain())
    assert isinstance(first, GroupCleaned)
    assert isinstance(second, GroupCleaned)
    cleaned = open_cleaned(log, first, NOW_MS)
    cleaned.change_suffix(".swap")
    known[0].change_suffix(".deleted")
    reopened = reopen(log, is_clean=False)
    assert latest_committed(reopened) == expected


def test_readers_keep_what_they_were_given(tmp_path: Path) -> None:
    """A fetch that is being sent reads the old file, whatever becomes of its name."""
    log = make_log(tmp_path)
    append(log, (b"k", b"old"))
    append(log, (b"k", b"new"))
    log.roll(NOW_MS)
    read = log.read(0, 1000, 2, True)
    assert read.slice is not None
    before = read.slice.read()
    clean_log(log)
    assert read.slice.read() == before
    assert b"old" in before
    assert [record.value for record in fetched(log)] == [b"new"]


def test_the_producer_snapshot_at_the_base_of_the_new_segment_stays(tmp_path: Path) -> None:
    log = _dirty_log(tmp_path)
    compact(log)
    append(log, (b"k", b"5"))
    log.roll(NOW_MS)
    bases = [segment.base_offset for segment in log.segments]
    assert log.producer_state.snapshot_offsets() == [base for base in bases if base]


def test_a_group_whose_segments_changed_is_refused(tmp_path: Path) -> None:
    log = _dirty_log(tmp_path)
    known = list(log.segments)
    group, *_ = run(plan(log), plain())
    assert isinstance(group, GroupCleaned)
    log.truncate_to(9, NOW_MS)
    with pytest.raises(StaleGroupError, match="have changed"):
        sources_of(log, group, known)


def test_a_group_that_reaches_into_the_active_segment_is_refused(tmp_path: Path) -> None:
    log = _dirty_log(tmp_path)
    bases = tuple(segment.base_offset for segment in log.segments)
    with pytest.raises(StaleGroupError):
        sources_of(log, GroupCleaned(bases, 1, 1), list(log.segments))


def test_a_file_that_the_worker_did_not_write_is_refused(tmp_path: Path) -> None:
    """An orphan of a killed broker may have made one of the same name."""
    log = _dirty_log(tmp_path)
    group, *_ = run(plan(log), plain())
    assert isinstance(group, GroupCleaned)
    path = os.path.join(log.directory, files_in(log, ".log.cleaned")[0])
    shutil.copy(path, path + ".copy")
    os.replace(path + ".copy", path)
    with pytest.raises(StaleGroupError, match="not the file"):
        open_cleaned(log, group, NOW_MS)
    os.unlink(path)
    with pytest.raises(StaleGroupError, match="does not exist"):
        open_cleaned(log, group, NOW_MS)


def test_a_name_that_cannot_be_changed_takes_the_directory_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = _dirty_log(tmp_path)
    known = list(log.segments)
    group, *_ = run(plan(log), plain())
    assert isinstance(group, GroupCleaned)
    cleaned = open_cleaned(log, group, NOW_MS)

    def refuse(_source: str, _target: str) -> None:
        raise OSError(5, "input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refuse)
        with pytest.raises(LogDirFailure):
            replace_segments(log, cleaned, sources_of(log, group, known))
    with pytest.raises(LogDirFailure):
        log.write_staged()


def test_leftovers_of_a_worker_are_removed_and_nothing_else(tmp_path: Path) -> None:
    log = _dirty_log(tmp_path)
    before = files_in(log)
    run(plan(log), plain())
    remove_cleaned(log.directory)
    assert files_in(log) == before
    remove_cleaned(str(tmp_path / "gone"))


def test_a_topic_that_is_no_longer_compacted_keeps_its_gaps_after_a_crash(tmp_path: Path) -> None:
    """In other logs a gap between segments means that the end of one was lost."""
    log = make_log(tmp_path)
    append(log, (b"k", b"1"))
    append(log, (b"l", b"1"))
    log.roll(NOW_MS)
    append(log, (b"l", b"2"))
    log.roll(NOW_MS)
    append(log, (b"m", b"1"))
    known = list(log.segments)
    *groups, done = run(plan(log)._replace(segment_bytes=1), plain())
    for group in groups:
        assert isinstance(group, GroupCleaned)
        replace_segments(log, open_cleaned(log, group, NOW_MS), sources_of(log, group, known))
    log.positions.mark_clean(3)
    log.update_config(make_log(_made(tmp_path / "other"), cleanup_policy=("delete",)).config)
    assert [record.offset for record in records_of(reopen(log, is_clean=False))] == [0, 2, 3]
    assert done
