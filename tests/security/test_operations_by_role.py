"""What a role may do outside of tools: every operation declares what it needs, and every face asks for it."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from flask import Flask

from covalt_git.cli import main
from covalt_git.errors import CovaltError
from covalt_git.operations.context import ForbiddenError
from covalt_server.app import create_git_app
from tests.api_client import TOKEN, Api, make_project
from tests.copied import copied
from tests.examples import covering, one_in
from tests.operation_cases import CASES, OPERATIONS
from tests.operations_client import Operations, uploads
from tests.wsgi_server import listening

NEEDS: dict[str, str] = yaml.safe_load(
    Path(__file__).with_name("operations_by_role.yaml").read_text()
)
CONFIG = """\
version: 1
roles:
  reader: {allow: [workspace.read_file, workspace.list_files]}
  writer: {allow: ["workspace.*"]}
  manager: {allow: [workspace.read_file], chats: manage}
  owner: {admin: true}
"""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with roles and a chat, not to be changed."""
    root = make_project(tmp_path_factory.mktemp("template") / "project")
    (root / "covalt.yaml").write_text(CONFIG)
    owner = Operations(root, role="owner")
    owner("create_chat", chat_id="c1")
    owner.commit("c1", **{"a.txt": "a"})
    return root


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    return copied(template, tmp_path / "project")


def declared(name: str) -> str:
    operation = OPERATIONS[name]
    if operation.admin:
        return "admin"
    return " ".join(operation.needs) or NEEDS.get(name, "")


def test_every_operation_has_an_entry_which_it_declares() -> None:
    assert sorted(NEEDS) == sorted(OPERATIONS)
    assert {name: declared(name) for name in NEEDS} == NEEDS


def test_an_operation_that_changes_chats_needs_more_than_reading() -> None:
    for name, need in NEEDS.items():
        if need == "reads":
            assert not OPERATIONS[name].changes, name


@pytest.mark.parametrize(
    "name",
    [name for name, need in NEEDS.items() if need.startswith(("workspace:", "chats:", "admin"))],
)
def test_a_role_performs_only_what_it_may(root: Path, name: str) -> None:
    need = NEEDS[name]
    permitted = "" if need == "admin" else "writer" if need.startswith("workspace:") else "manager"
    # Those that may not come first, and change nothing; so all roles can use the same project.
    roles = sorted(["reader", "writer", "manager"], key=lambda role: role == permitted)
    for role in [*roles, "owner"]:
        perform(root, name, role, may=role in {permitted, "owner"})


def perform(root: Path, name: str, role: str, *, may: bool) -> None:
    request = json.loads(json.dumps(CASES[name]["request"]).replace("{root}", str(root)))
    for key in ("file", "files"):
        if isinstance(request.get(key), dict | list):
            request[key] = uploads(**{"x.txt": b"x"})
    try:
        Operations(root, role=role)(name, **request)
    except ForbiddenError:
        assert not may, role
    except CovaltError:
        assert may, f"the refusal of {role} comes first, before anything about the request is known"
    else:
        assert may, role


def test_a_reader_deletes_branches_uploads_and_edits_nothing_over_the_api(root: Path) -> None:
    api = Api.of(root, role="reader")
    before = Operations(root, role="owner")("get_chat", chat_id="c1")

    for name, fields in {
        "delete_chat": {},
        "create_branch": {"name": "x"},
        "collect_garbage": {},
        "update_workspace_file": {"path": "a.txt", "content": "b"},
        "save_edits": {},
        "rename_chat": {"title": "x"},
    }.items():
        answer = api.tell(name, chat_id="c1", **fields)
        assert (answer.status_code, answer.get_json()["error"]) == (403, "forbidden"), name

    assert Operations(root, role="owner")("get_chat", chat_id="c1") == before


@pytest.fixture
def called(root: Path) -> Path:
    """The project after a call of a tool that the reader may not see."""
    args = {"path": "b.txt", "content": "s3cret"}
    owner = Operations(root, role="owner")
    answer = owner("call_tool", chat_id="c1", tool_id="app-builder:write_file", args=args)
    assert answer["status"] == "success"
    return root


