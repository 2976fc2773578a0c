"""Workers of Spark's stop looking through modules for garbage; other processes are left as they are."""

import gc
import sys
from types import SimpleNamespace

import pytest

from tidelog.spark import worker


def test_other_processes_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = gc.get_freeze_count()
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=None))
    worker.settle("read")
    assert gc.get_freeze_count() == before
