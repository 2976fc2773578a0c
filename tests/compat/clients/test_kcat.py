"""kcat, where it is installed: the command line that people reach for first."""

import json
import shutil
import subprocess

import pytest

from tests.unit.present import present

KCAT = shutil.which("kcat") or shutil.which("kafkacat")

pytestmark = pytest.mark.skipif(KCAT is None, reason="kcat is not installed")


def kcat(servers: str, *arguments: str, text: str = "") -> str:
    command = [present(KCAT), "-b", servers, *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=30, check=True).stdout


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_come_back(codec: str, servers: str, topic: str) -> None:
    kcat(servers, "-P", "-t", topic, "-p", "0", "-K", ":", "-z", codec, text="a:1\nb:2\n")
    assert kcat(servers, "-C", "-t", topic, "-p", "0", "-e", "-q", "-K", ":") == "a:1\nb:2\n"


def test_metadata_is_listed(servers: str, topic: str) -> None:
    listed = json.loads(kcat(servers, "-L", "-J"))
    assert topic in {entry["topic"] for entry in listed["topics"]}


def test_an_offset_is_found_by_time(servers: str, topic: str) -> None:
    kcat(servers, "-P", "-t", topic, "-p", "0", text="1\n")
    assert "offset 0" in kcat(servers, "-Q", "-t", f"{topic}:0:0")
