"""Arrow is imported only where it is used; without it, the error names what to install."""

import sys

import pytest

from tidelog.client.arrow_parts import ArrowMissing, load


def test_without_pyarrow_the_extra_to_install_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for name in [name for name in sys.modules if name.startswith("tidelog.client.arrow.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ArrowMissing, match=r"pip install 'tidelog\[arrow\]'"):
        load("reading")


def test_any_other_missing_module_is_raised_as_it_is():
    with pytest.raises(ModuleNotFoundError, match="nonsense"):
        load("nonsense")
