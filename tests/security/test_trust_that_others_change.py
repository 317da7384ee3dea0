"""What a pull, a patch or another project at the same path changes needs trust again, however it is written."""

import contextlib
import io
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from dulwich import porcelain

from covalt_git.errors import CovaltError
from covalt_git.manifests.data_folder import data_problems
from covalt_git.manifests.project_config import read_config
from covalt_git.project import Project
from covalt_git.toolsets.permissions import permissions_of
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.trust import Consents, config_permissions, trust_folder
from tests.copied import copied
from tests.examples import covering, rest
from tests.operations_client import Operations
from tests.trusting import use_config

MANIFEST = """\
id: ev
name: Ev
version: "1"
tools:
  - {id: post, http: {method: POST, url: "https://a.example/x"}}
  - {id: read, requires_confirmation: true, http: {url: "https://a.example/x"}}
  - {id: other, http: {url: "https://a.example/y"}}
  - {id: list, requires_confirmation: true, http: {url: "https://a.example/z"}}
tool_overrides:
  - {tool_id: other, requires_confirmation: true}
"""
CONFIG = """\
version: 1
default_role: owner
roles:
  owner: {admin: true}
  guest: {allow: ["ev.*"]}
approvals:
  - {pattern: "ev.read", require: true}
"""
WAIVER = 'version: 1\napprovals:\n  - {pattern: "**", require: false}\n'


@pytest.fixture(autouse=True)
def _user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user who trusts nothing yet."""
    use_config(monkeypatch, tmp_path / "config", trusts=False)


@pytest.fixture(scope="module")
def granted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a project with a grant and an override that a user has added."""
    folder = tmp_path_factory.mktemp("granted")
    root = folder / "clone"
    (root / "toolsets/ev").mkdir(parents=True)
    (root / "covalt.yaml").write_text(CONFIG)
    (root / "toolsets/ev/toolset.yaml").write_text(MANIFEST)
    with pytest.MonkeyPatch.context() as patch:
        use_config(patch, folder / "config", trusts=False)
        operate = Operations(root)
        operate("add_grant", toolset_id="ev", kind="network", hosts=("a.example",))
        operate("override_tool", tool_id="ev:other", requires_confirmation=True)
    shutil.rmtree(root / "data")
    return root


@pytest.fixture
def root(granted: Path, tmp_path: Path) -> Path:
    """A clone with that grant and that override, whose permissions the user trusts."""
    root = copied(granted, tmp_path / "clone")
    Operations(root)("trust_project")
    assert lacking(root) == []
    return root


def lacking(root: Path) -> list[str]:
    """Return the texts of what is not trusted, also for toolsets that another user has added."""
    config = read_config(root)
    permissions = config_permissions(config)
    for folder in sorted((root / "toolsets").glob("*/toolset.yaml")):
        permissions += permissions_of(read_toolset(root, folder.parent.name), config)
    return [permission.text for permission in Consents.of(root).lacking(permissions)]


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def git(root: Path, *args: str, check: bool = True) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
    done = subprocess.run(
        ["git", "-C", str(root), *identity, *args], check=check, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("file", "old", "new", "tool"),
    [
        (
            "ev/toolset.yaml",
            "{id: post,",
            "{id: post, annotations: {destructive: false},",
            "post",
        ),
        rest("ev/toolset.yaml", "{id: post,", "{id: post, requires_confirmation: false,", "post"),
        ("ev/toolset.yaml", "{id: list, requires_confirmation: true,", "{id: list,", "list"),
        (
            "state/ev.yaml",
            "requires_confirmation: true",
            "requires_confirmation: false",
            "other",
        ),
    ],
)
def test_an_approval_that_a_pull_ends_needs_trust(
    root: Path, file: str, old: str, new: str, tool: str
) -> None:
    edit(root / "toolsets" / file, old, new)

    assert lacking(root) == [f"ev may call without approval: {tool}"]
    Operations(root)("create_chat", chat_id="c1")
    error = Operations(root).error("call_tool", chat_id="c1", tool_id=f"ev:{tool}", args={})
    assert error.code == "not_trusted"


def test_an_annotation_that_a_trusted_waiver_is_about_needs_trust(root: Path) -> None:
    rule = "  - {pattern: '**', when: {annotations: {read_only: true}}, require: false}\n"
    (root / "covalt.yaml").write_text(CONFIG + rule)
    Operations(root)("trust_project")
    assert lacking(root) == []

    edit(
        root / "toolsets/ev/toolset.yaml",
        "{id: other,",
        "{id: other, annotations: {read_only: true},",
    )

    assert lacking(root) == ["ev may call without approval: other"]


def test_a_default_that_a_rule_compares_and_a_pull_removes_needs_trust(root: Path) -> None:
    rule = "  - {pattern: 'ev.get', when: {args: {q: all}}, require: true}\n"
    (root / "covalt.yaml").write_text(CONFIG + rule)
    schema = "{type: object, properties: {q: {type: string, default: all}}}"
    tool = f"  - {{id: get, input_schema: {schema}, http: {{url: 'https://a.example'}}}}\n"
    manifest = root / "toolsets/ev/toolset.yaml"
    edit(manifest, "tool_overrides:", tool + "tool_overrides:")
    Operations(root)("trust_project")
    assert lacking(root) == []

    edit(manifest, ", default: all", "")

    assert lacking(root) == ['ev may call without approval: get except when q is "all"']


