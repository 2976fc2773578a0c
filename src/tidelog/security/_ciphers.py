"""Cipher suites by the names of Java (and of the RFCs) and by OpenSSL's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

TLS_1_3: Final = frozenset({"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"})
"""The suites of TLS 1.3. Python cannot choose among them."""


def openssl_names(suites: Sequence[str]) -> list[str]:
    """OpenSSL's names of the suites of TLS 1.2 among `suites`."""
    return [_openssl_name(each) for each in suites if each not in TLS_1_3]


def _openssl_name(suite: str) -> str:
    """`TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384` is `ECDHE-RSA-AES256-GCM-SHA384`; other names are OpenSSL's already."""
    if not suite.startswith("TLS_") or "_WITH_" not in suite:
        return suite
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305").replace("_CBC_", "_")
    for bits in ("128", "256"):
        cipher = cipher.replace(f"AES_{bits}", f"AES{bits}")
    parts = [*([] if exchange == "RSA" else exchange.split("_")), *cipher.split("_")]
    return "-".join(parts)
