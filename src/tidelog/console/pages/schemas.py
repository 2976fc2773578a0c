"""Schemas of the registry: subjects, versions and what changed between them; versions are checked and registered."""

import asyncio
import base64
import binascii
import json
from collections.abc import Callable
from difflib import unified_diff
from typing import Final, NamedTuple

from starlette.responses import Response

from tidelog.client.schemas.registry import (
    RegisteredSchema,
    RegistryError,
    Schema,
    SchemaReference,
    SchemaRegistry,
)
from tidelog.console.errors import PageError
from tidelog.console.forms import Act, Done, Field, Form, Values
from tidelog.console.pages.routing import Area
from tidelog.console.web import Ask, link, paged, parse_number

PAGE_SIZE: Final = 25
"""Each row is a request to the registry."""
TOGETHER_MAX: Final = 8
TYPES: Final = (("AVRO", "Avro"), ("JSON", "JSON Schema"), ("PROTOBUF", "Protobuf"))
LEVELS: Final = (
    ("BACKWARD", "readers of the new version read the data of the one before"),
    ("BACKWARD_TRANSITIVE", "readers of the new version read the data of all before"),
    ("FORWARD", "readers of the version before read the data of the new one"),
    ("FORWARD_TRANSITIVE", "readers of all versions before read the data of the new one"),
    ("FULL", "both ways, with the version before"),
    ("FULL_TRANSITIVE", "both ways, with all versions before"),
    ("NONE", "everything is allowed"),
)
SUBJECT_CHARACTERS_MAX: Final = 400


class SubjectRow(NamedTuple):
    """A subject in the list; without a newest version it could not be read."""

    subject: str
    newest: RegisteredSchema | None


class Compatibility(NamedTuple):
    """The rule for new versions of a subject."""

    level: str
    is_own: bool


def schema_url(subject: str, version: object = "", act: str = "") -> str:
    """The path of a subject, or of an act on it."""
    return link(f"/schema/{act}" if act else "/schema", subject=subject, version=version)


async def show_list(ask: Ask) -> Response:
    """The subjects whose names contain a text."""
    registry = ask.cluster.decoder.named_registry
    subjects, level = await asyncio.gather(
        asyncio.to_thread(registry.subjects), asyncio.to_thread(registry.compatibility, None)
    )
    wanted = ask.query("q").strip().lower()
    page = paged(ask, sorted(each for each in subjects if wanted in each.lower()), PAGE_SIZE)
    room = asyncio.Semaphore(TOGETHER_MAX)

    async def row(subject: str) -> SubjectRow:
        async with room:
            try:
                return SubjectRow(subject, await asyncio.to_thread(registry.latest, subject))
            except RegistryError:
                return SubjectRow(subject, None)

    rows = await asyncio.gather(*map(row, page.rows))
    return ask.render(
        "schemas.html",
        area="schemas",
        rows=rows,
        page=page,
        q=ask.query("q"),
        level=level,
        may_change=ask.cluster.may_change_registry,
    )


async def show_subject(ask: Ask) -> Response:
    """One version of a subject, and what is new in it."""
    registry, subject = ask.cluster.decoder.named_registry, _subject(ask)
    versions = sorted(await asyncio.to_thread(registry.versions, subject))
    number = ask.number("version", versions[-1], 1, 1 << 31)
    if number not in versions:
        raise PageError(404, "It does not exist", f"{subject} has no version {number}.")
    before = max((each for each in versions if each < number), default=None)
    found, compatibility, earlier = await asyncio.gather(
        asyncio.to_thread(registry.version, subject, number),
        asyncio.to_thread(_compatibility, registry, subject),
        asyncio.to_thread(lambda: None if before is None else registry.version(subject, before)),
    )
    text = readable(found.schema)
    return ask.render(
        "schema.html",
        area="schemas",
        found=found,
        text=text,
        changes=[] if earlier is None else changes(readable(earlier.schema), text),
        before=before,
        versions=versions[::-1],
        compatibility=compatibility,
        topic=await _topic_of(ask, subject),
        may_change=ask.cluster.may_change_registry,
    )


