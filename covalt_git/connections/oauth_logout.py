"""Logout from an MCP server: delete the stored login, and revoke its tokens.

Tokens are revoked at the revocation endpoint, if the metadata had one (RFC 7009, "OAuth 2.0 Token
Revocation").  The URL was checked at the login.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from covalt_git.connections.token_refresh import post_form
from covalt_git.errors import CovaltError, failure_text
from covalt_git.http_client.transport import why_unreachable

if TYPE_CHECKING:
    from covalt_git.access.grants import Granted
    from covalt_git.connections.token_store import SignInFile, StoredLogin
    from covalt_git.hosts import Reach

WAIT_S = 10.0
"""Time limit of the revocation in seconds."""

_OK = 200


def sign_out(file: SignInFile, granted: Reach | None, may: Granted | None = None) -> str:
    """Delete a stored login and revoke its tokens; return why the revocation failed, or "".

    An authorization server without a revocation endpoint is not a failure.  ``may`` are the grants of a toolset, for its
    sign-ins.

    Raises:
        SignInFileError: if the stored login cannot be used.
    """
    return asyncio.run(_sign_out(file, granted, may))


async def _sign_out(file: SignInFile, granted: Reach | None, may: Granted | None) -> str:
    async with file.lock():  # a concurrent refresh would store the login again
        stored = file.read()
        # Before the request: a server that does not answer must not keep the login alive here.
        file.delete()
        if stored is None or stored.revocation_endpoint is None:
            return ""
        try:
            async with asyncio.timeout(WAIT_S):
                return await _revoke(stored, stored.revocation_endpoint, granted, may)
        except CovaltError as error:
            return error.message
        except TimeoutError:
            return f"it did not answer within {WAIT_S:g} s"
        except Exception as error:  # noqa: BLE001 - network errors have many types
            return why_unreachable(error) or f"the connection failed: {failure_text(error)}"


async def _revoke(
    stored: StoredLogin, endpoint: str, granted: Reach | None, may: Granted | None
) -> str:
    """Revoke the tokens, the refresh token first; return the reason of a failure, or ""."""
    # With the refresh token left, the client could still get a new access token.
    tokens = {"refresh_token": stored.refresh_token, "access_token": stored.access_token}
    for kind, token in tokens.items():
        if token is None:
            continue
        form = {"token": token, "token_type_hint": kind}
        async with post_form(stored, endpoint, form, granted, may) as response:
            if response.status_code != _OK:
                return f"it answered {response.status_code}"
    return ""
