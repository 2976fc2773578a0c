"""The response that refuses a request: what the request is about, each with the same error.

Names of topics, partitions, groups and members are taken over from the request into the fields of the response that
mean the same. What cannot be taken over has its default.
"""

from __future__ import annotations

from typing import Any, Final

from tidelog.testing.faults.plan import message_class
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.errors import ErrorCode
from tidelog.wire.schema import Message, Struct

_SAME: Final = {
    "partition_index": ("partition_index", "partition", "index"),
    "partition": ("partition", "partition_index", "index"),
    "index": ("index", "partition_index", "partition"),
    "topic": ("topic", "name"),
    "name": ("name", "topic"),
}
"""Fields of responses, and what requests call the same thing."""


def refusal(api_key: ApiKey, version: int, body: memoryview, error_code: ErrorCode) -> Message:
    """The response to a request that is refused as a whole."""
    request = message_class(api_key, "Request").decode(body, version)
    response = message_class(api_key, "Response")()
    if not _refuse_parts(request, response, version, error_code) and "error_code" in response.fields:
        response.error_code = error_code  # type: ignore[attr-defined]
    return response


def _refuse_parts(asked: Struct, answered: Struct, version: int, error_code: ErrorCode) -> bool:
    """Fill the lists of a response; whether something in them now has the error."""
    lists = [
        (name, each.element)
        for name, each in asked.fields.items()
        if each.kind == "array" and each.is_in(version) and name != "forgotten_topics_data"
    ]
    has_error = False
    for name, each in answered.fields.items():
        if each.kind != "array" or not each.is_in(version) or not isinstance(each.element, type) or not lists:
            continue
        if not {"error_code", *_lists_of(each.element)} & each.element.fields.keys():
            continue
        source, _ = lists[0]
        parts = [_part(part, each.element, version, error_code) for part in getattr(asked, source) or ()]
        setattr(answered, name, parts)
        has_error = has_error or bool(parts)
        break
    return has_error


def _part(asked: Any, kind: type[Any], version: int, error_code: ErrorCode) -> Any:
    answered = kind()
    for name in kind.fields:
        if name == "error_code":
            answered.error_code = error_code
        elif not isinstance(asked, Struct):
            if name in ("key", "name", "group_id", "partition_index"):
                setattr(answered, name, asked)
        else:
            _take_over(asked, answered, name)
    if isinstance(asked, Struct):
        _refuse_parts(asked, answered, version, error_code)
    return answered


def _take_over(asked: Struct, answered: Any, name: str) -> None:
    if answered.fields[name].kind in ("array", "struct", "record_batches"):
        return
    for each in _SAME.get(name, (name,)):
        if each in asked.fields:
            setattr(answered, name, getattr(asked, each))
            return


def _lists_of(kind: type[Any]) -> list[str]:
    return [name for name, each in kind.fields.items() if each.kind == "array" and isinstance(each.element, type)]
