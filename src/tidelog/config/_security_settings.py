"""Broker settings: authorization, delegation tokens, TLS, SASL.

Those of TLS and SASL take effect, for every listener or under `listener.name.<listener>.` for one, and so does access
control.
"""

from __future__ import annotations

from tidelog.config._checks import PRINCIPALS
from tidelog.config.declaration import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Settings, setting
from tidelog.config.java_classes import AUTHORIZERS, LOGINS, VALIDATORS
from tidelog.config.kinds import CLASS, INT, LIST, LONG, PASSWORD, SHORT


# fmt: off
class AuthorizationSettings(Settings, area="Authorization and tokens"):
    """Who may do what."""

    authorizer_class_name: str = setting(
        "authorizer.class.name", "", importance="low",
        one_of=("", *AUTHORIZERS),
        doc="Switches access control on. All names stand for the same: Kafka's rules, with ACLs in the metadata. "
            "Empty: every client may do everything.")
    super_users: str = setting(
        "super.users", "", validator=PRINCIPALS,
        doc="Principals that may do everything, as `User:name` separated by semicolons.")
    allow_everyone_if_no_acl_found: bool = setting(
        "allow.everyone.if.no.acl.found", False,
        doc="Resources without any ACL are open to every principal.")
    principal_builder_class: str = setting(
        "principal.builder.class", "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        type=CLASS, dynamic="per-broker",
        refused="principals are made as Kafka's default class does; a class of your own is not supported",
        doc="A class that turns an authenticated session into a principal.")
    delegation_token_secret_key: str | None = setting(
        "delegation.token.secret.key", None, type=PASSWORD,
        doc="Secret that signs delegation tokens, the same on every broker. Not set: no tokens.")
    delegation_token_master_key: str | None = setting(
        "delegation.token.master.key", None, type=PASSWORD,
        doc="Old name of `delegation.token.secret.key`.")
    delegation_token_max_lifetime_ms: int = setting(
        "delegation.token.max.lifetime.ms", 7 * DAY_MS, type=LONG, at_least=1,
        doc="A token cannot be renewed beyond this age.")
    delegation_token_expiry_time_ms: int = setting(
        "delegation.token.expiry.time.ms", DAY_MS, type=LONG, at_least=1,
        doc="A token lasts this long unless renewed.")
    delegation_token_expiry_check_interval_ms: int = setting(
        "delegation.token.expiry.check.interval.ms", HOUR_MS, type=LONG, importance="low", at_least=1,
        doc="How often expired tokens are looked for.")
    password_encoder_secret: str | None = setting(
        "password.encoder.secret", None, type=PASSWORD,
        doc="Secret that encrypts passwords which are set dynamically; needed before one can be.")
    password_encoder_old_secret: str | None = setting(
        "password.encoder.old.secret", None, type=PASSWORD,
        doc="The secret before it was changed: passwords are encrypted with the new one at the next start.")
    password_encoder_keyfactory_algorithm: str | None = setting(
        "password.encoder.keyfactory.algorithm", None, importance="low",
        doc="Key derivation of that encryption: PBKDF2WithHmacSHA512, which is the default, or with another SHA.")
    password_encoder_cipher_algorithm: str = setting(
        "password.encoder.cipher.algorithm", "AES/CBC/PKCS5Padding", importance="low",
        doc="Cipher of that encryption: AES/CBC/PKCS5Padding or AES/GCM/NoPadding.")
    password_encoder_key_length: int = setting(
        "password.encoder.key.length", 128, importance="low", at_least=8,
        doc="Key length of that encryption: 128, 192 or 256.")
    password_encoder_iterations: int = setting(
        "password.encoder.iterations", 4096, importance="low", at_least=1024, doc="Iterations of that key derivation.")


