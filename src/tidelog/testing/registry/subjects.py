"""Subjects, versions and ids of schemas, with the rules and error codes of Confluent's registry.

A schema has one id wherever it is registered, and a subject never uses a version number twice. Deletion has two
steps, as there: a version that is deleted is hidden and can still be read by its id; then it can be deleted for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tidelog.testing.registry.compatibility import (
    LEVELS,
    Incomparable,
    SchemaError,
    canonical,
    compared_versions,
    problems,
)

MODES: Final = ("READWRITE", "READONLY")
_TYPES: Final = ("AVRO", "JSON", "PROTOBUF")


class Refusal(Exception):  # noqa: N818 -- an answer with an error code
    """A request that the registry answers with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code: Final = code
        self.message: Final = message

    @property
    def status(self) -> int:
        """HTTP's code: the first three digits."""
        return int(str(self.code)[:3])


class Reference(NamedTuple):
    """Another schema that a schema uses: the name it is used by, and the version of a subject that it is."""

    name: str
    subject: str
    version: int


class StoredSchema(NamedTuple):
    """A schema as it is compared and returned."""

    kind: str
    text: str
    references: tuple[Reference, ...] = ()

    def described(self) -> dict[str, Any]:
        """The fields of an answer. AVRO is not named, as there."""
        described: dict[str, Any] = {} if self.kind == "AVRO" else {"schemaType": self.kind}
        described["schema"] = self.text
        if self.references:
            described["references"] = [each._asdict() for each in self.references]
        return described


@dataclass(slots=True)
class _Version:
    schema_id: int
    is_deleted: bool = False


@dataclass(slots=True)
class _Subject:
    versions: dict[int, _Version] = field(default_factory=dict)
    last_version: int = 0

    def visible(self, with_deleted: bool = False) -> list[int]:
        return [number for number, each in self.versions.items() if with_deleted or not each.is_deleted]


