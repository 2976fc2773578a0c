"""`python -m benchmarks console`: what an open console costs the clients of a broker with many topics and groups.

A broker with 500 topics of 10 partitions and 200 groups takes single records, one at a time. In every other turn a
console runs, with a page that is loaded every two seconds; in the others both are suspended. The percentiles of the
latency are compared. On a loaded machine, `chrt -r 1 python -m benchmarks console` keeps other processes from it.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks import frames, load, tidelog_broker
from benchmarks.admin import open_socket
from benchmarks.cases import ACKS_ALL, SMALL_RECORD
from benchmarks.lab import reply_size
from benchmarks.tidelog_broker import TidelogBroker

TOPICS, PARTITIONS, GROUPS = 500, 10, 200
TOPICS_OF_A_GROUP = 5
LOADED = "topic-000"
BROWSER = """
import itertools, sys, time, urllib.error, urllib.request
for path in itertools.cycle(("/", "/topics", "/groups", "/topics/topic-001", "/group?id=group-001", "/checks")):
    try:
        urllib.request.urlopen(sys.argv[1] + path).read()
        open(sys.argv[2], "a").write(".")
    except urllib.error.HTTPError:
        pass  # the console was suspended for longer than its requests may take
    time.sleep(2)
"""


def fill(servers: str) -> None:
    """Make the topics, and the groups with an offset of each partition of some topics."""
    from tidelog.client import Admin, NewTopic, OffsetAndMetadata, TopicPartition

    names = [f"topic-{number:03}" for number in range(TOPICS)]
    with Admin(bootstrap_servers=servers) as admin:
        for start in range(0, TOPICS, 50):
            admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names[start : start + 50]])
        for number in range(GROUPS):
            chosen = [names[(number + each) % TOPICS] for each in range(TOPICS_OF_A_GROUP)]
            places = {TopicPartition(name, each): OffsetAndMetadata(0) for name in chosen for each in range(PARTITIONS)}
            admin.alter_consumer_group_offsets(f"group-{number:03}", places)


@contextmanager
def child(*command: str) -> Iterator[subprocess.Popen[str]]:
    """A process that ends with the block."""
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()


def percentile(latencies_ns: Sequence[int], share: float) -> float:
    """In microseconds."""
    return sorted(latencies_ns)[int(len(latencies_ns) * share)] / 1e3


def compare(rounds: int, seconds: float) -> None:
    """Print the percentiles with and without the console."""
    frame = frames.produce(LOADED, 0, frames.batch([SMALL_RECORD]), ACKS_ALL)
    latencies: dict[bool, list[int]] = {False: [], True: []}
    ratios: list[float] = []
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        broker = stack.enter_context(TidelogBroker(Path(directory)))
        servers = "{}:{}".format(*broker.address)
        fill(servers)
        words = ["console", "--bootstrap-server", servers, "--listen", "127.0.0.1:0"]
        console = stack.enter_context(child(sys.executable, "-m", "tidelog", *words))
        assert console.stdout is not None, "it is a pipe"
        url = console.stdout.readline().split()[3]
        pages = Path(directory, "pages")
        browser = stack.enter_context(child(sys.executable, "-c", BROWSER, url, str(pages)))
        sock = stack.enter_context(open_socket(broker.address))
        reply_bytes = reply_size(sock, frame)
        time.sleep(15)  # each page has been loaded once, and two rounds of samples have been taken
        for number in range(rounds):
            p99 = {}
            for is_open in (False, True) if number % 2 else (True, False):
                for process in (console, browser):
                    process.send_signal(signal.SIGCONT if is_open else signal.SIGSTOP)
                found = load.one_at_a_time(sock, [frame], reply_bytes, seconds).latencies_ns
                latencies[is_open] += found
                p99[is_open] = percentile(found, 0.99)
            ratios.append(p99[True] / p99[False])
        assert browser.poll() is None, "the browser ended"
        print(f"{pages.stat().st_size} pages were loaded")
    for share in (0.5, 0.99, 0.999):
        off, on = (percentile(latencies[each], share) for each in (False, True))
        print(f"p{share * 100:g}: {off:,.0f} µs without a console, {on:,.0f} with one: ratio {on / off:.2f}")
    low, median, high = statistics.quantiles(ratios, n=4)
    print(f"p99 of pairs of turns: median ratio {median:.2f}, half of {rounds} between {low:.2f} and {high:.2f}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks console", description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args(arguments)
    tidelog_broker.use_source_tree()
    compare(options.rounds, options.seconds)
    return 0