def test_an_override_that_a_pull_removes_needs_trust(root: Path) -> None:
    edit(
        root / "toolsets/ev/toolset.yaml",
        "tool_id: other, requires_confirmation: true",
        "tool_id: other, enabled: true",
    )
    assert lacking(root) == []  # the project's own override still requires it
    state = root / "toolsets/state/ev.yaml"
    state.write_text(state.read_text().partition("overrides:")[0])

    assert lacking(root) == ["ev may call without approval: other"]


def test_a_required_approval_that_a_pull_removes_from_covalt_yaml_needs_trust(root: Path) -> None:
    edit(root / "toolsets/ev/toolset.yaml", "requires_confirmation: true, http", "http")
    Operations(root)("trust_project")
    edit(
        root / "covalt.yaml",
        "require: true}",
        "require: true}\n  - {pattern: 'ev.*', require: true}",
    )
    assert lacking(root) == []  # one more rule narrows

    (root / "covalt.yaml").write_text(CONFIG.partition("approvals:")[0])

    assert lacking(root) == ["ev may call without approval: read"]


def test_an_imported_toolset_that_a_pull_declares_to_be_own_needs_trust(root: Path) -> None:
    state = root / "toolsets/state/ev.yaml"
    state.write_text("source_type: zip\nenabled: true\n" + state.read_text())
    Operations(root)("trust_project")
    assert lacking(root) == []

    Consents.of(root).withdraw_all()
    Operations(root)("trust_project")
    edit(state, "source_type: zip\nenabled: true\n", "")

    assert "ev may connect to a.example" in lacking(root)


def test_a_default_role_that_a_pull_sets_needs_trust(root: Path) -> None:
    bot = "bot: {approve: ['ev.*'], approve_own: true, allow: ['ev.*']}"
    edit(root / "covalt.yaml", "  guest: {", f"  {bot}\n  guest: {{")
    Operations(root, role="owner")("trust_project")
    assert Project.open(root).config.roles["bot"].approve_own

    edit(root / "covalt.yaml", "default_role: owner", "default_role: bot")

    assert lacking(root) == [
        "covalt.yaml: all agents, whose default role is 'bot', approve their own calls of ev.*",
        "covalt.yaml: agents without a role, which have the default role 'bot', approve calls of others: ev.*",
    ]
    assert not Project.open(root).config.roles["bot"].approve_own


@pytest.mark.parametrize(
    "config", ["version: 1\nroles: {a: {allow: ['**']}}\ndefault_role: a\n", rest("vers")]
)
def test_no_project_forbids_the_withdrawal(
    root: Path, config: str, cli_in: Callable[..., tuple[int, str]]
) -> None:
    (root / "covalt.yaml").write_text(config)

    code, printed = cli_in(root, "trust", "--withdraw")

    assert (code, printed.splitlines()[-1]) == (
        0,
        "this project is no longer trusted on this machine",
    )
    (root / "covalt.yaml").write_text(CONFIG)
    assert "ev may connect to a.example" in lacking(root)


def test_the_words_name_what_runs_with_which_secrets(root: Path) -> None:
    more = (
        "mcp_servers:\n"
        "  - {id: far, command: node, args: [s.js], cwd: tools, env: {BASH_ENV: '$(x)', K: '${AWS_KEY}'}}\n"
        "  - {id: web, url: 'https://m.example/mcp', headers: {X-Trace: '${AWS_KEY}'}}\n"
    )
    manifest = root / "toolsets/ev/toolset.yaml"
    manifest.write_text(manifest.read_text() + "secrets: [AWS_KEY]\n" + more)
    (root / "toolsets/ev/tools").mkdir()
    for kind, name in (("process", "far"), ("server", "web")):
        Operations(root)("add_grant", toolset_id="ev", kind=kind, name=name)
    entry = {"tool_id": "w", "name": "W", "protocols": ["http"]}
    request = {"http": {"method": "DELETE", "url": "https://d.example/w"}}
    Operations(root)("register_tool", entry=entry | {"protocol_meta": request})
    Operations(root)("add_grant", toolset_id="registered", kind="tool", name="w")

    rows = Operations(root)("list_permissions")["permissions"]

    texts = "\n".join(row["permits"] for row in rows)
    assert "its MCP server far: node s.js in tools with BASH_ENV='$(x)', K='${AWS_KEY}'" in texts
    assert "https://m.example/mcp with X-Trace='${AWS_KEY}'" in texts
    assert "forward w to d.example by DELETE https://d.example/w" in texts


@pytest.mark.parametrize(
    "server",
    [
        "{id: far, command: bash, env: {BASH_ENV: evil.sh}, headers: {BASH_ENV: fine.sh}}",
        "{id: far, url: 'https://m.example/mcp', headers: {A: '${KEY}'}, env: {A: fine}}",
    ],
)
def test_no_value_that_a_server_does_not_get_hides_one_that_it_gets(
    root: Path, server: str
) -> None:
    manifest = root / "toolsets/ev/toolset.yaml"
    manifest.write_text(f"{manifest.read_text()}secrets: [KEY]\nmcp_servers:\n  - {server}\n")

    problems = Operations(root)("validate")["problems"]

    assert "does not get" in "".join(problem["message"] for problem in problems)
    grant = {"toolset_id": "ev", "kind": "process", "name": "far"}
    assert Operations(root).error("add_grant", **grant).code
    assert not any("far" in text or "fine" in text for text in lacking(root))


# What the user removes


