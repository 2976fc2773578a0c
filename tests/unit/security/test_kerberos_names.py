"""Rules that make user names of Kerberos principals. The cases are those of Kafka's KerberosRuleTest and its manual."""

import pytest

from tidelog.config import ConfigError
from tidelog.security.errors import SaslRejected
from tidelog.security.kerberos_names import LocalNames

REALM = "REALM.COM"


@pytest.mark.parametrize(
    ("rules", "principal", "user"),
    [
        (["DEFAULT"], "alice@REALM.COM", "alice"),
        (["DEFAULT"], "alice/host.example@REALM.COM", "alice"),
        ([], "alice@REALM.COM", "alice"),
        (["DEFAULT"], "alice", "alice"),
        (["RULE:[1:$1](App\\..*)s/App\\.(.*)/$1/g", "DEFAULT"], "App.service-name@REALM.COM", "service-name"),
        (["RULE:[2:$1]", "DEFAULT"], "user/host@OTHER", "user"),
        (["RULE:[2:$1@$0](.*@OTHER)s/@.*//"], "user/host@OTHER", "user"),
        (["RULE:[1:$1]/L"], "Alice@OTHER", "alice"),
        (["RULE:[1:$1](.*)s/a/b/g/U"], "aaa@OTHER", "BBB"),
        (["RULE:[1:$1](.*)s/a/b/"], "aaa@OTHER", "baa"),
        (["RULE:[1:$1.$0]"], "alice@OTHER", "alice.OTHER"),
        (["RULE:[2:$2]"], "a/b@OTHER", "b"),
    ],
)
def test_the_first_rule_that_applies_makes_the_name(rules: list[str], principal: str, user: str) -> None:
    assert LocalNames(rules, REALM).user_of(principal) == user


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        (["DEFAULT"], "alice@OTHER"),
        (["RULE:[2:$1]"], "alice@REALM.COM"),
        (["RULE:[1:$1@$0]"], "alice@REALM.COM"),
        (["RULE:[1:$1](b.*)"], "alice@REALM.COM"),
        (["RULE:[1:$1](.*)s/.*//"], "alice@REALM.COM"),
        (["DEFAULT"], "a@b@c"),
    ],
)
def test_a_principal_without_a_simple_name_is_rejected(rules: list[str], principal: str) -> None:
    with pytest.raises(SaslRejected):
        LocalNames(rules, REALM).user_of(principal)


def test_without_a_default_realm_the_default_rule_takes_no_principal() -> None:
    with pytest.raises(SaslRejected):
        LocalNames(["DEFAULT"], None).user_of("alice@")


@pytest.mark.parametrize(
    "rule", ["", "default", "RULE:[1:$2]", "RULE:[x:$1]", "RULE:[1:$1](((", "RULE:[1:$1](*)s/a/b/"]
)
def test_a_rule_that_cannot_be_read_is_refused(rule: str) -> None:
    with pytest.raises(ConfigError, match=r"sasl\.kerberos\.principal\.to\.local\.rules"):
        LocalNames([rule], REALM)