class TlsSettings(Settings, area="TLS"):
    """Certificates and what is negotiated."""

    ssl_client_auth: str = setting(
        "ssl.client.auth", "none", one_of=("required", "requested", "none"), dynamic="per-broker",
        doc="Whether clients must, may or need not show a certificate.")
    ssl_principal_mapping_rules: str = setting(
        "ssl.principal.mapping.rules", "DEFAULT", importance="low",
        doc="Rules that shorten a certificate's distinguished name to a user name.")
    ssl_allow_dn_changes: bool = setting(
        "ssl.allow.dn.changes", False, importance="low",
        doc="Let a dynamically changed key store have another distinguished name.")
    ssl_allow_san_changes: bool = setting(
        "ssl.allow.san.changes", False, importance="low",
        doc="Let a dynamically changed key store lack alternative names of the one before.")
    ssl_protocol: str = setting(
        "ssl.protocol", "TLSv1.3", dynamic="per-broker", doc="Newest TLS version that is negotiated.")
    ssl_provider: str | None = setting(
        "ssl.provider", None, dynamic="per-broker", ignored="TLS is OpenSSL's", doc="Java's provider of TLS.")
    ssl_enabled_protocols: tuple[str, ...] = setting(
        "ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), dynamic="per-broker",
        doc="TLS versions that are allowed. Others than these two are left out with a warning.")
    ssl_cipher_suites: tuple[str, ...] = setting(
        "ssl.cipher.suites", (), dynamic="per-broker",
        doc="Cipher suites that are allowed; empty allows OpenSSL's own.")
    ssl_keystore_type: str = setting(
        "ssl.keystore.type", "JKS", dynamic="per-broker",
        doc="Format of the key store: PEM or PKCS12. JKS is taken for PKCS12, which keytool writes under that name.")
    ssl_keystore_location: str | None = setting(
        "ssl.keystore.location", None, dynamic="per-broker",
        doc="File with the broker's key and certificate chain. It is read again when a dynamic setting of the broker "
            "changes.")
    ssl_keystore_password: str | None = setting(
        "ssl.keystore.password", None, type=PASSWORD, dynamic="per-broker", doc="Password of the key store.")
    ssl_key_password: str | None = setting(
        "ssl.key.password", None, type=PASSWORD, dynamic="per-broker", doc="Password of the private key.")
    ssl_keystore_key: str | None = setting(
        "ssl.keystore.key", None, type=PASSWORD, dynamic="per-broker", doc="The private key itself, in PEM.")
    ssl_keystore_certificate_chain: str | None = setting(
        "ssl.keystore.certificate.chain", None, type=PASSWORD, dynamic="per-broker",
        doc="The certificate chain itself, in PEM.")
    ssl_truststore_type: str = setting(
        "ssl.truststore.type", "JKS", dynamic="per-broker",
        doc="Format of the trust store: PEM or PKCS12. JKS is taken for PKCS12.")
    ssl_truststore_location: str | None = setting(
        "ssl.truststore.location", None, dynamic="per-broker", doc="File with the certificates that are trusted.")
    ssl_truststore_password: str | None = setting(
        "ssl.truststore.password", None, type=PASSWORD, dynamic="per-broker", doc="Password of the trust store.")
    ssl_truststore_certificates: str | None = setting(
        "ssl.truststore.certificates", None, type=PASSWORD, dynamic="per-broker",
        doc="The trusted certificates themselves, in PEM.")
    ssl_keymanager_algorithm: str = setting(
        "ssl.keymanager.algorithm", "SunX509", dynamic="per-broker",
        ignored="TLS is OpenSSL's", doc="Java's algorithm of key managers.")
    ssl_trustmanager_algorithm: str = setting(
        "ssl.trustmanager.algorithm", "PKIX", dynamic="per-broker",
        ignored="TLS is OpenSSL's", doc="Java's algorithm of trust managers.")
    ssl_endpoint_identification_algorithm: str = setting(
        "ssl.endpoint.identification.algorithm", "https", importance="low", dynamic="per-broker",
        doc="`https` checks the other side's host name against its certificate; empty disables the check.")
    ssl_secure_random_implementation: str | None = setting(
        "ssl.secure.random.implementation", None, importance="low", dynamic="per-broker",
        ignored="TLS is OpenSSL's", doc="Java's source of random numbers.")
    ssl_engine_factory_class: str | None = setting(
        "ssl.engine.factory.class", None, type=CLASS, importance="low", dynamic="per-broker",
        refused="Java classes cannot be loaded; TLS is OpenSSL's",
        doc="A class that makes TLS contexts.")