def test_the_question_has_one_line_for_each_permission_and_programs_last(root: Path) -> None:
    argv = ["/bin/sh", "-c", "echo {name}" + "\n" * 60 + " " * 400 + "# ", "covalt.yaml: run pass"]
    (root / "covalt.yaml").write_text(CONFIG + f"secret_command: {json.dumps(argv)}\n")
    tools = "".join(
        f"  - {{id: t{number}, http: {{url: 'https://a.example'}}}}\n" for number in range(300)
    )
    edit(root / "toolsets/ev/toolset.yaml", "tool_overrides:", tools + "tool_overrides:")

    rows = Operations(root)("list_permissions")["permissions"]

    texts = [row["permits"] for row in rows]
    assert all("\n" not in text and "        " not in text for text in texts)
    assert texts[-1].startswith("covalt.yaml: run /bin/sh")
    free = next(row for row in rows if "without approval" in row["permits"])
    assert free["lines"] == [free["permits"]]
    assert all(f"t{number}" in free["permits"].split(", ") for number in range(1, 300))


def test_the_question_shows_calls_that_change_something_on_lines_of_their_own(root: Path) -> None:
    (root / "covalt.yaml").write_text(CONFIG + "  - {pattern: '**', when: {args: {a: b}}}\n")
    tools = "".join(f"  - {{id: t{n:02}, http: {{url: 'https://a.example'}}}}\n" for n in range(30))
    wipe = "http: {method: DELETE, url: 'https://a.example'}"
    tools += f"  - {{id: wipe, requires_confirmation: false, {wipe}}}\n"
    edit(root / "toolsets/ev/toolset.yaml", "tool_overrides:", tools + "tool_overrides:")

    (row,) = (
        row
        for row in Operations(root)("list_permissions")["permissions"]
        if "without approval" in row["permits"]
    )

    names = ", ".join(f"t{n:02}" for n in range(30))
    assert row["lines"] == [
        # Without the rule, which is about an argument that these tools do not have.
        "ev may call without approval: wipe",
        f"ev may call without approval: {names}",
    ]
    assert "wipe" in row["permits"]
    assert names in row["permits"]


def test_a_grant_of_a_server_that_a_pull_adds_needs_trust(root: Path) -> None:
    manifest = root / "toolsets/ev/toolset.yaml"
    server = (
        "mcp_servers:\n  - {id: far, command: bash, args: [-c, 'true'], env: {BASH_ENV: x.sh}}\n"
    )
    complete, shown = manifest.read_text() + server, "bash -c true with BASH_ENV='x.sh'"
    manifest.write_text(complete)
    Operations(root)("add_grant", toolset_id="ev", kind="process", name="far")
    Consents.of(root).withdraw_all()
    manifest.write_text(complete.removesuffix(server))
    Operations(root)("trust_project")

    manifest.write_text(complete)

    assert lacking(root) == [f"ev may run its MCP server far: {shown} without a sandbox"]


def test_a_rule_whose_annotation_a_pull_ends_limits_no_more(root: Path) -> None:
    rule = "  - {pattern: '**', when: {annotations: {open_world: true}}, require: true}\n"
    (root / "covalt.yaml").write_text(CONFIG + rule)
    manifest = root / "toolsets/ev/toolset.yaml"
    edit(manifest, "{id: post,", "{id: post, annotations: {destructive: false, open_world: true},")
    Operations(root)("trust_project")
    assert lacking(root) == []

    edit(manifest, "open_world: true", "open_world: false")

    assert lacking(root) == ["ev may call without approval: post"]


def test_a_withdrawal_ends_the_trust_in_earlier_commands_and_in_data_of_others(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operate = Operations(root)
    commands = [f'secret_command: ["/bin/echo", "{{name}}{number}"]\n' for number in (1, 2)]
    (root / "covalt.yaml").write_text(CONFIG + commands[0])
    operate("trust_project")
    (root / "covalt.yaml").write_text(CONFIG + commands[1])
    use_config(monkeypatch, tmp_path / "other", trusts=False)
    operate("trust_project")
    assert operate("list_chats")["chats"] == []
    operate("distrust_project")
    assert operate.error("list_chats").code == "not_trusted"
    use_config(monkeypatch, tmp_path / "config", trusts=False)
    operate("distrust_project")
    assert operate("list_chats")["chats"] == []  # this user made it

    (root / "covalt.yaml").write_text(CONFIG + commands[0])

    assert not any(row["trusted"] for row in operate("list_permissions")["permissions"])


def test_what_the_user_uninstalls_and_a_pull_restores_is_not_trusted(root: Path) -> None:
    shutil.copytree(root / "toolsets", root / "before")
    operate = Operations(root)
    operate("override_tool", tool_id="ev:other", clear=["requires_confirmation"])
    operate("uninstall_toolset", toolset_id="ev", force=True)
    shutil.rmtree(root / "toolsets")
    (root / "before").rename(root / "toolsets")

    assert "ev may connect to a.example" in lacking(root)


def test_a_registered_tool_that_the_user_removes_and_a_pull_restores_is_not_trusted(
    root: Path,
) -> None:
    operate = Operations(root)
    entry = {"tool_id": "w", "name": "W", "protocols": ["http"]}
    request = {"http": {"method": "POST", "url": "https://d.example/w"}}
    operate("register_tool", entry=entry | {"protocol_meta": request})
    operate("add_grant", toolset_id="registered", kind="tool", name="w")
    operate("override_tool", tool_id="registered:w", requires_confirmation=False)
    state = root / "toolsets/state"
    shutil.copytree(state, root / "before")
    operate("remove_registered_tool", tool_id="w")
    shutil.rmtree(state)
    (root / "before").rename(state)

    config = read_config(root)
    permissions = permissions_of(read_toolset(root, "registered"), config)

    assert len(permissions) == 2
    assert Consents.of(root).lacking(permissions) == permissions


# Other projects and other users' data


def test_another_project_at_the_path_of_a_trusted_one_is_not_trusted(
    tmp_path: Path, cli_in: Callable[..., tuple[int, str]]
) -> None:
    root = tmp_path / "own"
    assert cli_in(tmp_path, "init", str(root))[0] == 0
    (root / "covalt.yaml").write_text(WAIVER)
    assert len(Project.open(root).config.rules) == 1  # stored: they made it here
    shutil.rmtree(root)
    root.mkdir()
    (root / "covalt.yaml").write_text(WAIVER)

    assert Project.open(root).config.rules == ()


def project_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "theirs"
    root.mkdir()
    with monkeypatch.context() as patch:
        use_config(patch, tmp_path / "their-config", trusts=False)
        (root / "covalt.yaml").write_text("version: 1\n")
        Operations(root)("create_chat", chat_id="c1")
    return root


def test_init_makes_no_data_of_another_user_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli_in: Callable[..., tuple[int, str]]
) -> None:
    root = project_of_another_user(tmp_path, monkeypatch)
    (root / "covalt.yaml").unlink()

    assert cli_in(root, "init", ".")[0] == 0

    assert Operations(root).error("list_chats").code == "not_trusted"


