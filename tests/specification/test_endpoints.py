"""The endpoints of the specification's section 7, by name and method."""

from typing import Any

import pytest

from tests.api_client import BEARER, HOME, Api, form_file
from tests.installs.hostile_bundles import GOOD, archive
from tests.tables import tables

TABLES = tables(__file__)


def test_an_endpoint_answers_its_method_alone(api: Api) -> None:
    api.send_form("import_toolset", {"file": form_file("demo.zip", archive(GOOD))})
    message = api.post("add_message", chat_id="c1", role="user", text="hello")["message_id"]
    api.post(
        "call_tool",
        chat_id="c1",
        message_id=message,
        tool_id="app-builder:write_file",
        args={"path": "a.txt", "content": "hello"},
    )
    for requirement, (method, name, fields, answer) in TABLES[
        "an_endpoint_answers_its_method_alone"
    ]:
        request: dict[str, Any] = {
            key: value.format(message=message) if isinstance(value, str) else value
            for key, value in fields.items()
        }
        found = api.ask(name, **request) if method == "GET" else api.tell(name, **request)

        assert found.status_code == 200, (requirement, found.get_data(as_text=True))
        assert answer in found.get_data().decode("latin-1"), requirement
        other = {"GET": "POST", "POST": "GET"}[method]
        refused = api.client().open(f"/api/{name}", method=other, base_url=HOME, headers=BEARER)
        assert refused.status_code == 405, requirement


@pytest.mark.requirement("covalt-7.1.enable_toolset", "covalt-7.4.get_available_tools")
def test_tools_of_a_toolset_are_available_while_it_is_enabled(api: Api) -> None:
    for enabled in (False, True):
        api.post("enable_toolset", toolset_id="app-builder", enabled=enabled)

        assert api.get("get_toolset", toolset_id="app-builder")["enabled"] is enabled
        names = [one["name"] for one in api.get("get_available_tools")["tools"]]
        assert ("app-builder.write_file" in names) is enabled
