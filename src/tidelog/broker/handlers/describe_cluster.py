"""DescribeCluster: the brokers, the controller and the cluster's id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.broker.handlers._operations import cluster_operations
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


def handle(request: DescribeClusterRequest, context: Context) -> DescribeClusterResponse:
    """Describe the brokers; a list of controllers exists only where controllers are nodes of their own."""
    if request.endpoint_type not in (_BROKERS, _CONTROLLERS):
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=f"endpoint type {request.endpoint_type}"
        )
    if request.endpoint_type == _CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message="this endpoint describes brokers"
        )
    image = context.node.image
    return DescribeClusterResponse(
        endpoint_type=_BROKERS,
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker in image.brokers()
            if (endpoint := broker.endpoint(context.session.listener)) is not None
        ],
        cluster_authorized_operations=cluster_operations(request.include_cluster_authorized_operations, context),
    )
