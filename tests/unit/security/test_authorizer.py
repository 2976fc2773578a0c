"""Kafka's rules of access control, one claim each."""

import pytest

from tidelog.security.acls import (
    Binding,
    BindingFilter,
    Entry,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourceType,
    problem_of,
)
from tidelog.security.authorizer import AclAuthorizer

ALICE, BOB = "User:alice", "User:bob"
HOST = "10.0.0.1"
TOPIC = ResourceType.TOPIC
ORDERS = Resource(TOPIC, "orders")
EVERY_TOPIC = Resource(TOPIC, "*")


def allow(principal: str, operation: Operation, host: str = "*") -> Entry:
    return Entry(principal, host, operation, Permission.ALLOW)


def deny(principal: str, operation: Operation, host: str = "*") -> Entry:
    return Entry(principal, host, operation, Permission.DENY)


def authorizer(entries: dict[Resource, list[Entry]], **settings: bool) -> AclAuthorizer:
    made = AclAuthorizer(["User:admin"], allows_unlisted=settings.get("allows_unlisted", False))
    for resource, listed in entries.items():
        made.replace(resource, listed)
    return made


def may(made: AclAuthorizer, principal: str, operation: Operation, name: str = "orders", host: str = HOST) -> bool:
    return made.is_allowed(principal, host, operation, TOPIC, name)


def test_what_no_entry_allows_is_denied() -> None:
    made = authorizer({ORDERS: [allow(ALICE, Operation.READ)]})
    assert may(made, ALICE, Operation.READ)
    assert not may(made, ALICE, Operation.WRITE)
    assert not may(made, BOB, Operation.READ)
    assert not may(made, ALICE, Operation.READ, "payments")


def test_a_super_user_may_do_everything_even_what_is_denied() -> None:
    made = authorizer({ORDERS: [deny("User:*", Operation.ALL)]})
    assert may(made, "User:admin", Operation.WRITE)


def test_an_entry_that_denies_goes_before_every_entry_that_allows() -> None:
    made = authorizer({EVERY_TOPIC: [deny(ALICE, Operation.WRITE)], ORDERS: [allow(ALICE, Operation.ALL)]})
    assert may(made, ALICE, Operation.READ)
    assert not may(made, ALICE, Operation.WRITE)


@pytest.mark.parametrize("implying", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER])
def test_an_operation_on_a_topic_implies_its_description(implying: Operation) -> None:
    assert may(authorizer({ORDERS: [allow(ALICE, implying)]}), ALICE, Operation.DESCRIBE)


def test_a_denied_operation_does_not_imply_a_denied_description() -> None:
    made = authorizer({ORDERS: [deny(ALICE, Operation.READ), allow(ALICE, Operation.WRITE)]})
    assert may(made, ALICE, Operation.DESCRIBE)


def test_altering_settings_implies_describing_them() -> None:
    made = authorizer({ORDERS: [allow(ALICE, Operation.ALTER_CONFIGS)]})
    assert may(made, ALICE, Operation.DESCRIBE_CONFIGS)
    assert not may(made, ALICE, Operation.DESCRIBE)


def test_a_prefix_covers_the_names_that_begin_with_it() -> None:
    made = authorizer({Resource(TOPIC, "ord", PatternType.PREFIXED): [allow(ALICE, Operation.READ)]})
    assert may(made, ALICE, Operation.READ, "ord")
    assert may(made, ALICE, Operation.READ, "orders")
    assert not may(made, ALICE, Operation.READ, "or")
    assert not made.is_allowed(ALICE, HOST, Operation.READ, ResourceType.GROUP, "orders")


def test_a_star_is_every_literal_name_but_no_prefix() -> None:
    assert may(authorizer({EVERY_TOPIC: [allow(ALICE, Operation.READ)]}), ALICE, Operation.READ, "anything")
    star = Resource(TOPIC, "*", PatternType.PREFIXED)
    assert not may(authorizer({star: [allow(ALICE, Operation.READ)]}), ALICE, Operation.READ, "anything")


def test_an_entry_may_be_for_one_host() -> None:
    made = authorizer({ORDERS: [allow("User:*", Operation.READ, HOST)]})
    assert may(made, BOB, Operation.READ)
    assert not may(made, BOB, Operation.READ, host="10.0.0.2")


