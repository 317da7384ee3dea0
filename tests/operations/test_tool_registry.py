"""The registry of tools: who may change it, what it stores, and what its tools may do."""

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.manifests.tool_entries import check_tool_id, entry_file, tool_name
from covalt_git.names import is_tool_name
from tests.api_client import configure
from tests.examples import examples
from tests.http_tools.upstream import Upstream, upstream
from tests.mcp_client import call as call_over_mcp
from tests.mcp_client import talk
from tests.operations_client import Operations
from tests.workspaces.stores import commit_all, git

WRITE = {
    "tool_id": "com.example/write",
    "name": "Write",
    "protocol_meta": {"mcp": {"tool": "app-builder:write_file"}},
}
WRITE_NAME = "com-example-write-" + hashlib.sha256(b"com.example/write").hexdigest()[:8]
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
ROLES = """\
roles:
  admin: {admin: true}
  registrar: {allow: ["registered.*"], register: true}
  writer: {allow: ["registered.*", "app-builder.*"], approve: ["registered.*"]}
  guest: {allow: ["data-lab.*"], register: true}
"""


@pytest.fixture
def root(sample_project: Path, tmp_path: Path) -> Path:
    """A project with the sample toolsets only."""
    return Path(shutil.copytree(sample_project, tmp_path / "project"))


@pytest.fixture(scope="module")
def host() -> Iterator[Upstream]:
    with upstream() as found:
        yield found


def entries(operate: Operations) -> list[str]:
    return sorted(one.name for one in (operate.root / "toolsets/state/registered").glob("*"))


def register(operate: Operations, **entry: Any) -> Any:
    return operate("register_tool", entry=entry)


def grant(operate: Operations, name: str) -> Any:
    return operate("add_grant", toolset_id="registered", kind="tool", name=name)


def call(operate: Operations, tool: str, **args: Any) -> Any:
    return operate("call_tool", chat_id="c1", tool_id=f"registered:{tool}", args=args)


# Entries


def test_a_project_without_registered_tools_has_no_problem(operate: Operations) -> None:
    shutil.rmtree(operate.root / "toolsets/state/registered", ignore_errors=True)

    listed = operate("list_registered_tools")

    assert (listed["tools"], listed["problems"]) == ([], [])


@pytest.mark.requirement("registry-create.tool_id")
def test_an_entry_is_a_file_named_by_the_hash_of_its_id(operate: Operations) -> None:
    done = register(operate, **WRITE, other={"key": [1]})

    assert entries(operate) == [f"{WRITE_NAME}.yaml"]
    stored = yaml.load(
        (operate.root / "toolsets/state/registered" / f"{WRITE_NAME}.yaml").read_text(),
        yaml.CSafeLoader,
    )
    assert stored == done["entry"]
    assert stored["other"] == {"key": [1]}  # unknown keys are carried
    assert done["tool"] == f"registered:{WRITE_NAME}"


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}", fullmatch=True))
@settings(max_examples=examples(200))
def test_every_id_has_a_legal_name_and_file(tool_id: str) -> None:
    assert check_tool_id(tool_id) == tool_id
    assert is_tool_name(tool_name(tool_id))
    assert len(entry_file(tool_id)) <= 64
    assert "/" not in entry_file(tool_id)


@pytest.mark.requirement("registry-create.name")
@pytest.mark.requirement("registry-create.version")
@pytest.mark.requirement("registry-create.protocols.values")
@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("tool_id: x", "missing key 'name'"),
        ("name: X", "missing key 'tool_id'"),
        ("{tool_id: -x, name: X}", "not a tool id"),
        (f"{{tool_id: {'x' * 129}, name: X}}", "not a tool id"),
        ("{tool_id: x, name: X, version: '1.0'}", "not a semantic version"),
        ("{tool_id: x, name: X, protocols: [grpc]}", "protocols"),
        ("{tool_id: x, name: X, protocol_meta: {http: {url: 'ftp://a/'}}}", "url"),
        ("{tool_id: x, name: X, protocol_meta: {http: {url: '${BASE}/a'}}}", "host"),
        ("{tool_id: x, name: X, protocol_meta: {mcp: {tool: y}}}", "tool"),
        ("{tool_id: x, name: X, protocol_meta: {mcp: {tool: 'registered:y'}}}", "cannot forward"),
        (
            "{tool_id: x, name: X, protocol_meta: {mcp: {tool: 'a:b'}, http: {url: 'https://a.example/'}}}",
            "either",
        ),
        (
            "{tool_id: x, name: X, protocol_meta: {http: {url: 'https://a.example/', headers: {Authorization: Bearer TOKEN}}}}",
            "in plain text",
        ),
        ("{tool_id: x, name: X, input_schema: {type: 1}}", "input_schema"),
    ],
)
def test_an_invalid_entry_is_refused_and_not_stored(
    operate: Operations, entry: str, message: str
) -> None:
    error = operate.error(
        "register_tool", entry=yaml.load(entry.replace("TOKEN", TOKEN), yaml.CSafeLoader)
    )

    assert error.code == "invalid_request"
    assert message in error.message
    assert TOKEN not in str(error)
    assert entries(operate) == []


