"""`tidelog acl` and `tidelog quota` against a broker with an authorizer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.integration.cli_support import Ran
from tidelog.cli.app import main
from tidelog.testing import Broker

ADMINISTRATOR = {
    "authorizer.class.name": "tidelog.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker(config=ADMINISTRATOR) as broker:
        yield broker.bootstrap_servers


Run = Callable[..., Ran]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process: what it does is the same, and it starts at once."""

    def run(*words: str) -> Ran:
        capfd.readouterr()
        code = main(words)
        return Ran(code, *capfd.readouterr())

    return run


def test_entries_are_added_listed_and_removed(servers: str, run: Run) -> None:
    def acl(*words: str) -> str:
        done = run("acl", *words, "--bootstrap-server", servers)
        assert done.code == 0, done.err
        return done.out

    assert acl("list") == "No rule matches.\n"
    added = acl("add", "--principal", "alice", "--operation", "read", "--topic", "orders", "--group", "billing")
    assert added.startswith("Added 2 rules:\nPERMISSION  PRINCIPAL   OPERATION  RESOURCE  NAME     HOST\nallow ")
    acl("add", "--principal", "User:*", "--operation", "write", "--topic", "ord", "--prefixed", "--deny")
    acl("add", "--principal", "bob", "--operation", "describe-configs", "--cluster", "--host", "10.0.0.1")
    rows = json.loads(acl("list", "--topic", "orders", "--format", "json"))
    assert [(row["name"], row["prefixed"], row["principal"], row["permission"]) for row in rows] == [
        ("ord", True, "User:*", "deny"),
        ("orders", False, "User:alice", "allow"),
    ]
    assert "describe-configs" in acl("list", "--principal", "bob")
    removed = acl("remove", "--topic", "orders")
    assert removed.startswith("Removed 1 rule:\n")
    assert "User:alice" in removed
    assert acl("remove", "--topic", "nothing") == "No rule matches.\n"
    assert "User:*" not in acl("remove", "--topic", "orders", "--prefixed")
    assert len(json.loads(acl("remove", "--all", "--format", "json"))) == 3
    assert acl("list") == "No rule matches.\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["add", "--principal", "alice", "--operation", "read"], "--topic"),
        (["add", "--principal", "alice", "--operation", "fly", "--topic", "x"], "fly"),
        (["add", "--principal", "alice", "--operation", "read", "--cluster"], "READ"),
        (["remove"], "--all"),
    ],
)
def test_a_wrong_entry_is_named(words: list[str], complaint: str, servers: str, run: Run) -> None:
    done = run("acl", *words, "--bootstrap-server", servers)
    assert done.code != 0
    assert complaint in done.err
    assert "Traceback" not in done.err


def test_quotas_are_set_listed_and_removed(servers: str, run: Run) -> None:
    def quota(*words: str) -> str:
        done = run("quota", *words, "--bootstrap-server", servers)
        assert done.code == 0, done.err
        return done.out

    assert "No quota" in quota("list")
    printed = quota("set", "--user", "alice", "--producer-byte-rate", "1048576", "--request-percentage", "50")
    assert printed.splitlines() == ["user alice: producer_byte_rate is 1048576", "user alice: request_percentage is 50"]
    made = json.loads(
        quota("set", "--user-default", "--client-id", "app", "--consumer-byte-rate", "10", "--format", "json")
    )
    assert made == {"entity": {"user": None, "client-id": "app"}, "quotas": {"consumer_byte_rate": 10.0}}
    listed = json.loads(quota("list", "--format", "json"))
    assert {json.dumps(each["entity"]): each["quotas"] for each in listed} == {
        '{"user": "alice"}': {"producer_byte_rate": 1048576.0, "request_percentage": 50.0},
        '{"user": null, "client-id": "app"}': {"consumer_byte_rate": 10.0},
    }
    assert "user default, client-id app" in quota("list")
    removed = json.loads(quota("remove", "producer_byte_rate", "--user", "alice", "--format", "json"))
    assert removed == {"entity": {"user": "alice"}, "removed": ["producer_byte_rate"]}
    quota("remove", "--user-default", "--client-id", "app")
    assert json.loads(quota("list", "--format", "json")) == [
        {"entity": {"user": "alice"}, "quotas": {"request_percentage": 50.0}}
    ]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["set", "--producer-byte-rate", "1"], "--user"),
        (["set", "--user", "alice"], "--producer-byte-rate"),
        (["set", "--user", "alice", "--producer-byte-rate", "-1"], "greater than 0"),
        (["remove", "nonsense", "--user", "alice"], "nonsense"),
    ],
)
def test_a_wrong_quota_is_named(words: list[str], complaint: str, servers: str, run: Run) -> None:
    done = run("quota", *words, "--bootstrap-server", servers)
    assert done.code != 0
    assert complaint in done.err
    assert "Traceback" not in done.err
