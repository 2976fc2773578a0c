"""`python -m tests.integration.retry_application SERVERS TOPIC GROUP STORE FILE`: fails on each record's first attempt.

Appends the value of each record that it handles to FILE, and ends with SIGTERM.
"""

import asyncio
import os
import sys

from tidelog.client import AsyncRetryingConsumer, ConsumerRecord, RetryPolicy, current_attempt


def main() -> None:
    servers, topic, group, store, path = sys.argv[1:]
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def handle(record: ConsumerRecord[bytes, bytes]) -> None:
        await asyncio.sleep(0.001)
        if current_attempt() == 1:
            raise OSError("the first attempt")
        os.write(file, (record.value or b"") + b"\n")

    consumer = AsyncRetryingConsumer(
        topic,
        handle,
        RetryPolicy(["200ms"], store=store),
        bootstrap_servers=servers,
        group_id=group,
        # The same member comes back: no session has to end first.
        group_instance_id=f"{group}-1",
        concurrency=16,
    )
    asyncio.run(consumer.run(stop_on_signals=True))


if __name__ == "__main__":
    main()
