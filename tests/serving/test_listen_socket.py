"""The socket that the server listens on, and the errors when it cannot."""

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from covalt_git.models.project_config import ServerConfig
from covalt_git.serving.listen_socket import CannotListenError, ListenSocket, listen


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


IPV6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


@contextmanager
def listening(
    config: dict[str, Any], *, host: str | None = None, port: int | None = None
) -> Iterator[ListenSocket]:
    listener = listen(ServerConfig(**config), host=host, port=port)
    with listener.socket:
        yield listener


@contextmanager
def port_in_use() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


@pytest.mark.parametrize(
    ("config", "host", "found", "open_to_others"),
    [
        ({}, None, "127.0.0.1", False),
        ({"host": "localhost"}, None, "127.0.0.1", False),
        ({"host": "nowhere.invalid"}, "127.0.0.1", "127.0.0.1", False),
        ({}, "0.0.0.0", "127.0.0.1", True),
        pytest.param({}, "::", "[::1]", True, marks=IPV6),
        pytest.param(
            {"host": "::ffff:127.0.0.1", "allowed_hosts": ["[::ffff:7f00:1]"]},
            *(None, "[::ffff:7f00:1]", False),
            marks=IPV6,
        ),
        pytest.param(
            *({"allowed_hosts": ["127.0.0.2"]}, "127.0.0.2", "127.0.0.2", False),
            marks=pytest.mark.skipif(sys.platform != "linux", reason="needs 127.0.0.2"),
        ),
    ],
)
def test_it_listens_on_the_host_of_the_option_else_of_covalt_yaml(
    config: dict[str, Any], host: str | None, found: str, *, open_to_others: bool
) -> None:
    with listening(config, host=host, port=0) as listener:
        assert (listener.host, listener.open_to_others) == (found, open_to_others)
        connection = socket.create_connection((found.strip("[]"), listener.port))
        accepted, _ = listener.socket.accept()
        assert accepted.proto == socket.IPPROTO_TCP  # else asyncio leaves Nagle's algorithm on
        accepted.close()
        connection.close()


def test_the_port_is_that_of_the_option_else_of_covalt_yaml() -> None:
    with port_in_use() as port:
        pass
    with listening({"port": port}) as listener:
        assert listener.port == port
    with listening({"port": 1}, port=0) as listener:
        assert listener.port > 1


@pytest.mark.parametrize(
    ("config", "host", "words"),
    [
        ({}, "nowhere.invalid", "'nowhere.invalid'"),
        ({"allowed_hosts": ["192.0.2.1"]}, "192.0.2.1", "cannot assign requested address"),
        ({"host": "0.0.0.0"}, None, "covalt-git serve --host 0.0.0.0"),
        ({}, "127.0.0.2", 'allowed_hosts: ["127.0.0.2"]'),
        ({}, "192.0.2.1", 'allowed_hosts: ["192.0.2.1"]'),
    ],
)
def test_a_host_that_is_unknown_or_not_allowed_is_an_error(
    config: dict[str, Any], host: str | None, words: str
) -> None:
    with pytest.raises(CannotListenError) as raised:
        listen(ServerConfig(**config), host=host, port=0)

    assert words in str(raised.value)


@pytest.mark.parametrize("place", ["option", "covalt.yaml"])
def test_a_port_that_is_in_use_is_an_error(place: str) -> None:
    with port_in_use() as port:
        config = ServerConfig(port=port) if place == "covalt.yaml" else ServerConfig()
        with pytest.raises(CannotListenError) as raised:
            listen(config, host=None, port=port if place == "option" else None)

    assert str(raised.value).startswith(f"port {port} is in use\n")
