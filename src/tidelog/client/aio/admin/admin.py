"""The asyncio admin: all requests to a cluster except those for records.

    async with AsyncAdmin(bootstrap_servers="localhost:9092") as admin:
        await admin.create_topics([NewTopic("orders", partitions=6)])
        print(await admin.list_consumer_group_offsets("billing"))

A call about several items returns a dict. If the only item fails, the call raises its ApiError; if some of several
fail, it raises `PartlyRefused` with the results and the errors. Retriable errors are retried until
default.api.timeout.ms has passed. The other modules of this package send the requests.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from tidelog.client.aio.admin import (
    access,
    configs,
    features,
    group_descriptions,
    groups,
    own,
    partitions,
    share_groups,
    tokens,
    topics,
    transactions,
    visibility,
)
from tidelog.client.aio.admin import users as scram_users
from tidelog.client.aio.admin.driver import Driver
from tidelog.client.aio.admin.types import (
    ActiveProducer,
    ClientQuotaEntity,
    ClusterDescription,
    Compaction,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    CreatedTopic,
    DelayedListing,
    DelegationToken,
    ElectionType,
    FeatureDescription,
    FeatureUpgrade,
    GroupDescription,
    GroupListing,
    ListedOffset,
    LogDirectory,
    MemberToRemove,
    NewPartitions,
    NewTopic,
    Reassignment,
    ScramCredentialDeletion,
    ScramCredentialUpsert,
    ShareGroupOffset,
    TopicDescription,
    TopicListing,
    TopicPartitionReplica,
    TransactionDescription,
    TransactionListing,
)
from tidelog.client.aio.network import NetworkClient
from tidelog.client.aio.options import CommonOptions
from tidelog.client.aio.settings import CommonSettings, load_settings
from tidelog.client.errors import ApiError, ClientClosed, IllegalState
from tidelog.client.metrics import ClientMetrics
from tidelog.client.types import (
    OffsetAndMetadata,
    Places,
    TopicPartition,
    as_names,
    as_partition,
    as_partitions,
    as_places,
    milliseconds,
)
from tidelog.config.declaration import MINUTE_MS, setting
from tidelog.security.acls import AclBinding, AclBindingFilter


class AdminSettings(CommonSettings):
    """The settings of an admin."""

    default_api_timeout_ms: int = setting(
        "default.api.timeout.ms", MINUTE_MS, at_least=0, doc="How long a call may take, retries included."
    )
    visible_timeout_ms: int = setting(
        "visible.timeout.ms",
        0,
        at_least=0,
        doc="How long a call that changes topics, settings, ACLs, users, quotas or leaders waits until every broker "
        "that can be reached shows the change; 0 returns when one broker has confirmed it, as Kafka's admin does.",
    )


class AdminOptions(CommonOptions, total=False):
    """What an admin takes."""

    default_api_timeout_ms: int
    visible_timeout_ms: int


class AsyncAdmin:
    """Administers a cluster. Settings are Kafka's, as a dict with dots or as keywords with underscores."""

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: "Unpack[AdminOptions]") -> None:
        self.settings = load_settings(AdminSettings, config, settings)
        self._driver: Driver | None = None
        self._topics: set[str] = set()
        self._is_closed = False

    async def start(self) -> Self:
        """Reach the cluster; `async with` calls this. Raises BootstrapFailed when no bootstrap server answers."""
        if self._is_closed:
            raise ClientClosed("the admin is closed")
        if self._driver is None:
            client = NetworkClient(self.settings, topics_wanted=lambda: self._topics)
            try:
                await client.start(self.settings.default_api_timeout_ms)
            except BaseException:
                await client.close()
                raise
            self._driver = Driver(client, self.settings.default_api_timeout_ms)
            client.report(self.metrics)
        return self

    async def close(self) -> None:
        """Close the connections."""
        self._is_closed = True
        if self._driver is not None:
            await self._driver.client.close()

    async def stop(self) -> None:
        """The counterpart of `start`: the same as `close`."""
        await self.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def _running(self) -> Driver:
        if self._is_closed:
            raise ClientClosed("the admin is closed")
        if self._driver is None:
            raise IllegalState("start the admin first, or use it as `async with`")
        return self._driver

    async def _knowing(self, wanted: Iterable[TopicPartition]) -> Driver:
        """The driver, with metadata of these partitions. Leader changes are handled by retries."""
        driver = self._running
        metadata = driver.client.metadata
        unknown = {where.topic for where in wanted if metadata.leader(*where) is None}
        if unknown:
            self._topics |= unknown
            await driver.client.refresh()
        return driver

    async def _visible(self, shows: visibility.Shows, brokers: Collection[int] | None = None) -> None:
        """Wait until brokers (None: all) show a change, if the settings ask for it."""
        if self.settings.visible_timeout_ms:
            await visibility.until_visible(self._running, shows, self.settings.visible_timeout_ms, brokers)

    def metrics(self) -> ClientMetrics:
        """Metrics of this admin and its brokers; `as_dict()` returns them as for JSON."""
        client = self._running.client
        return ClientMetrics(self.settings.client_id, client.age_s(), client.broker_metrics())

    # The cluster.

    async def describe_cluster(self) -> ClusterDescription:
        """The brokers, the controller, the cluster's id."""
        return await topics.describe_cluster(self._running)

    # Topics.

    async def list_topics(self, *, include_internal: bool = False) -> list[TopicListing]:
        """All topics, by name."""
        return await topics.list_topics(self._running, include_internal=include_internal)

    async def describe_topics(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        """Topics and their partitions: leaders, replicas, in-sync replicas."""
        return await topics.describe_topics(self._running, as_names(names))

    async def describe_all_topics(self, *, include_internal: bool = False) -> dict[str, TopicDescription]:
        """Every topic and its partitions, by name, in one request."""
        return await topics.describe_all_topics(self._running, include_internal=include_internal)

    async def create_topics(
        self, new_topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic]:
        """Create topics, or only validate them."""
        made = await topics.create_topics(self._running, new_topics, validate_only=validate_only)
        if not validate_only:
            await self._visible(visibility.topics_there({each.name: max(each.partitions, 1) for each in made.values()}))
        return made

    async def delete_topics(self, names: Iterable[str]) -> None:
        """Remove topics and all their records."""
        deleted = as_names(names)
        await topics.delete_topics(self._running, deleted)
        await self._visible(visibility.topics_gone(deleted))

    async def create_partitions(
        self, totals: Mapping[str, int | NewPartitions], *, validate_only: bool = False
    ) -> None:
        """Give topics more partitions: `totals` says how many each is to have in all."""
        await topics.create_partitions(self._running, totals, validate_only=validate_only)
        if not validate_only:
            counts = {name: total if isinstance(total, int) else total.total for name, total in totals.items()}
            await self._visible(visibility.topics_there(counts))

    async def compact_topic(
        self, name: str, partitions: Iterable[int] | None = None, *, only_status: bool = False
    ) -> list[Compaction]:
        """Compact partitions (None: all) of a topic now, or only return the progress. Only with Tidelog's brokers."""
        topic = (await self.describe_topics([name]))[name]
        chosen = [each.partition for each in topic.partitions] if partitions is None else partitions
        return await own.compact_topic(self._running, topic, chosen, only_status=only_status)

    # Delayed records. Only with Tidelog's brokers.

    async def list_delayed_records(
        self, topic: str, partitions: Iterable[int] | None = None, *, key: bytes | None = None, limit: int = 100
    ) -> dict[int, DelayedListing]:
        """What waits in partitions (None: all) of a topic, the next due first; of one key if that is given."""
        driver, chosen = await self._delayed_in(topic, partitions)
        return await own.list_delayed(driver, topic, chosen, key, limit=limit)

    async def cancel_delayed_records(
        self,
        topic: str,
        partitions: Iterable[int] | None = None,
        *,
        key: bytes | None = None,
        offset: int | None = None,
    ) -> int:
        """Cancel the records of a key, or the one with an offset, that wait in a topic; how many there were."""
        return await self.reschedule_delayed_records(topic, own.CANCEL, partitions, key=key, offset=offset)

    async def reschedule_delayed_records(
        self,
        topic: str,
        deliver_at_ms: int,
        partitions: Iterable[int] | None = None,
        *,
        key: bytes | None = None,
        offset: int | None = None,
    ) -> int:
        """Give the records of a key, or the one with an offset, that wait in a topic another time; how many."""
        driver, chosen = await self._delayed_in(topic, partitions)
        return await own.alter_delayed(driver, topic, chosen, deliver_at_ms, key=key, offset=offset)

    async def _delayed_in(self, topic: str, partitions: Iterable[int] | None) -> tuple[Driver, list[int]]:
        if partitions is None:
            described = (await self.describe_topics([topic]))[topic]
            partitions = [each.partition for each in described.partitions]
        chosen = list(partitions)
        return await self._knowing(TopicPartition(topic, index) for index in chosen), chosen

    # Settings.

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Sequence[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """The settings of topics and brokers: those in `names`, or all."""
        return await configs.describe_configs(
            self._running,
            resources,
            names=names,
            include_synonyms=include_synonyms,
            include_documentation=include_documentation,
        )

    async def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Sequence[ConfigChange]], *, validate_only: bool = False
    ) -> None:
        """Change single settings, all of a resource or none; the others stay as they are."""
        await configs.incremental_alter_configs(self._running, changes, validate_only=validate_only)
        if not validate_only:
            await self._settings_visible(changes)

    async def replace_configs(
        self, new_configs: Mapping[ConfigResource, Mapping[str, str]], *, validate_only: bool = False
    ) -> None:
        """Set these settings and reset all others of the resource to their defaults (Kafka's AlterConfigs)."""
        await configs.replace_configs(self._running, new_configs, validate_only=validate_only)
        if not validate_only:
            await self._settings_visible(
                {
                    resource: [ConfigChange(name, value) for name, value in values.items()]
                    for resource, values in new_configs.items()
                }
            )

    async def _settings_visible(self, changes: Mapping[ConfigResource, Sequence[ConfigChange]]) -> None:
        for resource, those in changes.items():
            await self._visible(visibility.settings_changed(resource, those), visibility.brokers_with(resource))

    # Access.

    async def create_acls(self, bindings: Iterable[AclBinding]) -> None:
        """Add access control entries; those that exist stay."""
        added = list(bindings)
        await access.create_acls(self._running, added)
        await self._visible(visibility.acls_there(added))

    async def describe_acls(self, wanted: AclBindingFilter | None = None) -> list[AclBinding]:
        """The access control entries that a filter matches, or all of them."""
        return await access.describe_acls(self._running, wanted or AclBindingFilter())

    async def delete_acls(self, filters: Iterable[AclBindingFilter]) -> dict[AclBindingFilter, list[AclBinding]]:
        """Remove the access control entries that filters match; returns what was removed."""
        removed = await access.delete_acls(self._running, filters)
        await self._visible(visibility.acls_gone([binding for found in removed.values() for binding in found]))
        return removed

    async def describe_user_scram_credentials(self, users: Sequence[str] | None = None) -> dict[str, dict[str, int]]:
        """Of users who can log in with SCRAM, the iterations by mechanism: the named users, or all."""
        return await scram_users.describe(self._running, users)

    async def alter_user_scram_credentials(
        self, changes: Iterable[ScramCredentialUpsert | ScramCredentialDeletion]
    ) -> None:
        """Set and delete credentials of users; those of one user together or not at all."""
        wanted = list(changes)
        await scram_users.alter(self._running, wanted)
        await self._visible(visibility.credentials_changed(wanted))

    async def describe_features(self) -> dict[str, FeatureDescription]:
        """Every feature that brokers of the cluster support, and its level in effect."""
        return await features.describe(self._running)

    async def update_features(
        self,
        levels: Mapping[str, int],
        kind: FeatureUpgrade = FeatureUpgrade.UPGRADE,
        *,
        validate_only: bool = False,
    ) -> None:
        """Finalise levels of features, all of them or none."""
        await features.update(self._running, levels, kind, validate_only=validate_only)
        if not validate_only:
            await self._visible(visibility.features_changed(levels))

    async def describe_client_quotas(self) -> dict[ClientQuotaEntity, dict[str, float]]:
        """The quotas of every user, client id and address that has some."""
        return await access.describe_client_quotas(self._running)

    async def alter_client_quotas(
        self, changes: Mapping[ClientQuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> None:
        """Set quotas, or remove those whose value is None."""
        await access.alter_client_quotas(self._running, changes, validate_only=validate_only)
        if not validate_only:
            await self._visible(visibility.quotas_changed(changes))

    async def create_delegation_token(
        self, *, renewers: Iterable[str] = (), owner: str | None = None, max_lifetime_s: float | None = None
    ) -> DelegationToken:
        """A secret with which other clients log in as this one, or as the owner named."""
        token = await tokens.create(self._running, list(renewers), owner, _period_ms(max_lifetime_s))
        await self._visible(visibility.token_there(token))
        return token

    async def describe_delegation_tokens(self, owners: Sequence[str] | None = None) -> list[DelegationToken]:
        """The tokens of these owners, or all that this client may see."""
        return await tokens.describe(self._running, owners)

    async def renew_delegation_token(self, hmac: str, *, period_s: float | None = None) -> int:
        """Let a token expire so long from now, by default after the broker's own period; returns when, in epoch ms."""
        return await tokens.renew(self._running, hmac, _period_ms(period_s))

    async def expire_delegation_token(self, hmac: str, *, period_s: float | None = None) -> int:
        """Let a token expire so long from now, by default at once; returns when, in epoch ms."""
        return await tokens.expire(self._running, hmac, _period_ms(period_s))

    # Partitions.

    async def list_offsets(
        self, times: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset]:
        """For each partition the first offset at or after a time (ms), or what EARLIEST, LATEST, MAX_TIMESTAMP say."""
        asked = {as_partition(each): time for each, time in times.items()}
        driver = await self._knowing(asked)
        return await partitions.list_offsets(driver, asked, read_committed=read_committed)

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records before these offsets (HIGH_WATERMARK: all); returns the new start offsets."""
        asked = {as_partition(each): offset for each, offset in before.items()}
        driver = await self._knowing(asked)
        return await partitions.delete_records(driver, asked)

    async def describe_producers(self, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, list[ActiveProducer]]:
        """Which producers each partition remembers, and which have a transaction open in it."""
        named = list(wanted)
        driver = await self._knowing(named)
        return await partitions.describe_producers(driver, named)

    async def describe_log_dirs(
        self, broker_ids: Sequence[int] | None = None, wanted: Iterable[TopicPartition] | None = None
    ) -> dict[int, list[LogDirectory]]:
        """The log directories of brokers (None: of all) and the sizes of the partitions in them."""
        driver = self._running
        if broker_ids is None:
            await driver.client.refresh()
            broker_ids = sorted(driver.client.metadata.nodes)
        return await partitions.describe_log_dirs(driver, broker_ids, wanted)

    async def alter_replica_log_dirs(self, paths: Mapping[TopicPartitionReplica, str]) -> None:
        """Move replicas to other log directories of their brokers; `describe_log_dirs` shows how far they are.

        A replica that does not exist yet is waited for, up to `default.api.timeout.ms`.
        """
        await partitions.alter_replica_log_dirs(self._running, paths)

    async def elect_leaders(
        self, wanted: Iterable[TopicPartition] | None = None, kind: ElectionType = ElectionType.PREFERRED
    ) -> dict[TopicPartition, ApiError | None]:
        """Elect leaders of partitions (None: of all); for each None, or why it was not done."""
        outcome = await partitions.elect_leaders(self._running, wanted, kind)
        elected = [where for where, error in outcome.items() if error is None]
        if elected and self.settings.visible_timeout_ms:
            controller = self._running.at(await self._running.to_controller(None))
            epochs = visibility.epochs_of(
                await topics.describe_topics(controller, sorted({where.topic for where in elected}))
            )
            await self._visible(
                visibility.leaders_since({where: epochs[where] for where in elected if where in epochs})
            )
        return outcome

    async def alter_partition_reassignments(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Move partitions to other brokers; None ends a move that is under way."""
        await partitions.alter_partition_reassignments(self._running, targets)

    async def list_partition_reassignments(
        self, wanted: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Partitions that are moving now."""
        return await partitions.list_partition_reassignments(self._running, wanted)

    # Groups.

    async def list_groups(self, *, states: Collection[str] = (), types: Collection[str] = ()) -> list[GroupListing]:
        """The groups of all brokers, by id; of these states and types if any are named."""
        return await groups.list_groups(self._running, states, types)

    async def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        """Groups, their members and what each member has. A group that does not exist is Dead."""
        return await group_descriptions.describe_groups(self._running, as_names(group_ids))

    async def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Remove groups that have no members, and their offsets."""
        await groups.delete_groups(self._running, as_names(group_ids))

    async def list_consumer_group_offsets(
        self, group_id: str, wanted: Iterable[TopicPartition] | None = None, *, require_stable: bool = False
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a group has committed; `require_stable` waits for transactions that commit offsets."""
        return await groups.list_offsets(self._running, group_id, wanted, require_stable=require_stable)

    async def alter_consumer_group_offsets(self, group_id: str, offsets: Places) -> None:
        """Set what a group has committed; it must have no members."""
        await groups.alter_offsets(self._running, group_id, as_places(offsets))

    async def delete_consumer_group_offsets(self, group_id: str, wanted: Iterable[TopicPartition]) -> None:
        """Delete the committed offsets of a group for topics that it is not subscribed to."""
        await groups.delete_offsets(self._running, group_id, as_partitions(wanted))

    async def remove_members_from_group(
        self, group_id: str, members: Sequence[MemberToRemove], reason: str = ""
    ) -> None:
        """Remove members from a group, as if they had left."""
        await groups.remove_members(self._running, group_id, members, reason)

    async def describe_share_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        """Share groups, their members and what each member reads."""
        return await share_groups.describe_groups(self._running, as_names(group_ids))

    async def list_share_group_offsets(
        self, group_id: str, wanted: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, ShareGroupOffset]:
        """Where a share group begins in each partition and how many records it has not done."""
        named = None if wanted is None else as_partitions(wanted)
        return await share_groups.list_offsets(self._running, group_id, named)

    async def alter_share_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set where a share group begins; it must have no members."""
        places = {each: place.offset for each, place in as_places(offsets).items()}
        await share_groups.alter_offsets(self._running, group_id, places)

    async def delete_share_group_offsets(self, group_id: str, topic_names: Iterable[str]) -> None:
        """Delete what a share group has done of these topics; it must have no members."""
        await share_groups.delete_offsets(self._running, group_id, as_names(topic_names))

    # Transactions.

    async def list_transactions(
        self, *, states: Collection[str] = (), producer_ids: Collection[int] = (), longer_than_s: float | None = None
    ) -> list[TransactionListing]:
        """The transactional ids of all coordinators, by name; `longer_than_s`: those open for longer."""
        longer_than_ms = None if longer_than_s is None else milliseconds(longer_than_s)
        return await transactions.list_transactions(self._running, states, producer_ids, longer_than_ms)

    async def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        """Transactional ids: state, producer, timeout, partitions."""
        return await transactions.describe_transactions(self._running, as_names(transactional_ids))

    async def abort_transaction(
        self, where: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> None:
        """End a hanging transaction in one partition, by the figures that `describe_producers` gives."""
        driver = await self._knowing([where])
        await transactions.abort_transaction(driver, where, producer_id, producer_epoch, coordinator_epoch)

    async def fence_producers(self, transactional_ids: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Abort the open transactions of transactional ids and fence their producers; returns new ids and epochs."""
        return await transactions.fence_producers(self._running, as_names(transactional_ids))


def _period_ms(seconds: float | None) -> int:
    """As brokers read it: -1 for none."""
    return -1 if seconds is None else milliseconds(seconds)
