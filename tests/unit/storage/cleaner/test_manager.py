"""The cleaner on the broker's side: what it takes up, and what happens when a log changes under a job."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.storage.cleaner.support import (
    NOW_MS,
    InlineWorker,
    append,
    compact,
    files_in,
    latest,
    make_log,
    records_of,
)
from tidelog.storage.checkpoints import CLEANER_OFFSET_FILE, OffsetCheckpointFile
from tidelog.storage.cleaner.jobs import GroupCleaned, JobFailed, Progress
from tidelog.storage.cleaner.manager import CleanerConfig, LogCleaner
from tidelog.storage.cleaner.requests import RequestState
from tidelog.storage.directories.background import Done, run_inline
from tidelog.storage.directories.manager import LogManager, LogManagerConfig
from tidelog.storage.errors import LogDirFailure
from tidelog.storage.log import Log
from tidelog.timing import ManualClock, Scheduler, Timer

BACKOFF_MS = 15_000


class FakeLogs:
    """Logs by partition."""

    def __init__(self) -> None:
        self.logs: dict[tuple[str, int], Log] = {}
        self.checkpoints: list[dict[tuple[str, int], int]] = []

    def all_logs(self) -> list[Log]:
        return list(self.logs.values())

    def get_log(self, topic: str, partition: int) -> Log | None:
        return self.logs.get((topic, partition))

    def checkpoint_clean_points(self) -> None:
        self.checkpoints.append({key: log.positions.clean_point for key, log in self.logs.items()})


class Bench:
    """A cleaner whose clock and workers the test turns by hand."""

    def __init__(self, tmp_path: Path, **settings: Any) -> None:
        self.tmp_path = tmp_path
        self.clock = ManualClock(NOW_MS)
        self.timer = Timer(start_ms=0)
        self.logs = FakeLogs()
        self.workers: list[InlineWorker] = []
        self.failures: list[LogDirFailure] = []
        self.held: list[tuple[Callable[[], object], Done]] = []
        self.holds_background = False
        self.config = CleanerConfig(**{"backoff_ms": BACKOFF_MS, **settings})
        self.cleaner = LogCleaner(
            self.config,
            self.logs,
            self.clock,
            Scheduler(self.timer, self.clock),
            self._new_worker,
            background=self._background,
            on_failure=self.failures.append,
        )

    def _new_worker(self) -> InlineWorker:
        self.workers.append(InlineWorker())
        return self.workers[-1]

    def _background(self, work: Callable[[], object], done: Done) -> None:
        if self.holds_background:
            self.held.append((work, done))
        else:
            run_inline(work, done)

    def release_background(self) -> None:
        self.holds_background = False
        held, self.held = self.held, []
        for work, done in held:
            run_inline(work, done)

    def add(self, name: str = "topic", *, batches: int = 4, **settings: Any) -> Log:
        directory = self.tmp_path / name
        directory.mkdir()
        log = make_log(directory, **settings)
        log.topic = name
        self.logs.logs[name, 0] = log
        self.dirty(log, batches)
        return log

    def dirty(self, log: Log, batches: int = 4) -> None:
        """Overwrite one key, a segment for every two batches."""
        for number in range(batches):
            append(log, (b"k", b"%d" % number), timestamp=self.clock.wall_ms())
            if number % 2:
                log.roll(self.clock.wall_ms())

    def pass_time(self, by_ms: int) -> None:
        self.clock.advance(by_ms)
        self.timer.advance(self.clock.monotonic_ms())

    @property
    def worker(self) -> InlineWorker:
        (worker,) = self.workers
        return worker


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_dirty_log_is_cleaned_and_its_clean_point_kept(bench: Bench) -> None:
    log = bench.add()
    bench.cleaner.start()
    bench.pass_time(1)
    assert log.is_being_cleaned
    bench.worker.finish()
    assert latest(log) == {b"k": b"3"}
    assert len(records_of(log)) == 1
    assert log.positions.clean_point == 4
    assert not log.is_being_cleaned
    assert bench.logs.checkpoints[-1] == {("topic", 0): 4}
    assert bench.cleaner.metrics.values(0)["cleaner-recopy-percent"] == 25
    assert log.recovery_point == 4, "what was cleaned is on disk and need not be read after a crash"


def test_logs_of_other_policies_and_clean_ones_are_left_alone(bench: Bench) -> None:
    bench.add("deleted", cleanup_policy=("delete",))
    bench.add("clean", batches=0)
    compact(bench.add("cleaned"))
    bench.cleaner.look()
    assert bench.workers == []


def test_the_dirtiest_log_is_first(bench: Bench) -> None:
    half = bench.add("half", min_cleanable_dirty_ratio=0.1)
    for number in range(10):
        append(half, (b"%d" % number, b"v"))
    compact(half)
    bench.dirty(half)
    bench.add("whole")
    bench.cleaner.look()
    assert [job.name for job in bench.worker.jobs] == ["whole-0"]
    bench.worker.finish()
    assert [job.name for job in bench.worker.jobs] == ["whole-0", "half-0"], "no rest while there is work"
    assert bench.cleaner.metrics.values(0)["max-dirty-percent"] in range(20, 80)


def test_several_threads_clean_several_logs(tmp_path: Path) -> None:
    bench = Bench(tmp_path, threads=2, dedupe_buffer_bytes=1000, buffer_bytes=10_000, bytes_per_second_max=2e9)
    for name in ("a", "b", "c"):
        bench.add(name)
    bench.cleaner.look()
    assert [len(worker.jobs) for worker in bench.workers] == [1, 1]
    job = bench.workers[0].jobs[0]
    assert (job.map_bytes, job.buffer_bytes, job.bytes_per_second_max) == (500, 5000, 1e9)
    bench.workers[1].finish()
    assert [len(worker.jobs) for worker in bench.workers] == [1, 2]


def test_with_nothing_to_do_it_rests_for_the_backoff(bench: Bench) -> None:
    log = bench.add(batches=0)
    bench.cleaner.start()
    bench.pass_time(1)
    bench.dirty(log)
    bench.pass_time(BACKOFF_MS - 1000)
    assert bench.workers == []
    bench.pass_time(1001)
    assert bench.worker.is_busy


def test_a_lag_shorter_than_the_backoff_is_kept(bench: Bench) -> None:
    """`max.compaction.lag.ms` is a promise about records; the rest of an idle cleaner must not break it."""
    log = bench.add(batches=0, max_compaction_lag_ms=100, min_cleanable_dirty_ratio=1.0)
    bench.cleaner.start()
    bench.pass_time(1)
    bench.dirty(log)
    bench.pass_time(1000)
    assert bench.worker.is_busy


def test_a_disabled_cleaner_never_looks(tmp_path: Path) -> None:
    bench = Bench(tmp_path, is_enabled=False)
    bench.add()
    bench.cleaner.start()
    bench.pass_time(10 * BACKOFF_MS)
    assert bench.workers == []


def test_no_threads_is_no_cleaning(tmp_path: Path) -> None:
    bench = Bench(tmp_path, threads=0)
    log = bench.add()
    bench.cleaner.look()
    assert bench.workers == []
    with pytest.raises(RuntimeError, match=r"log\.cleaner\.threads"):
        bench.cleaner.request(log)


def test_changed_settings_count_from_the_next_job_on(bench: Bench) -> None:
    bench.add("a")
    bench.add("b")
    bench.cleaner.look()
    bench.cleaner.update_config(bench.config._replace(dedupe_buffer_bytes=777, is_enabled=False))
    bench.worker.finish()
    assert [job.map_bytes for job in bench.worker.jobs] == [bench.config.dedupe_buffer_bytes, 777]


def test_progress_can_be_asked_for(bench: Bench) -> None:
    bench.add()
    assert bench.cleaner.progress_of(("topic", 0)) is None
    bench.cleaner.look()
    before = bench.cleaner.progress_of(("topic", 0))
    assert before is not None
    assert before.bytes_done == 0
    assert before.bytes_total > 0
    bench.worker.say(Progress(5, 10))
    assert bench.cleaner.progress_of(("topic", 0)) == Progress(5, 10)


# --- logs that change under a job ---


def test_a_truncation_ends_the_job(bench: Bench) -> None:
    log = bench.add()
    bench.cleaner.look()
    log.truncate_to(1, NOW_MS)
    before = records_of(log)
    bench.worker.step()
    assert bench.worker.abandoned == 1
    assert not log.is_being_cleaned
    assert records_of(log) == before
    assert files_in(log, ".cleaned") == []
    assert log.positions.clean_point == -1


def test_a_log_truncated_while_its_names_reach_the_disk_is_not_clean(bench: Bench) -> None:
    log = bench.add()
    bench.cleaner.look()
    bench.holds_background = True
    bench.worker.finish()
    log.truncate_to(1, NOW_MS)
    append(log, (b"k", b"new"))
    bench.release_background()
    assert log.positions.clean_point == -1
    assert not log.is_being_cleaned


def test_a_deletion_ends_the_job(bench: Bench) -> None:
    log = bench.add()
    bench.cleaner.look()
    del bench.logs.logs["topic", 0]
    log.rename_for_delete()
    bench.worker.step()
    assert bench.worker.abandoned == 1
    assert bench.failures == []


def test_a_failed_directory_ends_its_jobs_at_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path, threads=2)
    gone, there = bench.add("gone"), bench.add("there")
    bench.cleaner.look()
    bench.cleaner.abort_in(gone.parent_directory)
    assert not gone.is_being_cleaned
    assert there.is_being_cleaned
    assert sorted(worker.abandoned for worker in bench.workers) == [0, 1]


def test_a_log_about_to_change_is_let_go_of(bench: Bench) -> None:
    log = bench.add()
    bench.cleaner.abort(log)
    bench.cleaner.look()
    bench.cleaner.abort(log)
    assert not log.is_being_cleaned
    assert bench.worker.abandoned == 1


def test_a_log_is_not_taken_up_again_before_its_leftovers_are_gone(bench: Bench) -> None:
    log = bench.add()
    bench.cleaner.look()
    bench.holds_background = True
    bench.cleaner.abort(log)
    bench.cleaner.look()
    assert len(bench.worker.jobs) == 1
    bench.release_background()
    bench.pass_time(BACKOFF_MS)
    bench.cleaner.look()
    assert len(bench.worker.jobs) == 2


def test_groups_that_were_swapped_in_stay_when_the_job_ends_early(bench: Bench) -> None:
    log = bench.add(segment_bytes=200)
    bench.cleaner.look()
    assert isinstance(bench.worker.step(), GroupCleaned)
    bench.worker.die()
    assert latest(log) == {b"k": b"3"}
    assert log.positions.clean_point == -1, "the whole job has to be done again"


def test_old_files_are_deleted_only_after_their_names_are_on_disk(bench: Bench) -> None:
    log = bench.add()
    bench.cleaner.look()
    bench.holds_background = True
    bench.worker.step()
    assert files_in(log, ".deleted"), "renamed, and there"
    bench.release_background()
    assert files_in(log, ".deleted") == []


def test_retention_waits_for_the_cleaner_and_is_then_applied_by_it(bench: Bench) -> None:
    log = bench.add(cleanup_policy=("compact", "delete"), retention_ms=1000, min_cleanable_dirty_ratio=1.0)
    bench.cleaner.look()
    assert bench.workers == [], "not dirty enough"
    bench.pass_time(BACKOFF_MS + 1)
    bench.cleaner.look()
    assert [segment.base_offset for segment in log.segments] == [4]
    assert log.log_start_offset == 4


def test_stopping_lets_go_of_everything(bench: Bench) -> None:
    log = bench.add()
    bench.cleaner.look()
    bench.cleaner.stop()
    assert bench.worker.is_closed
    assert not log.is_being_cleaned
    assert files_in(log, ".cleaned") == []
    bench.cleaner.look()
    assert len(bench.worker.jobs) == 1


# --- failures ---


@pytest.mark.parametrize("kind", ["corrupt", "bug"])
def test_a_log_that_cannot_be_cleaned_is_said_counted_and_skipped(
    bench: Bench, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    log = bench.add()
    bench.cleaner.look()
    bench.worker.say(JobFailed(kind, "the batch at offset 3 does not match its checksum"))
    assert "the batch at offset 3" in caplog.text
    assert bench.cleaner.uncleanable == {("topic", 0): "the batch at offset 3 does not match its checksum"}
    values = bench.cleaner.metrics.values(0)
    assert values["uncleanable-partitions-count"] == 1
    assert values["uncleanable-bytes"] == log.size_bytes
    bench.pass_time(10 * BACKOFF_MS)
    bench.cleaner.look()
    assert len(bench.worker.jobs) == 1


def test_an_uncleanable_partition_is_forgotten_with_its_log(bench: Bench) -> None:
    bench.add()
    bench.cleaner.look()
    bench.worker.say(JobFailed("corrupt", "why"))
    del bench.logs.logs["topic", 0]
    bench.pass_time(BACKOFF_MS)
    bench.cleaner.look()
    assert bench.cleaner.uncleanable == {}
    assert bench.cleaner.metrics.values(0)["uncleanable-partitions-count"] == 0


def test_a_corrupt_segment_makes_its_partition_uncleanable(bench: Bench) -> None:
    log = bench.add()
    path = Path(log.segments[0].log_file.path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    before = [segment.base_offset for segment in log.segments]
    bench.cleaner.look()
    bench.worker.finish()
    assert "does not match its checksum" in bench.cleaner.uncleanable["topic", 0]
    assert [segment.base_offset for segment in log.segments] == before
    assert bench.failures == []


def test_a_disk_that_refuses_takes_the_directory_offline(bench: Bench) -> None:
    log = bench.add()
    bench.cleaner.look()
    bench.worker.say(JobFailed("io", "input/output error", errno.EIO))
    assert [failure.directory for failure in bench.failures] == [log.parent_directory]


def test_a_full_disk_costs_the_cleaning_and_not_the_directory(bench: Bench) -> None:
    log = bench.add()
    bench.cleaner.look()
    bench.worker.say(JobFailed("io", "no space left on device", errno.ENOSPC))
    assert bench.failures == []
    assert bench.cleaner.uncleanable == {}
    bench.cleaner.look()
    assert len(bench.worker.jobs) == 1, "not at once"
    bench.pass_time(BACKOFF_MS)
    bench.cleaner.look()
    bench.worker.finish()
    assert len(records_of(log)) == 1


def test_a_worker_that_dies_is_replaced_and_a_log_that_kills_three_is_left_alone(bench: Bench) -> None:
    bench.add()
    for deaths in range(1, 4):
        bench.cleaner.look()
        bench.worker.die("killed by signal 9")
        assert bench.cleaner.metrics.values(0)["DeadThreadCount"] == deaths
        bench.pass_time(BACKOFF_MS)
    bench.cleaner.look()
    assert len(bench.worker.jobs) == 3
    assert bench.cleaner.uncleanable == {("topic", 0): "killed by signal 9"}


def test_one_success_forgives_the_deaths_before_it(bench: Bench) -> None:
    log = bench.add()
    for _ in range(2):
        bench.cleaner.look()
        bench.worker.die()
        bench.pass_time(BACKOFF_MS)
    bench.cleaner.look()
    bench.worker.finish()
    for _ in range(2):
        bench.dirty(log)
        bench.pass_time(BACKOFF_MS)
        bench.cleaner.look()
        bench.worker.die()
    assert bench.cleaner.uncleanable == {}


def test_a_directory_that_cannot_be_synced_is_offline(bench: Bench) -> None:
    log = bench.add()
    bench.cleaner.look()
    bench.holds_background = True
    bench.worker.step()
    (_, done), *_ = bench.held
    done(OSError(errno.EIO, "input/output error"))
    assert [failure.directory for failure in bench.failures] == [log.parent_directory]


# --- on request ---


def test_a_request_cleans_the_active_segment_too_whatever_its_share(bench: Bench) -> None:
    log = bench.add(min_cleanable_dirty_ratio=1.0, batches=0)
    append(log, (b"k", b"1"))
    append(log, (b"k", b"2"))
    size = log.size_bytes
    bench.cleaner.request(log)
    request = bench.cleaner.requests.get(("topic", 0))
    assert request is not None
    assert request.state is RequestState.CLEANING
    bench.worker.finish()
    request = bench.cleaner.requests.get(("topic", 0))
    assert request is not None
    assert (request.state, request.bytes_before, request.bytes_after) == (RequestState.DONE, size, log.size_bytes)
    assert len(records_of(log)) == 1


def test_a_request_drops_tombstones_whose_time_has_come_in_a_clean_log(bench: Bench) -> None:
    log = bench.add(batches=0, delete_retention_ms=10)
    append(log, (b"k", None), (b"l", b"1"))
    compact(log, bench.clock.wall_ms())
    assert len(records_of(log)) == 2
    bench.pass_time(10)
    bench.cleaner.request(log)
    bench.worker.finish()
    assert [record.key for record in records_of(log)] == [b"l"]
    assert log.positions.clean_point == 2


def test_a_request_for_an_empty_log_is_done_at_once(bench: Bench) -> None:
    log = bench.add(batches=0)
    bench.cleaner.request(log)
    request = bench.cleaner.requests.get(("topic", 0))
    assert request is not None
    assert request.state is RequestState.DONE
    assert bench.workers == []


def test_a_request_that_comes_during_a_cleaning_waits_for_its_own(bench: Bench) -> None:
    log = bench.add()
    bench.cleaner.look()
    append(log, (b"k", b"later"))
    bench.cleaner.request(log)
    bench.worker.finish()
    request = bench.cleaner.requests.get(("topic", 0))
    assert request is not None
    assert request.state is RequestState.CLEANING
    assert len(bench.worker.jobs) == 2
    bench.worker.finish()
    assert latest(log) == {b"k": b"later"}


def test_a_request_goes_on_until_everything_is_clean(bench: Bench) -> None:
    """However small the map is."""
    log = bench.add(batches=0)
    for number in range(60):
        append(log, (b"%d" % (number // 2), b"%d" % number))
    bench.cleaner.update_config(bench.config._replace(dedupe_buffer_bytes=3000))
    bench.cleaner.request(log)
    for _ in range(20):
        bench.worker.finish()
    assert len(bench.worker.jobs) > 2
    assert [record.value for record in records_of(log)] == [b"%d" % number for number in range(1, 60, 2)]


def test_a_request_gives_an_uncleanable_partition_another_chance(bench: Bench) -> None:
    log = bench.add()
    bench.cleaner.look()
    bench.worker.say(JobFailed("corrupt", "why"))
    bench.cleaner.request(log)
    bench.worker.finish()
    assert bench.cleaner.uncleanable == {}
    assert len(records_of(log)) == 1


def test_a_failed_request_says_why(bench: Bench) -> None:
    log = bench.add()
    bench.cleaner.request(log)
    bench.worker.say(JobFailed("corrupt", "the reason"))
    request = bench.cleaner.requests.get(("topic", 0))
    assert request is not None
    assert (request.state, request.message) == (RequestState.FAILED, "the reason")


# --- with a real log manager ---


def test_clean_points_are_kept_over_restarts_and_go_with_their_partition(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    config = make_log(tmp_path).config

    def manager() -> LogManager:
        managed = LogManager(LogManagerConfig((str(tmp_path / "data"),)), clock, Scheduler(Timer(start_ms=0), clock))
        managed.open_directories()
        managed.load(lambda _topic: config)
        return managed

    logs = manager()
    for topic in ("kept", "deleted", "never"):
        log = logs.get_or_create_log(topic, 0, None, config)
        append(log, (b"k", b"1"))
        append(log, (b"k", b"2"))
        if topic != "never":
            compact(log)
    logs.checkpoint_clean_points()
    file = OffsetCheckpointFile(str(tmp_path / "data"), CLEANER_OFFSET_FILE)
    assert file.read() == {("kept", 0): 2, ("deleted", 0): 2}
    logs.delete_log("deleted", 0)
    logs.forget_deleted("deleted")()
    assert file.read() == {("kept", 0): 2}
    logs.close()

    logs = manager()
    assert {log.topic: log.positions.clean_point for log in logs.all_logs()} == {"kept": 2, "never": -1}
    logs.close()


def test_a_clean_point_file_that_cannot_be_read_means_cleaning_from_the_start(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    data = tmp_path / "data"
    data.mkdir()
    (data / CLEANER_OFFSET_FILE).write_text("nonsense")
    logs = LogManager(LogManagerConfig((str(data),)), clock, Scheduler(Timer(start_ms=0), clock))
    logs.open_directories()
    log = logs.get_or_create_log("t", 0, None, make_log(tmp_path).config)
    logs.close()
    logs = LogManager(LogManagerConfig((str(data),)), clock, Scheduler(Timer(start_ms=0), clock))
    logs.open_directories()
    (data / CLEANER_OFFSET_FILE).write_text("nonsense")
    logs.load(lambda _topic: log.config)
    loaded = logs.get_log("t", 0)
    assert loaded is not None
    assert loaded.positions.clean_point == -1
    logs.close()


def test_an_event_after_the_end_changes_nothing(bench: Bench) -> None:
    log = bench.add()
    bench.cleaner.look()
    bench.holds_background = True
    bench.worker.finish()
    bench.cleaner.abort(log)
    bench.release_background()
    assert log.positions.clean_point == -1
    assert bench.cleaner.metrics.cleanings == 0
