"""Sources over the API and on the toolset's page: asked, compared, and accepted as they were shown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.api_client import BEARER, HOME, Api, refused
from tests.sources.test_refresh import LIST, READ, READ_FILE, WIPE, lock_text, offer
from tests.sources.test_refresh import root as granted_root

if TYPE_CHECKING:
    from pathlib import Path

    from werkzeug.test import TestResponse

root = granted_root
OF_DISK = {"toolset_id": "gear", "namespace": "disk"}


@pytest.fixture
def api(root: Path) -> Api:
    return Api.of(root)


def posted(api: Api, form: str, **fields: Any) -> TestResponse:
    """Submit a form of the toolset's page."""
    said = {"namespace": "disk"} | fields
    return api.client().post(
        f"/toolsets/gear/{form}", base_url=HOME, data=said, headers=BEARER | {"Origin": HOME}
    )


def page(api: Api) -> str:
    return api.client().get("/toolsets/gear", base_url=HOME, headers=BEARER).text


def test_a_server_is_asked_and_its_tools_accepted_as_they_were_shown(api: Api) -> None:
    (before,) = api.get("list_sources")["sources"]
    assert (before["asked"], before["tools"], before["server"]) == (False, 0, "disk")

    found = api.post("refresh_source", **OF_DISK)
    assert found["drift"] == found["source"]["to_accept"]
    shown = {one["name"]: one["digest"] for one in found["drift"]}
    assert sorted(shown) == ["list", READ_FILE, "wipe"]
    tools = api.get("list_tools")["groups"][0]["tools"]
    assert {tool["kind"] for tool in tools} == {"mcp"}
    assert tools[0]["why_not"] == "'disk:list' is disabled: nobody accepted its definition"

    done = api.post("accept_tools", **OF_DISK, tools={"list": shown["list"]})
    assert (done["accepted"], len(done["to_accept"])) == (1, 2)
    tool = api.get("get_tool", tool_id="disk:list")
    assert (tool["enabled"], tool["server"], tool["upstream"]) == (True, "disk", "list")

    offer(api.root, READ, WIPE | {"title": "Wipe"}, LIST)
    assert api.post("refresh_source", **OF_DISK, check=True)["drift"][0]["parts"] == [
        {"name": "title", "before": None, "after": "Wipe"}
    ]
    api.post("refresh_source", **OF_DISK)
    late = api.tell("accept_tools", **OF_DISK, tools=shown)
    assert "disk:wipe" in refused(late, 409, "moved")["error_description"]
    assert api.get("list_sources", toolset_id="gear")["sources"][0]["accepted"] == 1


def test_one_that_is_not_granted_is_not_asked(api: Api) -> None:
    api.post("revoke_grant", toolset_id="gear", all=True)

    answer = refused(api.tell("refresh_source", **OF_DISK), 403, "grant_needed")

    assert answer["hint"] == "covalt-git grant add gear process disk"
    assert lock_text(api.root) == ""


def test_the_page_shows_what_differs_and_accepts_exactly_that(api: Api) -> None:
    assert "never asked" in page(api)
    assert posted(api, "refresh").status_code == 303
    shown = page(api)
    assert "3 to accept" in shown
    assert re.search(r'class="line add">\+ Nothing else\.', shown)

    fields = re.findall(r'name="tool" value="([^"]+)"', shown)
    assert posted(api, "accept", tool=fields).status_code == 303
    assert "3 of 3 tools are as accepted.</p>" in page(api)

    offer(api.root, READ | {"description": "<b>All\u200b</b>"}, LIST)
    posted(api, "refresh")
    shown = page(api)
    assert "as accepted; the others are off.</p>" in shown
    assert re.search(r'class="line add">\+ &lt;b&gt;All\\u\{200b\}&lt;/b&gt;', shown)
    late = posted(api, "accept", tool=fields)
    assert late.status_code == 409
    assert "is not what was shown any more; nothing is accepted" in late.text


def test_why_a_server_cannot_be_asked_is_told_on_the_page(api: Api) -> None:
    api.post("revoke_grant", toolset_id="gear", all=True)

    answer = posted(api, "refresh")

    assert answer.status_code == 403
    assert "covalt-git grant add gear process disk" in answer.text


def test_a_role_without_admin_may_do_none_of_it(api: Api) -> None:
    text = "version: 1\nroles:\n  some: {allow: ['**']}\n"
    (api.root / "covalt.yaml").write_text(text, encoding="utf-8")
    some = Api.of(api.root, "some")

    refused(some.ask("list_sources"), 403, "forbidden")
    refused(some.tell("refresh_source", **OF_DISK), 403, "forbidden")
    refused(some.tell("accept_tools", **OF_DISK, tools={}), 403, "forbidden")
    assert "Ask it now" not in page(some)