class Subjects:
    """The whole content of a registry. Methods raise `Refusal`."""

    def __init__(self, compatibility: str = "BACKWARD") -> None:
        self._schemas: list[StoredSchema] = []
        self._subjects: dict[str, _Subject] = {}
        self._levels: dict[str | None, str] = {None: _level(compatibility)}
        self._modes: dict[str | None, str] = {None: MODES[0]}

    # --- schemas ---

    def schema(self, schema_id: int) -> StoredSchema:
        """The schema with an id."""
        if not 0 < schema_id <= len(self._schemas):
            raise Refusal(40403, f"Schema {schema_id} not found")
        return self._schemas[schema_id - 1]

    def uses_of(self, schema_id: int) -> list[tuple[str, int]]:
        """Subject and version of everything that is registered with an id."""
        self.schema(schema_id)
        return [
            (name, number)
            for name, subject in self._subjects.items()
            for number in subject.visible()
            if subject.versions[number].schema_id == schema_id
        ]

    # --- subjects ---

    def names(self, with_deleted: bool = False) -> list[str]:
        """Every subject, sorted."""
        return sorted(name for name, subject in self._subjects.items() if subject.visible(with_deleted))

    def versions(self, name: str, with_deleted: bool = False) -> list[int]:
        """The version numbers of a subject."""
        return self._subject(name, with_deleted).visible(with_deleted)

    def version(self, name: str, wanted: str, with_deleted: bool = False) -> tuple[int, int]:
        """Number and schema id of a version, which may be `latest`."""
        subject = self._subject(name, with_deleted)
        numbers = subject.visible(with_deleted)
        number = numbers[-1] if wanted in ("latest", "-1") else _version_number(wanted)
        if number not in numbers:
            raise Refusal(40402, f"Version {number} not found.")
        return number, subject.versions[number].schema_id

    def register(self, name: str, schema: StoredSchema) -> tuple[int, int]:
        """Make a schema a version of a subject, unless it is one; its version and id."""
        found = self._find(name, schema)
        if found is not None:
            return found
        self._check_writable(name)
        level = self.level_of(name)
        reasons = self.incompatibilities(name, schema, level)
        if reasons:
            text = f"Schema being registered is incompatible with an earlier schema for subject {name!r}, details: "
            raise Refusal(409, f"{text}{'; '.join(reasons)}; compatibility: {level!r}")
        subject = self._subjects.setdefault(name, _Subject())
        subject.last_version += 1
        schema_id = self._id_of(schema)
        subject.versions[subject.last_version] = _Version(schema_id)
        return subject.last_version, schema_id

    def look_up(self, name: str, schema: StoredSchema, with_deleted: bool = False) -> tuple[int, int]:
        """Version and id of a schema that is registered."""
        self._subject(name, with_deleted)
        found = self._find(name, schema, with_deleted)
        if found is None:
            raise Refusal(40403, "Schema not found")
        return found

    def delete_subject(self, name: str, *, for_good: bool) -> list[int]:
        """Hide all versions of a subject, or remove those that are hidden; their numbers."""
        self._check_writable(name)
        subject = self._subjects.get(name)
        if subject is None or not subject.versions:
            raise Refusal(40401, f"Subject {name!r} not found.")
        if not for_good and not subject.visible():
            raise Refusal(40404, f"Subject {name!r} was soft deleted. Set permanent=true to delete permanently")
        if for_good and subject.visible():
            raise Refusal(40405, f"Subject {name!r} was not deleted first before being permanently deleted")
        self._check_unused(name, subject.versions)
        numbers = subject.visible(with_deleted=for_good)
        if for_good:
            del self._subjects[name]
        for number in numbers:
            subject.versions[number].is_deleted = True
        self._levels.pop(name, None)
        self._modes.pop(name, None)
        return numbers

    def delete_version(self, name: str, wanted: str, *, for_good: bool) -> int:
        """Hide a version of a subject, or remove one that is hidden; its number."""
        self._check_writable(name)
        number, _ = self.version(name, wanted, with_deleted=True)
        subject = self._subjects[name]
        is_deleted = subject.versions[number].is_deleted
        if is_deleted and not for_good:
            text = f"Subject {name!r} Version {number} was soft deleted. Set permanent=true to delete permanently"
            raise Refusal(40406, text)
        if for_good and not is_deleted:
            text = f"Subject {name!r} Version {number} was not deleted first before being permanently deleted"
            raise Refusal(40407, text)
        self._check_unused(name, [number])
        if for_good:
            del subject.versions[number]
        else:
            subject.versions[number].is_deleted = True
        return number

    def references_to(self, name: str, number: int) -> list[int]:
        """The ids of the schemas that use a version."""
        used = {each.schema_id for subject in self._subjects.values() for each in subject.versions.values()}
        return [
            schema_id
            for schema_id in sorted(used)
            if any((each.subject, each.version) == (name, number) for each in self.schema(schema_id).references)
        ]

    # --- rules ---

    def incompatibilities(
        self, name: str, schema: StoredSchema, level: str, versions: Iterable[int] | None = None
    ) -> list[str]:
        """What is wrong with a schema as the next version of a subject, or beside some of its versions."""
        subject = self._subjects.get(name, _Subject())
        earlier = [self.schema(subject.versions[each].schema_id) for each in versions or subject.visible()]
        reasons: list[str] = []
        for each in compared_versions(earlier, level):
            try:
                reasons += problems(schema, each, level, self._resolved(schema), self._resolved(each))
            except Incomparable as error:
                raise Refusal(409, f"{error}; set the compatibility of subject {name!r} to NONE") from None
        return reasons

    def level_of(self, name: str | None, *, or_global: bool = True) -> str:
        """The compatibility of a subject, or the one of all subjects without their own."""
        level = self._levels.get(name)
        if level is None and not or_global:
            raise Refusal(40408, f"Subject {name!r} does not have subject-level compatibility configured")
        return level or self._levels[None]

    def set_level(self, name: str | None, level: str) -> None:
        """Set a compatibility."""
        self._levels[name] = _level(level)

    def clear_level(self, name: str | None) -> str:
        """Go back to the compatibility of all subjects, or of a new registry; what was set before."""
        level = self.level_of(name, or_global=False)
        if name is None:
            self._levels[None] = "BACKWARD"
        else:
            del self._levels[name]
        return level

    def mode_of(self, name: str | None) -> str:
        """Whether a subject takes new versions."""
        return self._modes.get(name) or self._modes[None]

    def set_mode(self, name: str | None, mode: str) -> None:
        """Set it."""
        if mode not in MODES:
            raise Refusal(42204, f"Invalid mode {mode!r}. Valid values are {', '.join(MODES)}")
        self._modes[name] = mode

    def parse(self, document: Any) -> StoredSchema:
        """The schema in a request's body."""
        if not isinstance(document, dict) or not isinstance(document.get("schema"), str):
            raise Refusal(42201, "Empty schema")
        kind = document.get("schemaType") or "AVRO"
        if kind not in _TYPES:
            raise Refusal(42201, f"Invalid schema type {kind}. Supported types: {', '.join(_TYPES)}")
        references = tuple(map(_reference, document.get("references") or ()))
        schema = StoredSchema(kind, document["schema"], references)
        try:
            return schema._replace(text=canonical(kind, schema.text, self._resolved(schema)))
        except SchemaError as error:
            raise Refusal(42201, f"Invalid schema: {error}") from None

    # --- inside ---

    def _subject(self, name: str, with_deleted: bool) -> _Subject:
        subject = self._subjects.get(name)
        if subject is None or not subject.visible(with_deleted):
            raise Refusal(40401, f"Subject {name!r} not found.")
        return subject

    def _find(self, name: str, schema: StoredSchema, with_deleted: bool = False) -> tuple[int, int] | None:
        subject = self._subjects.get(name)
        for number in reversed(subject.visible(with_deleted) if subject else []):
            assert subject is not None
            schema_id = subject.versions[number].schema_id
            if self.schema(schema_id) == schema:
                return number, schema_id
        return None

    def _id_of(self, schema: StoredSchema) -> int:
        if schema not in self._schemas:
            self._schemas.append(schema)
        return self._schemas.index(schema) + 1

    def _resolved(self, schema: StoredSchema) -> Mapping[str, str]:
        """Text of each schema that one uses, those that they use first."""
        texts: dict[str, str] = {}
        for each in schema.references:
            _, schema_id = self.version(each.subject, str(each.version), with_deleted=True)
            used = self.schema(schema_id)
            texts |= self._resolved(used)
            texts[each.name] = used.text
        return texts

    def _check_writable(self, name: str) -> None:
        if self.mode_of(name) == "READONLY":
            raise Refusal(42205, f"Subject {name} is in read-only mode")

    def _check_unused(self, name: str, numbers: Iterable[int]) -> None:
        for number in numbers:
            if self.references_to(name, number):
                raise Refusal(42206, f"One or more references exist to the schema {name!r} version {number}")


def _level(level: str) -> str:
    if level not in LEVELS:
        raise Refusal(42203, f"Invalid compatibility level {level!r}. Valid values are {', '.join(LEVELS)}")
    return level


def _version_number(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not number:
        text = (
            f"The specified version {text!r} is not a valid version id. It is a number from 1 to 2147483647 or 'latest'"
        )
        raise Refusal(42202, text)
    return number


def _reference(document: Any) -> Reference:
    try:
        return Reference(str(document["name"]), str(document["subject"]), int(document["version"]))
    except (KeyError, TypeError, ValueError):
        raise Refusal(
            42201, f"Invalid schema: {document!r} is not a reference with name, subject and version"
        ) from None
