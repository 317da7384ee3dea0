"""No command writes through a symbolic link that a clone has in place of a folder."""

import os
from pathlib import Path

import pytest

from covalt_git.catalog.current_config import current_config
from covalt_git.cli import main
from covalt_git.errors import CovaltError
from covalt_git.manifests.machine_folders import WRITTEN
from covalt_git.manifests.project_config import BrokenConfigError
from covalt_git.project import Project
from covalt_git.system.links import LinkedFolderError
from tests.api_client import make_project
from tests.examples import covering
from tests.operations_client import Operations
from tests.trusting import use_config

COMMANDS = [
    ("chat", "new", "--id", "c9"),
    ("call", "c1", "app-builder:write_file", '{"path": "a", "content": "b"}'),
    ("grant", "add", "app-builder", "network", "a.example", "--no-terminal", "test"),
    ("toolset", "disable", "app-builder"),
    ("toolset", "new", "mine"),
    ("registry", "add", "entry.json"),
    ("tool", "list"),
    ("mcp", "install", "vscode", "--yes"),
    ("index", "rebuild"),
    ("token", "new", "--name", "t", "--role", "r"),
    ("init", "."),
]
LINKS = [
    *WRITTEN,
    "covalt.yaml",
    "data/chats",
    "data/cache",
    "data/tokens",
    "data/listings",
    "data/serving",
    "data/index.db",
    "data/chats/c1",
]


