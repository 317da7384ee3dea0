"""The built-in tools, as the API and MCP list and call them, and on pages."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from covalt_git.cli import cli
from covalt_git.project import Project
from covalt_git.toolsets.builtin_tools import BUILTINS
from tests.api_client import Api, configure, refused
from tests.mcp_client import commits
from tests.server.visitor import Visitor
from tests.specification.test_faces import Shown, each_face

ROLES = """\
roles:
  all: {allow: ['**'], approve: ['**']}
  reader: {allow: ['workspace.read_file']}
  other: {allow: ['data-lab.**']}
default_role: all
"""


@pytest.fixture
def chat_root(api: Api) -> Path:
    configure(api.root, ROLES)
    return api.root


@each_face
@pytest.mark.requirement("covalt-7.2.builtin", "covalt-8.2.builtin")
def test_each_interface_lists_the_built_in_tools_of_the_role(chat_root: Path, shown: Shown) -> None:
    every = {name for name in shown(chat_root, "all") if name.startswith("workspace.")}

    assert every == {tool.path for tool in BUILTINS.values()}
    assert {*shown(chat_root, "reader")} - {"read_result", "resume"} == {"workspace.read_file"}
    assert not {name for name in shown(chat_root, "other") if name.startswith("workspace.")}


@pytest.mark.requirement("covalt-7.2.builtin")
def test_a_tool_that_writes_records_an_edit_and_one_that_reads_records_nothing(
    chat_root: Path,
) -> None:
    api = Api.of(chat_root)
    written = api.call("workspace:write_file", path="a.txt", content="one\n")["result"]
    read = api.call("workspace:read_file", path="a.txt")["result"]

    (commit,) = commits(chat_root)
    assert written["changed"] is True
    assert read["content"] == (api.workspace / "a.txt").read_text() == "one\n"
    assert commit.source == "edit"
    assert commit.record.call is not None
    assert commit.record.call.tool_id == "workspace:write_file"
    assert commit.record.call.result["oid"] == written["oid"]
    assert [one["tool_id"] for one in api.get("list_calls", chat_id="c1")["calls"]] == [
        "workspace:write_file"
    ]


def test_the_page_of_a_tool_shows_the_result_of_a_call_without_a_record(chat_root: Path) -> None:
    visitor = Visitor.of(chat_root)
    page = visitor.open("/tools/workspace:list_files?chat=c1")
    Api.of(chat_root).call("workspace:write_file", path="a.txt", content="one\n")

    done = visitor.send(page.form("/tools/workspace:list_files"))

    assert '"a.txt"' in done.text
    assert "not recorded" in done.text
    assert len(commits(chat_root)) == 1


@pytest.mark.requirement("covalt-8.2.builtin")
def test_the_picker_has_a_group_of_built_in_tools(chat_root: Path) -> None:
    groups = Api.of(chat_root).get("list_tools")["groups"]

    (group,) = [one for one in groups if one["kind"] == "builtin"]
    assert (group["id"], group["name"]) == ("workspace", "Built-in")
    assert [tool["tool_id"] for tool in group["tools"]] == [*BUILTINS]
    found = Api.of(chat_root).get("search_tools", query="restore files from a commit")["tools"]
    assert found[0]["tool_id"] == "workspace:restore"
    assert "Built-in built in 9 tools" in Visitor.of(chat_root).open("/tools").text


@pytest.mark.requirement("covalt-1.3.builtin")
def test_rows_of_built_in_tools_have_no_toolset(chat_root: Path) -> None:
    with Project.open(chat_root).tool_index() as index:
        index.sync_toolsets()
        query = "SELECT tool_id FROM tools WHERE toolset_id IS NULL ORDER BY tool_id"
        rows = [row[0] for row in index.connection.execute(query)]
        index.connection.execute(
            "UPDATE tools SET definition = '{}' WHERE tool_id = 'workspace:log'"
        )
        index.sync_toolsets()  # as after an update of covalt-git
        again = index.tools("workspace")

    assert rows == [*BUILTINS]
    assert again == [*BUILTINS.values()]


def test_a_rule_makes_a_recorded_call_pending_and_refuses_other_calls(chat_root: Path) -> None:
    configure(chat_root, ROLES + "approvals: [{pattern: 'workspace.*', require: true}]\n")
    api = Api.of(chat_root)

    pending = api.call("workspace:write_file", path="a.txt", content="one")
    done = api.post("approve_call", execution_id=pending["execution_id"])

    assert pending["status"] == "pending"
    assert done["status"] == "success"
    assert [change["path"] for change in done["changes"]] == ["a.txt"]
    assert commits(chat_root)[0].record.call.execution_id == pending["execution_id"]  # type: ignore[union-attr]
    request = {"chat_id": "c1", "tool_id": "workspace:read_file", "args": {"path": "a.txt"}}
    refused(api.tell("call_tool", **request), 403, "needs_person")


def test_an_approved_call_that_became_impossible_is_recorded_as_an_error(chat_root: Path) -> None:
    configure(chat_root, ROLES + "approvals: [{pattern: 'workspace.*', require: true}]\n")
    api = Api.of(chat_root)

    pending = api.call("workspace:write_file", path="../a.txt", content="one")
    done = api.post("approve_call", execution_id=pending["execution_id"])

    assert done["error_detail"]["code"] == "bad_path"
    assert api.get("list_calls", chat_id="c1")["calls"][0]["status"] == "error"


def test_a_restore_is_one_commit_with_the_record_of_the_call(chat_root: Path) -> None:
    api = Api.of(chat_root)
    first = api.call("workspace:write_file", path="a.txt", content="one")["post_manifest_id"]
    api.call("workspace:write_file", path="a.txt", content="two")

    done = api.call("workspace:restore", manifest=first)

    newest = commits(chat_root)[0]
    assert (newest.source, newest.id) == ("restore", done["post_manifest_id"])
    assert newest.record.restore is not None
    assert newest.record.restore.manifest_id == first
    assert done["result"]["changes"] == [{"path": "a.txt", "kind": "modified"}]
    assert (api.workspace / "a.txt").read_text() == "one"


def test_a_toolset_command_does_not_know_the_built_in_tools(chat_root: Path) -> None:
    for line in ("tool disable workspace:log", "toolset disable workspace"):
        done = CliRunner().invoke(cli, ["-C", str(chat_root), *line.split()])
        assert done.exit_code == 1, line
