"""Where Kafka cannot run, the reason is said and nothing is started."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import apache_kafka


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """The answer is kept for the life of a process; each test asks again."""
    apache_kafka.unavailable_reason.cache_clear()
    yield
    apache_kafka.unavailable_reason.cache_clear()


def programs(directory: Path, **scripts: str) -> str:
    """A PATH with these programs and no others."""
    for name, script in scripts.items():
        program = directory / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    return str(directory)


def test_without_java_there_is_no_kafka(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", programs(tmp_path))
    assert apache_kafka.unavailable_reason() == "java is not installed"


def test_without_maven_the_jars_must_be_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", programs(tmp_path, java="exit 0"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    reason = apache_kafka.unavailable_reason()
    assert reason is not None
    assert "mvn is not installed" in reason


def test_what_maven_says_is_passed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", programs(tmp_path, java="exit 0", mvn="echo '[ERROR] no route to host'; exit 1"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert apache_kafka.unavailable_reason() == "Maven could not fetch Kafka 3.9.1: [ERROR] no route to host"
    assert not apache_kafka.JARS.are_here(), "a failed fetch leaves no half-filled cache"


def test_cached_jars_need_no_maven(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", programs(tmp_path, java="exit 0"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    apache_kafka.JARS.libs.mkdir(parents=True)
    assert apache_kafka.unavailable_reason() is None
