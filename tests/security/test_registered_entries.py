"""Entries of registered tools: what is written is read back, and a broken entry harms only itself."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from covalt_git.errors import CovaltError
from tests.api_client import BEARER, HOME, Api
from tests.examples import covering, examples
from tests.operations_client import Operations
from tests.unicode_texts import TEXTS, VALUES

GOOD = {"tool_id": "good", "name": "Good", "protocol_meta": {"mcp": {"tool": "data-lab:summarize"}}}
BAD = {"tool_id": "bad", "name": "Bad"}
FOLDER = "toolsets/state/registered"


def post(api: Api, path: str, method: str = "POST", **request: Any) -> Any:
    return api.client().open(path, method=method, base_url=HOME, headers=BEARER, **request)


def listed(operate: Operations) -> dict[str, str]:
    """Return why each registered tool cannot be called."""
    return {one["tool_id"]: one["why_not"] for one in operate("list_registered_tools")["tools"]}


def names(operate: Operations) -> list[str]:
    return sorted(one.name for one in (operate.root / FOLDER).glob("*"))


@pytest.mark.parametrize(
    ("key", "character"),
    covering(["description", "name"], ["\u00ad", "\u202e", "\ufeff", "\u200b", "\U000e0041"]),
)
def test_an_entry_with_a_hidden_character_is_refused_and_not_written(
    api: Api, operate: Operations, character: str, key: str
) -> None:
    operate("register_tool", entry=GOOD)
    before = names(operate)
    answer = post(api, "/v1/tools", json=BAD | {key: f"a{character}b"})

    assert (answer.status_code, answer.get_json()["error"]) == (400, "invalid_request")
    assert f"U+{ord(character):04X}" in answer.get_json()["error_description"]
    assert names(operate) == before
    answer = post(api, "/v1/tools/good", "PUT", json={"name": f"a{character}b"})
    assert answer.status_code == 400
    assert "errors" not in str(listed(operate))


def test_a_broken_entry_harms_only_itself(operate: Operations) -> None:
    operate("register_tool", entry=GOOD)
    operate("add_grant", toolset_id="registered", kind="tool", name="good")
    operate("register_tool", entry=BAD)
    (bad,) = (operate.root / FOLDER).glob("bad-*.yaml")
    bad.write_text(bad.read_text() + 'description: "a\u00adb"\n', encoding="utf-8")
    operate("create_chat", chat_id="c1")

    found = operate("list_registered_tools")
    assert [(one["tool_id"], one["why_not"]) for one in found["tools"]] == [("good", "")]
    assert {one["path"] for one in found["problems"]} == {f"{FOLDER}/{bad.name}"}
    # The alias is called; its target refuses the arguments.
    called = operate(
        "call_tool", chat_id="c1", tool_id="registered:good", args={"path": "none.csv"}
    )
    assert called["status"] == "error"
    rows = [one["tool_id"] for group in operate("list_tools")["groups"] for one in group["tools"]]
    assert "registered:good" in rows
    # Neither a new entry nor a replaced one answers for the broken one.
    operate("register_tool", entry=GOOD | {"tool_id": "other"})
    assert "bad" not in listed(operate)
    operate("replace_registered_tool", tool_id="bad", entry={"name": "Bad"})
    assert listed(operate)["bad"] != "its entry has errors"
    assert operate("list_registered_tools")["problems"] == []


@given(entry=st.fixed_dictionaries({"name": TEXTS, "description": TEXTS, "x": VALUES}))
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_entry_of_any_text_is_refused_or_read_back(
    operate: Operations, entry: dict[str, Any]
) -> None:
    for file in (operate.root / FOLDER).glob("bad-*"):
        file.unlink()
    if not names(operate):
        operate("register_tool", entry=GOOD)
    try:
        done = operate("register_tool", entry={"tool_id": "bad", **entry})
    except CovaltError as error:
        assert error.code == "invalid_request"  # noqa: PT017 - some texts are valid
        assert len(names(operate)) == 1
    else:
        assert done["entry"].items() >= entry.items()
        assert operate("get_registered_tool", tool_id="bad") == done
    assert "its entry has errors" not in listed(operate).values()
    assert operate("list_registered_tools")["problems"] == []


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None]
)
def test_a_body_that_any_page_can_send_is_refused(
    api: Api, operate: Operations, method: str, kind: str | None
) -> None:
    path = "/v1/tools" + "/bad" * (method == "PUT")
    answer = post(api, path, method, data=b'{"tool_id": "bad", "name": "B"}', content_type=kind)

    assert (answer.status_code, answer.get_json()["error"]) == (415, "unsupported_media_type")
    assert names(operate) == []


def test_an_approval_of_a_replaced_alias_says_that_the_registered_tool_changed(
    operate: Operations,
) -> None:
    approvals = "version: 1\napprovals:\n  - {pattern: '**', require: true}\n"
    (operate.root / "covalt.yaml").write_text(approvals)
    operate("register_tool", entry=GOOD)
    operate("add_grant", toolset_id="registered", kind="tool", name="good")
    operate("create_chat", chat_id="c1")
    args = {"path": "none.csv"}
    asked = operate("call_tool", chat_id="c1", tool_id="registered:good", args=args)
    other = {"name": "Good", "protocol_meta": {"mcp": {"tool": "data-lab:report"}}}
    operate("replace_registered_tool", tool_id="good", entry=other)
    operate("add_grant", toolset_id="registered", kind="tool", name="good")

    refused = operate.error("approve_call", execution_id=asked["execution_id"])

    assert "the registered tool 'registered:good'" in refused.message
    assert "toolset" not in refused.message
