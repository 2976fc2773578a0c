"""`ssl.principal.mapping.rules`, with the examples of KIP-371."""

import pytest

from tidelog.config import ConfigError
from tidelog.security.principal_mapping import PrincipalMapping

RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L ,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "user"),
    [
        ("CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "serviceuser"),
        ("CN=Duke,OU=JavaSoft,O=Sun Microsystems,L=x,ST=y,C=US", "duke@javasoft"),
        ("OU=x,cn=bob.b,O=z", "BOB.B"),
        ("O=none", "O=none"),
    ],
)
def test_the_first_rule_that_matches_decides(name: str, user: str) -> None:
    assert PrincipalMapping(RULES).user_of(name) == user


def test_without_default_a_name_that_no_rule_matches_has_no_user() -> None:
    assert PrincipalMapping("RULE:^CN=(.*)$/$1/").user_of("O=x") is None


def test_no_rules_are_the_default() -> None:
    assert PrincipalMapping("").user_of("CN=x") == PrincipalMapping("DEFAULT").user_of("CN=x") == "CN=x"


def test_a_slash_can_be_escaped_and_unknown_groups_stay() -> None:
    assert PrincipalMapping(r"RULE:^CN=(\w+)\/(\w+)$/$2-$1-$3\/x/").user_of("CN=a/b") == "b-a-$3/x"


@pytest.mark.parametrize("rules", ["RULE:", "RULE:a/b", "RULE:(/x/", "default", "RULE:a/b/ RULE:c/d/", "RULE:a/b/X"])
def test_rules_that_cannot_be_read_are_refused(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapping(rules)
