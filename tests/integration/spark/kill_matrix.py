"""Kills on a standalone Spark cluster, at every step of a batch and at random, under pipelines that run all the while.

    python -m tests.integration.spark.kill_matrix --kills 100 --seed 7

`tidelog pipeline run` runs three pipelines (`kill_pipelines`) on a master and two workers. A producer writes numbered
events and payments. Each kill chooses a victim and a step; the pipelines must go on before the next one. In the end a
client that is not ours reads every topic: every record is there once and in order, every aggregate is right.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Message, Producer

from tests.integration.cli_support import SOURCE
from tests.integration.spark.sink_checks import REPOSITORY, read_messages
from tests.integration.spark.standalone import StandaloneCluster, descendants, kill_family
from tests.unit.present import present
from tidelog.client import Admin
from tidelog.testing import Broker

PIPELINES = Path(__file__).with_name("kill_pipelines.py")
NAMES = ("counts", "joined", "copied")
GROUPS = 8
PARTITIONS = 3
RATE_PER_S = 40
STEP_S = 20.0
RECOVERY_S = 600.0

VICTIMS = ("python worker", "executor", "worker", "driver jvm", "driver", "broker", "source reader")
STEPS = ("planned", "writing", "committed", "done", "random")


class Feed:
    """Writes numbered events, and a payment for each, until it is stopped."""

    def __init__(self, servers: str) -> None:
        settings = {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5}
        self._producer = Producer({**settings, "delivery.timeout.ms": 300_000})
        self._stop = threading.Event()
        self.sent = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(1 / RATE_PER_S):
            number, self.sent = self.sent, self.sent + 1
            group = f"g{number % GROUPS}"
            event = {"id": number, "group": group, "amount": number % 17}
            self._producer.produce("events", json.dumps(event), group)
            self._producer.produce("payments", json.dumps({"id": number, "paid": number % 13}), str(number))
            self._producer.poll(0)

    def end(self) -> int:
        """Stop, and return how many events there are."""
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(300) == 0, "every record of the input is acknowledged"
        return self.sent


class Pipelines:
    """The process of `tidelog pipeline run`."""

    def __init__(self, servers: str, master: str, directory: Path) -> None:
        self._servers, self._master, self._directory = servers, master, directory
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def start(self) -> None:
        """Start it, perhaps once more."""
        self.starts += 1
        environment = {
            **os.environ,
            "PYTHONPATH": f"{SOURCE}:{REPOSITORY}",
            "TIDELOG_BOOTSTRAP_SERVERS": self._servers,
            "TIDELOG_CHECKPOINTS": str(self._directory / "checkpoints"),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        settings = {
            "spark.executor.memory": "900m",
            "spark.executor.cores": "1",
            "spark.sql.shuffle.partitions": "2",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.executorEnv.PYTHONPATH": f"{SOURCE}:{REPOSITORY}",
            "spark.deploy.maxExecutorRetries": "-1",
            # On a busy machine a Python worker takes longer to start than Spark waits for it.
            "spark.python.authenticate.socketTimeout": "60s",
        }
        conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        files = [f"{PIPELINES}:{name}" for name in NAMES]
        words = ["pipeline", "run", *files, "--master", self._master, "--restarts", "-1", "--no-ui", "--format", "json"]
        with (self._directory / "events.json").open("ab") as out, (self._directory / "errors.txt").open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tidelog", *words, *conf],
                stdout=out, stderr=errors, env=environment, cwd=self._directory, start_new_session=True,
            )  # fmt: skip

    def kill(self) -> None:
        """`kill -9` of driver and JVM."""
        assert self.process is not None
        kill_family(self.process.pid)
        self.process.wait()

    def keep_running(self) -> None:
        """As a service manager would: start it again if it has ended."""
        assert self.process is not None
        if self.process.poll() is not None:
            self.start()

    def below(self, word: str) -> list[psutil.Process]:
        assert self.process is not None
        found = []
        for each in descendants(self.process.pid):
            with suppress(psutil.Error):
                if any(word in part for part in each.cmdline()):
                    found.append(each)
        return found

    def end(self) -> None:
        """Stop it between two batches."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.kill()


