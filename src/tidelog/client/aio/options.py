"""The settings of all clients as keywords, typed: a misspelt name or a value of the wrong kind is found by mypy.

Producer, consumer and admin have theirs beside them.

They are the settings that the clients declare, with underscores for dots; a test holds the two equal. The dict that
clients take first is not checked this way: it may come from a properties file.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict


class SecurityOptions(TypedDict, total=False):
    """How every client connects."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    sasl_mechanism: str
    sasl_jaas_config: str | None
    sasl_kerberos_service_name: str | None
    sasl_login_callback_handler_class: str | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_login_refresh_window_factor: float
    sasl_login_refresh_window_jitter: float
    sasl_login_refresh_min_period_seconds: int
    sasl_login_refresh_buffer_seconds: int
    sasl_login_connect_timeout_ms: int | None
    sasl_login_read_timeout_ms: int | None
    sasl_login_retry_backoff_ms: int
    sasl_login_retry_backoff_max_ms: int
    ssl_protocol: str
    ssl_enabled_protocols: str | Sequence[str]
    ssl_cipher_suites: str | Sequence[str]
    ssl_keystore_type: str
    ssl_keystore_location: str | None
    ssl_keystore_password: str | None
    ssl_keystore_key: str | None
    ssl_keystore_certificate_chain: str | None
    ssl_key_password: str | None
    ssl_truststore_type: str
    ssl_truststore_location: str | None
    ssl_truststore_password: str | None
    ssl_truststore_certificates: str | None
    ssl_endpoint_identification_algorithm: str


class CommonOptions(SecurityOptions, total=False):
    """What every client takes."""

    bootstrap_servers: str | Sequence[str]
    bootstrap_timeout_ms: int
    client_id: str
    client_rack: str
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    connections_max_idle_ms: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    send_buffer_bytes: int
    receive_buffer_bytes: int
    metadata_max_age_ms: int
    statistics_interval_ms: int
    sasl_oauthbearer_token_callback: Callable[[], str | tuple[str, float]] | None
    statistics_callback: Callable[[Any], object] | None
