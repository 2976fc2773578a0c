"""What Arrow costs those who do not use it: nothing; and what it tells those who lack it."""

import subprocess
import sys

import pytest

from tidelog.client import arrow
from tidelog.client.arrow import ArrowMissing, load


def test_the_clients_import_nothing_numeric_by_themselves():
    code = (
        "import sys, tidelog.client.producer, tidelog.client.consumer, tidelog.cli.export, tidelog.cli.import_\n"
        "print(sorted({'numpy', 'numba', 'pyarrow'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": _source()})
    assert ran.stdout == "[]\n", ran.stderr


def _source():
    return arrow.__file__.partition("/tidelog/client/")[0]


def test_without_pyarrow_the_extra_to_install_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for name in [name for name in sys.modules if name.startswith("tidelog.client.arrow.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ArrowMissing, match=r"pip install 'tidelog\[arrow\]'"):
        load("reading")


def test_any_other_missing_module_is_told_as_it_is():
    with pytest.raises(ModuleNotFoundError, match="nonsense"):
        load("nonsense")
