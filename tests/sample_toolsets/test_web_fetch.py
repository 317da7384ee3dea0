"""Web Fetch: its HTTP tools need a grant, and send a token only where one is set."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from covalt_git.access.grants import GrantNeededError
from covalt_git.calls.tool_grants import check_runnable
from covalt_git.credentials.values import SecretStore
from covalt_git.hosts import Reach
from covalt_git.http_client import ClientRequest
from covalt_git.http_tools.request import RequestBuilder
from covalt_git.http_tools.secret_lookup import Lookup
from covalt_git.models.tool import Tool
from covalt_git.toolsets.tool_arguments import check_arguments
from covalt_git.toolsets.toolset import Toolset, read_toolset

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def toolset(tmp_path_factory: pytest.TempPathFactory) -> Toolset:
    root = tmp_path_factory.mktemp("project")
    shutil.copytree(REPOSITORY / "toolsets" / "web-fetch", root / "toolsets" / "web-fetch")
    return read_toolset(root, "web-fetch")


def request(tool: Tool, args: dict[str, Any], **environment: str) -> ClientRequest:
    assert tool.http is not None
    lookup = Lookup(frozenset({"GITHUB_TOKEN"}), SecretStore(environment))
    value_of, in_header = lookup.lookup, lookup.in_header
    return RequestBuilder(tool.http, args, value_of, in_header, lambda _: b"").build()


def test_every_tool_needs_a_grant_of_one_public_host(toolset: Toolset) -> None:
    for tool in toolset.tools:
        with pytest.raises(GrantNeededError) as caught:
            check_runnable(tool, toolset.state)
        host = caught.value.hint.removeprefix("covalt-git grant add web-fetch network ")

        assert request(tool, tool.examples[0].args).url.startswith(f"https://{host}/")
        assert Reach.of(host).rules[0].scheme == "https"
        check_arguments(tool, tool.examples[0].args)