class Matrix:
    """One run."""

    def __init__(self, directory: Path, seed: int, say: Callable[[str], None] = print) -> None:
        self._directory, self._seed, self._say = directory, seed, say
        self._random = random.Random(seed)
        self.killed: Counter[tuple[str, str]] = Counter()

    def run(self, kills: int, deadline_s: float = 1e9, victims: tuple[str, ...] = VICTIMS) -> dict[str, Any]:
        """All of it; raises AssertionError with what is wrong."""
        began = time.monotonic()
        pairs = [(victim, step) for victim in victims for step in STEPS]
        self._random.shuffle(pairs)
        with ExitStack() as stack:
            self.broker = stack.enter_context(Broker(process=True))
            for name in ("events", "payments", "counts", "joined", "copy.left", "copy.right"):
                self.broker.create_topic(name, PARTITIONS)
            self.cluster = stack.enter_context(StandaloneCluster(self._directory / "cluster"))
            servers = self.broker.bootstrap_servers
            self.pipelines = Pipelines(servers, self.cluster.url, self._directory)
            self.pipelines.start()
            stack.callback(lambda: kill_family(present(self.pipelines.process).pid))
            feed = Feed(servers)
            self._await_progress("the start", of_all=True)
            for number in range(kills):
                if time.monotonic() - began > deadline_s:
                    break
                victim, step = pairs[number % len(pairs)]
                self._await_step(step)
                name = self._kill(victim)
                self.killed[victim, step] += 1
                self._await_progress(f"kill {number + 1} of {name} at {step}")
                self._say(
                    f"{time.monotonic() - began:6.0f} s  kill {number + 1}: {name} at {step}; "
                    f"{self.pipelines.starts} starts, batches {self._batches()}"
                )
            sent = feed.end()
            self._await_all(sent)
            self.pipelines.end()
            verdict = judge(servers, sent)
        self._say(f"{self.killed.total()} kills, seed {self._seed}: {self._kinds()}: {verdict}")
        return verdict

    def _kinds(self) -> str:
        counts: Counter[str] = Counter()
        for (victim, _), count in self.killed.items():
            counts[victim] += count
        return ", ".join(f"{count} {victim}" for victim, count in sorted(counts.items()))

    def _batches(self) -> dict[str, int]:
        """The last completed batch of each query, from its checkpoint."""
        found = {}
        for commits in (self._directory / "checkpoints").glob("**/commits"):
            numbers = [int(each.name) for each in commits.iterdir() if each.name.isdigit()]
            found[str(commits.parent.relative_to(self._directory / "checkpoints"))] = max(numbers, default=-1)
        return found

    def _planned(self) -> int:
        offsets = (self._directory / "checkpoints").glob("**/offsets/[0-9]*")
        return sum(1 for _ in offsets)

    def _await_progress(self, what: str, *, of_all: bool = False) -> None:
        """Until a query, or every one, has completed a batch. In the end all of them must have completed all."""
        before = self._batches()
        deadline = time.monotonic() + RECOVERY_S
        while True:
            self.pipelines.keep_running()
            now = self._batches()
            moved = [name for name, number in now.items() if number > before.get(name, -1)]
            if len(moved) >= (len(NAMES) if of_all else 1):
                return
            if time.monotonic() > deadline:
                tail = (self._directory / "events.json").read_text()[-3000:]
                raise AssertionError(f"after {what}, no batch for {RECOVERY_S} s: {before} -> {now}\n{tail}")
            time.sleep(0.1)

    def _await_step(self, step: str) -> None:
        """Until some batch is at this step, or for a while: a step may be too short to be seen."""
        deadline = time.monotonic() + STEP_S
        if step == "random":
            time.sleep(self._random.uniform(0, 2))
        elif step in ("planned", "done"):
            look: Callable[[], object] = self._planned if step == "planned" else self._batches
            before = look()
            while look() == before and time.monotonic() < deadline:
                time.sleep(0.002)
        else:
            states = {"writing": ("Ongoing",), "committed": ("PrepareCommit", "CompleteCommit")}[step]
            with Admin(bootstrap_servers=self.broker.bootstrap_servers) as admin:
                before_ids = self._listed(admin, states)
                while time.monotonic() < deadline:
                    if self._listed(admin, states) - before_ids:
                        break
                    before_ids &= self._listed(admin, states)

    @staticmethod
    def _listed(admin: Admin, states: tuple[str, ...]) -> set[str]:
        return {each.transactional_id for each in admin.list_transactions(states=states)}

    def _kill(self, victim: str) -> str:
        if victim == "driver":
            self.pipelines.kill()
        elif victim == "broker":
            self.broker.kill()
            self.broker.start()
        elif victim == "worker":
            self.cluster.kill_worker(self._random.randrange(len(self.cluster.workers)))
            self.cluster.add_worker()
        else:
            found = {
                "python worker": self.cluster.python_workers,
                "executor": self.cluster.executors,
                "driver jvm": lambda: self.pipelines.below("org.apache.spark.deploy.SparkSubmit"),
                "source reader": lambda: self.pipelines.below("python_streaming_source_runner"),
            }[victim]()
            if not found:
                return f"{victim} (none there)"
            process = self._random.choice(found)
            with suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)
            return f"{victim} {process.pid}"
        return victim

    def _await_all(self, sent: int) -> None:
        """Until the outputs have as many rows as there must be; the verdict looks at what they are."""
        deadline = time.monotonic() + RECOVERY_S
        servers = self.broker.bootstrap_servers
        while True:
            self.pipelines.keep_running()
            counts = {name: len(read_messages(servers, name)) for name in ("joined", "copy.left", "copy.right")}
            counted = sum(value["count"] for value in _last(read_messages(servers, "counts")).values())
            if min(*counts.values(), counted) >= sent:
                return
            assert time.monotonic() < deadline, f"{sent} events were sent, and there are {counts}, {counted} counted"
            time.sleep(1)


