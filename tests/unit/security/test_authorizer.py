"""Kafka's rules of access control, one claim each."""

import tracemalloc

import pytest

from tidelog.security.acls import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
    mistake_in,
    problem_of,
)
from tidelog.security.authorizer import AclAuthorizer

ALICE, BOB = "User:alice", "User:bob"
HOST = "10.0.0.1"
TOPIC = AclResourceType.TOPIC
ORDERS = ResourcePattern(TOPIC, "orders")
EVERY_TOPIC = ResourcePattern(TOPIC, "*")


def allow(principal: str, operation: AclOperation, host: str = "*") -> AccessControlEntry:
    return AccessControlEntry(principal, host, operation, AclPermissionType.ALLOW)


def deny(principal: str, operation: AclOperation, host: str = "*") -> AccessControlEntry:
    return AccessControlEntry(principal, host, operation, AclPermissionType.DENY)


def authorizer(entries: dict[ResourcePattern, list[AccessControlEntry]], **settings: bool) -> AclAuthorizer:
    made = AclAuthorizer(["User:admin"], allows_unlisted=settings.get("allows_unlisted", False))
    for resource, listed in entries.items():
        made.replace(resource, listed)
    return made


def may(made: AclAuthorizer, principal: str, operation: AclOperation, name: str = "orders", host: str = HOST) -> bool:
    return made.is_allowed(principal, host, operation, TOPIC, name)


def test_what_no_entry_allows_is_denied() -> None:
    made = authorizer({ORDERS: [allow(ALICE, AclOperation.READ)]})
    assert may(made, ALICE, AclOperation.READ)
    assert not may(made, ALICE, AclOperation.WRITE)
    assert not may(made, BOB, AclOperation.READ)
    assert not may(made, ALICE, AclOperation.READ, "payments")


def test_a_super_user_may_do_everything_even_what_is_denied() -> None:
    made = authorizer({ORDERS: [deny("User:*", AclOperation.ALL)]})
    assert may(made, "User:admin", AclOperation.WRITE)


def test_an_entry_that_denies_goes_before_every_entry_that_allows() -> None:
    made = authorizer({EVERY_TOPIC: [deny(ALICE, AclOperation.WRITE)], ORDERS: [allow(ALICE, AclOperation.ALL)]})
    assert may(made, ALICE, AclOperation.READ)
    assert not may(made, ALICE, AclOperation.WRITE)


@pytest.mark.parametrize("implying", [AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER])
def test_an_operation_on_a_topic_implies_its_description(implying: AclOperation) -> None:
    assert may(authorizer({ORDERS: [allow(ALICE, implying)]}), ALICE, AclOperation.DESCRIBE)


def test_a_denied_operation_does_not_imply_a_denied_description() -> None:
    made = authorizer({ORDERS: [deny(ALICE, AclOperation.READ), allow(ALICE, AclOperation.WRITE)]})
    assert may(made, ALICE, AclOperation.DESCRIBE)


def test_altering_settings_implies_describing_them() -> None:
    made = authorizer({ORDERS: [allow(ALICE, AclOperation.ALTER_CONFIGS)]})
    assert may(made, ALICE, AclOperation.DESCRIBE_CONFIGS)
    assert not may(made, ALICE, AclOperation.DESCRIBE)


def test_a_prefix_covers_the_names_that_begin_with_it() -> None:
    made = authorizer({ResourcePattern(TOPIC, "ord", PatternType.PREFIXED): [allow(ALICE, AclOperation.READ)]})
    assert may(made, ALICE, AclOperation.READ, "ord")
    assert may(made, ALICE, AclOperation.READ, "orders")
    assert not may(made, ALICE, AclOperation.READ, "or")
    assert not made.is_allowed(ALICE, HOST, AclOperation.READ, AclResourceType.GROUP, "orders")


