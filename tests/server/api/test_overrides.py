"""Overrides over the API: said by whoever may do everything, held to what toolsets are, seen at once."""

from __future__ import annotations

import pytest

from tests.api_client import Api, configure, refused


def test_a_tool_is_changed_for_this_project_and_back(api: Api) -> None:
    state = api.root / "toolsets/state/data-lab.yaml"
    said = {
        "name_override": "Sum it up",
        "renderer": "code",
        "renderer_config": {"content": "$return"},
        "requires_confirmation": True,
    }
    told = api.post("override_tool", tool_id="data-lab:summarize", **said)
    tool = api.get("get_tool", tool_id="data-lab:summarize")

    assert told["changed"] is True
    assert {name: value for name, value in told["project"].items() if value is not None} == said
    assert told["toolset"]["renderer"] == "html"
    assert told["warnings"] == []
    assert tool["name"] == "Sum it up"
    assert tool["renderer"] == {"type": "code", "config": {"content": "$return"}}
    assert len(tool["requires_confirmation"]) == 1

    every = [name for name, value in told["project"].items() if value is not None]
    again = api.post("override_tool", tool_id="data-lab:summarize", clear=every)
    assert set(again["project"].values()) == {None}
    assert not state.exists()
    assert api.post("override_tool", tool_id="data-lab:summarize")["changed"] is False


def test_a_tool_is_switched_off_and_cannot_be_called(api: Api) -> None:
    told = api.post("enable_tool", tool_id="data-lab:load_sample", enabled=False)

    assert (told["changed"], told["project"]["enabled"]) == (True, False)
    call = api.tell("call_tool", chat_id="c1", tool_id="data-lab:load_sample", args={})
    assert refused(call, 403, "tool_disabled")["hint"] == (
        "covalt-git tool enable data-lab:load_sample"
    )
    assert api.post("enable_tool", tool_id="data-lab:load_sample", enabled=True)["changed"]
    assert api.get("get_tool", tool_id="data-lab:load_sample")["callable"]


@pytest.mark.parametrize(
    ("body", "status", "code", "place"),
    [
        pytest.param({"tool_id": "data-lab:sumarize"}, 404, "unknown_tool", None, id="unknown"),
        pytest.param({"renderer": "cod"}, 400, "bad_override", "renderer", id="renderer"),
        pytest.param({"renderer_config": {"fil": 1}}, 400, "bad_override", "fil", id="a-key"),
        pytest.param({"name_override": ""}, 400, "bad_override", "name_override", id="empty"),
        pytest.param({"enabled": "yes"}, 400, "invalid_request", "", id="a-text"),
        pytest.param({"clear": ["colour"]}, 400, "invalid_request", "", id="no-such-field"),
        pytest.param({"colour": "red"}, 400, "invalid_request", "", id="no-such-value"),
    ],
)
def test_what_cannot_be_said_is_refused_and_nothing_is_written(
    api: Api, body: dict[str, object], status: int, code: str, place: str | None
) -> None:
    told = refused(
        api.tell("override_tool", **({"tool_id": "data-lab:summarize"} | body)), status, code
    )

    assert bool(told["problems"]) is (place is not None)
    assert (place or "") in "".join(one["message"] for one in told["problems"])
    assert not (api.root / "toolsets/state").exists()


def test_only_a_role_that_sees_everything_changes_tools(api: Api) -> None:
    configure(api.root, 'roles: {dev: {allow: ["data-lab.**"]}, owner: {admin: true}}')
    dev = Api.of(api.root, "dev")
    off = {"tool_id": "data-lab:summarize", "enabled": False}

    refused(dev.tell("enable_tool", **off), 403, "forbidden")
    refused(dev.tell("override_tool", **off), 403, "forbidden")
    refused(dev.tell("override_tool", tool_id="app-builder:read_file"), 403, "forbidden")
    assert Api.of(api.root, "owner").post("enable_tool", **off)["changed"]
