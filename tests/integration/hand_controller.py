"""Brokers of one cluster in this process, on one loop, and a controller that the test plays by hand.

`Hand` sends LeaderAndIsr, UpdateMetadata and StopReplica over real connections, and answers AlterPartition.
"""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from typing import Any

from tests.integration.client.fake_broker import CLOSE, HOST, FakeBroker
from tidelog.broker.server import Server
from tidelog.broker.surroundings import Surroundings
from tidelog.broker.topology.channels import BrokerChannels
from tidelog.client.aio.transport import PlainConnector
from tidelog.config import load_broker_config
from tidelog.metadata import paths
from tidelog.metadata.tree import Endpoint, decode_log_dir_event, encode_controller, encode_controller_epoch
from tidelog.metadata.walk import ensure_paths
from tidelog.testing._settings import broker_properties
from tidelog.testing.memory_store import MemoryTree
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tidelog.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionDataResponse,
    TopicDataResponse,
)
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from tidelog.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from tidelog.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from tidelog.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

CONTROLLER_ID = 99
TOPIC_ID = bytes(range(1, 17))
# The test answers no ControlledShutdown.
QUICK = {"controlled.shutdown.enable": "false", "replica.fetch.backoff.ms": 50, "replica.lag.time.max.ms": 2000}


class LockedStore:
    """A session with a tree that several threads use."""

    def __init__(self, store: Any, lock: threading.RLock) -> None:
        self._store = store
        self._lock = lock

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                return found(*args, **kwargs)

        return call