def test_a_prefix_counts_as_long_as_one_of_its_length_is_there() -> None:
    first, second = (ResourcePattern(TOPIC, name, PatternType.PREFIXED) for name in ("ord", "pay"))
    made = authorizer({first: [allow(ALICE, AclOperation.READ)], second: [allow(ALICE, AclOperation.READ)]})
    made.replace(first, [allow(ALICE, AclOperation.WRITE)])
    made.replace(first, [])
    assert not may(made, ALICE, AclOperation.READ, "orders")
    assert may(made, ALICE, AclOperation.READ, "payments")
    made.replace(second, [])
    assert not may(made, ALICE, AclOperation.READ, "payments")


def test_a_star_is_every_literal_name_but_no_prefix() -> None:
    assert may(authorizer({EVERY_TOPIC: [allow(ALICE, AclOperation.READ)]}), ALICE, AclOperation.READ, "anything")
    star = ResourcePattern(TOPIC, "*", PatternType.PREFIXED)
    assert not may(authorizer({star: [allow(ALICE, AclOperation.READ)]}), ALICE, AclOperation.READ, "anything")


def test_an_entry_may_be_for_one_host() -> None:
    made = authorizer({ORDERS: [allow("User:*", AclOperation.READ, HOST)]})
    assert may(made, BOB, AclOperation.READ)
    assert not may(made, BOB, AclOperation.READ, host="10.0.0.2")


def test_resources_without_entries_are_open_only_where_that_is_set() -> None:
    made = authorizer({ORDERS: [allow(ALICE, AclOperation.READ)]}, allows_unlisted=True)
    assert may(made, BOB, AclOperation.WRITE, "payments")
    assert not may(made, BOB, AclOperation.WRITE, "orders")


def test_a_change_takes_effect_on_what_was_decided_before() -> None:
    made = authorizer({ORDERS: [allow(ALICE, AclOperation.READ)]})
    assert may(made, ALICE, AclOperation.READ)
    made.replace(ORDERS, [deny(ALICE, AclOperation.READ)])
    assert not may(made, ALICE, AclOperation.READ)
    made.replace(ORDERS, [])
    assert not may(made, ALICE, AclOperation.READ)
    assert made.resources() == []


def test_ever_new_names_do_not_fill_the_memory() -> None:
    made = authorizer({})
    for number in range(50_000):
        may(made, ALICE, AclOperation.READ, f"topic-{number}")
    assert len(made._decisions) <= 20_000


@pytest.mark.parametrize(
    ("entries", "is_allowed"),
    [
        ({}, False),
        ({ORDERS: [allow(ALICE, AclOperation.WRITE)]}, True),
        ({ORDERS: [allow(ALICE, AclOperation.READ)]}, False),
        ({ORDERS: [allow(ALICE, AclOperation.ALL)], EVERY_TOPIC: [deny(ALICE, AclOperation.WRITE)]}, False),
        ({ORDERS: [allow(ALICE, AclOperation.WRITE), deny(ALICE, AclOperation.WRITE)]}, False),
        (
            {
                ORDERS: [allow(ALICE, AclOperation.WRITE)],
                ResourcePattern(TOPIC, "ord", PatternType.PREFIXED): [deny("User:*", AclOperation.ALL)],
            },
            False,
        ),
        (
            {
                ResourcePattern(TOPIC, "or", PatternType.PREFIXED): [allow(ALICE, AclOperation.WRITE)],
                ResourcePattern(TOPIC, "ord", PatternType.PREFIXED): [deny(ALICE, AclOperation.WRITE)],
            },
            True,
        ),
    ],
)
def test_an_idempotent_producer_needs_a_topic_it_may_write_to(
    entries: dict[ResourcePattern, list[AccessControlEntry]], is_allowed: bool
) -> None:
    made = authorizer(entries)
    assert made.is_allowed_on_any(ALICE, HOST, AclOperation.WRITE, TOPIC) is is_allowed


