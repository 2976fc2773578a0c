"""Logs after a crash that left anything at all in their files: they open, and hold what was written, in order.

A damaged batch ends the log. Only a segment that lost its end between two batches leaves a gap before the next one.
"""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tests.unit.storage._logs import fill, new_log, reopen, values_of
from tidelog.config import LogConfig
from tidelog.storage.dump import dump_file, row_text

CONFIG = LogConfig(index_interval_bytes=100, segment_index_bytes=1200, segment_bytes=700)
BATCHES = 24


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[bytes]]:
    directory = tmp_path_factory.mktemp("crashed")
    log = new_log(directory, CONFIG)
    fill(log, BATCHES // 2, leader_epoch=1)
    log.flush()
    fill(log, BATCHES // 2, leader_epoch=3)
    values = values_of(log)
    log.release()
    return directory, values


@st.composite
def damages(draw: st.DrawFn) -> list[tuple[float, str, float, float, bytes]]:
    """What happens to files: which one, how, where, how much, and bytes for it; as fractions, since sizes differ."""
    fraction = st.floats(0, 1)
    kind = st.sampled_from(["cut", "flip", "zero", "overwrite", "append", "remove"])
    damage = st.tuples(fraction, kind, fraction, fraction, st.binary(min_size=1, max_size=70))
    return draw(st.lists(damage, min_size=1, max_size=4))


def apply(directory: Path, damage: tuple[float, str, float, float, bytes]) -> None:
    which, kind, where, how_much, data = damage
    paths = sorted(directory.iterdir())
    path = paths[min(int(which * len(paths)), len(paths) - 1)]
    content = bytearray(path.read_bytes())
    start = int(where * len(content))
    stop = min(len(content), start + 1 + int(how_much * 200))
    if kind == "remove" and path.suffix != ".log":
        path.unlink()
        return
    if kind == "cut":
        del content[start:]
    elif kind == "flip" and start < len(content):
        content[start] ^= 1 << (data[0] & 7)
    elif kind == "zero":
        content[start:stop] = bytes(stop - start)
    elif kind == "overwrite":
        content[start : start + len(data)] = data
    elif kind == "append":
        content += data
    path.write_bytes(content)


@settings(deadline=None, max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damages(), st.integers(0, 2))
def test_whatever_a_crash_leaves_opens_and_is_what_was_written(
    crashed: tuple[Path, list[bytes]],
    tmp_path: Path,
    done: list[tuple[float, str, float, float, bytes]],
    appended: int,
) -> None:
    source, values = crashed
    work = tmp_path / "work"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(source, work)
    for damage in done:
        apply(work / "topic-0", damage)
    for name in os.listdir(work / "topic-0"):
        assert all(row_text(row) for row in dump_file(str(work / "topic-0" / name), print_data=True))
    log, _ = reopen(work, is_clean=False, config=CONFIG)
    found = values_of(log)
    rest = iter(values)
    assert all(value in rest for value in found), "a subsequence of what was written"
    if all(kind != "cut" for _, kind, *_ in done):
        assert found == values[: len(found)]
    fill(log, appended)
    log.flush()
    log.close()
    again, recovery = reopen(work, is_clean=True, config=CONFIG)
    assert values_of(again)[: len(found)] == found
    assert len(values_of(again)) == len(found) + 2 * appended
    assert recovery.bytes_cut == 0
    again.release()
