"""Where a render plan may lead: to files of the workspace or toolset, and to addresses of a frame.

Data fills in a file's name or the end of an address; it never chooses another place or another
host.  The one strict grammar of :mod:`covalt_git.hosts` reads addresses, so that no browser sees
another host in them.
"""

from __future__ import annotations

import re

from covalt_git.hosts import HOST, Address, split_address
from covalt_git.paths import check_path
from covalt_git.templating.expressions import PLACES, Expression, split
from covalt_git.text.display import shorten

PORTS = range(1024, 65536)
LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")

_SETTLED_HOST = re.compile(HOST + r"[:/?#]", re.IGNORECASE)
_SETTLED_PORT = re.compile(HOST + r"(?::[0-9]{1,5})?[/?#]", re.IGNORECASE)
_PORT = re.compile(r"[0-9]{4,5}")


class RefusedError(Exception):
    """A render plan may not lead there; the message says why."""


def check_file(value: object, template: object, *, place: str) -> str:
    """Return ``workspace:<path>`` or ``toolset:<path>`` for the file that ``template`` names.

    A template that starts with ``$workspace`` or ``$toolset`` chooses its place; data never does.

    Raises:
        RefusedError: when it is no file's name, or leads outside.
    """
    if not isinstance(value, str) or not isinstance(template, str):
        raise RefusedError(f"{shorten(repr(value))} is not a file's name")
    chosen = _chosen_place(template)
    path = value.removeprefix(f"{chosen}:") if chosen else value
    if path.startswith("/"):
        raise RefusedError(f"{shorten(repr(value))} is not relative to the {chosen or place}")
    plain = "/".join(element for element in path.split("/") if element not in {"", "."})
    if not plain:
        raise RefusedError(f"{shorten(repr(value))} names no file")
    verdict = check_path(plain)
    if verdict.kind == "refused":
        raise RefusedError(f"{shorten(repr(value))} names no file: {verdict.reason}")
    return f"{chosen or place}:{plain}"


def check_port(value: object) -> int:
    """Return ``value`` as the port of a server on this machine.

    Raises:
        RefusedError: for everything but 1024 to 65535, as a number or as its digits.
    """
    number = int(value) if isinstance(value, str) and _PORT.fullmatch(value) else value
    if isinstance(number, int) and not isinstance(number, bool) and number in PORTS:
        return number
    raise RefusedError(f"{shorten(repr(value))} is not a port from {PORTS[0]} to {PORTS[-1]}")


def check_url(value: object, template: object) -> str:
    """Return ``value``, the address that ``template`` became.

    A template without expressions may lead anywhere.  Otherwise the text before its first
    expression settles the host; where it does not, only this machine is shown.  A port that data
    chose is held to the range of :func:`check_port`.

    Raises:
        RefusedError: for everything else.
    """
    if not isinstance(value, str) or not isinstance(template, str):
        raise RefusedError(f"{shorten(repr(value))} is not an http or https address")
    address = read_address(value)
    first, *more = split(template)
    before = first if isinstance(first, str) else ""
    if before and not more:
        return value
    settled = _SETTLED_HOST.match(before)
    allowed = (settled["host"].lower(),) if settled else LOCAL_HOSTS
    if address.host not in allowed:
        raise RefusedError(f"{shorten(repr(value))} does not lead to {' or '.join(allowed)}")
    if address.port is not None and not _SETTLED_PORT.match(before):
        check_port(address.port)
    return value


def read_address(value: object) -> Address:
    """Return an http or https address in its parts.

    Raises:
        RefusedError: when it is none, or one that two readers could understand differently.
    """
    address = split_address(value)
    if address is None:
        raise RefusedError(f"{shorten(repr(value))} is not an http or https address")
    return address


def _chosen_place(template: str) -> str | None:
    first = next(iter(split(template)), None)
    if isinstance(first, Expression) and first.root in PLACES:
        return first.root
    return None