def name_of(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else " ".join(value)


def tree(folder: Path) -> list[str]:
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_project(tmp_path / "project")
    (root / "entry.json").write_text('{"tool_id": "x", "name": "X"}')
    return root


def link(root: Path, path: str, outside: Path) -> None:
    """Move a folder of the project out of it, and leave a link."""
    outside.mkdir()
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(place):
        place.rename(outside / "moved")
        place.symlink_to(outside / "moved")
    else:
        (outside / "moved").mkdir()
        place.symlink_to(outside / "moved")


@pytest.mark.parametrize(("path", "command"), covering(LINKS, COMMANDS), ids=name_of)
def test_no_command_writes_through_a_link(
    root: Path,
    tmp_path: Path,
    path: str,
    command: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    outside = tmp_path / "outside"
    link(root, path, outside)
    if command[0] == "init" and path != "covalt.yaml":
        (root / "covalt.yaml").unlink()
    before = tree(outside)
    monkeypatch.chdir(root)

    with pytest.raises(SystemExit) as ended:
        main([*command])

    printed = capsys.readouterr()
    assert tree(outside) == before
    assert ended.value.code == 1
    assert f"{path!r} is a symbolic link" in printed.err
    assert "rm " in printed.err


@pytest.mark.parametrize("path", [".vscode", ".vscode/mcp.json"])
def test_mcp_install_writes_no_file_through_a_link(root: Path, tmp_path: Path, path: str) -> None:
    outside = tmp_path / "outside"
    link(root, path, outside)
    before = tree(outside)

    with pytest.raises(SystemExit) as ended:
        main(["-C", str(root), "mcp", "install", "vscode", "--yes"])

    assert ended.value.code != 0
    assert tree(outside) == before


@pytest.mark.parametrize("name", ["covalt.yaml", ".gitignore", "toolsets/text-kit"])
def test_init_creates_no_file_through_a_dangling_link(tmp_path: Path, name: str) -> None:
    root = tmp_path / "clone"
    (root / "toolsets").mkdir(parents=True)
    (root / name).symlink_to(tmp_path / "written")

    with pytest.raises(SystemExit) as ended:
        main(["init", str(root)])

    assert ended.value.code == 1
    assert not (tmp_path / "written").exists()


@pytest.mark.parametrize("path", LINKS)
def test_validate_reports_each_link(root: Path, tmp_path: Path, path: str) -> None:
    link(root, path, tmp_path / "outside")

    problems = Operations(root)("validate")["problems"]

    assert [problem["path"] for problem in problems if problem["code"] == "CG404"] == [path]


@pytest.mark.parametrize("path", [".vscode", ".cursor", ".vscode/mcp.json"])
def test_validate_warns_of_a_link_in_the_way_to_a_file_of_a_host(
    root: Path, tmp_path: Path, path: str
) -> None:
    (root / path).parent.mkdir(exist_ok=True)
    (root / path).symlink_to(tmp_path / "outside")

    problems = Operations(root)("validate")["problems"]

    (problem,) = [problem for problem in problems if problem["code"] == "CG404"]
    assert (problem["path"], problem["severity"]) == (path, "warning")


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("options", [(), ("--format", "github"), ("--json",), ("--fix",)], ids=str)
def test_validate_prints_nothing_of_the_file_that_covalt_yaml_leads_to(
    tmp_path: Path,
    options: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    *,
    exists: bool,
) -> None:
    root, private = tmp_path / "clone", tmp_path / ".netrc"
    root.mkdir()
    if exists:
        private.write_text("machine github.com login x password hunter2\n")
    (root / "covalt.yaml").symlink_to("../.netrc")

    with pytest.raises(SystemExit) as ended:
        main(["-C", str(root), "validate", *options])

    printed = capsys.readouterr()
    assert ended.value.code == 1
    assert "CG404" in printed.out
    assert "hunter2" not in printed.out + printed.err


@pytest.mark.parametrize(
    "path",
    [
        "covalt.yaml",
        "toolsets/own/toolset.yaml",
        "toolsets/state/text-kit.yaml",
        "toolsets/locks/a.yaml",
        "toolsets/state/registered/x.yaml",
    ],
)
@pytest.mark.parametrize("content", ["password hunter2\n", "- hunter2\n", "4111111111\n"])
def test_an_error_about_a_file_that_is_no_document_quotes_nothing_of_it(
    root: Path, path: str, content: str
) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(content)

    problems = Operations(root)("validate")["problems"]
    found = [one for one in problems if one["path"] == path]

    assert found
    assert not any(word in str(found) for word in ("hunter2", "4111"))


def test_a_running_server_uses_no_linked_covalt_yaml(root: Path, tmp_path: Path) -> None:
    """The times of a link stay the same when the roles in its target change."""
    Project.cached(root, None)
    settings = tmp_path / "covalt.yaml"
    (root / "covalt.yaml").rename(settings)
    (root / "covalt.yaml").symlink_to(settings)

    with pytest.raises(LinkedFolderError, match=r"'covalt\.yaml' is a symbolic link"):
        Project.cached(root, None)
    with pytest.raises(BrokenConfigError):
        current_config(root)


def test_the_user_can_store_data_on_another_disk(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_config(monkeypatch, tmp_path / "config")
    disk = tmp_path / "disk"
    disk.mkdir()
    (root / "data").symlink_to(disk)
    with pytest.raises(CovaltError) as refused:
        Project.open(root)
    assert str(disk) not in refused.value.hint, (
        "a model that follows hints must not permit the link"
    )

    permitted = tmp_path / "config/covalt-git/linked-folders"
    permitted.write_text(f"{disk}\n")
    permitted.chmod(0o600)

    Operations(root)("create_chat", chat_id="c1")
    assert (disk / "chats/c1").is_dir()
    assert Operations(root)("validate")["problems"] == []


CHAT_COMMANDS = [
    ("call", "c1", "app-builder:write_file", '{"path": "a", "content": "b"}'),
    ("chat", "message", "add", "c1", "hello"),
    ("chat", "branch", "c1", "idea"),
    ("chat", "gc", "c1"),
    ("chat", "rename", "c1", "T"),
    ("chat", "show", "c1"),
    ("chat", "delete", "c1", "--yes"),
]
CHAT_LINKS = [
    *("store.git", "store.git/objects", "store.git/objects/pack", "store.git/refs/heads"),
    *("store.git/HEAD", "workspace", "lock"),
]


def states(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return the content and the time of each file, so that also a rewrite of the same content is seen."""
    return {
        str(file): (file.read_bytes() if file.is_file() else b"", file.lstat().st_mtime_ns)
        for file in [folder, *folder.rglob("*")]
    }


def run(root: Path, *args: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["-C", str(root), *args])
    return int(ended.value.code or 0)


@pytest.mark.parametrize(("path", "command"), covering(CHAT_LINKS, CHAT_COMMANDS), ids=name_of)
def test_no_command_leaves_a_chat_through_a_link(
    root: Path, tmp_path: Path, path: str, command: tuple[str, ...]
) -> None:
    assert run(root, "chat", "new", "--id", "c1") == 0
    run(root, "call", "c1", "app-builder:list_files")
    outside = tmp_path / "outside"
    link(root, f"data/chats/c1/{path}", outside)
    before = states(outside)

    run(root, *command)

    assert states(outside) == before


def test_versions_of_toolsets_are_written_through_no_link(root: Path, tmp_path: Path) -> None:
    run(root, "chat", "new", "--id", "c1")
    outside = tmp_path / "outside"
    link(root, "data/toolsets/text-kit", outside)
    before = states(outside)

    run(root, "call", "c1", "app-builder:write_file", '{"path": "a", "content": "b"}')

    assert states(outside) == before


@pytest.mark.parametrize("path", ["toolsets/state", "toolsets/locks"])
@pytest.mark.parametrize("is_folder", [True, False])
def test_validate_prints_nothing_of_a_linked_file(
    root: Path, tmp_path: Path, path: str, capsys: pytest.CaptureFixture[str], *, is_folder: bool
) -> None:
    (root / path).mkdir(exist_ok=True)
    file = root / path / "data-lab.yaml"
    file.write_text("private_key_of_another_file: 1\n")
    linked = path if is_folder else f"{path}/data-lab.yaml"
    link(root, linked, tmp_path / "outside")

    run(root, "validate")

    printed = capsys.readouterr()
    assert "private_key_of" not in printed.out + printed.err
    problems = Operations(root)("validate")["problems"]
    assert linked in [problem["path"] for problem in problems if problem["code"] == "CG404"]


@pytest.mark.parametrize(
    "command",
    [
        ("convert", "{mcp}", "--from", "claude-code", "--to", "toolset", "-o", "{to}/new"),
        ("validate", "--write-baseline", "--baseline", "{to}/known.json"),
        ("bundle", "export", "text-kit", "-o", "{to}/x.zip"),
        ("schema", "--out", "{to}"),
    ],
    ids=" ".join,
)
def test_no_output_is_written_through_a_linked_toolset(
    root: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    mcp = tmp_path / "mcp.json"
    mcp.write_text('{"mcpServers": {"a": {"command": "a"}}}')
    outside = tmp_path / "outside"
    link(root, "toolsets/mine", outside)
    before = states(outside)

    code = run(root, *(word.format(mcp=mcp, to=root / "toolsets/mine") for word in command))

    assert code != 0
    assert states(outside) == before


@pytest.mark.parametrize("exists", [True, False])
def test_no_schema_is_written_through_a_linked_file(
    root: Path, tmp_path: Path, *, exists: bool
) -> None:
    schema = min((root / ".covalt/schemas").iterdir())
    schema.unlink()
    schema.symlink_to(tmp_path / "outside")
    if exists:
        (tmp_path / "outside").write_text("mine")

    assert run(root, "schema", "--out", str(schema.parent)) == 1

    assert (tmp_path / "outside").exists() == exists
    assert not exists or (tmp_path / "outside").read_text() == "mine"


def test_init_overwrites_no_file_behind_a_linked_schema(root: Path, tmp_path: Path) -> None:
    schema = min((root / ".covalt/schemas").iterdir())
    link(root, schema.relative_to(root).as_posix(), tmp_path / "outside")
    (root / "covalt.yaml").unlink()
    before = states(tmp_path / "outside")

    assert run(root.parent, "init", str(root)) == 1

    assert states(tmp_path / "outside") == before


def test_a_running_server_notices_a_link_that_a_pull_brings(root: Path, tmp_path: Path) -> None:
    Project.cached(root, None)

    link(root, "toolsets/state", tmp_path / "outside")

    with pytest.raises(CovaltError, match="symbolic link"):
        Project.cached(root, None)
