"""What the nodes of the metadata tree hold: the JSON of Kafka's ZooKeeper mode, encoded and decoded.

A pair of functions for each kind of node; `paths` has the node paths. Encoding writes what Kafka 3.9 writes; decoding
also accepts what older versions wrote. A malformed node raises `MalformedNodeError` with its path.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from tidelog.metadata import paths
from tidelog.metadata._json import Document, encode_json
from tidelog.wire.primitives import uuid_from_text, uuid_to_text

NO_LEADER: Final = -1
LEADER_RECOVERED: Final = 0
LEADER_RECOVERING: Final = 1
"""The leader was elected from outside the ISR and may lack records."""
NO_LEVELS: Final[Mapping[str, int]] = {}
"""Levels of features where none is known."""

PartitionKeyT = TypeVar("PartitionKeyT", bound=tuple[str, int])
"""A topic's name and the index of a partition."""

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Endpoint(NamedTuple):
    """An advertised address of a broker. `listener` is the listener's name, not its security protocol."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


class BrokerRegistration(NamedTuple):
    """A broker's registration in `/brokers/ids/N`."""

    broker_id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    timestamp_ms: int = 0
    jmx_port: int = -1
    features: Mapping[str, int] = NO_LEVELS
    """The highest level that the broker supports of each feature it knows."""


