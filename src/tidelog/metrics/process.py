"""The figures of this process and of Python, under the names that Prometheus' clients use for them."""

from __future__ import annotations

import gc
import os
import platform
import resource
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from tidelog.metrics.families import Family, Kind, labels_text

_PAGE_BYTES: Final = resource.getpagesize()
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


def process_families() -> Iterator[Family]:
    """Processor time, memory, descriptors, threads, garbage collections. What a system does not say is left out."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    yield Family(
        "process_cpu_seconds",
        Kind.COUNTER,
        "User and system processor time.",
        [("_total", "", usage.ru_utime + usage.ru_stime)],
    )
    for name, documentation, value in (
        ("process_max_fds", "Descriptors that may be open.", resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        ("process_threads", "Threads.", threading.active_count()),
    ):
        yield Family(name, Kind.GAUGE, documentation, [("", "", value)])
    with suppress(OSError, ValueError, IndexError):
        yield from _of_proc()
    yield from _of_python()


def _of_proc() -> Iterator[Family]:
    """What Linux says in /proc."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    with open("/proc/stat", "rb") as file:
        boot_seconds = next(int(line.split()[1]) for line in file if line.startswith(b"btime"))
    for name, documentation, value in (
        ("process_virtual_memory_bytes", "Virtual memory.", int(fields[20])),
        ("process_resident_memory_bytes", "Resident memory.", int(fields[21]) * _PAGE_BYTES),
        ("process_start_time_seconds", "When it was started.", boot_seconds + int(fields[19]) / _TICKS_PER_SECOND),
        ("process_open_fds", "Open descriptors.", len(os.listdir("/proc/self/fd")) - 1),
    ):
        yield Family(name, Kind.GAUGE, documentation, [("", "", value)])


def _of_python() -> Iterator[Family]:
    stats = gc.get_stats()
    for name, field, documentation in (
        ("python_gc_collections", "collections", "Garbage collections."),
        ("python_gc_objects_collected", "collected", "Objects collected."),
        ("python_gc_objects_uncollectable", "uncollectable", "Objects that cannot be collected."),
    ):
        samples = [("_total", f'generation="{number}"', stat[field]) for number, stat in enumerate(stats)]
        yield Family(name, Kind.COUNTER, documentation, samples)
    names = ("implementation", "version")
    values = (platform.python_implementation(), platform.python_version())
    yield Family("python", Kind.INFO, "This Python.", [("_info", labels_text(names, values), 1)])