class Hand:
    """A cluster whose controller is the test."""

    def __init__(self, directory: Path, **config: object) -> None:
        self._directory = directory
        self._config = config
        self._tree, self._lock = MemoryTree(), threading.RLock()
        # The test's session holds the controllership, so that no broker takes it.
        self._session = self._tree.connect()
        ensure_paths(self._session, paths.PERSISTENT_ROOTS)
        self._session.create(paths.CONTROLLER_EPOCH, encode_controller_epoch(1))
        self._session.create(paths.CONTROLLER, encode_controller(CONTROLLER_ID, 0), ephemeral=True)
        self.servers: dict[int, Server] = {}
        self._fake = FakeBroker(CONTROLLER_ID)
        self._fake.answers[ApiKey.ALTER_PARTITION] = self._alter_partition
        self._fake.answers[ApiKey.ALLOCATE_PRODUCER_IDS] = self._allocate_producer_ids
        self._next_producer_id = 0
        for api_key in (ApiKey.METADATA, ApiKey.INIT_PRODUCER_ID):
            self._fake.answers[api_key] = lambda _: CLOSE  # clients turn to the others
        self.altered: list[tuple[int, ...]] = []
        self.states: dict[tuple[str, int], LeaderAndIsrPartitionState] = {}
        self._channels = BrokerChannels(
            self._endpoint,
            lambda _: PlainConnector(),
            client_id="hand",
            request_timeout_ms=20_000,
            setup_timeout_ms=5_000,
        )

    def _endpoint(self, broker_id: int) -> Endpoint | None:
        server = self.servers.get(broker_id)
        return None if server is None else Endpoint("PLAINTEXT", *server.address)

    async def start(self, *broker_ids: int) -> None:
        if self._fake.port == 0:
            await self._fake.start()
        for broker_id in broker_ids:
            settings = {"broker.id": broker_id, "broker.rack": f"rack-{broker_id}", **QUICK, **self._config}
            properties = broker_properties(settings, str(self._directory / f"broker-{broker_id}"), None)
            surroundings = dataclasses.replace(
                Surroundings.of_this_machine(),
                open_store=lambda *_: LockedStore(self._tree.connect(), self._lock),  # type: ignore[arg-type,return-value]
                is_clustered=True,
            )
            server = Server(load_broker_config(properties), surroundings)
            await server.start()
            self.servers[broker_id] = server

    async def stop(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self._channels.disconnect(broker_id)
            await self.servers.pop(broker_id).stop()

    async def close(self) -> None:
        await self._channels.close()
        await self.stop(*list(self.servers))
        await self._fake.stop()

    @property
    def bootstrap_servers(self) -> list[str]:
        return [f"{host}:{port}" for host, port in (server.address for server in self.servers.values())]

    def partition(self, broker_id: int, topic: str = "t", index: int = 0) -> Any:
        return self.servers[broker_id].node.replica_manager.partition(topic, index)

    def notices(self) -> list[int]:
        """The brokers that reported a failed log directory."""
        found = []
        with self._lock:
            for name in self._session.children(paths.LOG_DIR_EVENTS):
                path = f"{paths.LOG_DIR_EVENTS}/{name}"
                found.append(decode_log_dir_event(path, self._session.get(path)[0]))
        return found

    # --- what a controller does ---

    def decide(
        self,
        leader: int,
        epoch: int,
        isr: tuple[int, ...],
        replicas: tuple[int, ...] = (1, 2, 3),
        topic: str = "t",
        index: int = 0,
        *,
        is_new: bool = False,
    ) -> None:
        before = self.states.get((topic, index))
        self.states[topic, index] = LeaderAndIsrPartitionState(
            partition_index=index,
            controller_epoch=1,
            leader=leader,
            leader_epoch=epoch,
            isr=list(isr),
            partition_epoch=0 if before is None else before.partition_epoch + 1,
            replicas=list(replicas),
            is_new=is_new,
        )

    async def tell(self, *broker_ids: int, controller_epoch: int = 1) -> None:
        """Send the metadata to brokers, then who leads what."""
        await self.inform(*broker_ids, controller_epoch=controller_epoch)
        for broker_id in broker_ids or sorted(self.servers):
            response = await self.lead_and_follow(broker_id, controller_epoch=controller_epoch)
            errors = [each.error_code for topic in response.topics for each in topic.partition_errors]
            assert response.error_code == ErrorCode.NONE
            assert set(errors) <= {ErrorCode.NONE, ErrorCode.STALE_CONTROLLER_EPOCH}, errors

    async def inform(self, *broker_ids: int, controller_epoch: int = 1) -> None:
        """Send the metadata to brokers."""
        for broker_id in broker_ids or sorted(self.servers):
            await self._channels.send(broker_id, self._update_metadata(controller_epoch), purpose="control")

    async def lead_and_follow(
        self, broker_id: int, *, controller_epoch: int = 1, broker_epoch: int = -1
    ) -> LeaderAndIsrResponse:
        topics: dict[str, LeaderAndIsrTopicState] = {}
        for (topic, _), state in self.states.items():
            if broker_id in state.replicas:
                entry = topics.setdefault(topic, LeaderAndIsrTopicState(topic_name=topic, topic_id=TOPIC_ID))
                entry.partition_states.append(state)
        request = LeaderAndIsrRequest(
            controller_id=CONTROLLER_ID,
            controller_epoch=controller_epoch,
            broker_epoch=broker_epoch,
            topic_states=list(topics.values()),
        )
        response = await self._channels.send(broker_id, request, purpose="control")
        assert isinstance(response, LeaderAndIsrResponse)
        return response

    async def stop_replica(
        self, broker_id: int, topic: str, index: int, epoch: int, *, is_deleted: bool
    ) -> StopReplicaResponse:
        state = StopReplicaPartitionState(partition_index=index, leader_epoch=epoch, delete_partition=is_deleted)
        request = StopReplicaRequest(
            controller_id=CONTROLLER_ID,
            controller_epoch=1,
            topic_states=[StopReplicaTopicState(topic_name=topic, partition_states=[state])],
        )
        response = await self._channels.send(broker_id, request, purpose="control")
        assert isinstance(response, StopReplicaResponse)
        return response

    async def fetch(self, broker_id: int, *, rack_id: str) -> PartitionData:
        """What a consumer reads of `t-0` at a broker."""
        wanted = FetchTopic(topic_id=TOPIC_ID, partitions=[FetchPartition(partition_max_bytes=1 << 20)])
        request = FetchRequest(max_wait_ms=100, min_bytes=1, topics=[wanted], rack_id=rack_id)
        response = await self._channels.send(broker_id, request, purpose="consumer")
        assert isinstance(response, FetchResponse)
        return response.responses[0].partitions[0]

    def _update_metadata(self, controller_epoch: int) -> UpdateMetadataRequest:
        topics: dict[str, UpdateMetadataTopicState] = {}
        for (topic, index), state in self.states.items():
            entry = topics.setdefault(topic, UpdateMetadataTopicState(topic_name=topic, topic_id=TOPIC_ID))
            entry.partition_states.append(
                UpdateMetadataPartitionState(
                    partition_index=index,
                    leader=state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=state.isr,
                    replicas=state.replicas,
                    zk_version=state.partition_epoch,
                )
            )
        addresses = {broker_id: server.address for broker_id, server in self.servers.items()}
        addresses[CONTROLLER_ID] = HOST, self._fake.port
        return UpdateMetadataRequest(
            controller_id=CONTROLLER_ID,
            controller_epoch=controller_epoch,
            topic_states=list(topics.values()),
            live_brokers=[
                UpdateMetadataBroker(
                    id=broker_id,
                    endpoints=[UpdateMetadataEndpoint(port=port, host=host, listener="PLAINTEXT")],
                    rack=f"rack-{broker_id}",
                )
                for broker_id, (host, port) in addresses.items()
            ],
        )

    def _allocate_producer_ids(self, _request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        start = self._next_producer_id
        self._next_producer_id += 1000
        return AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=1000)

    def _alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Agree with every leader."""
        response = AlterPartitionResponse()
        names = {TOPIC_ID: "t"}
        for topic in request.topics:
            answers = []
            for data in topic.partitions:
                state = self.states[names[topic.topic_id], data.partition_index]
                state.isr = [each.broker_id for each in data.new_isr_with_epochs]
                state.partition_epoch += 1
                self.altered.append(tuple(state.isr))
                answers.append(
                    PartitionDataResponse(
                        partition_index=data.partition_index,
                        leader_id=state.leader,
                        leader_epoch=state.leader_epoch,
                        isr=state.isr,
                        partition_epoch=state.partition_epoch,
                    )
                )
            response.topics.append(TopicDataResponse(topic_id=topic.topic_id, partitions=answers))
        return response
