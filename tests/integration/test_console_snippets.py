"""What is copied from the page of a record runs as it is."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.integration.console_support import console_process
from tidelog.client.producer import Producer
from tidelog.testing import Broker


@pytest.mark.long
def test_the_copied_texts_read_the_record() -> None:
    with Broker() as broker, console_process(broker.bootstrap_servers) as url:
        broker.create_topic("copied", 2)
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(3):
                producer.send("copied", f"value {number}".encode(), b"k", partition=1)
            producer.flush()
        with urlopen(f"{url}/topics/copied/messages/1/1") as response:
            page = html.unescape(response.read().decode())
        texts = re.findall(r'<pre id="snippet-[0-9]"[^>]*>(.*?)</pre>', page, re.DOTALL)
        command, program, curl = texts
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        shell: dict[str, Any] = {
            "shell": True,
            "check": True,
            "capture_output": True,
            "text": True,
            "env": {**os.environ, "PATH": path},
        }
        assert json.loads(subprocess.run(command, **shell).stdout)["offset"] == 1
        assert json.loads(subprocess.run(curl, **shell).stdout)["value"] == "value 1"
        made = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
        assert "value 1" in made.stdout
