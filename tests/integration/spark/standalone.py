"""A standalone Spark cluster on this machine: a master and workers, started with PySpark's own `spark-class`."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import IO, Self

import psutil
import pyspark

from tidelog.spark.home import quick_home
from tidelog.spark.session import prepare_environment

SPARK_HOME = quick_home() or Path(pyspark.__file__).parent
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
EXECUTOR = "CoarseGrainedExecutorBackend"
START_S = 180.0


class StandaloneCluster:
    """Use as `with StandaloneCluster(directory) as cluster:`; `cluster.url` is its master."""

    def __init__(self, directory: Path, *, workers: int = 2, cores: int = 1, memory: str = "1200m") -> None:
        self._directory = directory
        self._worker_count, self._cores, self._memory = workers, cores, memory
        self._master: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []
        self.url = ""
        self._started = 0

    def __enter__(self) -> Self:
        prepare_environment()
        self._directory.mkdir(parents=True, exist_ok=True)
        try:
            words = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
            self._master = self._start("master", MASTER, *words)
            found = self._await("master", re.compile(r"Starting Spark master at (spark://\S+)"))
            self.url = found[1]
            for _ in range(self._worker_count):
                self.add_worker()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in [*self.workers, self._master]:
            if process is not None:
                kill_family(process.pid)
                process.wait()

    def add_worker(self) -> None:
        """Start a worker and wait until the master has it."""
        self._started += 1
        name = f"worker-{self._started}"
        words = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", str(self._cores), "--memory", self._memory]
        self.workers.append(self._start(name, WORKER, *words, "--work-dir", str(self._directory / name), self.url))
        self._await(name, re.compile(r"Successfully registered with master"))

    def kill_worker(self, number: int) -> None:
        """Kill a worker, as the loss of a machine does: its executors and their Python go with it."""
        process = self.workers.pop(number)
        kill_family(process.pid)
        process.wait()

    def executors(self) -> list[psutil.Process]:
        """The executors' JVMs, of all workers."""
        return [each for worker in self.workers for each in descendants(worker.pid) if _is(each, EXECUTOR)]

    def python_workers(self) -> list[psutil.Process]:
        """The Python processes of all executors."""
        return [each for worker in self.workers for each in descendants(worker.pid) if _is(each, "spark.daemon")]

    def _start(self, name: str, kind: str, *words: str) -> subprocess.Popen[bytes]:
        options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        environment = {
            **os.environ,
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": options,
        }
        with self._log(name) as log:
            return subprocess.Popen(
                [SPARK_HOME / "bin" / "spark-class", kind, *words],
                stdout=log, stderr=log, env=environment, cwd=self._directory, start_new_session=True,
            )  # fmt: skip

    def _log(self, name: str) -> IO[bytes]:
        return (self._directory / f"{name}.log").open("wb")

    def _await(self, name: str, sign: re.Pattern[str]) -> re.Match[str]:
        deadline = time.monotonic() + START_S
        path = self._directory / f"{name}.log"
        while time.monotonic() < deadline:
            found = sign.search(path.read_text(errors="replace"))
            if found is not None:
                return found
            time.sleep(0.05)
        raise AssertionError(f"{name} did not start: {path.read_text(errors='replace')[-2000:]}")


def descendants(pid: int) -> list[psutil.Process]:
    """All processes below one."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def kill_family(pid: int) -> None:
    """Kill a process and all below it."""
    family = descendants(pid)
    for each in [pid, *(each.pid for each in family)]:
        try:
            os.kill(each, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _is(process: psutil.Process, word: str) -> bool:
    try:
        return any(word in part for part in process.cmdline())
    except psutil.Error:
        return False
