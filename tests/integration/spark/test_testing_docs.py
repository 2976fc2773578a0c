"""The blocks of docs/testing.md about pipelines work as they stand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.integration.testing_docs import DOCUMENT, FILES, modules

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_the_tests_of_pipelines_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, whose Spark session they use. The golden file is written by one run and compared by the next."""
    for name, code in FILES.items():
        (tmp_path / name).write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    namespace: dict[str, object] = {"__name__": "page"}
    try:
        exec(compile(modules()["Pipelines"], str(DOCUMENT), "exec"), namespace)
        tests = [each for name, each in namespace.items() if name.startswith("test_") and callable(each)]
        assert len(tests) == 2
        with monkeypatch.context() as first:
            first.setenv("TIDELOG_UPDATE_GOLDEN", "1")
            for test in tests:
                test()
        assert (tmp_path / "tests/golden/orders.jsonl").exists()
        for test in tests:
            test()
    finally:
        for name in FILES:
            sys.modules.pop(name.removesuffix(".py"), None)
