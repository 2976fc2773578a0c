"""UpdateFeatures: change the finalised levels of the cluster's features (KIP-584).

Up to version 1 each feature has a result, and those that can be updated are; from version 2 on all are updated or none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.broker.metadata_errors import metadata_errors_translated
from tidelog.metadata.features import Update, UpgradeType, refusal_before_v2
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

_TOGETHER_FROM: Final = 2


async def handle(request: UpdateFeaturesRequest, context: Context) -> UpdateFeaturesResponse:
    """Of two updates of the same feature the last counts."""
    refused = _refusal_of_all(context)
    if refused is not None:
        return UpdateFeaturesResponse(error_code=refused, error_message=refused.text)
    updates: dict[str, Update] = {}
    for each in request.feature_updates:
        updates[each.feature] = _parse(each, context.api_version)
        await context.pause()
    handle_updates = _update_together if context.api_version >= _TOGETHER_FROM else _update_each
    with metadata_errors_translated():
        return await handle_updates(updates, request.validate_only, context)


def _refusal_of_all(context: Context) -> ErrorCode | None:
    if not context.is_allowed(AclOperation.ALTER, AclResourceType.CLUSTER):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return None if context.node.topology.is_controller else ErrorCode.NOT_CONTROLLER


def _parse(update: FeatureUpdateKey, version: int) -> Update:
    if version == 0:
        code = UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
        return Update(update.feature, update.max_version_level, code)
    known = update.upgrade_type in tuple(UpgradeType)
    return Update(update.feature, update.max_version_level, UpgradeType(update.upgrade_type) if known else None)


async def _update_together(updates: dict[str, Update], validate_only: bool, context: Context) -> UpdateFeaturesResponse:
    refusals = await context.node.features.update(list(updates.values()), validate_only=validate_only)
    for name, refusal in refusals.items():
        return UpdateFeaturesResponse(
            error_code=ErrorCode.INVALID_UPDATE_VERSION,
            error_message="The update failed for all features since the following feature had an error: "
            f"Invalid update version {updates[name].level} for feature {name}. {refusal.text}",
        )
    return UpdateFeaturesResponse(error_message=None)


async def _update_each(updates: dict[str, Update], validate_only: bool, context: Context) -> UpdateFeaturesResponse:
    features = context.node.features
    reasons: dict[str, str] = {}
    for update in updates.values():
        reason = refusal_before_v2(update, features.finalised)
        if reason is not None:
            reasons[update.name] = reason
        await context.pause()
    wanted = [update._replace(level=max(update.level, 0)) for update in updates.values() if update.name not in reasons]
    refusals = await features.update(wanted, is_partial=True, validate_only=validate_only)
    reasons.update((name, refusal.older_text) for name, refusal in refusals.items())
    results = [
        UpdatableFeatureResult(
            feature=name,
            error_code=ErrorCode.INVALID_REQUEST if name in reasons else ErrorCode.NONE,
            error_message=reasons.get(name),
        )
        for name in updates
    ]
    return UpdateFeaturesResponse(error_message=None, results=results)
