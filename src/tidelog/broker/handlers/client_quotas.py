"""DescribeClientQuotas and AlterClientQuotas: the limits of users, client ids and addresses, as the tree has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from tidelog.broker.client_quotas import CONNECTION_RATE
from tidelog.broker.metadata_errors import metadata_errors_translated
from tidelog.metadata import paths
from tidelog.metadata.client_quotas import QuotaNode, alter_quotas, read_quota_nodes
from tidelog.quotas import number_in
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages import describe_client_quotas as described
from tidelog.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    EntryDataResponse,
    OpData,
)
from tidelog.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context
    from tidelog.metadata.store import Store

_ENTITY_TYPES: Final = ("user", "client-id", "ip")
_MATCH_TYPES: Final = (0, 1, 2)
_EXACT, _DEFAULT, _ANY = _MATCH_TYPES
_IP: Final = "ip"

# The names of quotas by whether they are for connections from an address or for a client's requests.
_IP_QUOTAS: Final = (CONNECTION_RATE,)
_CLIENT_QUOTAS: Final = ("request_percentage", "producer_byte_rate", "consumer_byte_rate", "controller_mutation_rate")
"""In the order in which Kafka describes them."""
_WHOLE_NUMBERS: Final = frozenset((CONNECTION_RATE, "producer_byte_rate", "consumer_byte_rate"))


async def handle_describe(request: DescribeClientQuotasRequest, context: Context) -> DescribeClientQuotasResponse:
    """The entities that match and have quotas."""
    try:
        context.check_allowed(AclOperation.DESCRIBE_CONFIGS, AclResourceType.CLUSTER)
        _check_filter(request.components)
    except ApiError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    with metadata_errors_translated():
        nodes = await context.node.metadata.run(_read)
    entries: list[described.EntryData] = []
    for node, settings in nodes:
        values = _quotas_in(node, settings)
        if values and _matches(node, request):
            entries.append(_entry(node, values))
        await context.pause()
    return DescribeClientQuotasResponse(entries=entries)


def _read(store: Store) -> list[tuple[QuotaNode, dict[str, str]]]:
    return list(read_quota_nodes(store))


def _quotas_in(node: QuotaNode, settings: Mapping[str, str]) -> dict[str, float]:
    known = _IP_QUOTAS if node.ip is not None else _CLIENT_QUOTAS
    return {name: value for name in known if (value := number_in(settings, name)) is not None}


def _matches(node: QuotaNode, request: DescribeClientQuotasRequest) -> bool:
    """Whether each component finds its name; with `strict`, nothing else may be part of the entity."""
    names = _names_of(node)
    for component in request.components:
        if component.entity_type not in names:
            return False
        name = names[component.entity_type]
        if component.match_type == _EXACT and name != component.match:
            return False
        if component.match_type == _DEFAULT and name != paths.DEFAULT_ENTITY:
            return False
    return not request.strict or len(names) == len(request.components)


def _names_of(node: QuotaNode) -> dict[str, str]:
    names = {"user": node.user, "client-id": node.client_id, _IP: node.ip}
    return {entity_type: name for entity_type, name in names.items() if name is not None}


def _entry(node: QuotaNode, values: Mapping[str, float]) -> described.EntryData:
    return described.EntryData(
        entity=[
            described.EntityData(entity_type=entity_type, entity_name=None if name == paths.DEFAULT_ENTITY else name)
            for entity_type, name in _names_of(node).items()
        ],
        values=[described.ValueData(key=key, value=value) for key, value in values.items()],
    )


async def handle_alter(request: AlterClientQuotasRequest, context: Context) -> AlterClientQuotasResponse:
    """Alter each entity for itself; what is stored has taken effect here before it is acknowledged."""
    response = AlterClientQuotasResponse()
    for entry in request.entries:
        # By entity type, as in Kafka, whose order is that of a map.
        answer = EntryDataResponse(error_message=None, entity=sorted(entry.entity, key=attrgetter("entity_type")))
        try:
            context.check_allowed(AclOperation.ALTER_CONFIGS, AclResourceType.CLUSTER)
            _check_entry(entry)
            await _alter(entry, request.validate_only, context)
        except ApiError as error:
            answer.error_code, answer.error_message = error.code, error.message
        response.entries.append(answer)
        await context.node.slices.pause()
    await context.node.dynamic_config.take()
    return response


async def _alter(entry: EntryData, validate_only: bool, context: Context) -> None:
    names = {
        part.entity_type: paths.DEFAULT_ENTITY if part.entity_name is None else part.entity_name
        for part in entry.entity
    }
    node = QuotaNode(names.get("user"), names.get("client-id"), names.get(_IP))
    changes = {operation.key: None if operation.remove else _text(operation) for operation in entry.ops}
    with metadata_errors_translated():
        await context.node.metadata.run(alter_quotas, node, changes, _accept, validate_only=validate_only)


def _text(operation: OpData) -> str:
    """As Kafka's brokers read it from the tree they may share: whole numbers have no fraction there."""
    return repr(int(operation.value) if operation.key in _WHOLE_NUMBERS else operation.value)


def _accept(_settings: object) -> None:
    return


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
        if not operation.remove and not (isfinite(operation.value) and operation.value > 0):
            raise _invalid(f"{operation.key} must be greater than 0, not {operation.value}")
        is_whole = operation.value.is_integer() and operation.value < 2**63
        if operation.key in _WHOLE_NUMBERS and not operation.remove and not is_whole:
            raise _invalid(f"{operation.key} must be a whole number, not {operation.value}")


def _quotas_of(entity: Sequence[EntityData]) -> Sequence[str]:
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
