"""Calls with the token of a sign-in: sent to granted hosts of its entry, and found nowhere else."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from covalt_git import open_project
from covalt_git.connections.token_store import stored_logins
from covalt_git.models.calls import SandboxLevel
from tests import command
from tests.api_client import Api
from tests.calls.conftest import World
from tests.examples import one_in
from tests.mcp_client import talk
from tests.runtime.in_sandbox import LEVELS, needs_full
from tests.sign_ins.accounts import Accounts, sign_in, stored
from tests.sign_ins.conftest import grant

NEEDED = "sign_in_needed: the call needs a sign-in to shop/shop"
HINT = "covalt-git auth login shop/shop"
SCRIPT = "try:\n    r = tools.shop.list()\nexcept Exception as e:\n    r = str(e)\nr"


def by_command(world: World) -> str:
    answer = command.run("-C", str(world.root), "call", "c1", "shop:list")
    return answer.stdout + answer.stderr


def by_api(world: World) -> str:
    return str(Api.of(world.root).post("call_tool", chat_id="c1", tool_id="shop:list", args={}))


def by_mcp(world: World) -> str:
    async def say(client: Client) -> Any:
        return await client.call_tool("shop.list", {})

    return str(talk(world.root, say, chat="c1"))


def by_script(world: World) -> str:
    file = world.root / "list.py"
    file.write_text(SCRIPT)
    script = ("script", "run", str(file), "--chat", "c1", "--json")
    return command.run("-C", str(world.root), *script).stdout


def by_python(world: World) -> str:
    with open_project(world.root) as project:
        return str(project.open_chat("c1").call("shop:list"))


FACES = [by_command, by_api, by_mcp, by_script, by_python]


@pytest.mark.requirement("toolshed-plugins")
@pytest.mark.parametrize("face", FACES)
def test_a_call_needs_the_sign_in_on_every_face_and_then_has_it(shop: World, face: Any) -> None:
    before = face(shop)
    sign_in(shop.root)
    after = face(shop)

    assert NEEDED.partition(": ")[2] in before
    assert face is by_script or HINT in before  # an exception of a script has its message only
    assert "second" in after
    assert "Bearer ***" in after


def test_lists_mark_tools_that_need_a_sign_in(shop: World) -> None:
    def why_not() -> str:
        groups = json.loads(shop.cli("tool", "list", "--json").stdout)["groups"]
        tools = {tool["tool_id"]: tool for group in groups for tool in group["tools"]}
        return str(tools["shop:list"]["why_not"])

    before = why_not()
    sign_in(shop.root)

    assert (before, why_not()) == (NEEDED.partition(": ")[2], "")


def test_a_secret_that_the_entry_names_is_used_without_a_sign_in(
    shop: World, provider: Accounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(shop.root)
    token = stored(shop.root).access_token
    shop.edit(
        "shop/toolset.yaml", "    client_id: app", "    client_id: app\n    token: ${SHOP_TOKEN}"
    )
    shop.edit("shop/toolset.yaml", 'version: "1"', 'version: "1"\nsecrets: [SHOP_TOKEN]')
    monkeypatch.setenv("SHOP_TOKEN", token)
    grant(shop)
    refused = shop.call("shop:list").call.error or ""
    shop.cli("grant", "add", "shop", "secret", "SHOP_TOKEN", provider.api, "--no-terminal", "test")

    assert "may not send the secret 'SHOP_TOKEN'" in refused
    assert shop.call("shop:list").call.status == "success"


def test_a_token_that_is_refused_or_expires_is_renewed_once(
    shop: World, provider: Accounts
) -> None:
    sign_in(shop.root)
    provider.end("access")
    assert shop.call("shop:list").call.status == "success"

    provider.end("access")
    provider.end("refresh")
    error = shop.call("shop:list").call.error or ""

    assert error.startswith(f"{NEEDED}: ")
    assert "rejected the refresh token" in error


# Forked once everything is imported, which would take each a second of a core.
EIGHT_PROCESSES = """
import os
import sys
from pathlib import Path

import mcp.shared.auth
import oauthlib.oauth2

