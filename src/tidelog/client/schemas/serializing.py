"""What the serializers of all schema types share: subject, schema id and the bytes before the payload.

A serializer is given to one side of a producer, keys or values, and asks the registry once for each subject.
"""

from dataclasses import dataclass

from tidelog.client.errors import ClientConfigError
from tidelog.client.schemas.registry import Schema, SchemaRegistry
from tidelog.client.schemas.subjects import SubjectNameStrategy, topic_name


@dataclass(frozen=True, slots=True)
class Registration:
    """How a serializer uses the registry.

    `register` adds a schema that the subject does not have yet; without it, a schema that is not there is an error.
    `use_latest` writes with the newest version of the subject instead of the serializer's own schema.
    """

    is_key: bool = False
    subject: SubjectNameStrategy = topic_name
    register: bool = True
    normalize: bool = False
    use_latest: bool = False


def schema_to_write(
    registry: SchemaRegistry, registration: Registration, topic: str, name: str | None, own: Schema | None
) -> tuple[int, Schema]:
    """The id of the schema to write with, and the schema. Called once for each topic and record name."""
    subject = registration.subject(topic, registration.is_key, name)
    if registration.use_latest:
        latest = registry.latest(subject)
        return latest.schema_id, latest.schema
    if own is None:
        raise ClientConfigError("a serializer without a schema of its own needs use_latest=True")
    find = registry.register if registration.register else registry.lookup
    return find(subject, own, normalize=registration.normalize), own


def missing(package: str, extra: str, error: ModuleNotFoundError) -> ClientConfigError:
    """The error for a schema type whose library is not installed."""
    made = ClientConfigError(f"{package} is not installed: pip install 'tidelog[{extra}]'")
    made.__cause__ = error
    return made


def referenced(registry: SchemaRegistry | None, schema: Schema) -> dict[str, Schema]:
    """Every schema that `schema` uses, and those that these use, by the name they are used by, the inner ones first."""
    found: dict[str, Schema] = {}
    if registry is not None:
        _collect(registry, schema, found)
    elif schema.references:
        raise ClientConfigError("a schema with references needs a registry")
    return found


def _collect(registry: SchemaRegistry, schema: Schema, found: dict[str, Schema]) -> None:
    for reference in schema.references:
        if reference.name not in found:
            used = registry.version(reference.subject, reference.version).schema
            _collect(registry, used, found)
            found[reference.name] = used