class ReplicaAssignment(NamedTuple):
    """Where a partition's replicas are; `adding` and `removing` are those of a reassignment under way.

    `replicas` has all of them: the target replicas first, in the order wanted, then those that are to be removed.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas from before the reassignment, which a cancellation returns to."""
        return tuple(replica for replica in self.replicas if replica not in self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that the reassignment ends with."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    def reassign_to(self, target: tuple[int, ...]) -> "ReplicaAssignment":
        """The assignment while the partition moves from its origin to `target`; replaces a reassignment under way."""
        origin = self.origin
        replicas = tuple(dict.fromkeys((*target, *origin)))
        return ReplicaAssignment(
            replicas,
            tuple(replica for replica in replicas if replica not in origin),
            tuple(replica for replica in replicas if replica not in target),
        )

    def without(self, replica: int) -> "ReplicaAssignment":
        """The assignment once `replica` is deleted."""
        kept = (tuple(each for each in replicas if each != replica) for replicas in self)
        return ReplicaAssignment(*kept)


class TopicAssignment(NamedTuple):
    """What `/brokers/topics/T` holds: the topic's id, if a version of Kafka that knew ids made it, and its replicas."""

    topic_id: bytes | None
    partitions: tuple[ReplicaAssignment, ...]


class PartitionState(NamedTuple):
    """A partition's leader and ISR; the controller and the leader change it."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    recovery_state: int = LEADER_RECOVERED


class ProducerIdBlock(NamedTuple):
    """The producer ids from `first` to `last` belong to `broker_id` to hand out."""

    broker_id: int
    first: int
    last: int


def encode_cluster_id(cluster_id: str) -> bytes:
    return encode_json({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    document = Document(paths.CLUSTER_ID, data)
    cluster_id = document.required("id", str)
    if not cluster_id:
        raise document.malformed("the cluster id is empty")
    return cluster_id


def encode_controller(broker_id: int, timestamp_ms: int) -> bytes:
    return encode_json(
        {"version": 2, "brokerid": broker_id, "timestamp": str(timestamp_ms), "kraftControllerEpoch": -1}
    )


def decode_controller(data: bytes) -> int:
    """The id of the broker that is controller."""
    return Document(paths.CONTROLLER, data).required("brokerid", int)


def encode_controller_epoch(epoch: int) -> bytes:
    return b"%d" % epoch


def decode_controller_epoch(data: bytes) -> int:
    """A bare number, which is JSON as well, but not an object."""
    wrapped = Document(paths.CONTROLLER_EPOCH, b"{}")
    return wrapped.parse_number("the controller epoch", data.decode(errors="replace"))


def encode_broker(registration: BrokerRegistration) -> bytes:
    # `host` and `port` are for clients from before there were listeners: the first plaintext one, or none.
    plaintext = [endpoint for endpoint in registration.endpoints if endpoint.security_protocol == "PLAINTEXT"]
    document: dict[str, Any] = {
        "version": 5,
        "host": plaintext[0].host if plaintext else None,
        "port": plaintext[0].port if plaintext else -1,
        "endpoints": [_format_endpoint(endpoint) for endpoint in registration.endpoints],
        "listener_security_protocol_map": {
            endpoint.listener: endpoint.security_protocol for endpoint in registration.endpoints
        },
        "jmx_port": registration.jmx_port,
        # Older brokers of Kafka refuse a lowest level of 0, which is the level of a feature that is off.
        "features": {
            name: {"min_version": 1, "max_version": level} for name, level in sorted(registration.features.items())
        },
        "timestamp": str(registration.timestamp_ms),
    }
    if registration.rack is not None:
        document["rack"] = registration.rack
    return encode_json(document)


def decode_broker(broker_id: int, data: bytes) -> BrokerRegistration:
    document = Document(paths.broker(broker_id), data)
    version = document.required("version", int)
    if version < 1:
        raise document.malformed(f"version {version} is not known")
    endpoints: tuple[Endpoint, ...]
    if version == 1:
        endpoints = (Endpoint("PLAINTEXT", document.required("host", str), document.required("port", int)),)
    else:
        protocols = document.optional("listener_security_protocol_map", dict, {name: name for name in _PROTOCOLS})
        texts = document.required("endpoints", list)
        endpoints = tuple(_parse_endpoint(document, text, protocols) for text in texts)
    return BrokerRegistration(
        broker_id=broker_id,
        endpoints=endpoints,
        rack=document.required("rack", str) if document.fields.get("rack") is not None else None,
        timestamp_ms=document.number("timestamp") if "timestamp" in document.fields else 0,
        jmx_port=document.optional("jmx_port", int, -1),
        features={
            name: Document.of(document.path, supported).required("max_version", int)
            for name, supported in document.optional("features", dict, {}).items()
            if isinstance(supported, dict)
        },
    )


def _format_endpoint(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.listener}://{host}:{endpoint.port}"


def _parse_endpoint(document: Document, text: object, protocols: Mapping[str, object]) -> Endpoint:
    listener, separator, address = text.partition("://") if isinstance(text, str) else ("", "", "")
    host, colon, port = address.rpartition(":")
    if not (separator and colon and port.isascii() and port.isdigit() and len(port) <= 5):
        raise document.malformed(f"{text!r} is not an endpoint")
    protocol = protocols.get(listener)
    if not isinstance(protocol, str):
        raise document.malformed(f"the listener of {text!r} has no security protocol")
    return Endpoint(listener, host.removeprefix("[").removesuffix("]"), int(port), protocol)


def encode_topic(assignment: TopicAssignment) -> bytes:
    each = [(str(index), replicas) for index, replicas in enumerate(assignment.partitions)]
    document: dict[str, Any] = {
        "version": 3,
        "partitions": {index: partition.replicas for index, partition in each},
        "adding_replicas": {index: partition.adding for index, partition in each if partition.adding},
        "removing_replicas": {index: partition.removing for index, partition in each if partition.removing},
    }
    if assignment.topic_id is not None:
        document["topic_id"] = uuid_to_text(assignment.topic_id)
    return encode_json(document)


def decode_topic(name: str, data: bytes) -> TopicAssignment:
    document = Document(paths.topic(name), data)
    replicas = document.required("partitions", dict)
    adding = document.optional("adding_replicas", dict, {})
    removing = document.optional("removing_replicas", dict, {})
    indexes = [str(index) for index in range(len(replicas))]
    if not indexes or set(indexes) != replicas.keys():
        raise document.malformed("its partitions are not numbered 0, 1, 2 and so on")
    if not all(replicas.values()):
        raise document.malformed("one of its partitions has no replicas")
    topic_id = None
    if "topic_id" in document.fields:
        try:
            topic_id = uuid_from_text(document.required("topic_id", str))
        except ValueError as error:
            raise document.malformed(f"topic_id is not a uuid: {error}") from error
    return TopicAssignment(
        topic_id,
        tuple(
            ReplicaAssignment(
                document.integers("partitions", replicas[index]),
                document.integers("adding_replicas", adding[index]) if index in adding else (),
                document.integers("removing_replicas", removing[index]) if index in removing else (),
            )
            for index in indexes
        ),
    )


def encode_partition_state(state: PartitionState) -> bytes:
    document: dict[str, Any] = {
        "controller_epoch": state.controller_epoch,
        "leader": state.leader,
        "version": 1,
        "leader_epoch": state.leader_epoch,
        "isr": state.isr,
    }
    if state.recovery_state != LEADER_RECOVERED:
        document["leader_recovery_state"] = state.recovery_state
    return encode_json(document)


def decode_partition_state(topic_name: str, index: int, data: bytes) -> PartitionState:
    document = Document(paths.partition_state(topic_name, index), data)
    return PartitionState(
        leader=document.required("leader", int),
        leader_epoch=document.required("leader_epoch", int),
        isr=document.integers("isr", document.required("isr", list)),
        controller_epoch=document.required("controller_epoch", int),
        recovery_state=document.optional("leader_recovery_state", int, LEADER_RECOVERED),
    )


def encode_config(overrides: Mapping[str, str]) -> bytes:
    return encode_json({"version": 1, "config": dict(overrides)})


def decode_config(kind: str, name: str, data: bytes) -> dict[str, str]:
    """The overrides of an entity. A node without data, as made by hand or left by a crash, has none."""
    if not data:
        return {}
    document = Document(paths.config(kind, name), data)
    overrides = document.optional("config", dict, {})
    for setting, value in overrides.items():
        if not isinstance(value, str):
            raise document.malformed(f"the value of {setting} is {value!r}, not text")
    return overrides


def encode_config_change(entity_path: str) -> bytes:
    return encode_json({"version": 2, "entity_path": entity_path})


def decode_config_change(path: str, data: bytes) -> str:
    """Which entity changed: `topics/T`, `brokers/1`, `users/U/clients/C`, ….

    Version 1, of Kafka 0.9, named type and entity apart.
    """
    document = Document(path, data)
    if document.required("version", int) == 1:
        return f"{document.required('entity_type', str)}/{document.required('entity_name', str)}"
    return document.required("entity_path", str)


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    return encode_json(
        {
            "version": 1,
            "broker": block.broker_id,
            "block_start": str(block.first),
            "block_end": str(block.last),
        }
    )


def decode_producer_id_block(data: bytes) -> ProducerIdBlock:
    document = Document(paths.PRODUCER_ID_BLOCK, data)
    block = ProducerIdBlock(
        document.required("broker", int), document.number("block_start"), document.number("block_end")
    )
    if not 0 <= block.first <= block.last:
        raise document.malformed(f"the block from {block.first} to {block.last} is not a range of ids")
    return block


def encode_features(levels: Mapping[str, int] = NO_LEVELS) -> bytes:
    """As a controller of Kafka 3.9 writes it: feature versions are enabled, and these levels are finalised."""
    return encode_json({"features": dict(sorted(levels.items())), "version": 2, "status": 1})


def decode_features(data: bytes) -> dict[str, int]:
    """The finalised level of each feature; none while feature versions are disabled."""
    document = Document(paths.FEATURES, data)
    if document.required("status", int) != 1:
        return {}
    levels = document.optional("features", dict, {})
    if document.required("version", int) == 1:
        # The first form has a range; its upper end is the level.
        levels = {name: each.get("max_version_level") for name, each in levels.items() if isinstance(each, dict)}
    if not all(type(level) is int for level in levels.values()):
        raise document.malformed(f"features is {levels!r}, not levels by name")
    return levels


def encode_reassignments(targets: Mapping[PartitionKeyT, tuple[int, ...]]) -> bytes:
    return encode_json(
        {
            "version": 1,
            "partitions": [
                {"topic": topic, "partition": index, "replicas": replicas}
                for (topic, index), replicas in targets.items()
            ],
        }
    )


def decode_reassignments(data: bytes) -> dict[tuple[str, int], tuple[int, ...]]:
    """The target replicas of partitions, by topic and index, as a tool wrote them. None is refused here."""
    document = Document(paths.REASSIGNMENTS, data)
    targets = {}
    for partition in _partition_documents(document):
        key = partition.required("topic", str), partition.required("partition", int)
        targets[key] = document.integers("replicas", partition.required("replicas", list))
    return targets


def decode_partitions(path: str, data: bytes) -> list[tuple[str, int]]:
    """The partitions, by topic and index, in a notice of changed ISRs or a request for preferred leaders."""
    each = _partition_documents(Document(path, data))
    return [(partition.required("topic", str), partition.required("partition", int)) for partition in each]


def encode_partitions(partitions: Iterable[tuple[str, int]]) -> bytes:
    """The inverse of `decode_partitions`."""
    each = [{"topic": topic, "partition": index} for topic, index in partitions]
    return encode_json({"version": 1, "partitions": each})


def encode_log_dir_event(broker_id: int) -> bytes:
    """A broker's notice that one of its log directories failed; Kafka knows no other event."""
    return encode_json({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(path: str, data: bytes) -> int:
    """The broker whose log directory failed."""
    return Document(path, data).required("broker", int)


def _partition_documents(document: Document) -> list[Document]:
    each = document.required("partitions", list)
    if not all(isinstance(fields, dict) for fields in each):
        raise document.malformed("its partitions are not objects")
    return [Document.of(document.path, fields) for fields in each]