@pytest.mark.parametrize(("role", "may"), [("reader", False), ("writer", False), ("manager", True)])
def test_a_store_with_calls_of_hidden_tools_is_not_exported(
    called: Path, role: str, *, may: bool, tmp_path: Path
) -> None:
    operate = Operations(called, role=role)
    requests: list[tuple[str, dict[str, Any]]] = [
        ("export_chat", {}),
        ("export_chat_to", {"path": tmp_path / "c1.bundle"}),
        ("fork_chat", {"new_chat_id": "c2"}),
    ]
    for name, more in requests:
        if may:
            operate(name, chat_id="c1", **more)
        else:
            assert "hidden from it" in operate.error(name, chat_id="c1", **more).message
    assert Api.of(called, role=role).ask("export_chat", chat_id="c1").status_code == (
        200 if may else 403
    )
    with pytest.raises(SystemExit) as ended:
        main(["-C", str(called), "--role", role, "chat", "export", "c1", "-o", str(tmp_path / "x")])
    assert ended.value.code == (0 if may else 1)


@pytest.mark.parametrize(("role", "may"), [("reader", False), ("manager", True)])
def test_git_clones_and_pushes_only_what_the_role_may(
    called: Path, role: str, *, may: bool, tmp_path: Path
) -> None:
    store = str(called / "data/chats/c1/store.git")
    apps: list[Flask] = []
    with listening(lambda environ, start: apps[0](environ, start)) as port:  # noqa: PLW0108 - made with its port
        apps.append(create_git_app(called, token=TOKEN, port=port, role=role))
        url = f"http://x:{TOKEN}@127.0.0.1:{port}/git/c1"
        cloned = git("clone", "-q", url, str(tmp_path / "clone"))
        pushed = git("-C", store, "push", "-q", url, "HEAD:refs/heads/x")

    assert [cloned, pushed] == [may, may]


def git(*args: str) -> bool:
    """Run git without questions; return whether it succeeded."""
    environment = os.environ | {"GIT_TERMINAL_PROMPT": "0"}
    return subprocess.run(["git", *args], check=False, env=environment).returncode == 0


def test_an_alias_does_not_name_a_hidden_tool(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "covalt.yaml").write_text(CONFIG + '  other: {allow: ["registered.*"]}\n')
    entry = {
        "tool_id": "al",
        "name": "Al",
        "protocol_meta": {"mcp": {"tool": "app-builder:run_command"}},
    }
    Operations(root, role="owner")("register_tool", entry=entry)

    def names_it(role: str, *command: str) -> bool:
        with pytest.raises(SystemExit):
            main(["-C", str(root), "--role", role, *command])
        printed = capsys.readouterr()
        return "run_command" in printed.out + printed.err

    # `validate` reports the grant that the tool lacks, `authority` the tool once it has it.
    assert [names_it(role, "validate") for role in ("owner", "other")] == [True, False]
    Operations(root, role="owner")("add_grant", toolset_id="registered", kind="tool", name="al")
    show = ("authority", "show", "registered")
    assert [names_it(role, *show) for role in ("owner", "other")] == [True, False]


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        (name, tool)
        for name, need in NEEDS.items()
        if need.startswith("workspace:")
        for tool in need.split()
    ],
)
def test_each_tool_that_an_operation_needs_can_be_denied(root: Path, name: str, tool: str) -> None:
    denied = (
        f'  most: {{allow: ["workspace.*"], deny: [{tool.replace(":", ".")}], chats: manage}}\n'
    )
    (root / "covalt.yaml").write_text(CONFIG + denied)
    request = json.loads(json.dumps(CASES[name]["request"]).replace("{root}", str(root)))
    if name == "upload_files":
        request["files"] = uploads(**{"x.txt": b"x"})

    error = Operations(root, role="most").error(name, **request)

    assert (error.code, error.http_status) == ("forbidden", 403)
    assert tool in error.message


@pytest.mark.parametrize("role", ["reader", "writer", "manager"])
def test_a_message_switches_the_branch_only_for_a_role_that_may_switch(
    root: Path, role: str
) -> None:
    owner = Operations(root, role="owner")
    first = owner("add_message", chat_id="c1", text="first")["message_id"]
    owner.commit("c1", **{"b.txt": "b"})
    owner("add_message", chat_id="c1", text="second")
    operate = Operations(root, role=role)

    for place in ({"parent": first}, {"branch": "mine"}):
        if role == "writer":
            operate("add_message", chat_id="c1", text="x", **place)
            owner("switch_branch", chat_id="c1", branch="main")
        else:
            error = operate.error("add_message", chat_id="c1", text="x", **place)
            assert (error.code, error.http_status) == ("forbidden", 403)
            assert "workspace.branch" in error.hint
            assert owner("get_chat", chat_id="c1")["active_branch"] == "main"
    assert operate("add_message", chat_id="c1", text="third")["branch"] == "main"


