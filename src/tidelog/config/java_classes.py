"""Names of Kafka's Java classes that are accepted as values, because what they do is done here as well."""

from __future__ import annotations

from typing import Final

AUTHORIZERS: Final = (
    "kafka.security.authorizer.AclAuthorizer",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "tidelog.security.authorizer.AclAuthorizer",
)
"""Values of `authorizer.class.name`: that of Kafka's ZooKeeper clusters, that of its KRaft clusters, and our own."""

_OAUTHBEARER: Final = "org.apache.kafka.common.security.oauthbearer"
_UNSECURED: Final = f"{_OAUTHBEARER}.internals.unsecured"

UNSECURED_VALIDATOR: Final = f"{_UNSECURED}.OAuthBearerUnsecuredValidatorCallbackHandler"
VALIDATORS: Final = (
    f"{_OAUTHBEARER}.secured.OAuthBearerValidatorCallbackHandler",
    f"{_OAUTHBEARER}.OAuthBearerValidatorCallbackHandler",
    UNSECURED_VALIDATOR,
)
"""Values of `sasl.server.callback.handler.class`."""

UNSECURED_LOGIN: Final = f"{_UNSECURED}.OAuthBearerUnsecuredLoginCallbackHandler"
LOGINS: Final = (
    f"{_OAUTHBEARER}.secured.OAuthBearerLoginCallbackHandler",
    f"{_OAUTHBEARER}.OAuthBearerLoginCallbackHandler",
    UNSECURED_LOGIN,
)
"""Values of `sasl.login.callback.handler.class`."""
