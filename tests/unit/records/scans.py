"""The scanners there are: the Python one, which defines the result, and the C one where it was built."""

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module

from tidelog.records.scanner import ScanResult, scan_in_python

Scan = Callable[..., ScanResult]


def _scans() -> dict[str, Scan]:
    scans: dict[str, Scan] = {"python": scan_in_python}
    with suppress(ImportError):
        scans["c"] = import_module("tidelog.records._speedups").scan
    return scans


SCANS = _scans()
