"""How a member of a KRaft cluster begins: who it is, its copy of the metadata log, and what that says.

    meta.properties (version 1: node.id, cluster.id, directory.id) → the copy in metadata.log.dir → follow the log until
    it is known → features that this broker must have → the image, and the tree that shows settings

Kafka wants log directories formatted by `kafka-storage.sh`. Here a broker whose directories are new asks the
controllers for the cluster id and writes what the tool would; those that the tool has formatted are used as they are.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from base64 import urlsafe_b64decode
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final, cast

from tidelog.broker.security.listener_security import ListenerSecurity
from tidelog.broker.topology.channels import BrokerChannels, BrokerUnreachable
from tidelog.broker.topology.quorum_link import QuorumLink, QuorumUnreachableError
from tidelog.broker.topology.quorum_member import Membership, QuorumPlan
from tidelog.broker.topology.topology import Beginning
from tidelog.config import topic_config
from tidelog.metadata.acls import prepare_acl_nodes
from tidelog.metadata.image import ClusterImage
from tidelog.metadata.memory_tree import MemoryStore
from tidelog.metadata.quorum.frames import MetadataRecordError
from tidelog.metadata.quorum.log_copy import MetadataLog
from tidelog.metadata.quorum.observer import Address, Identity, Observer, Replayer
from tidelog.metadata.quorum.projection import apply_brokers, apply_topics, check_features, project, writes
from tidelog.metadata.registration import prepare_tree
from tidelog.metadata.tokens import prepare_token_nodes
from tidelog.metadata.tree import Endpoint
from tidelog.storage.directories.log_directory import CLEAN_SHUTDOWN_FILE
from tidelog.storage.directories.meta_properties import (
    MetaProperties,
    MetaPropertiesError,
    MetaPropertiesScan,
    agree_on_identity,
    scan_meta_properties,
    write_meta_properties,
)
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tidelog.wire.primitives import uuid_to_text

if TYPE_CHECKING:
    from tidelog.broker.foundation import Foundation
    from tidelog.config import BrokerConfig

logger = logging.getLogger(__name__)

_CONTROLLERS: Final = 2
"""The type of endpoints that DescribeCluster is asked for."""
_PAUSE_S: Final = 0.2


async def begin(
    config: BrokerConfig, base: Foundation, directories: Sequence[str], on_failure: Callable[[Exception], None]
) -> Beginning:
    """Find the quorum and learn what the cluster is like. Raises StoreError and StorageError."""
    scan = scan_meta_properties(directories)
    security = ListenerSecurity(config, base.clock)
    cluster_id = await _identify(config, scan, security)
    directory_ids = _format(config, scan, cluster_id)
    metadata_dir = _metadata_dir(config)
    copy = _open_copy(metadata_dir, config, base)
    observer = Observer(
        copy,
        Identity(config.node_id, cluster_id, directory_ids.get(metadata_dir, bytes(16))),
        [Address(*each) for each in config.parsed_bootstrap_controllers],
        {voter: Address(*each) for voter, each in config.parsed_voters.items()},
        copy_bytes_max=config.metadata_max_retention_bytes,
    )
    link = QuorumLink(config, observer, Replayer(copy), security.connector_for, base.surroundings.random)
    try:
        await link.catch_up(config.initial_broker_registration_timeout_ms)
        check_features(link.state)
    except BaseException:
        await link.close()
        copy.close()
        raise
    membership = Membership(
        link,
        cluster_id,
        directory_ids,
        _previous_epoch(scan.found),
        on_failure,
        copy.close,
    )
    image = _image_of(link, cluster_id)
    return Beginning(config.node_id, _tree_of(link), image, image, QuorumPlan(membership), scan.failed)


def _metadata_dir(config: BrokerConfig) -> str:
    path = os.path.abspath(config.metadata_log_dir or config.log_dirs[0])
    os.makedirs(path, exist_ok=True)
    return path


def _open_copy(directory: str, config: BrokerConfig, base: Foundation) -> MetadataLog:
    """The copy of the metadata log; one whose snapshot is damaged begins anew."""
    copy = MetadataLog(directory, topic_config({}, config), base.clock)
    if copy.snapshot is not None:
        try:
            for _ in copy.snapshot_batches():
                """It is read whole before anything relies on it."""
        except (MetadataRecordError, OSError) as error:
            logger.warning("the metadata is copied again: %s", error)
            copy.begin_again()
    return copy


def _image_of(link: QuorumLink, cluster_id: str) -> ClusterImage:
    image = ClusterImage(cluster_id)
    everything = link.state.everything()
    apply_brokers(image, link.state, everything.brokers)
    for _ in apply_topics(image, link.state, everything):
        """In one go: nothing else runs yet."""
    return image


def _tree_of(link: QuorumLink) -> MemoryStore:
    store = MemoryStore()
    prepare_tree(store)
    prepare_acl_nodes(store)
    prepare_token_nodes(store)
    project(store, writes(link.state, link.state.everything()))
    return store


# --- identity ---


async def _identify(config: BrokerConfig, scan: MetaPropertiesScan, security: ListenerSecurity) -> str:
    """The id of the cluster: as the log directories say, or else the controllers. Raises MetaPropertiesError."""
    if scan.failed and not scan.found:
        raise MetaPropertiesError(
            f"no log directory says which broker it belongs to: {'; '.join(scan.failed.values())}"
        )
    stored = agree_on_identity(scan.found, broker_id=config.node_id)
    return stored.cluster_id or await _ask_cluster_id(config, security)


async def _ask_cluster_id(config: BrokerConfig, security: ListenerSecurity) -> str:
    """The id of the controllers' cluster. Raises QuorumUnreachableError."""
    name = config.controller_listener_name
    protocol = config.security_protocols.get(name, "PLAINTEXT")
    servers = config.parsed_bootstrap_controllers
    channels = BrokerChannels(
        lambda number: Endpoint(name, *servers[number], protocol),
        security.connector_for,
        client_id=f"broker-{config.node_id}",
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        setup_timeout_ms=config.controller_quorum_request_timeout_ms,
    )
    reason: object = "none answered"
    try:
        async with asyncio.timeout(config.initial_broker_registration_timeout_ms / 1000):
            while True:
                for number in range(len(servers)):
                    try:
                        answer = await channels.send(
                            number, DescribeClusterRequest(endpoint_type=_CONTROLLERS), purpose="cluster id"
                        )
                    except BrokerUnreachable as error:
                        reason = error.reason
                        continue
                    response = cast(DescribeClusterResponse, answer)
                    if not response.error_code and response.cluster_id:
                        return response.cluster_id
                    reason = ErrorCode(response.error_code).name
                await asyncio.sleep(_PAUSE_S)
    except TimeoutError:
        asked = ", ".join(f"{host}:{port}" for host, port in servers)
        raise QuorumUnreachableError(
            f"the log directories are new, and no controller at {asked} says which cluster they belong to: {reason}"
        ) from None
    finally:
        await channels.close()