class SaslSettings(Settings, area="SASL"):
    """How clients and brokers prove who they are."""

    sasl_enabled_mechanisms: tuple[str, ...] = setting(
        "sasl.enabled.mechanisms", ("GSSAPI",), dynamic="per-broker",
        doc="Mechanisms a client may choose from: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI.")
    sasl_mechanism_inter_broker_protocol: str = setting(
        "sasl.mechanism.inter.broker.protocol", "GSSAPI", dynamic="per-broker",
        doc="Mechanism brokers use among themselves.")
    sasl_jaas_config: str | None = setting(
        "sasl.jaas.config", None, type=PASSWORD, dynamic="per-broker",
        doc="Login module and its options, in JAAS form, as `listener.name.<listener>.<mechanism>.sasl.jaas.config`. "
            "PLAIN has its users there (`user_alice=\"secret\"`); `username` and `password` are this broker's own.")
    sasl_server_max_receive_size: int = setting(
        "sasl.server.max.receive.size", 512 * 1024,
        doc="Largest message during authentication; a connection that sends more is closed.")
    sasl_server_callback_handler_class: str | None = setting(
        "sasl.server.callback.handler.class", None, type=CLASS, one_of=VALIDATORS,
        doc="For OAUTHBEARER, as `listener.name.<listener>.oauthbearer.sasl.server.callback.handler.class`: Kafka's "
            "class that checks signed tokens, or the one that checks none. Other Java classes cannot be loaded.")
    sasl_client_callback_handler_class: str | None = setting(
        "sasl.client.callback.handler.class", None, type=CLASS,
        refused="Java classes cannot be loaded",
        doc="A class that provides credentials.")
    sasl_login_class: str | None = setting(
        "sasl.login.class", None, type=CLASS,
        refused="Java classes cannot be loaded",
        doc="A class that logs in.")
    sasl_login_callback_handler_class: str | None = setting(
        "sasl.login.callback.handler.class", None, type=CLASS, one_of=LOGINS,
        doc="For OAUTHBEARER: Kafka's class that fetches tokens from `sasl.oauthbearer.token.endpoint.url`, or the one "
            "that makes them without a signature. Other Java classes cannot be loaded.")


class KerberosSettings(Settings, area="SASL"):
    """Kerberos, for GSSAPI. Tickets are renewed by the Kerberos library itself."""

    sasl_kerberos_service_name: str | None = setting(
        "sasl.kerberos.service.name", None, dynamic="per-broker",
        doc="First component of the Kerberos principal of the brokers, for connections between them.")
    sasl_kerberos_principal_to_local_rules: tuple[str, ...] = setting(
        "sasl.kerberos.principal.to.local.rules", ("DEFAULT",), dynamic="per-broker",
        doc="Rules that shorten a Kerberos principal to a user name.")
    sasl_kerberos_kinit_cmd: str = setting(
        "sasl.kerberos.kinit.cmd", "/usr/bin/kinit", dynamic="per-broker",
        ignored="the Kerberos library renews tickets by itself", doc="Path of kinit.")
    sasl_kerberos_ticket_renew_window_factor: float = setting(
        "sasl.kerberos.ticket.renew.window.factor", 0.8, dynamic="per-broker",
        ignored="the Kerberos library renews tickets by itself",
        doc="Share of a ticket's life after which it is renewed.")
    sasl_kerberos_ticket_renew_jitter: float = setting(
        "sasl.kerberos.ticket.renew.jitter", 0.05, dynamic="per-broker",
        ignored="the Kerberos library renews tickets by itself",
        doc="Share of random jitter added to the renewal time.")
    sasl_kerberos_min_time_before_relogin: int = setting(
        "sasl.kerberos.min.time.before.relogin", MINUTE_MS, type=LONG, dynamic="per-broker",
        ignored="the Kerberos library renews tickets by itself",
        doc="Shortest time between two renewals, in milliseconds.")


