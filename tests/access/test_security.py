"""Calls that a tool's ``security`` block refuses: by every interface, with the same error."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import covalt_git
from covalt_git.errors import CovaltError
from tests.api_client import Api, refused
from tests.mcp_client import call as call_over_mcp
from tests.mcp_client import refused as refused_by_protocol
from tests.mcp_client import talk
from tests.operations_client import Operations

MANIFEST = """\
id: guarded
name: Guarded
version: "1"
tools:
  - {{id: echo, entrypoint: "tools.echo:echo", security: {{{security}}}}}
"""
CODE = 'def echo(text: str) -> str:\n    """Return the text."""\n    return text\n'
ARGS = {"text": "hello"}


@pytest.fixture
def guard(api: Api) -> Callable[[str], Api]:
    """Write a toolset whose tool has a ``security`` block."""

    def write(security: str) -> Api:
        folder = api.root / "toolsets/guarded"
        (folder / "tools").mkdir(parents=True, exist_ok=True)
        (folder / "tools/echo.py").write_text(CODE, encoding="utf-8")
        (folder / "toolset.yaml").write_text(MANIFEST.format(security=security), encoding="utf-8")
        return api

    return write


def call_over_http(api: Api) -> Any:
    return api.tell("call_tool", chat_id="c1", tool_id="guarded:echo", args=ARGS)


def code_over_mcp(api: Api) -> tuple[int, str]:
    """Return the error code of JSON-RPC of a call by an MCP client, and our own code."""
    error = talk(
        api.root, lambda client: refused_by_protocol(client.call_tool("guarded.echo", ARGS))
    )
    return error.code, error.data["error"]


@pytest.mark.requirement("registry-create.required_capabilities")
@pytest.mark.requirement("registry-create.max_blast_radius")
@pytest.mark.requirement("registry-create.requires_execution")
@pytest.mark.requirement("registry-create.allowed_operations")
@pytest.mark.requirement("registry-create.allowed_targets")
@pytest.mark.requirement("registry-create.resource_uri")
@pytest.mark.parametrize(
    ("security", "key"),
    [
        ("required_capabilities: [read]", "required_capabilities"),
        ('max_blast_radius: "namespace:analytics"', "max_blast_radius"),
        (
            "requires_execution: true, allowed_operations: [read], allowed_targets: [a]",
            "requires_execution",
        ),
        ('resource_uri: "https://api.example.com/"', "resource_uri"),
    ],
)
def test_a_tool_that_requires_a_token_is_refused_without_it_on_every_face(
    guard: Callable[[str], Api], cli: Callable[..., tuple[int, str]], security: str, key: str
) -> None:
    api = guard(f"{security}, protocols: [mcp, http]")

    assert key in refused(call_over_http(api), 401, "missing_token")["error_description"]
    assert code_over_mcp(api) == (-32001, "missing_token")
    status, printed = cli("call", "c1", "guarded:echo", "--arg", "text=hello")
    assert status == 1
    assert f"requires an access token of an issuer ({key})" in printed
    chat = covalt_git.open_project(api.root).chat("c1")
    with pytest.raises(CovaltError, match=key):
        chat.call("guarded:echo", ARGS)


@pytest.mark.parametrize(
    "security",
    ["resource_uri: 'guarded:echo'", "resource_uri: guarded.echo", "allowed_operations: [read]"],
)
def test_a_tool_that_requires_no_token_is_called(
    guard: Callable[[str], Api], security: str
) -> None:
    api = guard(f"{security}, protocols: [http]")
    assert api.call("guarded:echo", **ARGS)["result"] == "hello"


@pytest.mark.requirement("registry-create.protocols")
@pytest.mark.parametrize(("protocols", "over"), [("[mcp]", "mcp"), ("[http]", "http")])
def test_a_call_over_a_protocol_that_is_not_listed_is_refused(
    guard: Callable[[str], Api], operate: Operations, protocols: str, over: str
) -> None:
    api = guard(f"protocols: {protocols}")

    over_http = call_over_http(api)
    if over == "mcp":
        refused(over_http, 403, "protocol_denied")
        assert not call_over_mcp(api.root, "guarded.echo", ARGS).is_error
    else:
        assert over_http.status_code == 200
        assert code_over_mcp(api) == (-32002, "protocol_denied")
    # A command of the user of this machine uses no protocol.
    assert (
        operate("call_tool", chat_id="c1", tool_id="guarded:echo", args=ARGS)["status"] == "success"
    )


def test_a_client_lists_the_tools_that_accept_its_protocol(
    guard: Callable[[str], Api], mcp: partial[Any]
) -> None:
    api = guard("protocols: [a2a/2025-draft-01]")
    rows = [row for group in api.get("list_tools")["groups"] for row in group["tools"]]
    (row,) = [row for row in rows if row["tool_id"] == "guarded:echo"]
    assert not row["callable"]
    assert "not over http" in row["why_not"]

    async def names(client: Any) -> list[str]:
        return [tool.name for tool in (await client.list_tools()).tools]

    assert "guarded.echo" not in mcp(names)
    guard("protocols: [mcp]")
    assert "guarded.echo" in mcp(names)
