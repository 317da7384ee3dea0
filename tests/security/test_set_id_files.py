"""Set-user-ID and set-group-ID files that a tool tries to leave for other users of the machine."""

import stat
from pathlib import Path

import pytest

from covalt_git.connections.pool import CONNECTIONS
from covalt_git.grants.grants import add_grant
from covalt_git.models.calls import SandboxLevel
from covalt_git.runtime.python_tool import run
from covalt_git.workspaces.chat import ChatStore
from tests.calls.conftest import World, world
from tests.calls.test_mcp_calls import manifest
from tests.runtime.conftest import Workshop, pool, workshop
from tests.runtime.in_sandbox import LEVELS
from tests.taking_servers import take
from tests.workspaces.conftest import chat, chats

__all__ = ["chat", "chats", "pool", "workshop", "world"]

LEAVE = """
from pathlib import Path

def leave(workspace: Path) -> None:
    for name in ("a", "node_modules/deep/a", ".git/a", "large"):
        file = workspace / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * (2 << 20 if name == "large" else 1))
        file.chmod(0o6711)
    file.parent.chmod(0o2755)
"""


def modes(workspace: Path) -> dict[str, str]:
    files = [path for path in workspace.rglob("*") if path.is_file()]
    return {str(path.relative_to(workspace)): f"{path.stat().st_mode:o}" for path in files}


def test_bits_are_cleared_after_a_call_without_the_filter(world: World) -> None:
    """A tool at the level `process` leaves set-user-ID files, also where nothing is stored."""
    world.configure()
    config = world.root / "covalt.yaml"
    config.write_text(config.read_text().replace("fast}", "fast, max_file_mb: 1}"))
    world.write("demo/tools/bad.py", LEAVE)
    world.write(
        "demo/toolset.yaml",
        "id: demo\nname: D\nversion: '1'\ntools: [{id: leave, entrypoint: tools.bad:leave}]\n",
    )

    outcome = world.call("leave", level="process")

    assert outcome.call.status == "success", outcome.error
    assert modes(world.workspace) == dict.fromkeys(
        ("a", "node_modules/deep/a", ".git/a", "large"), "100711"
    )
    assert world.workspace.stat().st_mode & stat.S_ISGID


def test_bits_are_cleared_after_the_call_of_an_mcp_server(world: World, tmp_path: Path) -> None:
    """An MCP server, which runs without a sandbox, leaves a set-user-ID program in the workspace."""
    world.write("demo/toolset.yaml", manifest(tmp_path))
    world.configure("default_role: owner\nroles: {owner: {admin: true}}\n")
    add_grant(world.root, "demo", "process", "first", by="me")
    take(world.root, "demo", "first")

    paths = ("a", "node_modules/a")
    done = [world.call("first:write", path=path, mode=0o4755).call.result for path in paths]
    CONNECTIONS.close()

    assert done == ["written"] * 2
    assert modes(world.workspace) == dict.fromkeys(paths, "100755")


def test_the_target_of_a_link_keeps_its_mode(chat: ChatStore, tmp_path: Path) -> None:
    """A program puts links to a set-user-ID program of the user into the workspace."""
    own = tmp_path / "own"
    own.touch()
    own.chmod(0o4755)
    (chat.workspace / "link").symlink_to(own)
    (chat.workspace / "node_modules").symlink_to(tmp_path)

    seen = chat.scan(chat.head())
    seen.clear_set_id(chat.workspace)

    assert f"{own.stat().st_mode:o}" == "104755"


def test_only_the_owner_enters_the_folder_of_a_chat(world: World) -> None:
    """Another user runs a program in a workspace whose folders a tool has opened to all."""
    folder = world.workspace.parent
    assert f"{folder.stat().st_mode:o}" == "40700"

    folder.chmod(0o2775)  # as older versions made it
    world.call("add")

    assert f"{folder.stat().st_mode:o}" == "42700"


@pytest.mark.parametrize("level", LEVELS)
def test_only_the_owner_enters_the_private_folder_of_a_tool(
    workshop: Workshop, level: SandboxLevel
) -> None:
    """A tool opens its `/tmp`, which stays for the next call, to all users of the machine."""
    workshop.write("tools/it.py", "import os\ndef run():\n    os.chmod(os.environ['TMPDIR'], 0o777)\n")  # fmt: skip

    outcome = run(workshop.job(warm=True, level=level), pool=workshop.pool)

    assert outcome.status == "success", outcome.error
    (outer,) = workshop.scratch.iterdir()
    assert f"{outer.stat().st_mode:o}" == "40700"