def test_no_list_of_permissions_writes_through_a_link(root: Path, tmp_path: Path) -> None:
    shutil.rmtree(root / "data")
    (tmp_path / "victim").mkdir()
    (root / "data").symlink_to(tmp_path / "victim")

    assert Operations(root).error("list_permissions").code == "linked_folder"
    assert Operations(root).error("trust_project").code == "linked_folder"

    assert list((tmp_path / "victim").iterdir()) == []


@pytest.mark.parametrize("how", ["archive", "removed submodule", "initialized elsewhere"])
def test_data_of_another_user_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    root = project_of_another_user(tmp_path, monkeypatch)
    if how == "removed submodule":
        git(root / "data", "init", "-q")
    elif how == "initialized elsewhere":
        git(root, "init", "-q")

    error = Operations(root).error("list_chats")

    assert error.code == "not_trusted"
    assert "data/" in error.message
    Operations(root)("trust_project")
    assert [chat["id"] for chat in Operations(root)("list_chats")["chats"]] == ["c1"]


@pytest.fixture
def gift(tmp_path: Path) -> Path:
    """A submodule of another user, for any folder."""
    gift = tmp_path / "gift"
    git(tmp_path, "init", "-qb", "main", str(gift))
    (gift / "eve.json").write_text("{}")
    git(gift, "add", "-A")
    git(gift, "commit", "-qm", "theirs")
    return gift


@pytest.mark.parametrize(
    ("place", "in_folder"),
    [
        ("tokens", False),
        rest("tokens", True),
        rest("chats/invoices", False),
        rest("chats/invoices", True),
        rest("chats/new/store.git", False),
        rest("chats/new/store.git", True),
        rest("chats/mine/store.git/refs/covalt/a#b", False),
        ("chats/mine/store.git/refs/covalt/a#b", True),
    ],
)
def test_what_a_submodule_leaves_in_data_is_not_used(
    own: Path, gift: Path, tmp_path: Path, place: str, *, in_folder: bool
) -> None:
    """Pull a submodule in the user's own data/, and pull its removal, which leaves its files."""
    theirs, root = tmp_path / "theirs", own
    if in_folder:  # of a repository with more than the project
        git(tmp_path, "init", "-qb", "main", str(tmp_path / "all"))
        root = (
            tmp_path / 'all/my "own" \\x #1; '
        )  # git quotes and escapes such a path in its settings
        own.rename(root)
        shutil.rmtree(root / ".git")
        own = tmp_path / "all"
        git(own, "add", "-A")
        git(own, "commit", "-qm", "one")
    Operations(root)("create_chat", chat_id="mine")
    git(tmp_path, "clone", "-q", str(own), str(theirs))
    path = (root / "data" / place).relative_to(own)
    git(theirs, "submodule", "add", "-q", "-f", "--name", "a/b", str(gift), str(path))
    git(theirs, "commit", "-qam", "add")
    git(own, "pull", "-q", str(theirs), "main")
    git(own, "submodule", "update", "-q", "--init")
    git(theirs, "rm", "-qf", str(path))
    git(theirs, "commit", "-qam", "remove")
    git(own, "pull", "-q", str(theirs), "main")
    assert (own / path / "eve.json").exists()
    assert git(own, "ls-files", "--", str(root / "data")) == ""

    error = Operations(root).error("list_chats")
    assert error.code == "data_is_tracked"
    shutil.rmtree(own / ".git/modules")
    if place == "tokens":
        assert Operations(root).error("list_chats").code == "data_is_tracked"
    if "store.git" not in place:
        assert [one.code for one in data_problems(root)] == ["CG405"]
    shutil.rmtree(own / path)
    assert len(Operations(root)("list_chats")["chats"]) == 1


@pytest.mark.parametrize("folder", ["", rest("store.git")])
def test_a_chat_that_a_submodule_brought_is_none_also_when_its_repository_is_gone(
    root: Path, cli_in: Callable[..., tuple[int, str]], folder: str
) -> None:
    operate = Operations(root, "owner")
    operate("create_chat", chat_id="c1")
    operate("call_tool", chat_id="c1", tool_id="ev:read", args={})
    operate("create_chat", chat_id="mine")
    place = root / "data/chats/c1" / folder
    place.mkdir(parents=True, exist_ok=True)
    (place / ".git").write_text("gitdir: ../../../.git/modules/c1\n")

    assert [chat["id"] for chat in operate("list_chats")["chats"]] == ["mine"]
    code, printed = cli_in(root, "approval", "list")
    assert (code, printed.count("ev:read")) == (0, 0)
    error = operate.error("get_chat", chat_id="c1")
    assert error.code == "data_is_tracked"
    assert "rm -rf" in error.hint
    if not folder:
        assert cli_in(root, "validate")[0] == 1