class BearerTokenSettings(Settings, area="SASL"):
    """Tokens of OAUTHBEARER: how clients' are checked, and where this broker gets its own for other brokers."""

    sasl_login_refresh_window_factor: float = setting(
        "sasl.login.refresh.window.factor", 0.8, dynamic="per-broker",
        doc="Share of a bearer token's life after which it is renewed.")
    sasl_login_refresh_window_jitter: float = setting(
        "sasl.login.refresh.window.jitter", 0.05, dynamic="per-broker",
        doc="Share of random jitter added to that time.")
    sasl_login_refresh_min_period_seconds: int = setting(
        "sasl.login.refresh.min.period.seconds", 60, type=SHORT, dynamic="per-broker",
        doc="Shortest time between two renewals.")
    sasl_login_refresh_buffer_seconds: int = setting(
        "sasl.login.refresh.buffer.seconds", 300, type=SHORT, dynamic="per-broker",
        doc="Time that should remain before a token expires when it is renewed.")
    sasl_login_connect_timeout_ms: int | None = setting(
        "sasl.login.connect.timeout.ms", None, type=INT, importance="low",
        doc="Longest wait for a connection to the token endpoint.")
    sasl_login_read_timeout_ms: int | None = setting(
        "sasl.login.read.timeout.ms", None, type=INT, importance="low",
        doc="Longest wait for the token endpoint's response.")
    sasl_login_retry_backoff_ms: int = setting(
        "sasl.login.retry.backoff.ms", 100, type=LONG, importance="low",
        doc="First wait before the token endpoint is tried again; it doubles.")
    sasl_login_retry_backoff_max_ms: int = setting(
        "sasl.login.retry.backoff.max.ms", 10 * SECOND_MS, type=LONG, importance="low",
        doc="How long the token endpoint is tried again.")
    sasl_oauthbearer_scope_claim_name: str = setting(
        "sasl.oauthbearer.scope.claim.name", "scope", importance="low", doc="Claim that holds a token's scope.")
    sasl_oauthbearer_sub_claim_name: str = setting(
        "sasl.oauthbearer.sub.claim.name", "sub", importance="low", doc="Claim that holds a token's subject.")
    sasl_oauthbearer_token_endpoint_url: str | None = setting(
        "sasl.oauthbearer.token.endpoint.url", None, doc="Where tokens come from.")
    sasl_oauthbearer_jwks_endpoint_url: str | None = setting(
        "sasl.oauthbearer.jwks.endpoint.url", None, doc="Where the keys that sign tokens come from.")
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms", HOUR_MS, type=LONG, importance="low",
        doc="How often those keys are fetched again.")
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", 100, type=LONG, importance="low",
        doc="First wait before the keys are requested again; it doubles.")
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", 10 * SECOND_MS, type=LONG, importance="low",
        doc="How long the keys are requested again when the endpoint fails.")
    sasl_oauthbearer_clock_skew_seconds: int = setting(
        "sasl.oauthbearer.clock.skew.seconds", 30, importance="low",
        doc="Clock difference that is tolerated when a token's times are checked.")
    sasl_oauthbearer_expected_audience: tuple[str, ...] | None = setting(
        "sasl.oauthbearer.expected.audience", None, type=LIST, importance="low",
        doc="Audiences of which a token must name one.")
    sasl_oauthbearer_expected_issuer: str | None = setting(
        "sasl.oauthbearer.expected.issuer", None, importance="low", doc="Issuer that a token must have.")
# fmt: on
