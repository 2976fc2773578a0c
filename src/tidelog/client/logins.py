"""What a client authenticates with, from `sasl.*`: of a client's settings, or of a broker's for its own connections."""

from typing import Any

from tidelog.client.oauth_login import oauth_login
from tidelog.security.kerberos import kerberos_login
from tidelog.security.login import (
    GSSAPI,
    OAUTHBEARER,
    PASSWORD_MECHANISMS,
    Login,
    needed_options,
    password_login,
    unsupported,
)


def login_of(
    mechanism: str,
    jaas: str | None,
    settings: Any,
    *,
    mechanism_setting: str = "sasl.mechanism",
    jaas_setting: str = "sasl.jaas.config",
) -> Login:
    """The credentials that settings describe; `settings` has the `sasl_…` fields. Raises ConfigError."""
    if mechanism in PASSWORD_MECHANISMS:
        return password_login(mechanism, jaas, jaas_setting)
    if mechanism == OAUTHBEARER:
        return oauth_login(jaas, settings, jaas_setting)
    if mechanism == GSSAPI:
        options = needed_options(mechanism, jaas, jaas_setting)
        return kerberos_login(options, settings.sasl_kerberos_service_name, jaas_setting)
    raise unsupported(mechanism, mechanism_setting)
