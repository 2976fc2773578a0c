"""The authorizer with its index and its memory decides as Kafka's sentence does, read off one entry after the other."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.security.acls import (
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from tidelog.security.authorizer import AclAuthorizer

names = st.text("ab*", min_size=1, max_size=3)
principals = st.sampled_from(["User:a", "User:b", "User:*"])
hosts = st.sampled_from(["h", "i", "*"])
operations = st.sampled_from([each for each in AclOperation if each is not AclOperation.ANY])
types = st.sampled_from([AclResourceType.TOPIC, AclResourceType.GROUP])
resources = st.builds(ResourcePattern, types, names, st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]))
entries = st.builds(
    AccessControlEntry,
    principals,
    hosts,
    operations,
    st.sampled_from([AclPermissionType.ALLOW, AclPermissionType.DENY]),
)
questions = st.tuples(st.sampled_from(["User:a", "User:b"]), st.sampled_from(["h", "i"]), operations, types, names)

IMPLIED_BY = {
    AclOperation.DESCRIBE: {
        AclOperation.DESCRIBE,
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    },
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS},
}


def applies(resource: ResourcePattern, resource_type: AclResourceType, name: str) -> bool:
    if resource.type is not resource_type:
        return False
    if resource.pattern is PatternType.PREFIXED:
        return name.startswith(resource.name)
    return resource.name in (name, "*")


def expected(
    acls: dict[ResourcePattern, list[AccessControlEntry]],
    allows_unlisted: bool,
    question: tuple[str, str, AclOperation, AclResourceType, str],
) -> bool:
    principal, host, operation, resource_type, name = question
    listed = [each for resource, found in acls.items() if applies(resource, resource_type, name) for each in found]
    if not listed:
        return allows_unlisted
    mine = [each for each in listed if each.principal in (principal, "User:*") and each.host in (host, "*")]
    if any(
        each.permission is AclPermissionType.DENY and each.operation in (operation, AclOperation.ALL) for each in mine
    ):
        return False
    allowing = IMPLIED_BY.get(operation, {operation}) | {AclOperation.ALL}
    return any(each.permission is AclPermissionType.ALLOW and each.operation in allowing for each in mine)


@given(
    st.lists(st.tuples(resources, st.lists(entries, max_size=3)), max_size=8),
    st.booleans(),
    st.lists(questions, min_size=1, max_size=8),
)
def test_a_decision_is_what_the_entries_say(
    changes: list[tuple[ResourcePattern, list[AccessControlEntry]]],
    allows_unlisted: bool,
    asked: list[tuple[str, str, AclOperation, AclResourceType, str]],
) -> None:
    authorizer = AclAuthorizer(allows_unlisted=allows_unlisted)
    acls: dict[ResourcePattern, list[AccessControlEntry]] = {}
    for resource, listed in changes:
        authorizer.replace(resource, listed)
        acls[resource] = listed
        for question in asked:
            assert authorizer.is_allowed(*question) is expected(acls, allows_unlisted, question)


@given(st.lists(st.tuples(resources, st.lists(entries, max_size=3)), max_size=8), questions)
def test_an_operation_allowed_on_a_name_is_allowed_on_any(
    changes: list[tuple[ResourcePattern, list[AccessControlEntry]]],
    question: tuple[str, str, AclOperation, AclResourceType, str],
) -> None:
    """Of the operations that nothing implies: Kafka asks for WRITE only."""
    principal, host, _, resource_type, name = question
    authorizer = AclAuthorizer()
    for resource, listed in changes:
        authorizer.replace(resource, listed)
    if authorizer.is_allowed(principal, host, AclOperation.WRITE, resource_type, name):
        assert authorizer.is_allowed_on_any(principal, host, AclOperation.WRITE, resource_type)