def _format(config: BrokerConfig, scan: MetaPropertiesScan, cluster_id: str) -> dict[str, bytes]:
    """Write what the log directories lack of their identity; their ids by path."""
    found: dict[str, bytes] = {}
    for directory, known in [*scan.found.items(), *dict.fromkeys(scan.missing, MetaProperties()).items()]:
        text = known.directory_id or _new_directory_id(found.values())
        wanted = known._replace(broker_id=config.node_id, cluster_id=cluster_id, version=1, directory_id=text)
        if wanted != known:
            write_meta_properties(directory, wanted)
        found[directory] = _decoded_id(text, directory)
    if len(set(found.values())) < len(found):
        raise MetaPropertiesError(f"two of the log directories {', '.join(found)} have the same directory.id")
    return found


def _new_directory_id(taken: Collection[bytes]) -> str:
    """As Kafka makes them: random, without a dash in front, which its tools would take for an option."""
    while True:
        identifier = os.urandom(16)
        text = uuid_to_text(identifier)
        if not text.startswith("-") and identifier not in taken:
            return text


def _decoded_id(text: str, directory: str) -> bytes:
    try:
        identifier = urlsafe_b64decode(text + "==")
    except ValueError:
        identifier = b""
    if len(identifier) != 16:
        raise MetaPropertiesError(f"{directory}: directory.id is {text!r}, not 16 bytes in base64")
    return identifier


def _previous_epoch(directories: Collection[str]) -> int:
    """The epoch that the broker had until it was stopped in order, if every log directory says the same; else -1."""
    epochs = {_epoch_in(directory) for directory in directories}
    return epochs.pop() if len(epochs) == 1 else -1


def _epoch_in(directory: str) -> int:
    try:
        with open(os.path.join(directory, CLEAN_SHUTDOWN_FILE), "rb") as file:
            return int(json.loads(file.read())["brokerEpoch"])
    except (OSError, ValueError, KeyError, TypeError):
        return -1
