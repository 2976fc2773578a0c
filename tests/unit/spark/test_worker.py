"""Workers of Spark's stop looking through modules for garbage; other processes are left as they are."""

import gc
import sys
import traceback
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tidelog.spark import worker


def test_other_processes_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = gc.get_freeze_count()
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=None))
    worker.settle("read")
    assert gc.get_freeze_count() == before


@pytest.mark.parametrize(
    ("error", "is_shown"), [(BrokenPipeError, False), (ConnectionResetError, False), (OSError, True)]
)
def test_pysparks_own_daemon_shows_every_error_but_a_connection_that_spark_closed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: type[OSError], is_shown: bool
) -> None:
    main: Any = ModuleType("__main__")
    main.__spec__ = SimpleNamespace(name="pyspark.daemon")
    main.traceback = traceback
    monkeypatch.setitem(sys.modules, "__main__", main)
    worker.print_no_lost_connections()
    try:
        raise error
    except OSError:
        main.traceback.print_exc()
    assert ("Traceback" in capsys.readouterr().err) == is_shown


def test_other_programs_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    main: Any = ModuleType("__main__")
    main.traceback = traceback
    monkeypatch.setitem(sys.modules, "__main__", main)
    worker.print_no_lost_connections()
    assert main.traceback is traceback