import covalt_git.connections.token_refresh
import covalt_git.http_client
from covalt_git.connections.entry_tokens import ToolsetSignIns
from covalt_git.toolsets.toolset import read_toolset

root = Path(sys.argv[1])
for _ in range(8):
    if os.fork() == 0:
        toolset = read_toolset(root, "shop")
        token = ToolsetSignIns(root, "shop", toolset.manifest.auth).token("auth:shop")
        os.write(1, f"{token}\\n".encode())
        os._exit(0)
for _ in range(8):
    os.wait()
"""


def test_eight_processes_refresh_an_expired_token_with_one_request(
    shop: World, provider: Accounts
) -> None:
    provider.set(expires=1)
    sign_in(shop.root)
    provider.set()
    requests = provider.log()
    command = [sys.executable, "-c", EIGHT_PROCESSES, str(shop.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    tokens = done.stdout.split()

    assert len(tokens) == 8
    assert set(tokens) == {stored(shop.root).access_token}
    refreshes = [line for line in provider.log()[len(requests) :] if "refresh_token" in line]
    assert len(refreshes) == 1


@pytest.mark.requirement("toolshed-plugins.token")
def test_a_python_tool_sends_its_token_to_a_granted_host_and_it_is_recorded_nowhere(
    shop: World, provider: Accounts, tmp_path: Path
) -> None:
    needs_full()
    sign_in(shop.root)
    login = stored(shop.root)
    outcome = shop.call("shop:create", name="tea", url=provider.api)
    failed = shop.call("shop:create", name="tea", url="http://elsewhere.example")
    shop.call("shop:list")

    assert outcome.call.status == "success", outcome.call.error
    assert (outcome.call.error, failed.call.status) == (None, "error")
    assert f"Bearer {login.access_token}" in provider.seen()
    tokens = [login.access_token, login.refresh_token or "", login.access_token[::-1]]
    logins = {file.path for file, _ in stored_logins(shop.root)}
    texts = {
        str(outcome),
        str(failed),
        shop.cli("calls", "c1").stdout,
        shop.git("log", "-p", "--all"),
    }
    for file in tmp_path.rglob("*"):
        if file.is_file() and file not in logins:
            assert not [token for token in tokens if token.encode() in file.read_bytes()], file
    assert not [token for token in tokens for text in texts if token in text]


@pytest.mark.parametrize("level", one_in(2, [level for level in LEVELS if level != "full"]))
def test_a_sandbox_that_does_not_limit_the_network_gives_no_token(
    shop: World, provider: Accounts, level: SandboxLevel
) -> None:
    sign_in(shop.root)
    seen = provider.seen()

    outcome = shop.call("shop:create", level=level, name="tea", url=provider.api)

    assert (outcome.call.error or "").startswith("sandbox_needed: ")
    assert f"'{level}' does not limit the network" in (outcome.call.error or "")
    assert provider.seen() == seen


def test_a_python_tool_that_reaches_another_host_gets_no_token(
    shop: World, provider: Accounts
) -> None:
    needs_full()
    sign_in(shop.root)
    shop.cli("grant", "add", "shop", "network", "other.example", "--no-terminal", "test")

    error = shop.call("shop:create", name="tea", url=provider.api).call.error or ""

    assert error.startswith("grant_needed: ")
    assert "may reach other.example" in error


def test_a_token_goes_to_the_hosts_of_its_entry_only(
    shop: World, provider: Accounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.edit("shop/toolset.yaml", f'hosts: ["{provider.api}"]', "hosts: [api.example.com]")
    problems = shop.cli("validate").stdout
    # The host of a variable is known to the call only.
    shop.edit("shop/toolset.yaml", f"{provider.api}/items", "${SHOP_URL}/items")
    shop.edit("shop/toolset.yaml", 'version: "1"', 'version: "1"\nsecrets: [SHOP_URL]')
    monkeypatch.setenv("SHOP_URL", provider.api)
    for grant_of in (["network"], ["secret", "auth:shop"], ["secret", "SHOP_URL"]):
        shop.cli("grant", "add", "shop", *grant_of, provider.api, "--no-terminal", "test")
    sign_in(shop.root)
    seen = provider.seen()

    error = shop.call("shop:list").call.error or ""

    assert (
        "CG211 tools[list].http.headers.Authorization: the entry 'shop' of auth may not" in problems
    )
    assert error.startswith("host_not_of_auth: the entry 'shop' of auth may not be sent to")
    assert provider.seen() == seen


def test_the_header_of_a_server_gets_the_token_with_its_own_grant(
    shop: World, provider: Accounts
) -> None:
    shop.edit(
        "shop/toolset.yaml",
        "tools:",
        "mcp_servers:\n"
        f'  - {{id: remote, url: "{provider.api}/mcp", headers: {{Authorization: "Bearer ${{auth:shop}}"}}}}\ntools:',
    )
    grant(shop)
    needed = shop.cli("source", "refresh", "shop/remote").stderr
    sign_in(shop.root)
    seen = len(provider.seen())
    shop.cli("grant", "revoke", "shop", "secret", "auth:shop")
    refused = shop.cli("source", "refresh", "shop/remote").stderr
    assert len(provider.seen()) == seen
    grant(shop)
    shop.cli("source", "refresh", "shop/remote")

    assert NEEDED.partition(": ")[2] in needed
    assert "may not send the token of the sign-in 'shop'" in refused
    assert f"Bearer {stored(shop.root).access_token}" in provider.seen()[seen:]


def test_entries_that_are_secrets_are_sent_as_their_kind(
    shop: World, provider: Accounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.write(
        "keys/toolset.yaml",
        f"""\
