"""`tidelog retry work`."""

import asyncio
import signal
import sys
import time
from collections.abc import Collection
from contextlib import AsyncExitStack
from typing import Annotated, Any, Final, NamedTuple

import typer

from tidelog.cli._clients import client_settings
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json_lines, print_line
from tidelog.client.aio.admin.admin import AdminSettings, AsyncAdmin
from tidelog.client.aio.consumer.consumer import AsyncConsumer
from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.aio.producer.producer import AsyncProducer
from tidelog.client.aio.producer.settings import ProducerSettings
from tidelog.client.aio.settings import CommonSettings
from tidelog.client.retry.policy import DELAYS, RetryPolicy
from tidelog.client.retry.redis_queue import LEASE_S, PREFIX, RedisQueue
from tidelog.client.retry.redis_worker import MAX_BLOCK_MS, end
from tidelog.client.retry.redis_worker import work as move_always
from tidelog.client.retry.service import CONSUMER_SETTINGS, GROUP, RetryService

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
    retry_topic: Annotated[
        list[str] | None,
        typer.Option(
            help="Move the failed records of this topic to Redis first; may be repeated.", show_default="none"
        ),
    ] = None,
    group: Annotated[str, typer.Option(help="The group that reads the retry topics.")] = GROUP,
    delays: Annotated[
        str, typer.Option(help="Delays of failed records that name none, by the number of their failures.")
    ] = ",".join(DELAYS),
    attempts: Annotated[
        int | None,
        typer.Option(help="Such a record is a dead letter after so many failures.", min=1, show_default="delays + 1"),
    ] = None,
    dead_letters: Annotated[
        str | None, typer.Option(help="The topic of these dead letters.", show_default="<topic>.dlq")
    ] = None,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Move records that are due from Redis to their topics, until SIGTERM or Ctrl-C. Many may run at once."""
    if drain and retry_topic:
        raise CommandError("--drain cannot be used with --retry-topic: more failed records may come")
    reading = _Reading(retry_topic or (), group, RetryPolicy(delays.split(","), attempts, dead_letters))
    settings = client_settings(bootstrap_server, command_config, ProducerSettings, ConsumerSettings, AdminSettings)
    queue = RedisQueue(redis, prefix=prefix, lease_s=lease)
    asyncio.run(_work(settings, queue, workers, drain, output, reading))


class _Reading(NamedTuple):
    """Which retry topics are read, as which group, and what happens to records that do not say it."""

    topics: Collection[str]
    group: str
    policy: RetryPolicy


async def _work(
    settings: dict[str, Any], queue: RedisQueue, workers: int, drain: bool, output: Format, reading: _Reading
) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(queue.close)
        waiting, _ = await queue.waiting()
        _tell(output, "started", workers=workers, waiting=waiting)
        writing = {"max.block.ms": MAX_BLOCK_MS, **_settings_of(ProducerSettings, settings)}
        producer = await stack.enter_async_context(AsyncProducer[bytes, bytes](writing))
        stopping = asyncio.Event()
        work = [
            move_always(queue, producer, stopping, lambda moved: _tell(output, "moved", records=moved))
            for _ in range(workers)
        ]
        if reading.topics:
            admin = await stack.enter_async_context(AsyncAdmin(_settings_of(AdminSettings, settings)))
            member = {**_settings_of(ConsumerSettings, settings), **CONSUMER_SETTINGS, "group.id": reading.group}
            consumer = await stack.enter_async_context(AsyncConsumer[bytes, bytes](member))
            service = RetryService(consumer, admin, queue, reading.topics, reading.policy)
            work.append(service.work(stopping, lambda stored: _tell(output, "stored", records=stored)))
        tasks = [asyncio.create_task(each) for each in work]
        watch = asyncio.create_task(_until_drained(queue, ended) if drain else ended.wait())
        await asyncio.wait([*tasks, watch], return_when=asyncio.FIRST_COMPLETED)
        ended.set()
        await end(tasks, stopping)
        for task in (*tasks, watch):
            if task.done() and not task.cancelled():
                task.result()


def _settings_of(client: type[CommonSettings], settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name in client.settings}


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