def test_a_filter_finds_what_applies_to_a_name() -> None:
    prefix = ResourcePattern(TOPIC, "ord", PatternType.PREFIXED)
    other = ResourcePattern(TOPIC, "payments")
    made = authorizer({each: [allow(ALICE, AclOperation.READ)] for each in (ORDERS, EVERY_TOPIC, prefix, other)})
    found = made.find(AclBindingFilter(TOPIC, "orders", PatternType.MATCH))
    assert {binding.resource for binding in found} == {ORDERS, EVERY_TOPIC, prefix}
    assert [each.resource for each in made.find(AclBindingFilter(TOPIC, "orders", PatternType.LITERAL))] == [ORDERS]
    assert list(made.find(AclBindingFilter(principal=BOB))) == []


@pytest.mark.parametrize(
    ("resource", "entry", "problem"),
    [
        (ResourcePattern(TOPIC, ""), allow(ALICE, AclOperation.READ), "empty"),
        (ResourcePattern(TOPIC, "a/b"), allow(ALICE, AclOperation.READ), "slash"),
        (ResourcePattern(AclResourceType.CLUSTER, "mine"), allow(ALICE, AclOperation.ALTER), "kafka-cluster"),
        (ORDERS, allow("alice", AclOperation.READ), "User:alice"),
        (ORDERS, allow(ALICE, AclOperation.CLUSTER_ACTION), "CLUSTER_ACTION"),
        (ORDERS, allow(ALICE, AclOperation.ANY), "ANY"),
        (ResourcePattern(AclResourceType.ANY, "orders"), allow(ALICE, AclOperation.READ), "ANY"),
        (ORDERS, allow(ALICE, AclOperation.ALL), None),
    ],
)
def test_a_binding_that_makes_no_sense_is_named(
    resource: ResourcePattern, entry: AccessControlEntry, problem: str | None
) -> None:
    found = mistake_in(AclBinding(resource, entry))
    assert found is None if problem is None else problem in (found or "")


@pytest.mark.parametrize(
    "binding",
    [
        AclBinding(ORDERS, allow(ALICE, AclOperation.CLUSTER_ACTION)),
        AclBinding(ResourcePattern(AclResourceType.CLUSTER, CLUSTER_NAME), allow(ALICE, AclOperation.READ)),
        AclBinding(ORDERS, allow("User:", AclOperation.READ)),
    ],
)
def test_brokers_accept_what_never_applies_as_kafka_does_and_people_are_warned(binding: AclBinding) -> None:
    assert problem_of(binding) is None
    assert mistake_in(binding) is not None


@pytest.mark.parametrize(
    ("written", "client"),
    [
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8:0:0:0:0:0:1", "2001:db8::1"),
        ("fe80:0:0:0:0:0:0:1%eth0", "fe80::1%eth0"),
        ("::ffff:10.0.0.1", HOST),
    ],
)
def test_an_entry_for_a_host_applies_in_whichever_text_its_address_is_written(written: str, client: str) -> None:
    made = authorizer({ORDERS: [allow(ALICE, AclOperation.READ), deny(ALICE, AclOperation.READ, written)]})
    assert not may(made, ALICE, AclOperation.READ, host=client)
    assert may(made, ALICE, AclOperation.READ, host="10.0.0.2")
    assert may(made, ALICE, AclOperation.READ, host="2001:db8::2")


def test_questions_about_very_long_names_do_not_fill_the_memory() -> None:
    """A name on the wire has up to 32,767 bytes, and a client without any rights may ask about ever others."""
    made = authorizer({ORDERS: [allow(ALICE, AclOperation.READ)]})
    tracemalloc.start()
    try:
        for number in range(1000):
            assert not may(made, BOB, AclOperation.READ, f"{number}".ljust(30_000, "x"))
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held_bytes < 1 << 20


def test_a_resource_whose_entries_are_removed_during_a_search_is_left_out() -> None:
    other = ResourcePattern(TOPIC, "payments")
    made = authorizer({each: [allow(ALICE, AclOperation.READ)] for each in (ORDERS, other)})
    found = made.find(AclBindingFilter(TOPIC))
    assert next(found).resource == ORDERS
    made.replace(other, ())
    assert list(found) == []