def test_resources_without_entries_are_open_only_where_that_is_set() -> None:
    made = authorizer({ORDERS: [allow(ALICE, Operation.READ)]}, allows_unlisted=True)
    assert may(made, BOB, Operation.WRITE, "payments")
    assert not may(made, BOB, Operation.WRITE, "orders")


def test_a_change_takes_effect_on_what_was_decided_before() -> None:
    made = authorizer({ORDERS: [allow(ALICE, Operation.READ)]})
    assert may(made, ALICE, Operation.READ)
    made.replace(ORDERS, [deny(ALICE, Operation.READ)])
    assert not may(made, ALICE, Operation.READ)
    made.replace(ORDERS, [])
    assert not may(made, ALICE, Operation.READ)
    assert made.resources() == []


def test_ever_new_names_do_not_fill_the_memory() -> None:
    made = authorizer({})
    for number in range(50_000):
        may(made, ALICE, Operation.READ, f"topic-{number}")
    assert len(made._decisions) <= 20_000


@pytest.mark.parametrize(
    ("entries", "is_allowed"),
    [
        ({}, False),
        ({ORDERS: [allow(ALICE, Operation.WRITE)]}, True),
        ({ORDERS: [allow(ALICE, Operation.READ)]}, False),
        ({ORDERS: [allow(ALICE, Operation.ALL)], EVERY_TOPIC: [deny(ALICE, Operation.WRITE)]}, False),
        ({ORDERS: [allow(ALICE, Operation.WRITE), deny(ALICE, Operation.WRITE)]}, False),
        (
            {
                ORDERS: [allow(ALICE, Operation.WRITE)],
                Resource(TOPIC, "ord", PatternType.PREFIXED): [deny("User:*", Operation.ALL)],
            },
            False,
        ),
        (
            {
                Resource(TOPIC, "or", PatternType.PREFIXED): [allow(ALICE, Operation.WRITE)],
                Resource(TOPIC, "ord", PatternType.PREFIXED): [deny(ALICE, Operation.WRITE)],
            },
            True,
        ),
    ],
)
def test_an_idempotent_producer_needs_a_topic_it_may_write_to(
    entries: dict[Resource, list[Entry]], is_allowed: bool
) -> None:
    made = authorizer(entries)
    assert made.is_allowed_on_any(ALICE, HOST, Operation.WRITE, TOPIC) is is_allowed


def test_a_filter_finds_what_applies_to_a_name() -> None:
    prefix = Resource(TOPIC, "ord", PatternType.PREFIXED)
    other = Resource(TOPIC, "payments")
    made = authorizer({each: [allow(ALICE, Operation.READ)] for each in (ORDERS, EVERY_TOPIC, prefix, other)})
    found = made.find(BindingFilter(TOPIC, "orders", PatternType.MATCH))
    assert {binding.resource for binding in found} == {ORDERS, EVERY_TOPIC, prefix}
    assert [each.resource for each in made.find(BindingFilter(TOPIC, "orders", PatternType.LITERAL))] == [ORDERS]
    assert list(made.find(BindingFilter(principal=BOB))) == []


@pytest.mark.parametrize(
    ("resource", "entry", "problem"),
    [
        (Resource(TOPIC, ""), allow(ALICE, Operation.READ), "empty"),
        (Resource(TOPIC, "a/b"), allow(ALICE, Operation.READ), "slash"),
        (Resource(ResourceType.CLUSTER, "mine"), allow(ALICE, Operation.ALTER), "kafka-cluster"),
        (ORDERS, allow("alice", Operation.READ), "User:alice"),
        (ORDERS, allow(ALICE, Operation.CLUSTER_ACTION), "CLUSTER_ACTION"),
        (ORDERS, allow(ALICE, Operation.ANY), "ANY"),
        (Resource(ResourceType.ANY, "orders"), allow(ALICE, Operation.READ), "ANY"),
        (ORDERS, allow(ALICE, Operation.ALL), None),
    ],
)
def test_a_binding_that_makes_no_sense_is_named(resource: Resource, entry: Entry, problem: str | None) -> None:
    found = problem_of(Binding(resource, entry))
    assert found is None if problem is None else problem in (found or "")
