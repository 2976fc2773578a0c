"""An object store for tests: moto's S3 server in a process of its own, on a free port, with one bucket.

A thread would not do: `deltalake` waits for answers without letting other threads of Python run.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import Request, urlopen

BUCKET = "lake"
_SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@contextmanager
def object_store() -> Iterator[dict[str, str]]:
    """The settings by which a table reaches the store. It ends with this process at the latest."""
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            settings = {
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{int(process.stdout.readline())}",
                "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": "test",
                "AWS_REGION": "us-east-1",
            }
            _make_bucket(settings)
            yield settings
        finally:
            process.stdin.close()
            process.kill()


def _make_bucket(settings: dict[str, str]) -> None:
    request = Request(f"{settings['AWS_ENDPOINT_URL']}/{BUCKET}", method="PUT")
    urlopen(request, timeout=30).close()
