"""Client settings of encryption and authentication, under the names of Kafka's Java client."""

from tidelog.config.declaration import Settings, setting
from tidelog.config.kinds import PASSWORD


# fmt: off
class SecuritySettings(Settings, area="security"):
    """How a client connects. Passwords and keys never appear in a `repr` or an error."""

    security_protocol: str = setting(
        "security.protocol", "PLAINTEXT", one_of=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        doc="Protocol of the connections: PLAINTEXT, SSL (TLS), SASL_PLAINTEXT, or SASL_SSL.")
    sasl_mechanism: str = setting(
        "sasl.mechanism", "GSSAPI",
        doc="How the client authenticates: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512. GSSAPI is not supported.")
    sasl_jaas_config: str | None = setting(
        "sasl.jaas.config", None, type=PASSWORD,
        doc="The login module of the mechanism, with username and password.")
    ssl_protocol: str = setting("ssl.protocol", "TLSv1.3", doc="Newest TLS version.")
    ssl_enabled_protocols: tuple[str, ...] = setting(
        "ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), doc="TLS versions that are allowed.")
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