def test_no_chat_is_opened_with_a_submodule_in_its_store(root: Path) -> None:
    operate = Operations(root, "owner")
    operate("create_chat", chat_id="c1")
    (root / "data/chats/c1/store.git/refs/covalt/.git").write_text("gitdir: x\n")

    assert operate.error("read_conversation", chat_id="c1").code == "data_is_tracked"


def test_a_submodule_elsewhere_does_not_prevent_the_use_of_data(own: Path, gift: Path) -> None:
    git(own, "submodule", "add", "-q", str(gift), "vendor/data")

    assert Operations(own)("list_chats")["chats"] == []


def test_a_folder_with_the_approvals_of_another_chat_is_an_error_of_that_chat_only(
    root: Path, cli_in: Callable[..., tuple[int, str]]
) -> None:
    operate = Operations(root, "owner")
    operate("create_chat", chat_id="c1")
    call = {"tool_id": "ev:read", "args": {}}
    assert operate("call_tool", chat_id="c1", **call)["status"] == "pending"
    shutil.copytree(root / "data/chats/c1", root / "data/chats/c2")

    code, printed = cli_in(root, "approval", "list")
    assert (code, printed.count("ev:read")) == (0, 1)
    code, printed = cli_in(root, "chat", "show", "c2")
    assert code == 1
    assert "has calls of the chat 'c1'" in printed
    assert cli_in(root, "chat", "delete", "c2", "--yes")[0] == 0


def test_data_that_moves_with_its_project_stays_its_users(root: Path, tmp_path: Path) -> None:
    Operations(root)("create_chat", chat_id="c1")
    root.rename(tmp_path / "moved")

    assert len(Operations(tmp_path / "moved")("list_chats")["chats"]) == 1


# Projects that were made here


@pytest.fixture
def own(tmp_path: Path, cli_in: Callable[..., tuple[int, str]]) -> Path:
    """A project that its user made, in a repository of its own."""
    root = tmp_path / "own"
    assert cli_in(tmp_path, "init", str(root))[0] == 0
    return root


