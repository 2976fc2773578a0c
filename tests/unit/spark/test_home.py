"""Python workers import the installed PySpark, not a zip without bytecode."""

import os
from pathlib import Path

import pyspark
import pytest

from tidelog.spark import home
from tidelog.spark.home import quick_home, quick_workers

PACKAGE = Path(pyspark.__file__).parent


def test_the_package_is_where_spark_has_its_zip(tmp_path: Path) -> None:
    made = quick_home(tmp_path)
    assert made is not None
    archives = made / "python" / "lib"
    assert (archives / "pyspark.zip" / "pyspark").resolve() == PACKAGE.resolve()
    assert [each.name for each in archives.glob("py4j-*")] == [
        each.name for each in (PACKAGE / "python" / "lib").glob("py4j-*")
    ]
    assert (made / "bin" / "spark-submit").is_file()
    assert (made / "jars").resolve() == (PACKAGE / "jars").resolve()


def test_it_is_made_once(tmp_path: Path) -> None:
    first = quick_home(tmp_path)
    assert first is not None
    before = first.stat().st_ino
    assert quick_home(tmp_path) == first
    assert first.stat().st_ino == before
    assert list(tmp_path.iterdir()) == [first]


def test_a_directory_that_cannot_be_written_to_is_done_without(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert quick_home(file / "cache") is None


@pytest.fixture
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(home, "default_cache_dir", lambda: tmp_path)
    return tmp_path


@pytest.mark.parametrize("master", ["local[2]", "spark://host:7077"])
def test_spark_home_is_set_while_java_starts(in_tmp: Path, master: str) -> None:
    with quick_workers(master):
        assert Path(os.environ["SPARK_HOME"]).parent == in_tmp
    assert "SPARK_HOME" not in os.environ


def test_yarn_sends_the_zip_to_other_machines(in_tmp: Path) -> None:
    with quick_workers("yarn"):
        assert "SPARK_HOME" not in os.environ
    assert not list(in_tmp.iterdir())


def test_the_users_spark_home_stays(in_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    with quick_workers("local[2]"):
        assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert not list(in_tmp.iterdir())
