"""`tidelog mcp` as the reference client of the Model Context Protocol sees it: over the pipes of a process."""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.cli_support import SOURCE, run_here
from tidelog.testing import Broker

mcp = pytest.importorskip("mcp", reason="the reference client is not installed: pip install 'tidelog[mcp]'")

READING = {
    "check_health",
    "cluster_overview",
    "describe_config",
    "describe_group",
    "describe_topic",
    "list_groups",
    "list_topics",
    "read_messages",
}
WRITING = {"alter_topic_config", "create_topic", "produce_message", "reset_group_offsets"}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with Broker(process=True) as broker:
        broker.create_topic("orders", partitions=2, config={"retention.ms": "3600000"})
        lines = [{"key": f"k{n % 3}", "value": {"n": n}, "timestamp": 1_700_000_000_000 + n} for n in range(150)]
        given = "\n".join(map(json.dumps, [*lines, {"key": "big", "value": "x" * 50_000}])).encode()
        run_here("produce", "orders", "--input", "json", server=broker.bootstrap_servers, stdin=given)
        to = ("--topic", "orders", "--to-earliest", "--execute")
        assert run_here("group", "reset", "billing", *to, server=broker.bootstrap_servers).code == 0
        yield broker.bootstrap_servers


class Asking:
    """A client that is connected to `tidelog mcp`."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = await self.client.call_tool(tool, arguments)
        assert not answer.is_error, answer
        assert json.loads(answer.content[0].text) == answer.structured_content
        return answer.structured_content

    async def refusal(self, tool: str, **arguments: Any) -> str:
        answer = await self.client.call_tool(tool, arguments)
        assert answer.is_error, answer
        return answer.content[0].text


def asking(server: str, scenario: Any, *words: str) -> None:
    """Run a scenario with a client over the pipes of a process."""

    async def ask() -> None:
        parameters = mcp.StdioServerParameters(
            command=sys.executable,
            args=["-m", "tidelog", "mcp", "--bootstrap-server", server, *words],
            env={**os.environ, "PYTHONPATH": SOURCE},
        )
        failure: Exception | None = None
        async with mcp.Client(parameters) as client:
            try:
                await scenario(Asking(client))
            except Exception as error:  # the client's task groups would wrap it in a group for each of them
                failure = error
        if failure is not None:
            raise failure

    asyncio.run(asyncio.wait_for(ask(), 60))


def test_a_model_reads_topics_messages_groups_settings_and_health(server: str) -> None:
    async def scenario(ask: Asking) -> None:
        tools = {tool.name: tool for tool in (await ask.client.list_tools()).tools}
        assert tools.keys() == READING
        assert all(tool.annotations.read_only_hint and tool.description for tool in tools.values())

        overview = await ask("cluster_overview")
        assert (len(overview["brokers"]), overview["topics"]) == (1, 1)
        assert [each["topic"] for each in (await ask("list_topics", contains="ord"))["topics"]] == ["orders"]
        topic = await ask("describe_topic", topic="orders")
        assert topic["settings"] == {"retention.ms": "3600000"}
        assert sum(each["latest"] for each in topic["partitions"]) == 151

        newest = await ask("read_messages", topic="orders", count=3)
        assert newest["records"][0]["key"] == "big"
        assert newest["records"][0]["value"].endswith("… 48,000 more characters")
        assert json.loads(newest["records"][1]["value"]) == {"n": 149}
        older = await ask("read_messages", topic="orders", count=2, onward=newest["onward"])
        assert [json.loads(each["value"]) for each in older["records"]] == [{"n": 147}, {"n": 146}]
        found = await ask("read_messages", topic="orders", search=":77}", start="oldest")
        assert [json.loads(each["value"]) for each in found["records"]] == [{"n": 77}]
        late = await ask("read_messages", topic="orders", start="2h", key="big")
        assert len(late["records"]) == 1

        assert [each["group"] for each in (await ask("list_groups"))["groups"]] == ["billing"]
        group = await ask("describe_group", group="billing", limit=1)
        assert (group["state"], group["total_lag"], group["more_partitions"]) == ("Empty", 151, 1)
        settings = (await ask("describe_config", topic="orders"))["settings"]
        assert {"name": "retention.ms", "value": "3600000", "from": "dynamic_topic"} in settings
        assert isinstance((await ask("check_health"))["findings"], list)

        assert "does not exist (UNKNOWN_TOPIC_OR_PARTITION)" in await ask.refusal("describe_topic", topic="ordres")
        assert "does not exist (GROUP_ID_NOT_FOUND)" in await ask.refusal("describe_group", group="x")
        assert "either a topic or a broker" in await ask.refusal("describe_config")
        assert "less than or equal to 100" in await ask.refusal("read_messages", topic="orders", count=1000)
        assert "is not a time of ISO 8601" in await ask.refusal("read_messages", topic="orders", start="soon")
        assert "create_topic" in await ask.refusal("create_topic", topic="x")

    asking(server, scenario)
    assert run_here("topic", "list", server=server).out.split() == ["__consumer_offsets", "orders"]


def test_a_model_that_may_write_creates_produces_alters_and_resets(server: str) -> None:
    async def scenario(ask: Asking) -> None:
        tools = {tool.name: tool for tool in (await ask.client.list_tools()).tools}
        assert {name for name, tool in tools.items() if not tool.annotations.read_only_hint} == WRITING
        made = await ask("create_topic", topic="made", partitions=2)
        assert (made["partitions"], made["replication_factor"]) == (2, 1)
        sent = await ask("produce_message", topic="made", value="v", key="k", headers={"h": "1"}, partition=1)
        assert (sent["partition"], sent["offset"]) == (1, 0)
        record = (await ask("read_messages", topic="made"))["records"][0]
        assert (record["key"], record["value"], record["headers"]) == ("k", "v", [["h", "1"]])
        await ask("alter_topic_config", topic="made", name="retention.ms", value="1000000")
        assert (await ask("describe_topic", topic="made"))["settings"] == {"retention.ms": "1000000"}
        plan = await ask("reset_group_offsets", group="billing", topic="made", to="latest")
        assert (plan["executed"], plan["offsets"][1]) == (False, {"partition": 1, "from": None, "to": 1})
        assert (await ask("reset_group_offsets", group="billing", topic="made", to="latest", execute=True))["executed"]
        lag = {each["topic"]: each["lag"] for each in (await ask("describe_group", group="billing"))["partitions"]}
        assert lag["made"] == 0
        assert "TOPIC_ALREADY_EXISTS" in await ask.refusal("create_topic", topic="made")
        assert "retention.msx" in await ask.refusal("alter_topic_config", topic="made", name="retention.msx", value="1")

    asking(server, scenario, "--allow-writes")


def test_without_the_sdk_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, server: str) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    said = run_here("mcp", server=server)
    assert (said.code, "pip install 'tidelog[mcp]'" in said.err) == (1, True)
