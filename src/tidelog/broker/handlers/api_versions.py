"""ApiVersions: what this broker serves, read from the handler table, and the levels of the cluster's features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.metadata.features import SUPPORTED
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.broker.requests.routes import Route
    from tidelog.broker.serving.context import Context
    from tidelog.broker.topology.topology import QuorumFeature

_SOFTWARE_FROM = 3
_LEVEL_0_FROM = 4
"""Clients of version 3 cannot read a feature whose lowest level is 0."""


def handle(request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    """List every API with its versions; from version 3 on a client also sends its software's name and version."""
    if context.api_version >= _SOFTWARE_FROM:
        name, version = request.client_software_name, request.client_software_version
        if not (_is_software_word(name) and _is_software_word(version)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.session.client_software = (name, version)
    node = context.node
    if request.cluster_id not in (None, node.image.cluster_id) or request.node_id not in (-1, node.broker_id):
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    finalised = node.features.finalised
    of_quorum = node.topology.quorum_features()
    levels = finalised.in_effect() | {name: each.finalised for name, each in of_quorum.items() if each.finalised}
    return ApiVersionsResponse(
        api_keys=[_range(route) for route in node.routes.values()],
        supported_features=_supported(of_quorum, context.api_version),
        finalized_features_epoch=finalised.epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in levels.items()
        ],
    )


def _supported(of_quorum: Mapping[str, QuorumFeature], version: int) -> list[SupportedFeatureKey]:
    found = [SupportedFeatureKey(name=name, max_version=level) for name, level in SUPPORTED.items()]
    found += [
        SupportedFeatureKey(name=name, min_version=each.lowest, max_version=each.highest)
        for name, each in of_quorum.items()
    ]
    return [each for each in found if each.min_version or version >= _LEVEL_0_FROM]


def unsupported_version(route: Route) -> ApiVersionsResponse:
    """The response to an unknown version of ApiVersions, in version 0, which every client can read."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_range(route)])


def _range(route: Route) -> ApiVersion:
    return ApiVersion(api_key=int(route.api_key), min_version=route.min_version, max_version=route.max_version)


def _is_software_word(text: str) -> bool:
    """KIP-511: letters, digits, dots and dashes, beginning and ending with a letter or digit."""
    return (
        bool(text)
        and text[0].isalnum()
        and text[-1].isalnum()
        and text.isascii()
        and text.replace(".", "a").replace("-", "a").isalnum()
    )
