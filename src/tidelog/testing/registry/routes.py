"""The paths of the registry's REST API, each with the function that answers it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from tidelog.testing.registry.subjects import Refusal, Subjects


class Call(NamedTuple):
    """One request: what its path names, its query and its body."""

    names: Mapping[str, str]
    query: Mapping[str, str]
    body: Any

    def asks(self, name: str) -> bool:
        """Whether a query parameter is true."""
        return self.query.get(name, "").lower() == "true"

    @property
    def subject(self) -> str | None:
        """The subject that is named; None where the call is about all of them."""
        return self.names.get("subject")

    def text(self, name: str) -> str:
        """A string of the body."""
        value = self.body.get(name) if isinstance(self.body, dict) else None
        if not isinstance(value, str):
            raise Refusal(422, f"{name} must be given in the request's body")
        return value.upper()


Answer = Callable[[Subjects, Call], Any]


def answer(subjects: Subjects, method: str, path: str, query: Mapping[str, str], body: Any) -> Any:
    """The body of the answer to a request. Raises Refusal."""
    for allowed, pattern, function in _ROUTES:
        found = pattern.fullmatch(path)
        if found is not None and allowed == method:
            names = {name: _unquoted(text) for name, text in found.groupdict().items()}
            return function(subjects, Call(names, query, body))
    raise Refusal(404, f"HTTP 404 Not Found: {method} {path}")


def _unquoted(text: str) -> str:
    from urllib.parse import unquote

    return unquote(text)


def _described(subjects: Subjects, name: str, number: int, schema_id: int) -> dict[str, Any]:
    return {"subject": name, "version": number, "id": schema_id, **subjects.schema(schema_id).described()}


def _id(call: Call) -> int:
    text = call.names["id"]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _schema(subjects: Subjects, call: Call) -> Any:
    return subjects.schema(_id(call)).described()


def _schema_text(subjects: Subjects, call: Call) -> Any:
    return subjects.schema(_id(call)).text


def _schema_versions(subjects: Subjects, call: Call) -> Any:
    return [{"subject": name, "version": number} for name, number in subjects.uses_of(_id(call))]


def _schema_subjects(subjects: Subjects, call: Call) -> Any:
    return sorted({name for name, _ in subjects.uses_of(_id(call))})


def _list_subjects(subjects: Subjects, call: Call) -> Any:
    prefix = call.query.get("subjectPrefix", "").removeprefix(":*:")
    return [name for name in subjects.names(call.asks("deleted")) if name.startswith(prefix)]


def _list_versions(subjects: Subjects, call: Call) -> Any:
    return subjects.versions(call.names["subject"], call.asks("deleted"))


def _version(subjects: Subjects, call: Call) -> Any:
    name = call.names["subject"]
    return _described(subjects, name, *subjects.version(name, call.names["version"], call.asks("deleted")))


def _version_text(subjects: Subjects, call: Call) -> Any:
    return _version(subjects, call)["schema"]


def _referenced_by(subjects: Subjects, call: Call) -> Any:
    name = call.names["subject"]
    return subjects.references_to(name, subjects.version(name, call.names["version"])[0])


def _register(subjects: Subjects, call: Call) -> Any:
    name = call.names["subject"]
    return _described(subjects, name, *subjects.register(name, subjects.parse(call.body)))


def _look_up(subjects: Subjects, call: Call) -> Any:
    name = call.names["subject"]
    return _described(subjects, name, *subjects.look_up(name, subjects.parse(call.body), call.asks("deleted")))


def _delete_subject(subjects: Subjects, call: Call) -> Any:
    return subjects.delete_subject(call.names["subject"], for_good=call.asks("permanent"))


def _delete_version(subjects: Subjects, call: Call) -> Any:
    return subjects.delete_version(call.names["subject"], call.names["version"], for_good=call.asks("permanent"))


def _check(subjects: Subjects, call: Call) -> Any:
    name, wanted = call.names["subject"], call.names.get("version")
    schema = subjects.parse(call.body)
    versions = None if wanted is None else [subjects.version(name, wanted)[0]]
    reasons = subjects.incompatibilities(name, schema, subjects.level_of(name), versions)
    return {"is_compatible": not reasons} | ({"messages": reasons} if call.asks("verbose") else {})


def _level(subjects: Subjects, call: Call) -> Any:
    or_global = call.subject is None or call.asks("defaultToGlobal")
    return {"compatibilityLevel": subjects.level_of(call.subject, or_global=or_global)}


def _set_level(subjects: Subjects, call: Call) -> Any:
    level = call.text("compatibility")
    subjects.set_level(call.subject, level)
    return {"compatibility": level}


def _clear_level(subjects: Subjects, call: Call) -> Any:
    return {"compatibilityLevel": subjects.clear_level(call.subject)}


def _mode(subjects: Subjects, call: Call) -> Any:
    return {"mode": subjects.mode_of(call.subject)}


def _set_mode(subjects: Subjects, call: Call) -> Any:
    mode = call.text("mode")
    subjects.set_mode(call.subject, mode)
    return {"mode": mode}


def _types(_subjects: Subjects, _call: Call) -> Any:
    return ["JSON", "PROTOBUF", "AVRO"]


def _empty(_subjects: Subjects, _call: Call) -> Any:
    return {}


def _route(method: str, path: str, function: Answer) -> tuple[str, re.Pattern[str], Answer]:
    return method, re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)), function


_ROUTES: Final = (
    _route("GET", "/", _empty),
    _route("GET", "/schemas/types", _types),
    _route("GET", "/schemas/ids/{id}", _schema),
    _route("GET", "/schemas/ids/{id}/schema", _schema_text),
    _route("GET", "/schemas/ids/{id}/versions", _schema_versions),
    _route("GET", "/schemas/ids/{id}/subjects", _schema_subjects),
    _route("GET", "/subjects", _list_subjects),
    _route("POST", "/subjects/{subject}", _look_up),
    _route("DELETE", "/subjects/{subject}", _delete_subject),
    _route("GET", "/subjects/{subject}/versions", _list_versions),
    _route("POST", "/subjects/{subject}/versions", _register),
    _route("GET", "/subjects/{subject}/versions/{version}", _version),
    _route("DELETE", "/subjects/{subject}/versions/{version}", _delete_version),
    _route("GET", "/subjects/{subject}/versions/{version}/schema", _version_text),
    _route("GET", "/subjects/{subject}/versions/{version}/referencedby", _referenced_by),
    _route("POST", "/compatibility/subjects/{subject}/versions", _check),
    _route("POST", "/compatibility/subjects/{subject}/versions/{version}", _check),
    _route("GET", "/config", _level),
    _route("PUT", "/config", _set_level),
    _route("DELETE", "/config", _clear_level),
    _route("GET", "/config/{subject}", _level),
    _route("PUT", "/config/{subject}", _set_level),
    _route("DELETE", "/config/{subject}", _clear_level),
    _route("GET", "/mode", _mode),
    _route("PUT", "/mode", _set_mode),
    _route("GET", "/mode/{subject}", _mode),
    _route("PUT", "/mode/{subject}", _set_mode),
)