APPROVALS = """\
  approver: {allow: ["workspace.*"], approve: ["workspace.*"]}
approvals:
  - {pattern: "workspace.*", when: {args: {path: "*.env"}}}
  - {pattern: workspace.restore}
  - {pattern: workspace.branch}
  - {pattern: workspace.checkout}
"""
EDITS = [name for name, need in NEEDS.items() if need.startswith("workspace:")]


@pytest.mark.parametrize("name", one_in(2, EDITS))
def test_an_edit_that_a_call_may_not_make_without_approval_needs_a_role_that_may_approve_it(
    root: Path, name: str
) -> None:
    rules = APPROVALS.replace('"workspace.*", when: {args: {path: "*.env"}}', '"workspace.*"')
    (root / "covalt.yaml").write_text(CONFIG + rules)
    request = json.loads(json.dumps(CASES[name]["request"]).replace("{root}", str(root)))
    if name == "upload_files":
        request["files"] = uploads(**{"x.txt": b"x"})

    error = Operations(root, role="writer").error(name, **request)

    assert (error.code, error.http_status) == ("forbidden", 403)
    assert "without approval" in error.message
    assert "'approver'" in error.hint
    try:
        Operations(root, role="approver")(name, **request)
    except CovaltError as other:
        assert other.code != "forbidden"  # noqa: PT017 - the request may fail for its own reasons


def test_an_approval_rule_about_a_path_holds_for_edits_of_that_path_only(root: Path) -> None:
    (root / "covalt.yaml").write_text(CONFIG + APPROVALS)
    writer = Operations(root, role="writer")

    for path in ("prod.env", "x/../prod.env", "a/b.env"):
        edit = {"chat_id": "c1", "path": path, "content": "b", "overwrite": True}
        assert writer.error("update_workspace_file", **edit).code == "forbidden"
    upload = {"chat_id": "c1", "folder": "a", "files": uploads(**{"prod.env": b"x"})}
    assert writer.error("upload_files", **upload).code == "forbidden"

    writer("update_workspace_file", chat_id="c1", path="b.txt", content="b")
    writer("upload_files", chat_id="c1", files=uploads(**{"x.txt": b"x"}))
    assert sorted(path.name for path in (root / "data/chats/c1/workspace").iterdir()) == [
        "a.txt",
        "b.txt",
        "x.txt",
    ]


def test_an_edit_over_the_api_passes_no_approval_rule_of_its_role(root: Path) -> None:
    (root / "covalt.yaml").write_text(CONFIG + APPROVALS)
    edit = {"chat_id": "c1", "path": "prod.env", "content": "b"}

    refused = Api.of(root, role="writer").tell("update_workspace_file", **edit)
    assert (refused.status_code, refused.get_json()["error"]) == (403, "forbidden")
    assert Api.of(root, role="approver").tell("update_workspace_file", **edit).status_code == 200


@pytest.fixture
def conflict(root: Path) -> Path:
    """The project with a branch that changed ``a.txt`` in another way than main."""
    owner = Operations(root, role="owner")
    owner("create_branch", chat_id="c1", name="side")
    owner.commit("c1", **{"a.txt": "main"})
    owner("switch_branch", chat_id="c1", branch="side")
    owner.commit("c1", **{"a.txt": "side"})
    owner("switch_branch", chat_id="c1", branch="main")
    return root


WRITTEN = {"decision": "content", "content": "own"}
VARIANTS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "a merge with a text": (
        "merge_branch",
        {"branch": "side", "resolutions": [{"path": "a.txt", **WRITTEN}]},
        ["write_file"],
    ),
    "a merge with bytes": (
        "merge_branch",
        {
            "branch": "side",
            "resolutions": [{"path": "a.txt", "decision": "content", "content_base64": "b3du"}],
        },
        ["write_file"],
    ),
    "the other version for a stopped merge": (
        "resolve_conflict",
        {"path": "a.txt", "decision": "theirs"},
        ["write_file"],
    ),
    "hunks for a stopped merge": (
        "resolve_conflict",
        {"path": "a.txt", "decision": "hunks", "hunks": ["theirs"]},
        ["write_file"],
    ),
    "a text for a stopped merge": (
        "resolve_conflict",
        {"path": "a.txt", **WRITTEN},
        ["write_file"],
    ),
    "a new branch at an earlier commit": (
        "restore_workspace",
        {"manifest": "side", "keep_files": True, "branch": "mine"},
        ["branch", "checkout"],
    ),
}


