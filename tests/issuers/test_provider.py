"""An MCP client of the reference SDK signs in with a provider, and calls a tool; keys are rotated meanwhile."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

from covalt_git.issuers import key_sets
from tests.api_client import make_project
from tests.connections.signing_in import serving, visit
from tests.issuers.guarded import guard
from tests.issuers.tokens import ARGS
from tests.mcp_client import text
from tests.uvicorn_server import PATIENCE_S, served

AUDIENCE = "https://covalt.example.com/mcp"
CALLBACK = "http://127.0.0.1:1/callback"


class Person:
    """A client's storage, and a person who signs in with a browser."""

    def __init__(self) -> None:
        self.token: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None
        self.logins = 0
        self._answer = ""

    async def get_tokens(self) -> OAuthToken | None:
        return self.token

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.token = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info

    async def open(self, url: str) -> None:
        self.logins += 1
        async with httpx2.AsyncClient(verify=False) as browser:
            self._answer = (await browser.get(url)).headers["Location"]

    async def answer(self) -> AuthorizationCodeResult:
        query = parse_qs(urlsplit(self._answer).query)
        return AuthorizationCodeResult(code=query["code"][0], state=query["state"][0])

    def provider(self, url: str) -> OAuthClientProvider:
        wanted = OAuthClientMetadata(
            redirect_uris=[AnyUrl(CALLBACK)],
            client_name="test",
            token_endpoint_auth_method="none",
            grant_types=["authorization_code"],
        )
        return OAuthClientProvider(url, wanted, self, self.open, self.answer)


def call(port: int, person: Person) -> Any:
    url = f"http://127.0.0.1:{port}/mcp"

    async def main() -> Any:
        async with (
            httpx2.AsyncClient(auth=person.provider(url), timeout=PATIENCE_S, verify=False) as http,
            Client(streamable_http_client(url, http_client=http), cache=None) as client,
        ):
            return await client.call_tool("guarded.echo", ARGS)

    return anyio.run(main)


@pytest.mark.slow
def test_a_client_signs_in_calls_and_signs_in_again_after_the_keys_were_rotated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_project(tmp_path / "project")
    with serving("issuing_tokens.py", AUDIENCE=AUDIENCE) as (port,):
        issuer = f"http://127.0.0.1:{port}"
        guard(root, f"required_capabilities: [read], resource_uri: '{AUDIENCE}'")
        config = (root / "covalt.yaml").read_text().partition("issuers:")[0]
        entry = {
            "issuer": issuer,
            "audience": AUDIENCE,
            "jwks_url": f"{issuer}/keys",
            "roles": {"claim": "groups", "map": {"analysts": "caller"}},
        }
        (root / "covalt.yaml").write_text(f"{config}issuers: {json.dumps([entry])}\n")
        with served(root) as own:
            person = Person()
            assert text(call(own, person)).startswith("hello")
            assert text(call(own, person)).startswith("hello")
            assert person.logins == 1
            assert visit(f"{issuer}/fetches") == "1\n"
            # A token of a new key: its keys are fetched again, as the last request was long ago.
            visit(f"{issuer}/rotate")
            monkeypatch.setattr(key_sets, "PAUSE_S", 0)
            earlier, person.token = person.token, None
            assert text(call(own, person)).startswith("hello")
            assert person.logins == 2
            # The key of the first token is withdrawn, so its client has to sign in again.
            person.token = earlier
            assert text(call(own, person)).startswith("hello")
            assert person.logins == 3
