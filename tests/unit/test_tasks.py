"""Tasks with an owner: none is lost while it runs, and none is left when its owner ends."""

import asyncio
import gc

from tidelog.tasks import OwnedTasks


def test_a_task_that_waits_is_not_collected() -> None:
    """The event loop refers to it weakly, and what it waits for may be referred to by nothing else."""

    async def scenario() -> None:
        tasks = OwnedTasks()
        tasks.spawn(_wait_for_nothing())
        await asyncio.sleep(0)
        gc.collect()
        assert len(tasks) == 1
        assert asyncio.all_tasks() == {asyncio.current_task(), *tasks}
        tasks.cancel()
        await tasks.wait()

    asyncio.run(scenario())


def test_a_task_that_has_ended_is_forgotten_and_announced() -> None:
    async def scenario() -> None:
        ended: list[int] = []
        tasks = OwnedTasks(lambda: ended.append(len(tasks)))
        assert await tasks.spawn(asyncio.sleep(0, "done")) == "done"
        await asyncio.sleep(0)
        assert (len(tasks), ended) == (0, [0])

    asyncio.run(scenario())


def test_the_end_of_an_owner_leaves_no_task_and_raises_none_of_their_errors() -> None:
    async def scenario() -> None:
        tasks = OwnedTasks()
        tasks.spawn(_wait_for_nothing())
        failing = tasks.adopt(asyncio.create_task(_fail()))
        tasks.cancel()
        await tasks.wait()
        await asyncio.sleep(0)
        assert failing.done()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())


async def _wait_for_nothing() -> None:
    await asyncio.get_running_loop().create_future()


async def _fail() -> None:
    try:
        await asyncio.sleep(60)
    finally:
        raise ValueError("while it was cancelled")