@pytest.mark.requirement("registry-create.tool_id")
def test_two_ids_with_one_name_are_one_tool(operate: Operations) -> None:
    register(operate, **WRITE)
    error = operate.error("register_tool", entry={"tool_id": WRITE_NAME, "name": "Same"})
    assert error.code == "tool_exists"


@pytest.mark.requirement("registry-create.protocols.default")
@pytest.mark.requirement("registry-create.protocols.values")
def test_protocols_default_to_mcp_also_in_a_replaced_entry(operate: Operations) -> None:
    assert register(operate, tool_id="x", name="X")["protocols"] == ["mcp"]
    done = operate("replace_registered_tool", tool_id="x", entry={"name": "Y", "protocols": []})
    assert done["protocols"] == ["mcp"]
    assert done["entry"]["protocols"] == ["mcp"]
    operate(
        "replace_registered_tool",
        tool_id="x",
        entry={"name": "Y", "protocols": ["http", "a2a/2025-draft-01"]},
    )
    found = operate("list_registered_tools", protocol="a2a")["tools"]
    assert [one["tool_id"] for one in found] == ["x"]
    assert operate("list_registered_tools", protocol="mcp")["tools"] == []


def test_the_registry_writes_the_timestamps(operate: Operations) -> None:
    first = register(operate, tool_id="x", name="X", registered_at="2000-01-01T00:00:00Z")["entry"]
    assert first["registered_at"] == first["updated_at"] > "2026"
    again = operate("replace_registered_tool", tool_id="x", entry={"name": "Y"})["entry"]
    assert again["registered_at"] == first["registered_at"] < again["updated_at"]


def test_an_entry_edited_by_hand_is_checked(operate: Operations) -> None:
    register(operate, tool_id="x", name="X")
    folder = operate.root / "toolsets/state/registered"
    (file,) = folder.glob("*.yaml")
    file.rename(folder / "other.yaml")
    (problem,) = operate("validate")["problems"]

    assert problem["path"] == "toolsets/state/registered/other.yaml"
    assert problem["hint"].startswith("mv ")


# Access


@pytest.mark.parametrize(
    ("role", "code"),
    [("admin", None), ("registrar", None), ("writer", "forbidden"), ("guest", "forbidden")],
)
def test_a_role_needs_register_and_may_register_what_it_may_call(
    operate: Operations, role: str, code: str | None
) -> None:
    configure(operate.root, ROLES)
    acting = operate.as_role(role)
    if code is None:
        register(acting, **WRITE)
        acting("remove_registered_tool", tool_id=WRITE["tool_id"])
        return
    for name, fields in (
        ("register_tool", {"entry": WRITE}),
        ("replace_registered_tool", {"tool_id": "none", "entry": {"name": "X"}}),
        ("remove_registered_tool", {"tool_id": "none"}),
    ):
        assert acting.error(name, **fields).code == code


def test_a_hidden_tool_does_not_exist(operate: Operations) -> None:
    register(operate, **WRITE)
    configure(operate.root, ROLES)
    guest = operate.as_role("guest")

    assert guest("list_registered_tools")["tools"] == []
    hidden = guest.error("get_registered_tool", tool_id=WRITE["tool_id"])
    assert hidden.code == guest.error("get_registered_tool", tool_id="none").code


# Grants and calls


@pytest.fixture
def chat(operate: Operations) -> Operations:
    operate("create_chat", chat_id="c1")
    return operate


