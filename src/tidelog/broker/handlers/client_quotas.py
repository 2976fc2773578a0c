"""DescribeClientQuotas and AlterClientQuotas: there are no quotas, and none can be set.

Throttling is not built. A quota that was accepted and not enforced would be worse than none, so setting one is refused;
removing one is done already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tidelog.security.acls import Operation, ResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    EntryDataResponse,
)
from tidelog.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.context import Context

_ENTITY_TYPES: Final = ("user", "client-id", "ip")
_MATCH_TYPES: Final = (0, 1, 2)
_IP: Final = "ip"

# The names of quotas by whether they are for connections from an address or for a client's requests.
_IP_QUOTAS: Final = frozenset(("connection_creation_rate",))
_CLIENT_QUOTAS: Final = frozenset(
    ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
)


def handle_describe(request: DescribeClientQuotasRequest, context: Context) -> DescribeClientQuotasResponse:
    """No quota matches, whatever is asked for, as long as it makes sense."""
    try:
        context.check_allowed(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
        _check_filter(request.components)
    except ApiError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    return DescribeClientQuotasResponse(entries=[])


async def handle_alter(request: AlterClientQuotasRequest, context: Context) -> AlterClientQuotasResponse:
    """Refuse each entry for itself."""
    response = AlterClientQuotasResponse()
    for entry in request.entries:
        answer = EntryDataResponse(error_message=None, entity=entry.entity)
        try:
            context.check_allowed(Operation.ALTER_CONFIGS, ResourceType.CLUSTER)
            _check_entry(entry)
        except ApiError as error:
            answer.error_code, answer.error_message = error.code, error.message
        response.entries.append(answer)
        await context.pause()
    return response


def _check_filter(components: Sequence[ComponentData]) -> None:
    seen: set[str] = set()
    for component in components:
        entity_type = component.entity_type
        if not entity_type:
            raise _invalid("a filter has no entity type")
        if entity_type not in _ENTITY_TYPES:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"there are no quotas of the entity type {entity_type!r}")
        if entity_type in seen:
            raise _invalid(f"the filter names the entity type {entity_type} twice")
        if component.match_type not in _MATCH_TYPES:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{component.match_type} is not a way to match names")
        seen.add(entity_type)
    if _IP in seen and len(seen) > 1:
        raise _invalid("addresses cannot be combined with users or client ids")


def _check_entry(entry: EntryData) -> None:
    known = _quotas_of(entry.entity)
    for operation in entry.ops:
        if operation.key not in known:
            raise _invalid(f"there is no quota {operation.key!r} for this entity")
    if refused := [operation.key for operation in entry.ops if not operation.remove]:
        text = f"{', '.join(refused)}: quotas are not supported yet, and no client would be throttled"
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, text)


def _quotas_of(entity: Sequence[EntityData]) -> frozenset[str]:
    """The names of the quotas that an entity may have."""
    types = [each.entity_type for each in entity]
    if not types:
        raise _invalid("a quota needs an entity")
    for entity_type in types:
        if entity_type not in _ENTITY_TYPES:
            raise _invalid(f"there are no quotas of the entity type {entity_type!r}")
    if len(set(types)) < len(types) or (_IP in types and len(types) > 1):
        raise _invalid(f"the entity types {', '.join(types)} cannot be combined")
    return _IP_QUOTAS if types == [_IP] else _CLIENT_QUOTAS


def _invalid(text: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, text)
