"""An issuer of bearer tokens for tests: keys that rotate, a JWKS and a token endpoint over real HTTP."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

AUDIENCE, ISSUER = "tidelog-brokers", "https://issuer.test"
CLIENT_ID, CLIENT_SECRET = "alice", "al:ice s%ecret"


class Key:
    """A key that signs tokens."""

    def __init__(self, key_id: str) -> None:
        self.key_id = key_id
        self.private = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def public(self) -> dict[str, Any]:
        return {**RSAAlgorithm.to_jwk(self.private.public_key(), as_dict=True), "kid": self.key_id, "use": "sig"}

    def sign(self, claims: dict[str, Any], key_id: str | None = None) -> str:
        return jwt.encode(claims, self.private, "RS256", headers={"kid": key_id or self.key_id})


class Issuer:
    """Its keys and what it was asked."""

    def __init__(self) -> None:
        self.keys = [Key("first")]
        self.life_seconds = 3600.0
        self.requests: list[str] = []
        self.port = 0
        self.hold: threading.Event | None = None
        """While it is not set, requests wait."""

    @property
    def jwks_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/keys"

    @property
    def token_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/token"

    def rotate(self) -> None:
        """Sign with another key from now on."""
        self.keys = [Key(f"key-{time.monotonic_ns()}")]

    def jwks(self) -> str:
        return json.dumps({"keys": [key.public() for key in self.keys]})

    def token(self, user: str = "alice", **changes: Any) -> str:
        """A valid token; a claim that is None is left out."""
        return self.keys[0].sign(claims(user, self.life_seconds, **changes))

    def answer(self, request: BaseHTTPRequestHandler) -> tuple[int, str]:
        self.requests.append(request.path)
        if self.hold is not None:
            self.hold.wait(30)
        if request.path == "/keys":
            return 200, self.jwks()
        body = request.rfile.read(int(request.headers["Content-Length"])).decode()
        expected = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if request.headers["Authorization"] != f"Basic {expected}":
            return 401, '{"error": "invalid_client"}'
        if body != "grant_type=client_credentials&scope=logs":
            return 400, '{"error": "invalid_request"}'
        return 200, json.dumps({"access_token": self.token(), "token_type": "Bearer", "expires_in": self.life_seconds})


def claims(user: str = "alice", life_seconds: float = 3600, **changes: Any) -> dict[str, Any]:
    now = time.time()
    usual = {"sub": user, "aud": AUDIENCE, "iss": ISSUER, "iat": now, "exp": now + life_seconds, "scope": "logs"}
    return {name: value for name, value in {**usual, **changes}.items() if value is not None}


@contextmanager
def token_issuer() -> Iterator[Issuer]:
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, text = issuer.answer(self)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        do_POST = do_GET

        def log_message(self, *_arguments: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    issuer.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        if issuer.hold is not None:
            issuer.hold.set()
        server.shutdown()
        thread.join()
        server.server_close()


MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
HANDLERS = "org.apache.kafka.common.security.oauthbearer.secured"
JAAS = f'{MODULE} required clientId="{CLIENT_ID}" clientSecret="{CLIENT_SECRET}" scope="logs";'


def broker_settings(issuer: Issuer, **more: str) -> dict[str, str]:
    """A listener for clients with tokens, beside one for brokers. Apache Kafka takes the same."""
    listener = "listener.name.sasl_plaintext.oauthbearer"
    return {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "connection.failed.authentication.delay.ms": "10",
        "sasl.oauthbearer.jwks.endpoint.url": issuer.jwks_url,
        "sasl.oauthbearer.expected.audience": f"others,{AUDIENCE}",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        f"{listener}.sasl.jaas.config": f"{MODULE} required;",
        f"{listener}.sasl.server.callback.handler.class": f"{HANDLERS}.OAuthBearerValidatorCallbackHandler",
        **more,
    }


def client_settings(issuer: Issuer) -> dict[str, str]:
    """Of the Java client, and of ours."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": JAAS,
        "sasl.login.callback.handler.class": f"{HANDLERS}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": issuer.token_url,
    }
