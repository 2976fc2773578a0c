"""`tidelog retry work`."""

import asyncio
import signal
import sys
import time
from typing import Annotated, Any, Final

import typer

from tidelog.cli._clients import client_settings
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.output import print_json_lines, print_line
from tidelog.client.aio.producer.producer import AsyncProducer
from tidelog.client.aio.producer.settings import ProducerSettings
from tidelog.client.retry.redis_queue import LEASE_S, PREFIX, RedisQueue
from tidelog.client.retry.redis_worker import MAX_BLOCK_MS, end
from tidelog.client.retry.redis_worker import work as move_always

EXAMPLE: Final = "tidelog retry work --redis redis://localhost:6379 --bootstrap-server localhost:9092"


def work(
    redis: Annotated[
        str,
        typer.Option("--redis", help="The Redis server.", metavar="URL", envvar="TIDELOG_REDIS", show_default=False),
    ],
    prefix: Annotated[str, typer.Option(help="What the names of the keys in Redis begin with.")] = PREFIX,
    workers: Annotated[int, typer.Option(help="So many workers in this process.", min=1, max=1000)] = 4,
    lease: Annotated[
        float, typer.Option(help="Seconds after which the claims of a worker that was killed end.", min=0.1)
    ] = LEASE_S,
    drain: Annotated[bool, typer.Option("--drain", help="End when nothing waits.")] = False,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Move records that are due from Redis to their topics, until SIGTERM or Ctrl-C. Many may run at once."""
    settings = client_settings(bootstrap_server, command_config, ProducerSettings)
    asyncio.run(_work(settings, redis, prefix, workers, lease, drain, output))


async def _work(
    settings: dict[str, Any], url: str, prefix: str, workers: int, lease_s: float, drain: bool, output: Format
) -> None:
    queue = RedisQueue(url, prefix=prefix, lease_s=lease_s)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    try:
        waiting, _ = await queue.waiting()
        _tell(output, "started", workers=workers, waiting=waiting)
        async with AsyncProducer[bytes, bytes]({"max.block.ms": MAX_BLOCK_MS, **settings}) as producer:
            stopping = asyncio.Event()
            tasks = [
                asyncio.create_task(
                    move_always(queue, producer, stopping, lambda moved: _tell(output, "moved", records=moved))
                )
                for _ in range(workers)
            ]
            watch = asyncio.create_task(_until_drained(queue, ended) if drain else ended.wait())
            await asyncio.wait([*tasks, watch], return_when=asyncio.FIRST_COMPLETED)
            ended.set()
            await end(tasks, stopping)
            for task in (*tasks, watch):
                if task.done() and not task.cancelled():
                    task.result()
    finally:
        await queue.close()


async def _until_drained(queue: RedisQueue, ended: asyncio.Event) -> bool:
    while (await queue.waiting())[0] and not ended.is_set():  # noqa: ASYNC110 - only Redis knows
        await asyncio.sleep(0.1)
    return True


def _tell(output: Format, event: str, **facts: int) -> None:
    if output is Format.JSON:
        print_json_lines([{"time": round(time.time(), 3), "event": event, **facts}])
    else:
        print_line(f"{event}: " + ", ".join(f"{value:,} {name}" for name, value in facts.items()))
    sys.stdout.flush()
