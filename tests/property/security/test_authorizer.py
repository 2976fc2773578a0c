"""The authorizer with its index and its memory decides as Kafka's sentence does, read off one entry after the other."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.security.acls import Entry, Operation, PatternType, Permission, Resource, ResourceType
from tidelog.security.authorizer import AclAuthorizer

names = st.text("ab*", min_size=1, max_size=3)
principals = st.sampled_from(["User:a", "User:b", "User:*"])
hosts = st.sampled_from(["h", "i", "*"])
operations = st.sampled_from([each for each in Operation if each is not Operation.ANY])
types = st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP])
resources = st.builds(Resource, types, names, st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]))
entries = st.builds(Entry, principals, hosts, operations, st.sampled_from([Permission.ALLOW, Permission.DENY]))
questions = st.tuples(st.sampled_from(["User:a", "User:b"]), st.sampled_from(["h", "i"]), operations, types, names)

IMPLIED_BY = {
    Operation.DESCRIBE: {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS},
}


def applies(resource: Resource, resource_type: ResourceType, name: str) -> bool:
    if resource.type is not resource_type:
        return False
    if resource.pattern is PatternType.PREFIXED:
        return name.startswith(resource.name)
    return resource.name in (name, "*")


def expected(
    acls: dict[Resource, list[Entry]],
    allows_unlisted: bool,
    question: tuple[str, str, Operation, ResourceType, str],
) -> bool:
    principal, host, operation, resource_type, name = question
    listed = [each for resource, found in acls.items() if applies(resource, resource_type, name) for each in found]
    if not listed:
        return allows_unlisted
    mine = [each for each in listed if each.principal in (principal, "User:*") and each.host in (host, "*")]
    if any(each.permission is Permission.DENY and each.operation in (operation, Operation.ALL) for each in mine):
        return False
    allowing = IMPLIED_BY.get(operation, {operation}) | {Operation.ALL}
    return any(each.permission is Permission.ALLOW and each.operation in allowing for each in mine)


@given(
    st.lists(st.tuples(resources, st.lists(entries, max_size=3)), max_size=8),
    st.booleans(),
    st.lists(questions, min_size=1, max_size=8),
)
def test_a_decision_is_what_the_entries_say(
    changes: list[tuple[Resource, list[Entry]]],
    allows_unlisted: bool,
    asked: list[tuple[str, str, Operation, ResourceType, str]],
) -> None:
    authorizer = AclAuthorizer(allows_unlisted=allows_unlisted)
    acls: dict[Resource, list[Entry]] = {}
    for resource, listed in changes:
        authorizer.replace(resource, listed)
        acls[resource] = listed
        for question in asked:
            assert authorizer.is_allowed(*question) is expected(acls, allows_unlisted, question)


@given(st.lists(st.tuples(resources, st.lists(entries, max_size=3)), max_size=8), questions)
def test_an_operation_allowed_on_a_name_is_allowed_on_any(
    changes: list[tuple[Resource, list[Entry]]], question: tuple[str, str, Operation, ResourceType, str]
) -> None:
    """Of the operations that nothing implies: Kafka asks for WRITE only."""
    principal, host, _, resource_type, name = question
    authorizer = AclAuthorizer()
    for resource, listed in changes:
        authorizer.replace(resource, listed)
    if authorizer.is_allowed(principal, host, Operation.WRITE, resource_type, name):
        assert authorizer.is_allowed_on_any(principal, host, Operation.WRITE, resource_type)
