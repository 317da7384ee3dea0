"""What a user gave to a project is not that of another project that is at its path later, such as a stranger's clone."""

from collections.abc import Callable
from pathlib import Path
from shutil import rmtree

import pytest

from covalt_git.connections.definition import Name
from covalt_git.connections.token_store import SignInFile, stored_logins
from covalt_git.credentials.command import SecretCommand
from covalt_git.system.private_files import user_folder
from covalt_git.trust import Consents, Permission
from tests.connections.signing_in import stored_login
from tests.trusting import use_config

URL = "https://mcp.example/mcp"
WAIVER = Permission({"waiver": "all"}, "run without approval")


def log_in(root: Path) -> None:
    project = Consents.of(root).identify()
    file_of(root).write(stored_login(root, URL).model_copy(update=project))


def file_of(root: Path) -> SignInFile:
    return SignInFile.of(Name(root, "demo", "remote"), URL)


def command(root: Path) -> SecretCommand:
    return SecretCommand(root.resolve(), ("/bin/echo", "{name}"))


GIVEN: dict[str, tuple[Callable[[Path], object], Callable[[Path], bool]]] = {
    "trusted": (
        lambda root: Consents.of(root).trust([WAIVER]),
        lambda root: Consents.of(root).lacking([WAIVER]) == [],
    ),
    "made here": (
        lambda root: Consents.of(root).trust_new_project(),
        lambda root: Consents.of(root).lacking([WAIVER]) == [],
    ),
    "secret_command": (lambda root: command(root).allow(), lambda root: command(root).is_allowed),
    "login": (
        log_in,
        lambda root: file_of(root).read() is not None or list(stored_logins(root)) != [],
    ),
}
"""For each kind of consent, how a user gives it to a project, and whether a project has it."""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use_config(monkeypatch, tmp_path / "config", trusts=False)
    root = tmp_path / "project"
    root.mkdir()
    return root


@pytest.mark.parametrize("kind", GIVEN)
@pytest.mark.parametrize("data", ["none", "empty", "foreign"])
def test_a_project_at_the_path_of_a_deleted_one_has_nothing_of_it(
    root: Path, kind: str, data: str
) -> None:
    give, has = GIVEN[kind]
    give(root)
    assert has(root)

    rmtree(root)
    root.mkdir()
    if data != "none":
        (root / "data").mkdir()
    if data == "foreign":
        (root / "data/folder-id").write_text("0123456789abcdef\n")

    assert not has(root)
    if data != "foreign":
        Consents.of(root).identify()
        assert not has(root)


@pytest.mark.parametrize("kind", GIVEN)
def test_every_file_about_a_project_names_its_path_and_its_id(root: Path, kind: str) -> None:
    give, _ = GIVEN[kind]

    give(root)

    folders = (user_folder() / name for name in ("trusted", "allowed-commands", "sign-ins"))
    (file,) = (file for folder in folders for file in folder.rglob("*.json"))
    text = file.read_text()
    assert (root / "data/folder-id").read_text().strip() in text
    assert str(root) in text