@pytest.fixture
def theirs(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of another user, with one commit more, that waives approvals."""
    theirs = tmp_path / "theirs"
    with monkeypatch.context() as patch:
        use_config(patch, tmp_path / "their-config", trusts=False)
        git(tmp_path, "clone", "-q", str(own), str(theirs))
        (theirs / "covalt.yaml").write_text(WAIVER)
        git(theirs, "commit", "-qam", "waive")
    return theirs


def test_own_commits_branches_and_resets_need_no_trust(own: Path) -> None:
    git(own, "checkout", "-qb", "idea")
    (own / "covalt.yaml").write_text(WAIVER)
    git(own, "commit", "-qam", "idea")
    git(own, "checkout", "-q", "main")
    git(own, "merge", "-q", "idea")
    git(own, "commit", "-q", "--amend", "-m", "better")
    git(own, "reset", "-q", "--hard", "idea")

    assert len(Project.open(own).config.rules) == 1


@pytest.mark.parametrize("name", ["main", "trunk"])
def test_a_renamed_own_branch_needs_no_trust(own: Path, name: str) -> None:
    (own / "covalt.yaml").write_text(WAIVER)
    git(own, "commit", "-qam", "mine")
    git(own, "branch", "-M", name)
    git(own, "commit", "-q", "--amend", "-m", "better")

    assert len(Project.open(own).config.rules) == 1


@pytest.mark.parametrize("collect", [rest(False), True])
def test_own_tags_stashes_and_notes_need_no_trust(own: Path, *, collect: bool) -> None:
    (own / "covalt.yaml").write_text(WAIVER)
    git(own, "commit", "-qam", "mine")
    git(own, "tag", "light")
    git(own, "tag", "-a", "-m", "mine", "v1")
    git(own, "tag", "-a", "-m", "again", "v1.1", "v1")
    git(own, "notes", "add", "-m", "mine")
    git(own, "bisect", "start", "HEAD", "HEAD~1")
    for message in ((), ("-m", "mine")):
        (own / "covalt.yaml").write_text("version: 1\n")
        git(own, "stash", "push", *message)
    git(own, "stash", "drop", "stash@{1}")
    git(own, "sparse-checkout", "set", "--no-cone", "/*")
    if collect:
        git(own, "gc", "-q", "--prune=now")
        git(own, "pack-refs", "--all")

    assert len(Project.open(own).config.rules) == 1
    git(own, "stash", "pop")
    assert Project.open(own).config.rules == ()
    git(own, "stash")
    assert len(Project.open(own).config.rules) == 1


@pytest.mark.parametrize(
    ("store", "place", "has_git"),
    covering([".hg", ".jj", ".svn"], [".", "..", "toolsets/gift"], [False, True]),
)
def test_a_checkout_of_another_system_needs_trust(
    own: Path, store: str, place: str, *, has_git: bool
) -> None:
    (own / "covalt.yaml").write_text(WAIVER)
    if not has_git:
        shutil.rmtree(own / ".git")
    assert len(Project.open(own).config.rules) == 1

    (own / place / store).mkdir(parents=True)

    assert Project.open(own).config.rules == ()


def _merge_fetched(own: Path, theirs: Path) -> None:
    git(own, "fetch", "-q", "--no-write-fetch-head", str(theirs), "main")
    git(own, "merge", "-q", git(theirs, "rev-parse", "HEAD"))


def _push(own: Path, theirs: Path) -> None:
    git(own, "config", "receive.denyCurrentBranch", "updateInstead")
    git(theirs, "push", "-q", str(own), "HEAD:main")


def _bundle(own: Path, theirs: Path) -> None:
    git(theirs, "bundle", "create", "-q", "x.bundle", "HEAD")
    git(own, "bundle", "unbundle", str(theirs / "x.bundle"))
    git(own, "reset", "-q", "--hard", git(theirs, "rev-parse", "HEAD"))


def _worktree(own: Path, theirs: Path) -> None:
    tree = own.parent / "tree"
    git(own, "worktree", "add", "-q", "-b", "wt", str(tree))
    git(tree, "fetch", "-q", str(theirs), "main")
    git(tree, "reset", "-q", "--hard", "FETCH_HEAD")
    git(own, "worktree", "remove", "--force", str(tree))
    git(own, "merge", "-q", "wt")


def _conflicting_patch(own: Path, theirs: Path) -> None:
    patch = git(theirs, "format-patch", "-1", "--stdout")
    (own / "covalt.yaml").write_text("version: 1\n# mine\n")
    git(own, "commit", "-qam", "mine")
    (own.parent / "x.patch").write_text(patch + "\n")
    git(own, "am", "-3", str(own.parent / "x.patch"), check=False)
    (own / "covalt.yaml").write_text(WAIVER)


def _named_action(own: Path, theirs: Path) -> None:
    git(own, "fetch", "-q", "--no-write-fetch-head", str(theirs), "main")
    git(own, "update-ref", "-m", "mine", "HEAD", git(theirs, "rev-parse", "HEAD"))
    git(own, "reset", "-q", "--hard")


def _clone_in_toolsets(own: Path, theirs: Path) -> None:
    git(own, "clone", "-q", str(theirs), str(own / "toolsets/gift"))
    (own / "covalt.yaml").write_text(WAIVER)


def _squash(own: Path, theirs: Path) -> None:
    git(theirs, "push", "-q", str(own), "HEAD:theirs")
    git(own, "merge", "-q", "--squash", "theirs")
    git(own, "commit", "-qm", "mine")


def _path_of_a_branch(own: Path, theirs: Path) -> None:
    git(theirs, "push", "-q", str(own), "HEAD:theirs")
    git(own, "checkout", "-q", "theirs", "--", "covalt.yaml")


def _expired_reflog(own: Path, theirs: Path) -> None:
    git(theirs, "push", "-q", str(own), "HEAD:theirs")
    git(own, "merge", "-q", "theirs")
    git(own, "branch", "-qd", "theirs")
    git(own, "reflog", "expire", "--expire=now", "--all")


def _replaced_commit(own: Path, theirs: Path) -> None:
    """Push a commit in place of one of the user's, which a checkout then writes."""
    git(own, "commit", "-q", "--allow-empty", "-m", "mine")
    git(own, "checkout", "-qb", "idea")
    (own / "notes.txt").touch()
    git(own, "add", "-A")
    git(own, "commit", "-qm", "idea")
    theirs_tree = git(theirs, "rev-parse", "HEAD^{tree}")
    other = git(theirs, "commit-tree", theirs_tree, "-m", "mine")
    git(theirs, "push", "-q", str(own), f"{other}:refs/replace/{git(own, 'rev-parse', 'main')}")
    git(own, "checkout", "-q", "main")


def _grafted_commit(own: Path, _: Path) -> None:
    (own / ".git/info/grafts").write_text(f"{git(own, 'rev-parse', 'HEAD')}\n")
    (own / "covalt.yaml").write_text(WAIVER)


def _pushed_ref(name: str, own: Path, theirs: Path) -> None:
    git(theirs, "push", "-q", str(own), f"HEAD:{name}")
    git(own, "checkout", "-q", name, "--", "covalt.yaml")


def _pushed_tag_object(own: Path, theirs: Path) -> None:
    git(theirs, "tag", "-a", "-m", "theirs", "v1")
    git(theirs, "push", "-q", str(own), "v1")
    git(own, "merge", "-q", "--squash", "v1")


def _packed_tag_object(own: Path, theirs: Path) -> None:
    _pushed_tag_object(own, theirs)
    git(own, "gc", "-q")


def _fetched_stash(own: Path, theirs: Path) -> None:
    (own / "notes.txt").touch()
    git(own, "add", "-A")
    git(own, "stash")  # so that the fetched one has an entry of the reflog too
    (theirs / "covalt.yaml").write_text(f"{WAIVER}# theirs\n")
    git(theirs, "stash")
    git(own, "fetch", "-q", "--no-write-fetch-head", str(theirs), "+refs/stash:refs/stash")
    (own / "covalt.yaml").write_text(WAIVER)


def _detached_head_without_reflog(own: Path, theirs: Path) -> None:
    git(own, "config", "core.logAllRefUpdates", "false")
    git(own, "fetch", "-q", "--no-write-fetch-head", str(theirs), "main")
    git(own, "update-ref", "--no-deref", "HEAD", git(theirs, "rev-parse", "HEAD"))
    (own / ".git/logs/HEAD").unlink()
    git(own, "update-ref", "-d", "refs/heads/main")
    git(own, "reset", "-q", "--hard")


def _pulled_without_reflog(own: Path, theirs: Path) -> None:
    """Pull with a program that writes no reflog; then the user's next commit continues the history."""
    with contextlib.redirect_stdout(io.StringIO()):
        porcelain.pull(str(own), str(theirs), errstream=io.BytesIO())
    (own / "notes.txt").touch()
    git(own, "add", "notes.txt")
    git(own, "commit", "-qm", "mine")


def _unfinished_switch(own: Path, _: Path) -> None:
    """Git writes the files of another commit before it moves HEAD."""
    (own / ".git/index.lock").touch()
    (own / "covalt.yaml").write_text(WAIVER)


@pytest.mark.parametrize(
    "arrive",
    [
        _merge_fetched,
        _push,
        rest(_bundle),
        _worktree,
        rest(_conflicting_patch),
        rest(_named_action),
        rest(_clone_in_toolsets),
        _squash,
        rest(_path_of_a_branch),
        _expired_reflog,
        _replaced_commit,
        _grafted_commit,
        partial(_pushed_ref, "refs/tags/v1"),
        rest(partial(_pushed_ref, "refs/notes/theirs")),
        rest(partial(_pushed_ref, "refs/anything/theirs")),
        _pushed_tag_object,
        rest(_packed_tag_object),
        _fetched_stash,
        _detached_head_without_reflog,
        rest(_pulled_without_reflog),
        _unfinished_switch,
    ],
)
def test_commits_of_others_need_trust_however_they_arrive(
    own: Path, theirs: Path, arrive: Callable[[Path, Path], None]
) -> None:
    arrive(own, theirs)

    assert (own / "covalt.yaml").read_text() == WAIVER
    assert Project.open(own).config.rules == ()


def test_an_imported_toolset_is_not_its_users_work_in_an_own_project(own: Path) -> None:
    folder = own / "toolsets/ev"
    folder.mkdir()
    (folder / "toolset.yaml").write_text(MANIFEST)
    at = '"2026-01-01T00:00:00Z"'
    digest = read_toolset(own, "ev").digest
    grant = f"{{kind: network, hosts: [a.example], digest: {json.dumps(digest)}, granted_at: {at}, granted_by: me}}"
    state = own / "toolsets/state/ev.yaml"
    state.parent.mkdir(exist_ok=True)
    state.write_text(f"source_type: zip\nenabled: true\ngrants: {{network: {grant}}}\n")

    assert lacking(own) == ["ev may connect to a.example"]
    edit(state, "source_type: zip\nenabled: true\n", "")
    assert lacking(own) == []


# Files of the user


def test_a_trusted_folder_is_one_line(tmp_path: Path) -> None:
    odd = tmp_path / "a\u2028b"
    odd.mkdir()
    trust_folder(odd)

    assert not Consents.of(tmp_path / "a").cover_everything
    assert Consents.of(odd / "project").cover_everything
    with pytest.raises(CovaltError, match="line break"):
        trust_folder(tmp_path / "a\nb")


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_a_consent_that_is_no_file_is_refused_and_can_be_withdrawn(
    root: Path, make: Callable[[Path], None], cli_in: Callable[..., tuple[int, str]]
) -> None:
    file = min(Consents.of(root).folder.glob("*.json"))
    file.unlink()
    make(file)

    with pytest.raises(CovaltError) as refused:
        lacking(root)
    assert refused.value.code == "consent_unreadable"
    assert cli_in(root, "trust", "--withdraw")[0] == 0
    assert lacking(root)


@pytest.mark.parametrize("write", [os.mkfifo, lambda file: file.write_bytes(b"\xff" * 20_000)])
def test_data_with_an_id_that_cannot_be_read_is_foreign_until_it_is_trusted(
    root: Path, write: Callable[[Path], object]
) -> None:
    operate, file = Operations(root), root / "data/folder-id"
    file.unlink()
    write(file)
    assert operate.error("list_chats").code == "not_trusted"

    operate("trust_project")

    assert operate("list_chats")["chats"] == []


@pytest.mark.parametrize("name", ["config", "logs/HEAD"])
def test_a_fifo_in_the_repository_proves_nothing_and_waits_for_nobody(own: Path, name: str) -> None:
    (own / "covalt.yaml").write_text(WAIVER)
    (own / ".git" / name).unlink()
    os.mkfifo(own / ".git" / name)

    assert Project.open(own).config.rules == ()


@pytest.mark.parametrize("content", [rest("[" * 100_000), "null", rest("")])
def test_a_consent_that_cannot_be_read_trusts_nothing(root: Path, content: str) -> None:
    for file in Consents.of(root).folder.glob("*.json"):
        file.write_text(content)

    assert lacking(root)


# Projects in several repositories


@pytest.fixture
def outer(tmp_path: Path, cli_in: Callable[..., tuple[int, str]]) -> Path:
    """A repository of the user's own, in which the own project is in a repository of its own."""
    outer = tmp_path / "outer"
    git(tmp_path, "init", "-qb", "main", str(outer))
    (outer / "notes.txt").touch()
    git(outer, "add", "-A")
    git(outer, "commit", "-qm", "one")
    inner = outer / "a b/proj"
    git(tmp_path, "init", "-qb", "main", str(inner))
    assert cli_in(inner, "init", ".")[0] == 0
    (inner / "covalt.yaml").write_text(WAIVER)
    git(inner, "add", "-A")
    git(inner, "commit", "-qm", "mine")
    assert len(Project.open(inner).config.rules) == 1
    return outer


@pytest.fixture
def inner(outer: Path) -> Path:
    return outer / "a b/proj"


@pytest.fixture
def theirs_outer(outer: Path, tmp_path: Path) -> Path:
    """Another user's clone of the outer repository, which does not have the project."""
    theirs = tmp_path / "theirs"
    git(tmp_path, "clone", "-q", str(outer), str(theirs))
    (theirs / "a b/proj").mkdir(parents=True)
    return theirs


def _pull_outer(outer: Path, theirs: Path) -> None:
    git(theirs, "add", "-Af")
    git(theirs, "commit", "-qm", "theirs")
    git(outer, "pull", "-q", "--no-rebase", str(theirs), "main")


def test_an_outer_repository_of_ones_own_needs_no_trust(outer: Path, inner: Path) -> None:
    assert len(Project.open(inner).config.rules) == 1
    (outer / "notes.txt").write_text("more")
    git(outer, "commit", "-qam", "mine")

    assert len(Project.open(inner).config.rules) == 1


@pytest.mark.parametrize("ignores", [False, rest(True)])
def test_a_pull_into_an_outer_repository_needs_trust(
    root: Path, outer: Path, inner: Path, theirs_outer: Path, *, ignores: bool
) -> None:
    if ignores:  # the pull can bring files that are ignored
        (outer / ".git/info").mkdir(exist_ok=True)
        (outer / ".git/info/exclude").write_text("proj/\n")
    shutil.copytree(root / "toolsets", theirs_outer / "a b/proj/toolsets")
    _pull_outer(outer, theirs_outer)
    assert (inner / "toolsets/ev").exists()

    assert Project.open(inner).config.rules == ()
    assert any("a.example" in text for text in lacking(inner))


def test_an_outer_repository_with_a_remote_needs_trust_once(
    outer: Path, inner: Path, tmp_path: Path
) -> None:
    git(outer, "remote", "add", "origin", str(tmp_path / "elsewhere"))
    assert Project.open(inner).config.rules == ()

    Operations(inner)("trust_project")

    assert len(Project.open(inner).config.rules) == 1


@pytest.mark.parametrize("how", ["linked worktree", "not a repository"])
def test_an_outer_repository_that_cannot_be_read_needs_trust(
    outer: Path, inner: Path, tmp_path: Path, how: str
) -> None:
    shutil.move(outer / ".git", tmp_path / "elsewhere")
    pointer = f"gitdir: {tmp_path / 'elsewhere'}\n" if how == "linked worktree" else "x"
    (outer / ".git").write_text(pointer)

    assert Project.open(inner).config.rules == ()


def test_data_that_an_outer_repository_tracks_is_not_used(
    outer: Path, inner: Path, theirs_outer: Path
) -> None:
    Operations(inner)("create_chat", chat_id="mine")
    shutil.copytree(inner / "data/chats/mine", theirs_outer / "a b/proj/data/chats/evil")
    for folder in [path for path in theirs_outer.rglob("store.git/**") if path.is_dir()]:
        (folder / "keep").touch()
    _pull_outer(outer, theirs_outer)
    assert (inner / "data/chats/evil/store.git").is_dir()

    error = Operations(inner).error("list_chats")

    assert error.code == "data_is_tracked"
    assert f"the repository {str(outer)!r} tracks 'data/chats/evil/" in error.message
    assert [problem.code for problem in data_problems(inner)] == ["CG405"]
    remove = error.hint.rpartition(": ")[2]
    subprocess.run(remove, shell=True, check=True, capture_output=True)
    assert [chat["id"] for chat in Operations(inner)("list_chats")["chats"]] == ["mine"]


@pytest.mark.rest
def test_a_submodule_of_an_outer_repository_in_data_is_found(
    outer: Path, inner: Path, theirs_outer: Path, gift: Path
) -> None:
    Operations(inner)("create_chat", chat_id="mine")
    place = "a b/proj/data/chats/evil"
    git(theirs_outer, "submodule", "add", "-q", "-f", "--name", "x", str(gift), place)
    _pull_outer(outer, theirs_outer)
    git(outer, "submodule", "update", "-q", "--init")
    git(theirs_outer, "rm", "-qf", place)
    _pull_outer(outer, theirs_outer)
    assert (outer / place / "eve.json").exists()
    (outer / place / ".git").unlink()

    assert Operations(inner).error("list_chats").code == "data_is_tracked"


def test_an_index_of_an_outer_repository_that_cannot_be_read_is_no_proof(
    outer: Path, inner: Path
) -> None:
    (outer / ".git/index").unlink()
    (outer / ".git/index").mkdir()

    error = Operations(inner).error("list_chats")

    assert error.code == "unreadable_index"
    assert error.hint == f"git --git-dir={outer}/.git status"


@pytest.mark.parametrize(
    ("is_one_folder", "name"), covering([True, False], ["data", "Data", "DATA"])
)
def test_data_in_another_case_is_that_of_git_where_the_file_system_says_so(
    own: Path, monkeypatch: pytest.MonkeyPatch, name: str, *, is_one_folder: bool
) -> None:
    """Emulate a file system that ignores case: both names have the same inode."""
    Operations(own)("create_chat", chat_id="mine")
    (own / name / "chats/planted").mkdir(parents=True, exist_ok=True)
    (own / name / "chats/planted/x").write_text("theirs")
    git(own, "add", "-f", f"{name}/chats/planted/x")
    stat = os.stat

    def folding(path: Any, *args: Any, **options: Any) -> os.stat_result:
        if isinstance(path, bytes) and path.lower().endswith(b"/data"):
            path = path[:-4] + b"data"
        return stat(path, *args, **options)

    if is_one_folder:
        monkeypatch.setattr(os, "stat", folding)

    if is_one_folder or name == "data":
        assert Operations(own).error("list_chats").code == "data_is_tracked"
    else:
        assert [chat["id"] for chat in Operations(own)("list_chats")["chats"]] == ["mine"]