id: keys
name: Keys
version: "1"
secrets: [LOGIN, KEY]
auth:
  - {{id: user, type: basic, token: "${{LOGIN}}"}}
  - {{id: key, type: bearer, token: "${{KEY}}"}}
tools:
  - {{id: basic, http: {{url: "{provider.api}/items", headers: {{Authorization: "Basic ${{auth:user}}"}}}}}}
  - {{id: bearer, http: {{url: "{provider.api}/items", headers: {{Authorization: "Bearer ${{auth:key}}"}}}}}}
""",
    )
    monkeypatch.setenv("LOGIN", "ann:pass word")
    monkeypatch.setenv("KEY", "key-of-the-user")
    shop.cli("grant", "add", "keys", "--requested", "--no-terminal", "test")

    answers = [shop.call(f"keys:{name}").call for name in ("basic", "bearer")]

    assert provider.seen()[-2:] == ["Basic YW5uOnBhc3Mgd29yZA==", "Bearer key-of-the-user"]
    assert not [word for word in ("YW5uOnBhc3Mgd29yZA", "key-of-the-user") if word in str(answers)]


def test_a_document_with_an_oauth_scheme_becomes_a_source_with_a_sign_in(
    shop: World, provider: Accounts, tmp_path: Path
) -> None:
    document = tmp_path / "items.yaml"
    document.write_text(
        f"""\
openapi: 3.0.3
info: {{title: Items, version: "1"}}
servers: [{{url: "{provider.api}"}}]
components:
  securitySchemes:
    login:
      type: oauth2
      flows:
        authorizationCode: {{authorizationUrl: "https://provider.example/authorize", tokenUrl: "https://provider.example/token", scopes: {{read: r, write: w}}}}
security: [{{login: [read]}}]
paths:
  /items:
    get: {{operationId: list_items, responses: {{"200": {{description: ok}}}}}}
"""
    )
    shop.write("api/toolset.yaml", 'id: api\nname: API\nversion: "1"\n')
    added = shop.cli("source", "add", "api", str(document), "--id", "items").stdout
    text = (shop.root / "toolsets/api/toolset.yaml").read_text()
    # A provider with https cannot run here, so this one takes its place, as an author would correct a URL.
    shop.write("api/toolset.yaml", text.replace("https://provider.example", provider.provider))
    shop.cli("source", "accept", "api/items", "--no-terminal", "test")
    shop.cli("grant", "add", "api", "--requested", "--no-terminal", "test")
    sign_in(shop.root, "api/items", client_id="app")

    assert f"sign-in to 127.0.0.1:{provider.api_port}: covalt-git auth login api/items" in added
    assert "scopes:\n      - read\n    hosts:" in text
    assert shop.call("items:items.list").call.status == "success"
