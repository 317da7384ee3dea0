"""Checks of the targets of a render plan: files of the workspace or toolset, URLs and ports of a frame.

The data of a call can determine the path of a file or of a URL, but not the folder or the host.  URLs are
parsed by the strict grammar of :mod:`covalt_git.hosts`, so that browsers see the same host.
"""

from __future__ import annotations

import re

from covalt_git.hosts import HOST, Url, split_url
from covalt_git.paths import check_path
from covalt_git.templating.expressions import PLACES, Expression, split
from covalt_git.text.display import shorten

PORTS = range(1024, 65536)
LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")

# With the character after the host, or data could continue it: ".evil.com" in https://example.com$args.rest
# (test_data_never_leads_a_frame_elsewhere).
_FIXED_HOST = "(?i)" + HOST + r"[:/?#]"
_FIXED_PORT = "(?i)" + HOST + r"(?::[0-9]{1,5})?[/?#]"
_PORT = r"[0-9]{4,5}"


class RefusedError(Exception):
    """The target of a render plan is not allowed."""


def check_file(value: object, template: object, *, place: str) -> str:
    """Return ``workspace:<path>`` or ``toolset:<path>`` for ``value``, the resolved ``template``.

    The folder is ``place``, unless the template starts with ``$workspace`` or ``$toolset``.

    Raises:
        RefusedError: when it is not a path in that folder.
    """
    if not isinstance(value, str) or not isinstance(template, str):
        raise RefusedError(f"{shorten(repr(value))} is not a path")
    chosen = _chosen_place(template)
    path = value.removeprefix(f"{chosen}:") if chosen else value
    if path.startswith("/"):
        raise RefusedError(f"{shorten(repr(value))} must be relative to the {chosen or place}")
    plain = "/".join(element for element in path.split("/") if element not in {"", "."})
    if not plain:
        raise RefusedError(f"{shorten(repr(value))} is not the path of a file")
    verdict = check_path(plain)
    if verdict.kind == "refused":
        raise RefusedError(f"{shorten(repr(value))} is not the path of a file: {verdict.reason}")
    return f"{chosen or place}:{plain}"


def check_port(value: object) -> int:
    """Return ``value``, a number or its digits, as the port of a server on this machine.

    Raises:
        RefusedError: when it is not a port from 1024 to 65535.
    """
    number = int(value) if isinstance(value, str) and re.fullmatch(_PORT, value) else value
    if isinstance(number, int) and not isinstance(number, bool) and number in PORTS:
        return number
    raise RefusedError(f"{shorten(repr(value))} is not a port from {PORTS[0]} to {PORTS[-1]}")


def check_url(value: object, template: object) -> str:
    """Return ``value``, the resolved ``template``, as a URL.

    A template without expressions can have any host.  In a template with expressions, a host before the
    first expression is the only host allowed.  If the host comes from an expression, only this machine is
    allowed.  A port from an expression must be in the
    range of :func:`check_port`.

    Raises:
        RefusedError: when the URL is invalid or its host or port is not allowed.
    """
    if not isinstance(value, str) or not isinstance(template, str):
        raise RefusedError(f"{shorten(repr(value))} is not an http or https URL")
    address = parse_url(value)
    first, *more = split(template)
    prefix = first if isinstance(first, str) else ""
    if prefix and not more:
        return value
    fixed = re.match(_FIXED_HOST, prefix)
    allowed = (fixed["host"].lower(),) if fixed else LOCAL_HOSTS
    if address.host not in allowed:
        raise RefusedError(f"the host of {shorten(repr(value))} must be {' or '.join(allowed)}")
    if address.port is not None and not re.match(_FIXED_PORT, prefix):
        check_port(address.port)
    return value


def parse_url(value: object) -> Url:
    """Return the parts of an http or https URL.

    Raises:
        RefusedError: when it is not a URL, or URL parsers could read it differently.
    """
    parts = split_url(value)
    if parts is None:
        raise RefusedError(f"{shorten(repr(value))} is not an http or https URL")
    return parts


def _chosen_place(template: str) -> str | None:
    # By the template, not the value: an argument that begins with $toolset must not choose the folder.
    first = next(iter(split(template)), None)
    if isinstance(first, Expression) and first.root in PLACES:
        return first.root
    return None
