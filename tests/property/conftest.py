"""No test in this folder opens a socket or starts a process."""

from tests.seclusion import pytest_runtest_makereport, pytest_runtest_protocol

__all__ = ["pytest_runtest_makereport", "pytest_runtest_protocol"]
