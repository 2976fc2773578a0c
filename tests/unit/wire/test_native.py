"""C modules are optional: whatever is wrong with one, the Python functions are used."""

import sys
from types import ModuleType

import pytest

from tidelog.wire.native import load_speedups

NAME = "tidelog_test_speedups"


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module as the build leaves it."""
    module = ModuleType(NAME)
    module.VERSION = 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, NAME, module)
    monkeypatch.delenv("TIDELOG_SPEEDUPS", raising=False)
    return module


def test_a_module_that_was_built_is_used(built: ModuleType) -> None:
    assert load_speedups(NAME, 3) is built


@pytest.mark.usefixtures("built")
def test_a_module_of_older_sources_is_not_used() -> None:
    assert load_speedups(NAME, 4) is None


def test_a_module_that_was_not_built_is_done_without() -> None:
    assert load_speedups("tidelog.wire._none_of_that_name", 1) is None


@pytest.mark.usefixtures("built")
def test_the_environment_switches_modules_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELOG_SPEEDUPS", "off")
    assert load_speedups(NAME, 3) is None
