"""README's Spark snippet, run word for word as a script: it writes what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.cli_support import SOURCE
from tests.integration.spark.sink_checks import REPOSITORY, read_messages
from tests.unit.present import present
from tidelog.client import Producer
from tidelog.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1100)]


@pytest.mark.long
def test_the_spark_snippet_writes_what_it_says(broker: Broker, tmp_path: Path) -> None:
    servers = broker.bootstrap_servers
    for name in ("orders", "paid"):
        broker.create_topic(name, 2)
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(20):
            producer.send("orders", f"{number} {'paid' if number % 2 else 'open'}".encode(), f"k{number % 3}".encode())
        producer.flush()
    blocks = re.findall(r"```python\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.DOTALL)
    (snippet,) = [block for block in blocks if "spark_session" in block]
    script = tmp_path / "snippet.py"
    script.write_text(snippet.replace("127.0.0.1:9092", servers))
    for _ in range(2):  # once, however often it is run
        ran = subprocess.run(
            [sys.executable, str(script)], cwd=tmp_path, env={**os.environ, "PYTHONPATH": SOURCE}, timeout=500,
            capture_output=True, text=True,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr[-3000:]
        assert "Traceback" not in ran.stderr
        written = sorted(present(message.value()).decode() for message in read_messages(servers, "paid"))
        assert written == sorted(f"{number} paid" for number in range(1, 20, 2))
