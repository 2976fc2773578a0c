"""UpdateFeatures: change the finalized versions of cluster features (KIP-584).

A broker in Kafka's ZooKeeper mode supports no feature, so no update can be applied. Each is answered with the reason
that Kafka gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context

_UPGRADE: Final = 1
_UPGRADE_TYPES: Final = (_UPGRADE, 2, 3)


async def handle(request: UpdateFeaturesRequest, context: Context) -> UpdateFeaturesResponse:
    """Answer each feature once; of two updates of the same one the last counts."""
    refused = _refusal_of_all(context)
    if refused is not None:
        return UpdateFeaturesResponse(error_code=refused, error_message=refused.text)
    results: dict[str, UpdatableFeatureResult] = {}
    for update in request.feature_updates:
        results[update.feature] = UpdatableFeatureResult(
            feature=update.feature,
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=_reason(update, context.api_version),
        )
        await context.pause()
    return UpdateFeaturesResponse(error_message=None, results=list(results.values()))


def _refusal_of_all(context: Context) -> ErrorCode | None:
    if not context.is_allowed(AclOperation.ALTER, AclResourceType.CLUSTER):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return None if context.node.topology.is_controller else ErrorCode.NOT_CONTROLLER


def _reason(update: FeatureUpdateKey, version: int) -> str:
    if not update.feature:
        return "Feature name can not be empty."
    if version > 0 and update.upgrade_type not in _UPGRADE_TYPES:
        return "Received unknown upgrade type."
    may_downgrade = update.allow_downgrade if version == 0 else update.upgrade_type != _UPGRADE
    if update.max_version_level >= 1:
        return "Could not apply finalized feature update because the provided feature is not supported."
    if may_downgrade:
        return "Can not delete non-existing finalized feature."
    level = update.max_version_level
    return f"Can not provide versionLevel: {level} less than 1 without setting the SAFE downgradeType in the request."
