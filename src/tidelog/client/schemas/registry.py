"""A schema registry, by URL: Confluent's REST API, as Karapace, Apicurio and Redpanda serve it as well.

Schemas never change once they have an id, so everything learned is kept: a producer or consumer asks once for each
schema. Calls block, from whichever thread they are made, and may be made from several. A program with an event loop
that must not wait, not even once, calls `preload` in a thread before it begins.
"""

import base64
import json
import logging
import ssl
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import Request, urlopen

from tidelog.client.backoff import Backoff
from tidelog.client.errors import ClientConfigError, ClientError

_log = logging.getLogger("tidelog.client.schemas")

_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_ROUNDS: Final = 3
"""How often every address is tried before a call is given up."""
_TRANSIENT: Final = frozenset({408, 429, 500, 502, 503, 504})
_NOT_FOUND: Final = 404


class RegistryError(ClientError):
    """The registry refused a request; `status` is HTTP's code, `error_code` and `reason` are the registry's own."""

    def __init__(self, message: str, status: int, error_code: int, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message
        self.status = status
        self.error_code = error_code

    @property
    def is_not_found(self) -> bool:
        """Whether the registry does not have the subject, version or schema."""
        return self.status == _NOT_FOUND


class RegistryUnavailable(ClientError):  # noqa: N818 - named as the other client errors are
    """No address of the registry answered."""


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """Another schema that a schema uses: the name it is used by, and where the registry has it."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as the registry keeps it."""

    text: str
    type: str = "AVRO"
    references: tuple[SchemaReference, ...] = ()


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A version of a subject."""

    subject: str
    version: int
    schema_id: int
    schema: Schema


class SchemaRegistry:
    """One registry, at one or several addresses that are tried in turn."""

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        username: str | None = None,
        password: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 10.0,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """`timeout` is in seconds, for each attempt. `headers` are sent with every request, such as a bearer token.

        A user and a password can also stand in the URL, in the first of several, as Confluent's clients have it by
        default (`basic.auth.credentials.source=URL`); they are in no error and no log.
        """
        given = [_parsed(each.strip()) for each in (url.split(",") if isinstance(url, str) else url)]
        if not given:
            raise ClientConfigError("a schema registry needs at least one URL")
        self._urls = [each.url for each in given]
        if username is None:
            username, password = given[0].username, given[0].password
        self._headers = {"Accept": _CONTENT_TYPE, "Content-Type": _CONTENT_TYPE, **(headers or {})}
        if username is not None:
            token = base64.b64encode(f"{username}:{password or ''}".encode()).decode()
            self._headers["Authorization"] = f"Basic {token}"
        self._timeout = timeout
        self._ssl_context = ssl_context
        self._backoff = Backoff(100, 1000)
        self._lock = threading.Lock()
        self._schemas: dict[int, Schema] = {}
        self._ids: dict[tuple[str, Schema], int] = {}
        self._versions: dict[tuple[str, int], RegisteredSchema] = {}

    def __repr__(self) -> str:
        return f"SchemaRegistry({', '.join(self._urls)})"

    # --- for serializers ---

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> int:
        """The id of `schema` as a version of `subject`, which it becomes if it is not one yet.

        Raises RegistryError where the subject's compatibility rule forbids it (status 409).
        """
        return self._id_of(f"subjects/{_quoted(subject)}/versions", subject, schema, normalize)

    def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> int:
        """The id of `schema`, which must be a version of `subject` already. Raises RegistryError where it is not."""
        return self._id_of(f"subjects/{_quoted(subject)}", subject, schema, normalize)

    def schema(self, schema_id: int) -> Schema:
        """The schema with an id, as it stands before written data."""
        known = self._schemas.get(schema_id)
        if known is not None:
            return known
        schema = _parse_schema(self._call("GET", f"schemas/ids/{schema_id}"))
        self._schemas[schema_id] = schema
        return schema

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest version of a subject, asked for each time."""
        return self._remember(self._call("GET", f"subjects/{_quoted(subject)}/versions/latest"))

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """One version of a subject."""
        known = self._versions.get((subject, version))
        return known or self._remember(self._call("GET", f"subjects/{_quoted(subject)}/versions/{version}"))

    def serialized(self, schema_id: int) -> str:
        """A Protobuf schema as a descriptor in base64, where the registry makes one; else its text."""
        return str(self._call("GET", f"schemas/ids/{schema_id}?format=serialized")["schema"])

    # --- administration ---

    def subjects(self) -> list[str]:
        """Every subject."""
        return list(self._call("GET", "subjects"))

    def versions(self, subject: str) -> list[int]:
        """The versions of a subject."""
        return list(self._call("GET", f"subjects/{_quoted(subject)}/versions"))

    def preload(self, subjects: Iterable[str]) -> int:
        """Load every version of `subjects`, so that their data is read without asking; returns how many there were."""
        return len([self.version(subject, version) for subject in subjects for version in self.versions(subject)])

    def is_compatible(self, subject: str, schema: Schema) -> bool:
        """Whether `schema` could become the next version of `subject`."""
        path = f"compatibility/subjects/{_quoted(subject)}/versions/latest"
        return bool(self._call("POST", path, _body(schema))["is_compatible"])

    def incompatibilities(self, subject: str, schema: Schema) -> list[str]:
        """Why `schema` could not become the next version of `subject`, by the subject's rule; nothing if it could."""
        path = f"compatibility/subjects/{_quoted(subject)}/versions?verbose=true"
        answer = self._call("POST", path, _body(schema))
        if answer["is_compatible"]:
            return []
        return [str(each) for each in answer.get("messages") or ()] or ["the registry does not say why"]

    def compatibility(self, subject: str | None = None) -> str | None:
        """The rule for new versions: of a subject, None if it has none of its own; or of all that have none."""
        try:
            answer = self._call("GET", f"config/{_quoted(subject)}" if subject else "config")
        except RegistryError as error:
            if subject and error.is_not_found:
                return None
            raise
        return str(answer.get("compatibilityLevel") or answer["compatibility"])

    def clear_compatibility(self, subject: str) -> None:
        """Give a subject the rule of all that have none of their own."""
        self._call("DELETE", f"config/{_quoted(subject)}")

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        """Set the rule for new versions (`BACKWARD`, `FULL`, `NONE` …) of a subject, or of all that have none."""
        self._call("PUT", f"config/{_quoted(subject)}" if subject else "config", {"compatibility": level})

    # --- requests ---

    def _id_of(self, path: str, subject: str, schema: Schema, normalize: bool) -> int:
        known = self._ids.get((subject, schema))
        if known is not None:
            return known
        with self._lock:
            # Threads that begin together would all register the same schema.
            known = self._ids.get((subject, schema))
            if known is None:
                query = "?normalize=true" if normalize else ""
                known = int(self._call("POST", path + query, _body(schema))["id"])
                self._schemas.setdefault(known, schema)
                self._ids[subject, schema] = known
        return known

    def _remember(self, answer: Any) -> RegisteredSchema:
        schema = _parse_schema(answer)
        found = RegisteredSchema(answer["subject"], int(answer["version"]), int(answer["id"]), schema)
        self._schemas.setdefault(found.schema_id, schema)
        self._versions[found.subject, found.version] = found
        return found

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """One request, tried at each address and again after a while for faults that pass."""
        data = None if body is None else json.dumps(body).encode()
        failures: dict[str, str] = {}
        for attempt in range(_ROUNDS):
            time.sleep(self._backoff.after(attempt) / 1000)
            for url in self._urls:
                request = Request(f"{url}/{path}", data, self._headers, method=method)  # noqa: S310 - checked_url
                try:
                    with urlopen(request, timeout=self._timeout, context=self._ssl_context) as reply:  # noqa: S310
                        return json.load(reply)
                except HTTPError as error:
                    refusal = _refusal(url, path, error)
                    if error.code not in _TRANSIENT:
                        raise refusal from None
                    failures[url] = str(refusal)
                except (URLError, HTTPException, OSError, ValueError) as error:
                    failures[url] = f"{url}: {getattr(error, 'reason', None) or error}"
            if not attempt:
                _log.warning("the schema registry does not answer, retrying: %s", "; ".join(failures.values()))
        raise RegistryUnavailable(f"no schema registry answers {method} {path}: {'; '.join(failures.values())}")


class _Address(NamedTuple):
    """Where a registry is, and who asks."""

    url: str
    username: str | None
    password: str | None


def _parsed(url: str) -> _Address:
    scheme, _, rest = url.rpartition("://")
    place, slash, path = rest.partition("/")
    credentials, _, host = place.rpartition("@")
    shown = f"{scheme}://{host}{slash}{path}" if scheme else host + slash + path
    try:
        parts = urlsplit(shown)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise ClientConfigError(f"{shown!r} is not the URL of a schema registry, such as http://localhost:8081")
    username, _, password = credentials.partition(":")
    return _Address(shown.rstrip("/"), unquote(username) if credentials else None, unquote(password))


def _quoted(subject: str) -> str:
    return quote(subject, safe="")


def _body(schema: Schema) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": schema.text}
    if schema.type != "AVRO":
        body["schemaType"] = schema.type
    if schema.references:
        body["references"] = [
            {"name": each.name, "subject": each.subject, "version": each.version} for each in schema.references
        ]
    return body


def _parse_schema(answer: Any) -> Schema:
    references = tuple(
        SchemaReference(each["name"], each["subject"], int(each["version"])) for each in answer.get("references") or ()
    )
    return Schema(answer["schema"], answer.get("schemaType") or "AVRO", references)


def _refusal(url: str, path: str, error: HTTPError) -> RegistryError:
    try:
        answer = json.load(error)
        message, code = str(answer["message"]), int(answer["error_code"])
    except (ValueError, KeyError, TypeError):
        message, code = str(error.reason), error.code
    return RegistryError(f"{url}/{path} answered {error.code}: {message}", error.code, code, message)
