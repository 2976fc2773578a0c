"""A broker with the methods of testcontainers' `KafkaContainer`, for test suites that use that class.

    from tidelog.testing import KafkaContainer   # instead of: from testcontainers.kafka import KafkaContainer

    with KafkaContainer() as kafka:
        producer = Producer({"bootstrap.servers": kafka.get_bootstrap_server()})

The broker is a process of this machine: no Docker, no image, and a start of a fifth of a second. Settings come from the
environment that an image would get (`KAFKA_AUTO_CREATE_TOPICS_ENABLE=false` is `auto.create.topics.enable=false`).
Clients in containers cannot reach it; what would connect it to them is refused.
"""

from __future__ import annotations

import re
from types import TracebackType
from typing import Any, Final, Self

from tidelog.testing.broker import Broker

_OF_THE_IMAGE: Final = re.compile(
    "KAFKA_(LISTENERS|ADVERTISED_LISTENERS|LISTENER_SECURITY_PROTOCOL_MAP|INTER_BROKER_LISTENER_NAME|CONTROLLER_.*|"
    "PROCESS_ROLES|NODE_ID|ZOOKEEPER_CONNECT|LOG_DIRS|HEAP_OPTS|JVM_.*|OPTS|LOG4J_.*|TOOLS_LOG4J_.*|JMX_.*)|CLUSTER_ID"
)
"""How the process inside an image is wired and tuned, which this broker does by itself. Accepted and not used."""


class KafkaContainer:
    """One broker, alive between `start` and `stop`, or inside `with`."""

    def __init__(self, image: str = "", port: int = 9093, **kwargs: Any) -> None:
        """`image` and `port` are those of a container; the broker is this version, on a free port of 127.0.0.1."""
        if kwargs:
            raise TypeError(f"KafkaContainer: {', '.join(kwargs)} would go to Docker, which is not used")
        self.image = image
        self.port = port
        self.env: dict[str, str] = {}
        self._bind_port = 0
        self._broker: Broker | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- before the start ---

    def with_env(self, key: str, value: object) -> Self:
        """Set a variable of the environment; `KAFKA_…` are settings of the broker."""
        self.env[key] = str(value)
        return self

    def with_envs(self, **variables: object) -> Self:
        """Set several."""
        for key, value in variables.items():
            self.with_env(key, value)
        return self

    def with_bind_ports(self, container: int, host: int | None = None) -> Self:
        """Listen on a port of one's choice instead of a free one."""
        if container != self.port:
            raise ValueError(f"port {container} is not served: clients connect to {self.port}")
        self._bind_port = host or 0
        return self

    def with_exposed_ports(self, *ports: int) -> Self:
        """Does nothing for the port that is served anyway."""
        for each in ports:
            self.with_bind_ports(each, self._bind_port)
        return self

    def with_name(self, _name: str) -> Self:
        """A process needs no name."""
        return self

    def with_kraft(self) -> Self:
        """A broker alone keeps its own metadata: there is no ZooKeeper to leave out."""
        return self

    def with_cluster_id(self, _cluster_id: str) -> Self:
        """The broker makes a cluster id of its own."""
        return self

    def with_network(self, _network: object) -> Self:
        """Refused: containers of a Docker network cannot reach a process of this machine by a name."""
        raise RuntimeError("clients in a Docker network cannot reach this broker: run them on this machine")

    # --- while it runs ---

    def start(self, timeout: float = 30) -> Self:
        """Start the broker and return when it serves. Raises BrokerFailed with the reason."""
        self._broker = Broker(_settings_of(self.env, self._bind_port), process=True, timeout_s=timeout)
        self._broker.start()
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:  # noqa: ARG002 -- the signature is Docker's
        """Stop it and remove its data."""
        if self._broker is not None:
            self._broker.stop()

    def get_bootstrap_server(self) -> str:
        """`host:port`, as every Kafka client takes it."""
        return self._running().bootstrap_servers

    def get_container_host_ip(self) -> str:
        """Where it listens."""
        return self._running().host

    def get_exposed_port(self, port: int) -> int:
        """The port of this machine that clients connect to."""
        if port != self.port:
            raise ConnectionError(f"port {port} is not served: clients connect to {self.port}")
        return self._running().port

    def get_logs(self) -> tuple[bytes, bytes]:
        """What it wrote to stdout and to stderr."""
        broker = self._running()
        return f"tidelog ready {broker.bootstrap_servers}\n".encode(), broker.logs.encode()

    def get_wrapped_container(self) -> Broker:
        """The broker, which can also be killed, paused and restarted."""
        return self._running()

    def _running(self) -> Broker:
        if self._broker is None:
            raise RuntimeError("this broker does not run; use `with KafkaContainer() as kafka` or start()")
        return self._broker


def _settings_of(env: dict[str, str], port: int) -> dict[str, object]:
    settings: dict[str, object] = {"listeners": f"PLAINTEXT://127.0.0.1:{port}"} if port else {}
    for key, value in env.items():
        if key.startswith("KAFKA_") and not _OF_THE_IMAGE.fullmatch(key):
            settings[_setting_name(key.removeprefix("KAFKA_"))] = value
    return settings


def _setting_name(name: str) -> str:
    """As the images read names: `_` is a dot, `__` an underscore, `___` a dash."""
    marks = {"_": ".", "__": "_", "___": "-"}
    return re.sub("_{1,3}", lambda found: marks[found[0]], name.lower())
