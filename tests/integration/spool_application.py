"""`python -m tests.integration.spool_application SERVERS TOPIC DIRECTORY COUNT`: sends numbers under one key.

Prints each number once `send` has returned, and whether it was stored or kept. Then waits to be killed.
"""

import sys
import threading

from tidelog.client import ProducerSpool


def main() -> None:
    servers, topic, directory, count = sys.argv[1:]
    with ProducerSpool(
        directory, bootstrap_servers=servers, delivery_timeout_ms=300, request_timeout_ms=200, max_block_ms=300
    ) as spool:
        for number in range(int(count)):
            stored = spool.send(topic, str(number).encode(), key=b"key")
            print(number, "kept" if stored is None else "stored", flush=True)
        threading.Event().wait()


main()
