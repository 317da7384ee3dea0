"""Which socket the server listens on, and what is said when it cannot."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from covalt_git.models.project_config import ServerConfig
from covalt_git.serving.listen_socket import CannotListenError, Listener, listen


@contextmanager
def listening(
    config: dict[str, Any], *, host: str | None = None, port: int | None = None
) -> Iterator[Listener]:
    listener = listen(ServerConfig(**config), host=host, port=port)
    with listener.socket:
        yield listener


@contextmanager
def taken() -> Iterator[int]:
    """Yield a port that is in use."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def test_it_listens_on_this_machine_only() -> None:
    with listening({}, port=0) as found:
        assert found.host == "127.0.0.1"
        assert found.socket.getsockname() == ("127.0.0.1", found.port)
        assert not found.open_to_others


def test_answers_in_two_parts_do_not_wait_for_each_other() -> None:
    with (
        listening({}, port=0) as found,
        socket.create_connection(("127.0.0.1", found.port)),
    ):
        accepted, _ = found.socket.accept()
        with accepted:  # for others asyncio leaves Nagle's algorithm on
            assert accepted.proto == socket.IPPROTO_TCP


def test_what_is_given_wins_over_covalt_yaml() -> None:
    config = {"host": "nowhere.invalid", "port": 1}
    with listening(config, host="127.0.0.1", port=0) as found:
        assert found.host == "127.0.0.1"
        assert found.port > 1


def test_covalt_yaml_may_name_host_and_port() -> None:
    with taken() as port:
        pass
    with listening({"host": "localhost", "port": port}) as found:
        assert (found.host, found.port) == ("127.0.0.1", port)


def test_a_port_whose_last_connections_fade_away_is_free() -> None:
    with listening({}, port=0) as first:
        client = socket.create_connection(("127.0.0.1", first.port))
        accepted, _ = first.socket.accept()
        accepted.close()  # the one who closes first keeps the port for a minute
        assert client.recv(1) == b""
        client.close()

    with listening({}, port=first.port) as second:
        assert second.port == first.port


@pytest.mark.parametrize("asked_in", ["option", "covalt.yaml"])
def test_a_port_that_is_in_use_is_an_error(asked_in: str) -> None:
    with taken() as port:
        config = ServerConfig(port=port) if asked_in == "covalt.yaml" else ServerConfig()
        with pytest.raises(CannotListenError) as caught:
            listen(config, host=None, port=port if asked_in == "option" else None)

    assert str(caught.value) == (
        f"port {port} is in use\n  hint: choose a free port: covalt-git serve --port 0"
    )


def test_an_unknown_host_is_named() -> None:
    with pytest.raises(CannotListenError) as caught:
        listen(ServerConfig(), host="nowhere.invalid", port=0)

    assert str(caught.value) == (
        "no host 'nowhere.invalid' is known here\n  hint: covalt-git serve --host 127.0.0.1"
    )


def test_an_address_of_another_machine_cannot_be_listened_on() -> None:
    config = ServerConfig(allowed_hosts=("192.0.2.1",))
    with pytest.raises(CannotListenError) as caught:
        listen(config, host="192.0.2.1", port=0)

    assert caught.value.message == "cannot listen on 192.0.2.1: cannot assign requested address"


def test_covalt_yaml_alone_does_not_open_the_server_to_others() -> None:
    with pytest.raises(CannotListenError) as caught:
        listen(ServerConfig(host="0.0.0.0"), host=None, port=0)

    assert str(caught.value) == (
        "covalt.yaml puts the server on '0.0.0.0', where others can reach it\n"
        "  hint: if that is what you want: covalt-git serve --host 0.0.0.0"
    )


@pytest.mark.parametrize(
    ("asked", "host"),
    [
        pytest.param("0.0.0.0", "127.0.0.1", id="ipv4"),
        pytest.param("::", "[::1]", id="ipv6"),
    ],
)
def test_on_every_address_it_is_found_on_this_machine(asked: str, host: str) -> None:
    if asked == "::" and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    with listening({}, host=asked, port=0) as found:
        assert (found.host, found.open_to_others) == (host, True)
        socket.create_connection((host.strip("[]"), found.port)).close()


def test_an_ipv4_mapped_loopback_address_is_not_open_to_others() -> None:
    if not has_ipv6():
        pytest.skip("this machine has no IPv6")
    config = {"host": "::ffff:127.0.0.1", "port": 0, "allowed_hosts": ["[::ffff:7f00:1]"]}
    with listening(config) as found:
        assert (found.host, found.open_to_others) == ("[::ffff:7f00:1]", False)


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("host", ["127.0.0.2", "192.0.2.1"])
def test_a_host_that_the_pages_do_not_answer_to_is_refused(host: str) -> None:
    with pytest.raises(CannotListenError) as caught:
        listen(ServerConfig(), host=host, port=0)

    assert str(caught.value) == (
        f"the pages would not answer to the host '{host}'\n"
        f'  hint: under server in covalt.yaml, write: allowed_hosts: ["{host}"]'
    )


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.1 is the only one")
def test_the_hosts_that_covalt_yaml_allows_may_be_listened_on() -> None:
    with listening({"allowed_hosts": ("127.0.0.2",)}, host="127.0.0.2", port=0) as found:
        assert found.host == "127.0.0.2"
