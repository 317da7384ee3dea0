"""A role that may call an alias, but not see the tool that it calls, learns that tool's name from no operation."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from covalt_git.cli import main
from covalt_git.errors import CovaltError
from covalt_git.names import new_id
from tests.api_client import Api, make_project
from tests.operation_cases import OPERATIONS
from tests.operations_client import Operations

CONFIG = """\
version: 1
default_role: owner
roles:
  other: {allow: ["registered.*"], register: true, approve: ["registered.*"], chats: manage}
  owner: {admin: true}
"""
ENTRY = {
    "tool_id": "al",
    "name": "Al",
    "protocol_meta": {"mcp": {"tool": "app-builder:run_command"}},
}
VALUES = {"chat_id": "c1", "toolset_id": "registered", "query": "Al"}
"""Values of fields that requests share; ``tool_id`` is tried with each id of the tool."""


@pytest.fixture(scope="module", params=["not granted", "granted", "target removed"])
def template(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A project with an alias, not to be changed."""
    root = make_project(tmp_path_factory.mktemp("template") / "project")
    (root / "covalt.yaml").write_text(CONFIG)
    owner = Operations(root, role="owner")
    owner("create_chat", chat_id="c1")
    owner("register_tool", entry=ENTRY)
    if request.param != "not granted":
        owner("add_grant", toolset_id="registered", kind="tool", name="al")
    if request.param == "target removed":
        owner("uninstall_toolset", toolset_id="app-builder", force=True)
    return root


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "project", symlinks=True))


def requests() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield requests about the alias: of each operation that has them and is not only for admins."""
    for name, operation in OPERATIONS.items():
        if operation.admin or name in {"remove_registered_tool", "delete_chat", "register_tool"}:
            continue
        if operation.run.__module__.endswith(".operations.trust"):
            continue  # these are of the user of the machine, whatever the role is
        for tool_id in ("registered:al", "al"):
            known = VALUES | {"tool_id": tool_id, "entry": ENTRY}
            fields = operation.request.model_fields
            request = {key: known[key] for key in fields if key in known}
            if all(key in request for key, one in fields.items() if one.is_required()):
                yield name, request


def test_no_operation_names_the_target(root: Path) -> None:
    assert {"get_tool", "list_registered_tools", "call_tool"} <= {name for name, _ in requests()}
    other = Operations(root, role="other")
    named = set()
    for name, request in requests():
        try:
            answer = str(other(name, **request))
        except CovaltError as error:
            answer = json.dumps(error.as_json())
        if "run_command" in answer:
            named.add(name)
    assert named == set()


def test_the_owner_still_sees_the_target(root: Path) -> None:
    owner = Operations(root, role="owner")
    assert owner("get_tool", tool_id="registered:al")["alias_of"] == "app-builder:run_command"
    registered = owner("get_registered_tool", tool_id="al")
    assert registered["calls"] == "app-builder:run_command"
    assert registered["entry"]["protocol_meta"] == ENTRY["protocol_meta"]


@pytest.mark.parametrize(
    "command",
    [
        ("tool", "show", "registered:al"),
        ("tool", "list"),
        ("toolset", "show", "registered"),
        ("registry", "list"),
        ("registry", "show", "al"),
        ("call", "c1", "registered:al"),
        ("authority", "show"),
        ("validate",),
    ],
    ids=" ".join,
)
def test_no_command_names_the_target(
    root: Path, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["-C", str(root), "--role", "other", *command])
    printed = capsys.readouterr()
    assert "run_command" not in printed.out + printed.err


def test_no_page_and_no_route_of_the_registry_names_the_target(root: Path) -> None:
    client = Api.of(root, role="other").client()
    headers = {"Authorization": "Bearer the-token-of-this-test"}
    for path in (
        "/tools",
        "/tools/registered:al",
        "/toolsets/registered",
        "/authority",
        "/v1/tools",
        "/v1/tools/al",
    ):
        answer = client.get(path, base_url="http://127.0.0.1:8787", headers=headers)
        assert "run_command" not in answer.get_data(as_text=True), path


def test_a_role_removes_no_target_that_it_does_not_see(root: Path) -> None:
    other, owner = Operations(root, role="other"), Operations(root, role="owner")
    visible = other("get_registered_tool", tool_id="al")["entry"]

    with pytest.raises(CovaltError, match="may not see the tool") as refused:
        other("replace_registered_tool", tool_id="al", entry=visible | {"description": "New."})

    assert refused.value.http_status == 403
    entry = owner("get_registered_tool", tool_id="al")["entry"]
    assert entry["protocol_meta"] == ENTRY["protocol_meta"]


@pytest.mark.parametrize("args", [{"message": "hello"}, {"message": "guess"}])
def test_the_id_of_a_hidden_call_confirms_nothing(tmp_path: Path, args: dict[str, str]) -> None:
    root = make_project(tmp_path / "project")
    (root / "covalt.yaml").write_text(CONFIG)
    owner = Operations(root, role="owner")
    owner("create_chat", chat_id="c1")
    hidden = {"chat_id": "c1", "tool_id": "app-builder:write_file", "call_id": new_id()}
    owner("call_tool", **hidden, args={"path": "a", "content": "hello"})

    error = Operations(root, role="other").error("call_tool", **hidden, args=args)

    assert error.code == "unknown_tool"
