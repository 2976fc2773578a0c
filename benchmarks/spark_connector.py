"""The Kafka connector that Apache Spark ships for the JVM: its jars.

They come from Maven once and stay in `${XDG_CACHE_HOME:-~/.cache}/tidelog/spark-kafka-4.2.0`, beside Apache Kafka's.
The benchmarks measure it beside our connector; `tests/compat/spark_connector` lets it read and write our broker. Both
ask `unavailable_reason()` first. Version 4.2.0 runs on Spark 4.3; of its helper for tokens any version does, because
nobody here asks for tokens.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

VERSION = "4.2.0"
ARTIFACTS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", VERSION),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "3.5.1"),
    ("org.apache.kafka", "kafka-clients", "3.9.1"),
    ("org.apache.commons", "commons-pool2", "2.12.1"),
)
MAVEN_PLUGIN = ("org.apache.maven.plugins", "maven-dependency-plugin", "3.6.1")
MAVEN_SECONDS_MAX = 300.0


def cache_directory() -> Path:
    """Where the jars live."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "tidelog" / f"spark-kafka-{VERSION}"


@cache
def unavailable_reason() -> str | None:
    """Why the connector cannot run here, or None when it can. Fetches the jars the first time."""
    from tidelog.spark.java import JavaMissing, find_java_home

    try:
        find_java_home()
    except JavaMissing as missing:
        return str(missing)
    if jars_are_here():
        return None
    if shutil.which("mvn") is None:
        return f"mvn is not installed and {cache_directory()} holds no jars"
    try:
        _fetch_jars()
    except (OSError, subprocess.SubprocessError) as error:
        return f"Maven could not fetch Spark's Kafka connector {VERSION}: {_last_error_line(error)}"
    return None


def jars_are_here() -> bool:
    """Whether the cache is complete: its directory gets its name only after the last jar."""
    return (cache_directory() / "libs").is_dir()


def spark_jars() -> str:
    """The value of `spark.jars` that brings the format `kafka` into a session."""
    return ",".join(str(jar) for jar in sorted((cache_directory() / "libs").glob("*.jar")))


def _fetch_jars() -> None:
    """Let Maven copy the jars beside the cache, then move them in as one step."""
    target = cache_directory()
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target) as scratch:
        pom = Path(scratch) / "pom.xml"
        libs = Path(scratch) / "libs"
        pom.write_text(_pom(libs))
        command = ["mvn", "-B", "-q", "-f", str(pom), f"{':'.join(MAVEN_PLUGIN)}:copy"]
        subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=MAVEN_SECONDS_MAX, check=True
        )
        try:
            libs.rename(target / "libs")
        except OSError:
            # Another process was quicker; its jars are the same.
            if not jars_are_here():
                raise


def _pom(libs: Path) -> str:
    """A project that copies just these jars: what they depend on is in Spark already, or of no use here."""
    items = "".join(f"<artifactItem>{_coordinates(artifact)}</artifactItem>" for artifact in ARTIFACTS)
    plugin = (
        f"<plugin>{_coordinates(MAVEN_PLUGIN)}<configuration><artifactItems>{items}</artifactItems>"
        f"<outputDirectory>{libs}</outputDirectory></configuration></plugin>"
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>tidelog</groupId><artifactId>spark-jars</artifactId><version>1</version><packaging>pom</packaging>"
        f"<build><plugins>{plugin}</plugins></build></project>\n"
    )


def _coordinates(artifact: tuple[str, str, str]) -> str:
    group, name, version = artifact
    return f"<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"


def _last_error_line(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        lines = [line for line in f"{error.stdout}\n{error.stderr}".splitlines() if "ERROR" in line]
        return lines[0] if lines else f"code {error.returncode}"
    return str(error)
