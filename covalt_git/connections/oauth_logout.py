"""Signing out of an MCP server: what a sign-in left is forgotten, and taken back where it came from.

An authorization server that says how is told that its tokens are of no more use (RFC 7009, "OAuth 2.0
Token Revocation"); the address was looked at when somebody signed in.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from covalt_git.connections.token_refresh import client_context, reach_of
from covalt_git.errors import CovaltError
from covalt_git.http_client.transport import agent_client, why_unreachable

if TYPE_CHECKING:
    from covalt_git.connections.token_store import SignInFile, StoredLogin
    from covalt_git.hosts import Reach

WAIT_S = 10.0
"""How long an authorization server has to take its tokens back, in seconds."""

_OK = 200


def sign_out(file: SignInFile, granted: Reach | None) -> str:
    """Forget what a sign-in left, and have it taken back; return why that was not done, or nothing.

    Nothing is told of an authorization server that does not say where it takes tokens back.

    Raises:
        SignInFileError: when what is kept cannot be used.
    """
    return asyncio.run(_signed_out(file, granted))


async def _signed_out(file: SignInFile, granted: Reach | None) -> str:
    async with file.held():  # or somebody who renews a token would keep it
        kept = file.read()
        file.forget()
        if kept is None or kept.revocation_endpoint is None:
            return ""
        try:
            async with asyncio.timeout(WAIT_S):
                return await _revoke(kept, kept.revocation_endpoint, granted)
        except CovaltError as error:
            return error.message
        except TimeoutError:
            return f"it did not answer within {WAIT_S:g} s"
        except Exception as error:  # noqa: BLE001 - the network's are of many kinds
            return why_unreachable(error) or f"the connection failed: {type(error).__name__}"


async def _revoke(kept: StoredLogin, endpoint: str, granted: Reach | None) -> str:
    """Have the tokens taken back, first the one that others come from; return what was wrong."""
    tokens = {"refresh_token": kept.refresh_token, "access_token": kept.access_token}
    for kind, token in tokens.items():
        if token is None:
            continue
        form = {"token": token, "token_type_hint": kind, "client_id": kept.client_id}
        plain = {"Accept": "application/json", "Accept-Encoding": "identity"}
        form, headers = client_context(kept).prepare_token_auth(form, plain)
        async with (
            agent_client(reach_of(kept, endpoint, granted), headers) as http,
            http.stream("POST", endpoint, data=form) as response,
        ):
            if response.status_code != _OK:
                return f"it answered {response.status_code}"
    return ""