def test_a_tool_is_disabled_until_its_current_entry_is_granted(
    chat: Operations, host: Upstream
) -> None:
    entry = {
        "tool_id": "echo",
        "name": "Echo",
        "protocol_meta": {"http": {"url": f"{host.url}/echo/{{word}}", "headers": {"X-One": "1"}}},
    }
    register(chat, **entry)
    assert chat.error("call_tool", chat_id="c1", tool_id="registered:echo").code == "tool_disabled"
    made = grant(chat, "echo")
    assert made["grant"]["hosts"] == [host.address]
    assert call(chat, "echo", word="hi")["status"] == "success"
    assert host.last["headers"]["x-one"] == "1"

    # The same entry keeps its grant; another entry, also of another tool, does not have it.
    chat("replace_registered_tool", tool_id="echo", entry=entry)
    register(chat, **{**entry, "tool_id": "echo2"})
    assert call(chat, "echo", word="hi")["status"] == "success"
    assert chat.error("call_tool", chat_id="c1", tool_id="registered:echo2").code == "tool_disabled"
    chat("replace_registered_tool", tool_id="echo", entry={**entry, "description": "New."})
    error = chat.error("call_tool", chat_id="c1", tool_id="registered:echo", args={"word": "hi"})
    assert "changed since it was granted" in error.message
    assert error.hint == "covalt-git grant add registered tool echo"
    (row,) = chat("list_grants", toolset_id="registered")["grants"]
    assert row["changed"] == ["its entry has changed"]


def test_a_removed_tool_loses_its_grant(chat: Operations) -> None:
    register(chat, **WRITE)
    grant(chat, WRITE_NAME)
    chat("remove_registered_tool", tool_id=WRITE["tool_id"])
    assert not (chat.root / "toolsets/state/registered.yaml").exists()
    assert not register(chat, **WRITE)["granted"]


