"""What another user of the machine can write is no decision of this user, and no other user reads what chats say."""

import grp
import os
import pwd
import stat
import subprocess
from pathlib import Path

import pytest

from covalt_git.errors import CovaltError
from covalt_git.manifests.project_config import read_config
from covalt_git.project import Project
from covalt_git.system import ownership
from covalt_git.toolsets.new_project import create_project
from covalt_git.trust import Consents, config_permissions
from tests.examples import one_in
from tests.operations_client import Operations
from tests.trusting import use_config

CONFIG = """\
version: 1
default_role: agent
roles: {agent: {allow: ["**"], approve: ["**"]}}
"""
NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
PLACES = [".", "covalt.yaml", "toolsets", "toolsets/ev/toolset.yaml", "toolsets/state/ev.yaml"]
PLACES += [".git", ".git/config", ".git/logs"]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of this user, with a permission that they need not trust because all of it is theirs."""
    use_config(monkeypatch, tmp_path / "config", trusts=False)
    root = tmp_path / "project"
    create_project(root)
    Consents.of(root).trust_new_project()
    (root / "covalt.yaml").write_text(CONFIG)
    for folder in ("toolsets/ev", "toolsets/state"):
        (root / folder).mkdir(exist_ok=True)
    (root / "toolsets/ev/toolset.yaml").write_text('{id: ev, name: Ev, version: "1"}')
    (root / "toolsets/state/ev.yaml").write_text("enabled: true\n")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    user = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "-C", str(root), "add", "."], check=True)
    subprocess.run(["git", "-C", str(root), *user, "commit", "-qm", "own"], check=True)
    return root


def is_trusted(root: Path) -> bool:
    return not Consents.of(root).lacking(config_permissions(read_config(root)))


@pytest.mark.parametrize("place", one_in(2, PLACES))
def test_a_file_that_others_can_write_is_not_the_users_own(root: Path, place: str) -> None:
    assert is_trusted(root)
    mode = stat.S_IMODE((root / place).stat().st_mode)

    (root / place).chmod(mode | stat.S_IWOTH)
    assert not is_trusted(root)

    (root / place).chmod(mode)
    assert is_trusted(root)


@AS_ROOT
@pytest.mark.parametrize("place", one_in(2, PLACES))
def test_a_file_of_another_user_is_not_the_users_own(root: Path, place: str) -> None:
    os.chown(root / place, NOBODY, -1)
    assert not is_trusted(root)


@AS_ROOT
def test_a_group_with_others_can_write_and_the_users_own_group_cannot(root: Path) -> None:
    file = root / "toolsets/state/ev.yaml"
    file.chmod(0o664)  # the umask of Debian's users is 002
    assert is_trusted(root)

    os.chown(file, -1, NOBODY)
    assert not is_trusted(root)


def test_a_group_that_another_account_has_as_its_own_is_shared(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = pwd.getpwuid(os.geteuid())
    own_group = grp.struct_group((user.pw_name, "x", user.pw_gid, []))
    other = pwd.struct_passwd(("ci", "x", user.pw_uid + 1, user.pw_gid, "", "/", "/bin/sh"))
    monkeypatch.setattr(grp, "getgrgid", lambda _: own_group)
    file = root / "toolsets/state/ev.yaml"
    os.chown(file, -1, user.pw_gid)
    file.chmod(0o664)

    # `useradd -g ann ann-ci`: a group does not list the accounts of which it is the first group.
    trusted = {}
    for accounts in ([user], [user, other]):
        monkeypatch.setattr(pwd, "getpwall", lambda accounts=accounts: accounts)
        ownership._is_of_user.cache_clear()
        trusted[len(accounts)] = is_trusted(root)
    ownership._is_of_user.cache_clear()

    assert trusted == {1: True, 2: False}


def test_an_empty_data_folder_is_closed_when_it_becomes_the_users(root: Path) -> None:
    (root / "data").chmod(0o755)
    for file in (root / "data").iterdir():
        file.unlink()

    Operations(root)("create_chat", chat_id="c1")
    Operations(root)("list_chats")

    assert stat.S_IMODE((root / "data").stat().st_mode) == 0o700


def test_only_the_user_can_read_the_index(root: Path) -> None:
    index = root / "data/index.db"
    index.touch(mode=0o644)

    Operations(root)("create_chat", chat_id="c1", title="private")
    Operations(root)("list_chats")

    files = {file: stat.S_IMODE(file.stat().st_mode) for file in (root / "data").glob("index.db*")}
    assert set(files.values()) == {0o600}


@AS_ROOT
def test_an_empty_data_folder_of_another_user_is_not_adopted(root: Path) -> None:
    for file in (root / "data").iterdir():
        file.unlink()
    os.chown(root / "data", NOBODY, -1)

    with pytest.raises(CovaltError) as refused:
        Project.open(root)

    assert refused.value.code == "not_trusted"
    assert not (root / "data/folder-id").exists()
