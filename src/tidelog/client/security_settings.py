"""Client settings of encryption and authentication, under the names of Kafka's Java client."""

from tidelog.config.declaration import Settings, setting
from tidelog.config.java_classes import LOGINS
from tidelog.config.kinds import INT, LONG, PASSWORD, SHORT


# fmt: off
class SecuritySettings(Settings, area="security"):
    """How a client connects. Passwords and keys never appear in a `repr` or an error."""

    security_protocol: str = setting(
        "security.protocol", "PLAINTEXT", one_of=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        doc="Protocol of the connections: PLAINTEXT, SSL (TLS), SASL_PLAINTEXT, or SASL_SSL.")
    sasl_mechanism: str = setting(
        "sasl.mechanism", "GSSAPI",
        doc="How the client authenticates: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI.")
    sasl_jaas_config: str | None = setting(
        "sasl.jaas.config", None, type=PASSWORD,
        doc="The login module of the mechanism and its options, such as username and password.")
    sasl_kerberos_service_name: str | None = setting(
        "sasl.kerberos.service.name", None, doc="First component of the Kerberos principal of the brokers.")
    sasl_login_callback_handler_class: str | None = setting(
        "sasl.login.callback.handler.class", None, one_of=LOGINS,
        doc="Kafka's class that fetches bearer tokens, or the one that makes them without a signature. Not needed.")
    sasl_oauthbearer_token_endpoint_url: str | None = setting(
        "sasl.oauthbearer.token.endpoint.url", None,
        doc="Where bearer tokens come from: the token endpoint of an OAuth server, with clientId, clientSecret and "
            "scope in sasl.jaas.config, or a file (`file:///…`).")
    sasl_login_refresh_window_factor: float = setting(
        "sasl.login.refresh.window.factor", 0.8, at_least=0.5, at_most=1.0,
        doc="Share of a bearer token's life after which it is replaced.")
    sasl_login_refresh_window_jitter: float = setting(
        "sasl.login.refresh.window.jitter", 0.05, at_least=0.0, at_most=0.25,
        doc="Share of random jitter added to that time.")
    sasl_login_refresh_min_period_seconds: int = setting(
        "sasl.login.refresh.min.period.seconds", 60, type=SHORT, at_least=0, at_most=900,
        doc="Shortest time between two replacements of a bearer token.")
    sasl_login_refresh_buffer_seconds: int = setting(
        "sasl.login.refresh.buffer.seconds", 300, type=SHORT, at_least=0, at_most=3600,
        doc="Time that should remain before a bearer token expires when it is replaced.")
    sasl_login_connect_timeout_ms: int | None = setting(
        "sasl.login.connect.timeout.ms", None, type=INT, doc="Longest wait for a connection to the token endpoint.")
    sasl_login_read_timeout_ms: int | None = setting(
        "sasl.login.read.timeout.ms", None, type=INT, doc="Longest wait for the token endpoint's response.")
    sasl_login_retry_backoff_ms: int = setting(
        "sasl.login.retry.backoff.ms", 100, type=LONG, at_least=0,
        doc="First wait before the token endpoint is tried again; it doubles.")
    sasl_login_retry_backoff_max_ms: int = setting(
        "sasl.login.retry.backoff.max.ms", 10_000, type=LONG, at_least=0,
        doc="How long the token endpoint is tried again.")
    ssl_protocol: str = setting("ssl.protocol", "TLSv1.3", doc="Newest TLS version.")
    ssl_enabled_protocols: tuple[str, ...] = setting(
        "ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"),
        doc="TLS versions that are allowed. Others than these two are left out with a warning.")
    ssl_cipher_suites: tuple[str, ...] = setting(
        "ssl.cipher.suites", (), doc="Cipher suites that are allowed; empty allows OpenSSL's own.")
    ssl_keystore_type: str = setting("ssl.keystore.type", "JKS", doc="Format of the key store: PEM or PKCS12.")
    ssl_keystore_location: str | None = setting(
        "ssl.keystore.location", None, doc="File with the client's key and certificate chain.")
    ssl_keystore_password: str | None = setting(
        "ssl.keystore.password", None, type=PASSWORD, doc="Password of a PKCS12 key store.")
    ssl_keystore_key: str | None = setting(
        "ssl.keystore.key", None, type=PASSWORD, doc="The private key itself, in PEM.")
    ssl_keystore_certificate_chain: str | None = setting(
        "ssl.keystore.certificate.chain", None, type=PASSWORD, doc="The certificate chain itself, in PEM.")
    ssl_key_password: str | None = setting(
        "ssl.key.password", None, type=PASSWORD, doc="Password of the private key.")
    ssl_truststore_type: str = setting("ssl.truststore.type", "JKS", doc="Format of the trust store: PEM or PKCS12.")
    ssl_truststore_location: str | None = setting(
        "ssl.truststore.location", None, doc="File with trusted certificates; not set: the system's are trusted.")
    ssl_truststore_password: str | None = setting(
        "ssl.truststore.password", None, type=PASSWORD, doc="Password of a PKCS12 trust store.")
    ssl_truststore_certificates: str | None = setting(
        "ssl.truststore.certificates", None, type=PASSWORD, doc="The trusted certificates themselves, in PEM.")
    ssl_endpoint_identification_algorithm: str = setting(
        "ssl.endpoint.identification.algorithm", "https",
        doc="`https` checks the broker's host name against its certificate; empty disables the check.")
# fmt: on