def judge(servers: str, sent: int) -> dict[str, Any]:
    """Compare outputs with the input, as a reader of committed records sees both."""
    events = [_event(message) for message in read_messages(servers, "events")]
    assert Counter(event["id"] for event in events) == Counter(range(sent)), "the input itself"
    for name in ("copy.left", "copy.right"):
        copies = [_event(message) for message in read_messages(servers, name)]
        _assert_once(name, [copy["id"] for copy in copies], sent)
        _assert_ordered(name, [(copy["group"], copy["id"]) for copy in copies])
    joined = [_event(message) for message in read_messages(servers, "joined")]
    _assert_once("joined", [row["id"] for row in joined], sent)
    assert all(row["paid"] == row["id"] % 13 for row in joined), "each event has its own payment"

    totals = read_messages(servers, "counts")
    _assert_ordered("counts", [(_event(each)["group"], _event(each)["count"]) for each in totals])
    truth: dict[str, dict[str, Any]] = {}
    for event in events:
        group = truth.setdefault(event["group"], {"group": event["group"], "count": 0, "total": 0})
        group["count"] += 1
        group["total"] += event["amount"]
    assert _last(totals) == truth, "the last aggregate of each group"
    return {"events": sent, "joined": len(joined), "aggregates": len(totals), "wrong": 0}


def _event(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(present(message.value()))
    return found


def _last(messages: list[Message]) -> dict[str, dict[str, Any]]:
    return {present(message.key()).decode(): _event(message) for message in messages}


def _assert_once(name: str, ids: list[int], sent: int) -> None:
    counts = Counter(ids)
    missing = [number for number in range(sent) if number not in counts]
    doubled = [number for number, count in counts.items() if count > 1]
    assert not missing, f"{name}: {len(missing)} missing, such as {missing[:5]}"
    assert not doubled, f"{name}: {len(doubled)} more than once, such as {doubled[:5]}"


def _assert_ordered(name: str, pairs: list[tuple[str, int]]) -> None:
    last: dict[str, int] = {}
    for group, number in pairs:
        assert number > last.get(group, -1), f"{name}: {number} after {last[group]} in {group}"
        last[group] = number


def main() -> None:
    """Run by hand."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--minutes", type=float, default=1e6, help="stop killing after this time")
    parser.add_argument("--keep", type=Path, help="a directory for checkpoints and logs, which are left there")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        directory = arguments.keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelog-kills-"))
        print(f"seed {arguments.seed}, in {directory}", flush=True)
        Matrix(Path(directory), arguments.seed, lambda text: print(text, flush=True)).run(
            arguments.kills, arguments.minutes * 60
        )


if __name__ == "__main__":
    main()
