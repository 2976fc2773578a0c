"""Jars from Maven, fetched once and kept outside the tree: `${XDG_CACHE_HOME:-~/.cache}/tidelog/<name>/libs`.

`apache_kafka` and `spark_connector` each declare what they need. Without Maven and a network the first time, they say
why they cannot run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

Artifact = tuple[str, str, str]
"""Group, name, version."""

PLUGIN: Artifact = ("org.apache.maven.plugins", "maven-dependency-plugin", "3.6.1")
SECONDS_MAX = 600.0


@dataclass(frozen=True, slots=True)
class Jars:
    """A set of jars. `with_dependencies` brings what they depend on, too; otherwise just these are copied."""

    name: str
    title: str
    artifacts: tuple[Artifact, ...]
    with_dependencies: bool

    @property
    def directory(self) -> Path:
        """Where they live."""
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        return Path(base) / "tidelog" / self.name

    @property
    def libs(self) -> Path:
        """The directory of the jars themselves. It gets its name only after the last of them."""
        return self.directory / "libs"

    def are_here(self) -> bool:
        """Whether the cache is complete."""
        return self.libs.is_dir()

    def unavailable_reason(self) -> str | None:
        """Why there are none, or None when they are here. Fetches them the first time."""
        if self.are_here():
            return None
        if shutil.which("mvn") is None:
            return f"mvn is not installed and {self.directory} holds no jars"
        try:
            self._fetch()
        except (OSError, subprocess.SubprocessError) as error:
            return f"Maven could not fetch {self.title}: {_first_error_line(error)}"
        return None

    def _fetch(self) -> None:
        """Let Maven copy the jars beside the cache, then move them in as one step."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.directory) as scratch:
            pom, libs = Path(scratch) / "pom.xml", Path(scratch) / "libs"
            pom.write_text(_pom(self._body(libs)))
            goal = [f"{':'.join(PLUGIN)}:copy"]
            if self.with_dependencies:
                goal = [f"{goal[0]}-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={libs}"]
            command = ["mvn", "-B", "-q", "-f", str(pom), *goal]
            subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS_MAX, check=True
            )
            try:
                libs.rename(self.libs)
            except OSError:
                # Another process was quicker; its jars are the same.
                if not self.are_here():
                    raise

    def _body(self, libs: Path) -> str:
        if self.with_dependencies:
            return f"<dependencies>{_each('dependency', self.artifacts)}</dependencies>"
        return (
            f"<build><plugins><plugin>{_coordinates(PLUGIN)}<configuration>"
            f"<artifactItems>{_each('artifactItem', self.artifacts)}</artifactItems>"
            f"<outputDirectory>{libs}</outputDirectory></configuration></plugin></plugins></build>"
        )


def _pom(body: str) -> str:
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>tidelog</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>"
        f"{body}</project>\n"
    )


def _each(tag: str, artifacts: tuple[Artifact, ...]) -> str:
    return "".join(f"<{tag}>{_coordinates(artifact)}</{tag}>" for artifact in artifacts)


def _coordinates(artifact: Artifact) -> str:
    group, name, version = artifact
    return f"<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"


def _first_error_line(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        lines = [line for line in f"{error.stdout}\n{error.stderr}".splitlines() if "ERROR" in line]
        return lines[0] if lines else f"code {error.returncode}"
    return str(error)
