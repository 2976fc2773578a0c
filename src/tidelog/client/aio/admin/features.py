"""Features of the cluster: what its brokers support, and which levels are finalised (KIP-584)."""

from collections.abc import Mapping

from tidelog import __version__
from tidelog.client.aio.admin.driver import Answers, Driver, answer_of
from tidelog.client.aio.admin.types import FeatureDescription, FeatureUpgrade
from tidelog.client.errors import ApiError
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse


async def ask_one(driver: Driver) -> ApiVersionsResponse:
    """What the broker says that answers."""

    async def ask(node_id: int, _items: list[str]) -> Answers[str, ApiVersionsResponse]:
        request = ApiVersionsRequest(client_software_name="tidelog-python", client_software_version=__version__)
        reply = await driver.client.send(node_id, request, ApiVersionsResponse)
        return {"": answer_of(reply.error_code, None, reply, "features")}

    return (await driver.run([""], driver.to_any, ask))[""]


async def describe(driver: Driver) -> dict[str, FeatureDescription]:
    """Every feature that some broker supports: the level that all can reach, and the level in effect."""
    if not driver.client.metadata.nodes:
        await driver.client.refresh()
    replies = [await ask_one(driver.at(node_id)) for node_id in sorted(driver.client.metadata.nodes)]
    # The broker with the highest epoch has seen the last change.
    newest = max(replies, key=lambda reply: reply.finalized_features_epoch)
    levels = levels_in(newest)
    supported = [{each.name: each.max_version for each in reply.supported_features} for reply in replies]
    names = sorted({name for each in supported for name in each} | levels.keys())
    return {
        name: FeatureDescription(name, min(each.get(name, 0) for each in supported), levels.get(name, 0))
        for name in names
    }


def levels_in(reply: ApiVersionsResponse) -> dict[str, int]:
    """The levels in effect, as one broker knows them."""
    return {each.name: each.max_version_level for each in reply.finalized_features}


async def update(driver: Driver, levels: Mapping[str, int], kind: FeatureUpgrade, *, validate_only: bool) -> None:
    """Finalise these levels, all or none."""
    request = UpdateFeaturesRequest(
        timeout_ms=driver.api_timeout_ms,
        feature_updates=[
            FeatureUpdateKey(
                feature=name,
                max_version_level=level,
                allow_downgrade=kind is not FeatureUpgrade.UPGRADE,
                upgrade_type=int(kind),
            )
            for name, level in levels.items()
        ],
        validate_only=validate_only,
    )

    async def ask(node_id: int, _items: list[str]) -> Answers[str, None]:
        reply = await driver.client.send(node_id, request, UpdateFeaturesResponse)
        for result in reply.results:
            if result.error_code:
                text = f"{result.feature}: {result.error_message or ErrorCode(result.error_code).text}"
                return {"": ApiError(ErrorCode(result.error_code), text)}
        return {"": answer_of(reply.error_code, reply.error_message, None, "features")}

    await driver.run([""], driver.to_controller, ask)
