"""A process that runs for long decides as one that starts now, whatever has changed since its last decision."""

from collections.abc import Callable
from pathlib import Path

import pytest

from covalt_git.calls.servers import mcp_calls
from covalt_git.catalog.current_config import current_config
from covalt_git.connections.definition import Definition, Name
from covalt_git.errors import CovaltError
from covalt_git.grants.grants import add_grant
from covalt_git.manifests.project_config import read_config
from covalt_git.project import Project
from covalt_git.system.file_cache import signature
from covalt_git.toolsets.permissions import permissions_of
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.trust import Consents, config_permissions, trust_folder
from tests.examples import rest
from tests.operations_client import Operations
from tests.security.test_trust_that_others_change import git
from tests.settling import until
from tests.trusting import use_config

WAIVER = 'version: 1\napprovals:\n  - {pattern: "ev.*", require: false}\n'
"""What the user wrote in a project of their own, so that it needs no trust."""

SERVER = """\
id: ev
name: Ev
version: "1"
mcp_servers: [{id: disk, command: cat}]
"""


@pytest.fixture
def own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli_in: Callable[..., tuple[int, str]]
) -> Path:
    """A project that its user made here, whose rule waives approvals; a process has opened it."""
    use_config(monkeypatch, tmp_path / "config", trusts=False)
    root = tmp_path / "own"
    assert cli_in(tmp_path, "init", str(root))[0] == 0
    (root / "covalt.yaml").write_text(WAIVER)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "mine")
    until(lambda: signature(root, tmp_path / "config") is not None)  # else nothing would be cached
    assert Project.cached(root, None).config.rules
    assert current_config(root).rules
    return root


def _pull(root: Path) -> None:
    """Pull a commit of another user that changes only tools."""
    theirs = root.parent / "theirs"
    git(root.parent, "clone", "-q", str(root), str(theirs))
    (theirs / "toolsets/tools.py").write_text("evil = 1\n")
    git(theirs, "add", "-A")
    git(theirs, "commit", "-qm", "theirs")
    git(root, "pull", "-q", str(theirs), "main")


def _push_a_branch(root: Path) -> None:
    _pull(root.parent / "own")
    git(root, "reset", "-q", "--hard", "HEAD~1")


def _add_a_remote(root: Path) -> None:
    git(root, "remote", "add", "origin", "https://git.example/x")


def _withdraw(root: Path) -> None:
    Operations(root)("distrust_project")


def _edit(root: Path) -> None:
    (root / "covalt.yaml").write_text("version: 1\n")


def _add_a_clone(root: Path) -> None:
    git(root, "clone", "-q", str(root), str(root / "toolsets/gift"))


def _trust(root: Path) -> None:
    _add_a_remote(root)
    assert not current_config(root).rules
    Consents.of(root).trust(config_permissions(read_config(root)))


def _trust_everything(root: Path) -> None:
    _add_a_remote(root)
    assert not current_config(root).rules
    trust_folder(root)


@pytest.mark.parametrize(
    ("change", "waives"),
    [
        (_pull, False),
        (_push_a_branch, False),
        rest(_add_a_remote, False),
        (_withdraw, False),
        (_edit, False),
        rest(_add_a_clone, False),
        (_trust, True),
        rest(_trust_everything, True),
        (lambda _: None, True),
    ],
)
def test_a_running_process_trusts_what_a_new_one_trusts(
    own: Path, change: Callable[[Path], None], *, waives: bool
) -> None:
    change(own)

    assert bool(Project.cached(own, None).config.rules) == waives
    assert bool(current_config(own).rules) == waives


def _track_data(root: Path) -> None:
    git(root, "add", "-f", "data")


def _lose_the_id(root: Path) -> None:
    (root / "data/folder-id").write_text("theirs\n")


@pytest.mark.parametrize(
    ("change", "code"), [(_track_data, "data_is_tracked"), (_lose_the_id, "not_trusted")]
)
def test_a_running_process_uses_no_data_that_a_new_one_would_not_use(
    own: Path, change: Callable[[Path], None], code: str
) -> None:
    change(own)

    with pytest.raises(CovaltError) as refused:
        Project.cached(own, None)
    assert refused.value.code == code


def test_a_server_that_runs_ends_with_the_trust_in_its_project(own: Path) -> None:
    """Pull a commit that changes neither the server's toolset nor a consent, while the server runs."""
    (own / "toolsets/ev").mkdir()
    (own / "toolsets/ev/toolset.yaml").write_text(SERVER)
    add_grant(own, "ev", "process", "disk", by="me")
    git(own, "add", "-A")
    git(own, "commit", "-qm", "server")
    found = read_toolset(own, "ev")
    Consents.of(own).distrust(
        permissions_of(found, read_config(own))
    )  # so that it is trusted as own only
    definition = Definition(Name(own, "ev", "disk", "c1"), "stdio", argv=("cat",))
    until(lambda: signature(own, own.parent / "config") is not None)  # as above
    wanted = mcp_calls.grant_check(own, found, definition)
    assert wanted()
    assert wanted()

    _pull(own)

    assert not wanted()