async def _topic_of(ask: Ask, subject: str) -> str | None:
    """The topic that a subject is named after, if there is such a topic."""
    stem = subject.removesuffix("-value").removesuffix("-key")
    return stem if stem != subject and stem in (await ask.view.snapshot.get()).topics else None


def _subject(ask: Ask) -> str:
    subject = ask.query("subject")
    if not subject:
        raise PageError(404, "It does not exist", "The address names no subject.")
    return subject


def _compatibility(registry: SchemaRegistry, subject: str) -> Compatibility:
    """The rule of a subject; without one, that of all subjects without their own."""
    own = registry.compatibility(subject or None)
    return Compatibility(own or registry.compatibility() or "unknown", own is not None)


def readable(schema: Schema) -> str:
    """The text of a schema for people: JSON with line ends, a Protobuf descriptor as text."""
    if schema.type == "PROTOBUF":
        return _descriptor_text(schema.text) or schema.text
    try:
        return json.dumps(json.loads(schema.text), indent=2, ensure_ascii=False)
    except ValueError:
        return schema.text


def _descriptor_text(text: str) -> str | None:
    try:
        data = base64.b64decode(text, validate=True)
        from google.protobuf.descriptor_pb2 import FileDescriptorProto
        from google.protobuf.message import DecodeError
        from google.protobuf.text_format import MessageToString
    except (binascii.Error, ValueError, ModuleNotFoundError):
        return None
    try:
        return str(MessageToString(FileDescriptorProto.FromString(data)))
    except DecodeError:
        return None


def changes(before: str, after: str) -> list[str]:
    """The lines that differ between two texts, with those around them."""
    return list(unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=3))[2:]


# Acts.


async def _register_form(ask: Ask) -> Form:
    subject = ask.query("subject")
    given = {"type": "AVRO", "schema": "", "references": ""}
    if subject:
        latest = (await asyncio.to_thread(ask.cluster.decoder.named_registry.latest, subject)).schema
        references = "\n".join(f"{each.name}={each.subject}:{each.version}" for each in latest.references)
        text = latest.text if latest.type == "PROTOBUF" else readable(latest)
        given = {"type": latest.type, "schema": text, "references": references}
    return Form(
        f"New version of {subject}" if subject else "New subject",
        [
            *(
                []
                if subject
                else [Field("subject", "Subject", hint="Mostly TOPIC-value or TOPIC-key.", placeholder="orders-value")]
            ),
            Field("type", "Type", given["type"], kind="select", options=TYPES),
            Field("schema", "Schema", given["schema"], kind="textarea", is_tall=True),
            Field(
                "references",
                "References",
                given["references"],
                kind="textarea",
                required=False,
                hint="Schemas that it uses, name=subject:version, one per line.",
            ),
        ],
        "Check",
        schema_url(subject) if subject else "/schemas",
        ["The next page says whether the registry takes it, before anything is changed."],
        area="schemas",
    )


async def _check(ask: Ask, values: Values) -> Form:
    registry = ask.cluster.decoder.named_registry
    subject = ask.query("subject") or values.get("subject", "").strip()
    schema = schema_of(values)
    kept = [Field(name, "", values.get(name, ""), kind="hidden") for name in ("type", "schema", "references")]
    try:
        problems = await asyncio.to_thread(registry.incompatibilities, subject, schema)
    except RegistryError as error:
        if not error.is_not_found:
            raise
        problems = []  # a subject without versions takes any
    level = await asyncio.to_thread(_compatibility, registry, subject)
    if problems:
        raise PageError(409, "It is not compatible", f"By {level.level} it is not compatible: {'; '.join(problems)}.")
    if not ask.cluster.may_change_registry:
        raise _not_here(f"By {level.level} it is compatible, and could be registered.")
    return Form(
        f"Register {subject}",
        [Field("subject", "", subject, kind="hidden"), *kept],
        "Register",
        schema_url(subject, act="register") if ask.query("subject") else "/schema/register",
        [f"By {level.level} it is compatible. It becomes the newest version of {subject}."],
        area="schemas",
        headings=("Change",),
        rows=[(line,) for line in await asyncio.to_thread(_changes_to, registry, subject, schema)],
        action="/schema/register/send",
    )


