"""Scheme of requests that a reverse proxy received over TLS."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Receive, Scope, Send


def with_forwarded_scheme(app: ASGIApp, allowed_hosts: Collection[str]) -> ASGIApp:
    """Return ``app`` for which requests are https if a proxy says so in ``X-Forwarded-Proto``.

    Only hosts of ``server.allowed_hosts`` can be those of a proxy.  A client that sends the header itself changes
    only URLs in its own answer, and whether its cookie is sent over http; no check depends on the scheme.
    """
    hosts = {host.lower().encode() for host in allowed_hosts}

    async def app_behind_proxy(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and hosts:
            headers = dict(scope["headers"])
            is_https = headers.get(b"x-forwarded-proto", b"").lower() == b"https"
            if is_https and headers.get(b"host", b"").lower() in hosts:
                scope = {**scope, "scheme": "https"}
        await app(scope, receive, send)

    return app_behind_proxy
