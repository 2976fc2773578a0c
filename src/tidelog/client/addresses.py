"""`host:port` lists, as `bootstrap.servers` and `--bootstrap-server` take them."""

from collections.abc import Sequence

from tidelog.client.errors import ClientConfigError

DEFAULT_PORT = 9092


def parse_bootstrap_servers(servers: str | Sequence[str]) -> list[tuple[str, int]]:
    """The addresses in `servers`: a comma-separated text or a sequence; `[::1]:9092` for IPv6, port 9092 if none."""
    parts = servers.split(",") if isinstance(servers, str) else list(servers)
    for part in parts:
        if not isinstance(part, str):
            raise ClientConfigError(f"bootstrap.servers has {part!r}, which is not host:port")
    addresses = [_parse_one(part.strip()) for part in parts if part.strip()]
    if not addresses:
        raise ClientConfigError(f"bootstrap.servers={servers!r} has no address; set host:port[,host:port…]")
    return addresses


def address_text(host: str, port: int) -> str:
    """`host:port` as `parse_bootstrap_servers` takes it: an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _parse_one(text: str) -> tuple[str, int]:
    bare = text.rpartition("://")[2]
    if bare.startswith("["):
        host, bracket, port = bare[1:].partition("]")
        port = port.removeprefix(":") if bracket else "?"
    else:
        host, _, port = bare.partition(":")
    if not port:
        port = str(DEFAULT_PORT)
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ClientConfigError(f"bootstrap.servers has {text!r}, which is not host:port")
    return host, int(port)