def _changes_to(registry: SchemaRegistry, subject: str, schema: Schema) -> list[str]:
    try:
        newest = registry.latest(subject).schema
    except RegistryError as error:
        if not error.is_not_found:
            raise
        return []
    return changes(readable(newest), readable(schema))


def schema_of(values: Values) -> Schema:
    """The schema of a form. Raises PageError."""
    references = []
    for line in values.get("references", "").splitlines():
        if line.strip():
            name, _, where = line.strip().rpartition("=")
            subject, _, version = where.rpartition(":")
            if not name or not subject:
                raise PageError(400, "A reference cannot be read", f"{line!r} is not name=subject:version.")
            references.append(SchemaReference(name, subject, parse_number("version", version, 1, 1 << 31)))
    kind = values.get("type", "AVRO")
    text = values.get("schema", "").replace("\r\n", "\n").strip()
    if kind != "PROTOBUF":
        text = _compact(text, is_plain_allowed=kind == "AVRO")
    return Schema(text, kind, tuple(references))


def _compact(text: str, *, is_plain_allowed: bool) -> str:
    """JSON without the spaces that are for people. The bare name of a plain type is a schema of Avro, too."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError) as error:
        if is_plain_allowed and text.isidentifier():
            return text
        raise PageError(400, "This is not JSON", f"The schema cannot be read: {error}.") from None


async def _send_form(ask: Ask) -> Form:
    del ask
    fields = [Field(name, name, kind="hidden") for name in ("subject", "type", "schema")]
    fields.append(Field("references", "references", kind="hidden", required=False))
    return Form("Register a schema", fields, "Try again", "/schemas", area="schemas")


async def _send(ask: Ask, values: Values) -> Done:
    _may_change(ask)
    registry, subject = ask.cluster.decoder.named_registry, values["subject"]
    schema_id = await asyncio.to_thread(registry.register, subject, schema_of(values))
    newest = await asyncio.to_thread(registry.latest, subject)
    return Done(schema_url(subject), f"Schema {schema_id} is version {newest.version} of {subject}.")


async def _level_form(ask: Ask) -> Form:
    registry, subject = ask.cluster.decoder.named_registry, ask.query("subject")
    now = await asyncio.to_thread(_compatibility, registry, subject)
    options = [(name, f"{name}: {text}") for name, text in LEVELS]
    if subject:
        options.insert(0, ("", "That of all subjects without their own"))
    return Form(
        f"Compatibility of {subject}" if subject else "Compatibility of all subjects without their own",
        [
            Field(
                "level",
                "New versions must be",
                now.level if now.is_own else "",
                kind="select",
                options=options,
                required=False,
            )
        ],
        "Save",
        schema_url(subject) if subject else "/schemas",
        [f"It is {now.level} now{'' if now.is_own else ', as for all others'}."],
        area="schemas",
    )


async def _set_level(ask: Ask, values: Values) -> Done:
    _may_change(ask)
    registry, subject, level = ask.cluster.decoder.named_registry, ask.query("subject"), values.get("level", "")
    if level not in dict(LEVELS) and (level or not subject):
        raise PageError(400, "There is no such rule", f"{level!r} is none of {', '.join(dict(LEVELS))}.")
    change: Callable[[], None] = (
        (lambda: registry.set_compatibility(level, subject or None))
        if level
        else (lambda: registry.clear_compatibility(subject))
    )
    await asyncio.to_thread(change)
    said = f"is {level} now" if level else "is that of all others now"
    whose = subject or "all subjects without their own"
    return Done(schema_url(subject) if subject else "/schemas", f"The compatibility of {whose} {said}.")


def _may_change(ask: Ask) -> None:
    if not ask.cluster.may_change_registry:
        raise _not_here("Nothing was changed.")


def _not_here(sentence: str) -> PageError:
    return PageError(
        403,
        "You may not do this",
        sentence,
        "Users of the cluster cannot change the registry here: it would see the console and not the user.",
    )


AREA = Area(
    pages={"/schemas": show_list, "/schema": show_subject},
    acts=[
        Act("/schema/register", _register_form, _check),
        Act("/schema/register/send", _send_form, _send),
        Act("/schema/compatibility", _level_form, _set_level),
    ],
)
