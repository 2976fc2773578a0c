"""Clients' requests that only the active controller can carry out, handed on to it in an envelope (KIP-590).

The controller sees the request as the client sent it, and the client's principal and address, and decides what the
client may do. A request that reaches no active controller is sent again until `request.timeout.ms` is over.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, cast

from tidelog.broker.topology.channels import response_class
from tidelog.broker.topology.controller_client import ControllerClient, ControllerUnavailable
from tidelog.tasks import OwnedTasks
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.errors import ApiError, ErrorCode, WireError
from tidelog.wire.frames import encode_request, response_body_offset
from tidelog.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tidelog.wire.schema import Message, boolean, string

if TYPE_CHECKING:
    from tidelog.network.session import Session

FORWARDED: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UNREGISTER_BROKER,
    }
)
"""What Kafka's brokers hand on in a KRaft cluster."""

_PURPOSE: Final = "forwarding"
_LENGTH_BYTES: Final = 4
_PRINCIPAL_VERSION: Final = b"\0\0"


class PrincipalData(Message, api_key=-1, versions=(0, 0), flexible_from=0):
    """A principal as Kafka's own builder of principals writes and reads it."""

    type: str = string()
    name: str = string()
    token_authenticated: bool = boolean()


def encode_principal(principal: str, *, has_token: bool = False) -> bytes:
    """The bytes of a principal such as `User:alice`."""
    kind, _, name = principal.partition(":")
    return _PRINCIPAL_VERSION + PrincipalData(type=kind, name=name, token_authenticated=has_token).encode(0)


class Forwarding:
    """Hands requests on."""

    def __init__(self, controller: ControllerClient, timeout_ms: int) -> None:
        self._controller = controller
        self._timeout_ms = timeout_ms
        self._tasks = OwnedTasks()

    async def forward(self, request: Message, version: int, session: Session) -> Message:
        """The controller's response to a client's request. Raises ApiError where there is none."""
        envelope = EnvelopeRequest(
            request_data=encode_request(request.api_key, version, 0, session.client_id, request.encode(version))[
                _LENGTH_BYTES:
            ],
            request_principal=encode_principal(session.principal, has_token=session.has_token),
            client_host_address=_address_bytes(session.address),
        )
        response = cast(EnvelopeResponse, await self.send(envelope))
        if response.error_code or response.response_data is None:
            code = ErrorCode(response.error_code)
            # As in Kafka: that this broker may not forward is no error of the client.
            is_clients = code is ErrorCode.UNSUPPORTED_VERSION
            raise ApiError(
                code if is_clients else ErrorCode.UNKNOWN_SERVER_ERROR,
                f"the controller does not take the request: {code.name}",
            )
        return _decoded(request, version, response.response_data)

    async def send(self, request: Message) -> Message:
        """The controller's response to a request of this broker. Raises ApiError where there is none.

        In a task of its own: what serves clients' requests has no timeouts.
        """
        return await self._tasks.spawn(self._send(request))

    async def _send(self, request: Message) -> Message:
        try:
            return await self._controller.send(request, timeout_ms=self._timeout_ms, purpose=_PURPOSE)
        except ControllerUnavailable as error:
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error

    async def close(self) -> None:
        """Hand nothing more on."""
        self._tasks.cancel()
        await self._tasks.wait()


def _decoded(request: Message, version: int, data: bytes) -> Message:
    kind: Any = response_class(type(request))
    try:
        found: Message = kind.decode(data, version, response_body_offset(request.api_key, version, data))
    except WireError as error:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller's response cannot be read: {error}") from error
    return found


def _address_bytes(address: str) -> bytes:
    try:
        return ip_address(address.partition("%")[0]).packed
    except ValueError:
        return bytes(4)
