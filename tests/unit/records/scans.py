"""The scanners there are: the Python one, which defines the result, and the C one where it was built."""

from collections.abc import Callable

from tidelog.records.scanner import HAS_SPEEDUPS, ScanResult, scan, scan_in_python

Scan = Callable[..., ScanResult]


SCANS: dict[str, Scan] = {"python": scan_in_python}
if HAS_SPEEDUPS:
    SCANS["c"] = scan
