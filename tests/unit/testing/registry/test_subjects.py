"""The registry for tests refuses what Confluent's refuses, with its codes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidelog.testing.registry.subjects import Refusal, StoredSchema, Subjects


def avro(*fields: str, name: str = "Order") -> dict[str, Any]:
    """A record of longs; a field that ends with `?` has a default."""
    described = [
        {"name": each.removesuffix("?"), "type": "long"} | ({"default": 0} if each.endswith("?") else {})
        for each in fields
    ]
    return {"schema": json.dumps({"type": "record", "name": name, "fields": described})}


def refused(code: int) -> Any:
    return pytest.raises(Refusal, check=lambda refusal: refusal.code == code)


@pytest.fixture
def subjects() -> Subjects:
    return Subjects()


def register(subjects: Subjects, name: str, body: dict[str, Any]) -> tuple[int, int]:
    return subjects.register(name, subjects.parse(body))


def test_a_schema_has_one_id_in_all_subjects(subjects: Subjects) -> None:
    assert register(subjects, "a", avro("id")) == (1, 1)
    assert register(subjects, "b", avro("id", name="Other")) == (1, 2)
    assert register(subjects, "b-value", avro("id")) == (1, 1)
    assert subjects.uses_of(1) == [("a", 1), ("b-value", 1)]


def test_white_space_does_not_make_another_schema(subjects: Subjects) -> None:
    body = avro("id")
    spaced = {"schema": json.dumps(json.loads(body["schema"]), indent=4)}
    assert register(subjects, "a", body) == register(subjects, "a", spaced)


@pytest.mark.parametrize(
    ("level", "allowed"),
    [
        ("BACKWARD", {"optional", "fewer"}),
        ("FORWARD", {"optional", "more"}),
        ("FULL", {"optional"}),
        ("NONE", {"optional", "more", "fewer", "renamed"}),
    ],
)
def test_a_level_decides_what_may_follow(level: str, allowed: set[str]) -> None:
    changes = {
        "optional": avro("id", "pieces", "note?"),
        "more": avro("id", "pieces", "note"),
        "fewer": avro("id"),
        "renamed": avro("id", "pieces", name="Basket"),
    }
    for what, body in changes.items():
        subjects = Subjects(level)
        register(subjects, "a", avro("id", "pieces"))
        if what in allowed:
            assert register(subjects, "a", body) == (2, 2)
            continue
        with refused(409):
            register(subjects, "a", body)


def test_only_a_transitive_level_looks_at_all_versions() -> None:
    for level, is_allowed in (("BACKWARD", True), ("BACKWARD_TRANSITIVE", False)):
        subjects = Subjects("NONE")
        for body in (avro("id"), avro("id", "pieces?"), avro("id", "pieces")):
            register(subjects, "a", body)
        subjects.set_level("a", level)
        schema = subjects.parse(avro("id", "pieces", "note?"))
        assert (subjects.incompatibilities("a", schema, level) == []) is is_allowed


def test_a_reader_that_meets_its_own_type_by_a_reference_is_compared(subjects: Subjects) -> None:
    register(subjects, "order", avro("id"))
    uses = {"name": "Order", "subject": "order", "version": 1}
    basket = {"type": "record", "name": "Basket", "fields": [{"name": "order", "type": "Order"}]}
    body = {"schema": json.dumps(basket), "references": [uses]}
    with refused(42201):
        subjects.parse({"schema": body["schema"]})
    assert register(subjects, "basket", body) == (1, 2)
    assert subjects.references_to("order", 1) == [2]
    with refused(42206):
        subjects.delete_subject("order", for_good=False)


@pytest.mark.parametrize("kind", ["JSON", "PROTOBUF"])
def test_what_is_not_compared_may_follow_only_without_a_rule(subjects: Subjects, kind: str) -> None:
    first, second = ({"schemaType": kind, "schema": text} for text in ('{"title": "a"}', '{"title": "b"}'))
    assert register(subjects, "a", first) == register(subjects, "a", first)
    with pytest.raises(Refusal, match="set the compatibility of subject 'a' to NONE"):
        register(subjects, "a", second)
    subjects.set_level("a", "NONE")
    assert register(subjects, "a", second) == (2, 2)


def test_a_type_never_follows_another(subjects: Subjects) -> None:
    register(subjects, "a", avro("id"))
    with pytest.raises(Refusal, match="of type JSON cannot follow one of type AVRO"):
        register(subjects, "a", {"schemaType": "JSON", "schema": "{}"})


def test_deletion_has_two_steps_and_numbers_are_not_used_again(subjects: Subjects) -> None:
    register(subjects, "a", avro("id"))
    register(subjects, "a", avro("id", "pieces?"))
    with refused(40407):
        subjects.delete_version("a", "1", for_good=True)
    assert subjects.delete_version("a", "latest", for_good=False) == 2
    assert (subjects.versions("a"), subjects.versions("a", with_deleted=True)) == ([1], [1, 2])
    with refused(40406):
        subjects.delete_version("a", "2", for_good=False)
    assert subjects.delete_version("a", "2", for_good=True) == 2
    assert register(subjects, "a", avro("id", "pieces?")) == (3, 2)
    with refused(40405):
        subjects.delete_subject("a", for_good=True)
    assert subjects.delete_subject("a", for_good=False) == [1, 3]
    assert (subjects.names(), subjects.names(with_deleted=True)) == ([], ["a"])
    with refused(40404):
        subjects.delete_subject("a", for_good=False)
    assert subjects.schema(1).kind == "AVRO"
    assert subjects.delete_subject("a", for_good=True) == [1, 3]
    assert subjects.names(with_deleted=True) == []


def test_what_is_not_there_has_a_code_of_its_own(subjects: Subjects) -> None:
    register(subjects, "a", avro("id"))
    with refused(40401):
        subjects.versions("b")
    with refused(40402):
        subjects.version("a", "7")
    with refused(40403):
        subjects.schema(9)
    with refused(40403):
        subjects.look_up("a", subjects.parse(avro("other")))
    with refused(40408):
        subjects.level_of("a", or_global=False)
    for text in ("0", "-2", "x", "99999999999"):
        with refused(42202):
            subjects.version("a", text)


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"schema": 1},
        {"schema": "{"},
        {"schema": '{"type": "nothing"}'},
        {"schema": "{}", "schemaType": "XML"},
        {"schema": "[]", "schemaType": "JSON"},
        {"schema": '"long"', "references": [{"name": "x"}]},
    ],
)
def test_what_is_no_schema_is_refused(subjects: Subjects, body: Any) -> None:
    with refused(42201):
        subjects.parse(body)


def test_levels_and_modes_fall_back_to_those_of_all_subjects(subjects: Subjects) -> None:
    subjects.set_level("a", "FULL")
    assert (subjects.level_of("a"), subjects.level_of("b"), subjects.clear_level("a")) == ("FULL", "BACKWARD", "FULL")
    assert subjects.level_of("a") == "BACKWARD"
    with refused(42203):
        subjects.set_level(None, "SOMETIMES")
    with refused(42204):
        subjects.set_mode("a", "IMPORT")
    subjects.set_mode("a", "READONLY")
    with refused(42205):
        register(subjects, "a", avro("id"))
    assert (subjects.mode_of("a"), subjects.mode_of(None)) == ("READONLY", "READWRITE")


def test_a_schema_is_described_without_the_type_avro() -> None:
    assert StoredSchema("AVRO", '"long"').described() == {"schema": '"long"'}
    assert StoredSchema("JSON", "{}").described() == {"schemaType": "JSON", "schema": "{}"}