def test_a_secret_is_sent_to_the_host_of_the_entry_only(
    chat: Operations, host: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECHO_KEY", "value-of-the-key")
    headers = {"Authorization": "Bearer ${ECHO_KEY}"}
    meta = {"http": {"url": f"{host.url}/echo", "headers": headers}}
    register(chat, tool_id="keyed", name="Keyed", protocol_meta=meta)
    assert grant(chat, "keyed")["grant"]["secrets"] == ["ECHO_KEY"]
    done = call(chat, "keyed")

    assert host.last["headers"]["authorization"] == "Bearer value-of-the-key"
    assert "value-of-the-key" not in str(done)


def test_a_tool_without_a_request_is_listed_and_never_callable(chat: Operations) -> None:
    register(chat, tool_id="idle", name="Idle")
    rows = [one for group in chat("list_tools")["groups"] for one in group["tools"]]
    assert "registered:idle" in [one["tool_id"] for one in rows]
    grant(chat, "idle")
    error = chat.error("call_tool", chat_id="c1", tool_id="registered:idle")
    assert "neither protocol_meta.http nor protocol_meta.mcp" in error.message


def test_an_alias_runs_its_tool_and_is_recorded_under_its_own_id(chat: Operations) -> None:
    register(chat, **WRITE)
    grant(chat, WRITE_NAME)
    done = call(chat, WRITE_NAME, path="a.txt", content="hello")

    assert done["tool_id"] == f"registered:{WRITE_NAME}"
    assert (chat.workspace("c1") / "a.txt").read_text() == "hello"
    assert chat("get_tool", tool_id=done["tool_id"])["input_schema"]["required"] == [
        "path",
        "content",
    ]
    bad = chat.error("call_tool", chat_id="c1", tool_id=done["tool_id"], args={"path": 1})
    assert bad.code == "invalid_arguments"


def test_an_alias_gives_no_access_to_its_tool(chat: Operations) -> None:
    register(chat, **WRITE)
    grant(chat, WRITE_NAME)
    configure(chat.root, ROLES)
    args = {"path": "a.txt", "content": "x"}
    request = {"chat_id": "c1", "tool_id": f"registered:{WRITE_NAME}", "args": args}

    assert chat.as_role("registrar").error("call_tool", **request).code == "unknown_tool"
    assert chat.as_role("writer")("call_tool", **request)["status"] == "success"
    (row,) = chat.as_role("registrar")("list_registered_tools")["tools"]
    assert not row["callable"]
    chat.as_role("admin")("enable_toolset", toolset_id="app-builder", enabled=False)
    assert chat.as_role("writer").error("call_tool", **request).code == "tool_disabled"


def test_an_alias_needs_the_approval_of_its_tool(chat: Operations) -> None:
    register(chat, **{**WRITE, "protocol_meta": {"mcp": {"tool": "app-builder:run_command"}}})
    grant(chat, WRITE_NAME)
    configure(chat.root, ROLES)
    writer = chat.as_role("writer")
    pending = call(writer, WRITE_NAME, command="touch b.txt")

    assert pending["status"] == "pending"
    # The role may approve calls of the alias, but not those of the tool that it runs.
    shown = writer("get_approval", execution_id=pending["execution_id"])
    assert (shown["tool_changed"], shown["may_settle"]) == (False, False)
    assert shown["alias_of"] == "app-builder:run_command"
    refused = writer.error("approve_call", execution_id=pending["execution_id"])
    assert refused.code == "may_not_approve"
    done = chat.as_role("admin")("approve_call", execution_id=pending["execution_id"])
    assert done["status"] == "success"
    assert (chat.workspace("c1") / "b.txt").exists()


def test_a_change_of_the_tool_of_an_alias_needs_a_new_approval(chat: Operations) -> None:
    register(chat, **{**WRITE, "protocol_meta": {"mcp": {"tool": "app-builder:run_command"}}})
    grant(chat, WRITE_NAME)
    pending = call(chat, WRITE_NAME, command="true")
    shown = chat("get_approval", execution_id=pending["execution_id"])
    assert (shown["tool_changed"], shown["code"]["path"]) == (False, "tools/shell.py")
    file = chat.root / "toolsets/app-builder/tools/shell.py"
    file.write_text(file.read_text() + "\n# changed\n")

    assert chat.error("approve_call", execution_id=pending["execution_id"]).code == "asked_again"


@pytest.mark.parametrize("operation", ["uninstall_toolset", "export_toolset"])
def test_registered_tools_are_no_toolset_of_files(operate: Operations, operation: str) -> None:
    register(operate, **WRITE)
    error = operate.error(operation, toolset_id="registered")
    assert "registered tools" in error.message
    assert entries(operate) == [f"{WRITE_NAME}.yaml"]


@pytest.mark.rest
def test_an_agent_lists_an_alias_with_the_schema_of_its_tool(chat: Operations) -> None:
    register(chat, **WRITE)

    async def listed(client: Any) -> dict[str, Any]:
        tools = (await client.list_tools()).tools
        return {tool.name: tool.input_schema for tool in tools}

    name = f"registered.{WRITE_NAME}"
    assert name not in talk(chat.root, listed)
    grant(chat, WRITE_NAME)
    assert talk(chat.root, listed)[name]["required"] == ["path", "content"]
    done = call_over_mcp(chat.root, name, {"path": "a.txt", "content": "x"})
    assert not done.is_error
    chat("enable_tool", tool_id="app-builder:write_file", enabled=False)
    assert name not in talk(chat.root, listed)


def test_an_override_of_a_registered_tool_is_effective(chat: Operations) -> None:
    register(chat, **WRITE)
    grant(chat, WRITE_NAME)
    tool_id = f"registered:{WRITE_NAME}"
    chat("override_tool", tool_id=tool_id, name_override="Mine", requires_confirmation=True)
    shown = chat("get_tool", tool_id=tool_id)
    assert (shown["name"], shown["confirmation"]) == ("Mine", ["project"])
    assert call(chat, WRITE_NAME, path="a.txt", content="x")["status"] == "pending"
    chat("enable_tool", tool_id=tool_id, enabled=False)
    assert not chat("get_tool", tool_id=tool_id)["callable"]


@pytest.mark.rest
def test_the_authority_of_a_registered_tool_is_reported(operate: Operations) -> None:
    git(operate.root, "init", "-q")
    commit_all(operate.root)
    meta = {"http": {"url": "https://api.example.com/x", "headers": {"X-Key": "${KEY}"}}}
    register(operate, tool_id="keyed", name="Keyed", protocol_meta=meta)
    register(operate, **WRITE)
    changed = str(operate("compare_authority", revisions="HEAD"))
    assert "api.example.com" not in changed  # nothing is permitted yet
    grant(operate, "keyed")
    grant(operate, WRITE_NAME)
    changed = str(operate("compare_authority", revisions="HEAD"))
    for text in (
        "may reach api.example.com",
        "may send the secret KEY to api.example.com",
        "forwards calls to app-builder:write_file",
    ):
        assert text in changed