@pytest.mark.parametrize(("denied", "variant"), covering([True, False], [*VARIANTS]))
def test_a_request_that_does_more_needs_the_tools_that_do_it(
    conflict: Path, variant: str, *, denied: bool
) -> None:
    name, request, tools = VARIANTS[variant]
    owner = Operations(conflict, role="owner")
    if name == "resolve_conflict":
        assert owner("merge_branch", chat_id="c1", branch="side")["status"] == "conflicts"
    before = owner("get_chat", chat_id="c1")
    for tool in tools:
        role = f'  most: {{allow: ["workspace.*"], deny: [workspace.{tool}], chats: manage}}\n'
        rule = f"approvals: [{{pattern: workspace.{tool}}}]\n"
        (conflict / "covalt.yaml").write_text(CONFIG + (role if denied else rule))
        refused = Operations(conflict, role="most" if denied else "writer")

        error = refused.error(name, chat_id="c1", **request)
        assert (error.code, error.http_status) == ("forbidden", 403)
        assert f"workspace:{tool}" in error.message
        assert owner("get_chat", chat_id="c1") == before

    (conflict / "covalt.yaml").write_text(CONFIG)
    Operations(conflict, role="writer")(name, chat_id="c1", **request)


def test_a_rule_about_a_path_holds_for_the_other_version_of_a_conflict(conflict: Path) -> None:
    owner = Operations(conflict, role="owner")
    owner("rename_branch", chat_id="c1", branch="side", name="b.env")
    rule = 'approvals: [{pattern: workspace.write_file, when: {args: {path: "*.env*"}}}]\n'
    (conflict / "covalt.yaml").write_text(CONFIG + rule)
    before = owner("get_chat", chat_id="c1")
    writer = Operations(conflict, role="writer")

    both = {"chat_id": "c1", "branch": "b.env", "conflicts": "both"}
    assert writer.error("merge_branch", **both).code == "forbidden"
    assert owner("get_chat", chat_id="c1") == before
    assert owner("merge_branch", **both)["status"] == "merged"


def test_a_changed_other_version_is_not_put_into_a_file_that_a_rule_keeps(conflict: Path) -> None:
    owner = Operations(conflict, role="owner")
    owner("merge_branch", chat_id="c1", branch="side", conflicts="both")
    rule = "approvals: [{pattern: workspace.write_file, when: {args: {path: a.txt}}}]\n"
    (conflict / "covalt.yaml").write_text(CONFIG + rule)
    writer = Operations(conflict, role="writer")
    (waiting,) = writer("list_conflicts", chat_id="c1")["conflicts"]
    edit = {"path": waiting["saved_as"], "content": "evil", "overwrite": True}
    writer("update_workspace_file", chat_id="c1", **edit)

    resolution = {"chat_id": "c1", "path": "a.txt", "decision": "theirs"}
    assert writer.error("resolve_conflict", **resolution).code == "forbidden"
    assert (conflict / "data/chats/c1/workspace/a.txt").read_text() == "main"


def test_a_rule_about_a_path_holds_for_the_name_that_an_upload_gets(root: Path) -> None:
    rule = "approvals: [{pattern: workspace.write_file, when: {args: {path: a_1.txt}}}]\n"
    (root / "covalt.yaml").write_text(CONFIG + rule)
    owner = Operations(root, role="owner")
    before = owner("get_chat", chat_id="c1")

    error = Operations(root, role="writer").error(
        "upload_files", chat_id="c1", files=uploads(**{"a.txt": b"x"})
    )

    assert error.code == "forbidden"
    assert owner("get_chat", chat_id="c1") == before
    placed = owner("upload_files", chat_id="c1", files=uploads(**{"a.txt": b"x"}))["files"]
    assert placed[0]["path"] == "a_1.txt"


CONTENT = {"content", "content_base64", "files", "file"}


def test_an_operation_with_the_content_of_a_file_needs_the_tool_that_writes_it() -> None:
    def has_content(schema: Any) -> bool:
        return bool(CONTENT & schema.get("properties", {}).keys())

    for name, need in NEEDS.items():
        schema = OPERATIONS[name].request.model_json_schema()
        parts = [schema, *schema.get("$defs", {}).values()]
        is_edit = "workspace:" in need and any(map(has_content, parts))
        assert not is_edit or "workspace:write_file" in need or OPERATIONS[name].calls, name
