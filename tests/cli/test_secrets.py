"""``covalt-git secret``: no command prints the value of a secret, wherever it comes from."""

from collections.abc import Callable
from pathlib import Path

import pytest

from covalt_git.cli.terminal import output
from tests.api_client import configure
from tests.trusting import use_config

Cli = Callable[..., tuple[int, str]]
CANARY = "sk-canary/+7f"
MANIFEST = 'id: demo\nname: Demo\nversion: "1"\nsecrets: [IN_FILE, IN_ENV, PRINTED]\n'


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose toolset declares three secrets, each from another place."""
    use_config(monkeypatch, tmp_path / "config")
    monkeypatch.setenv("IN_ENV", f"{CANARY}-e")
    secrets = tmp_path / "config/covalt-git/secrets.env"
    secrets.parent.mkdir(parents=True, exist_ok=True)
    secrets.write_text(f"IN_FILE={CANARY}-f\n")
    secrets.chmod(0o600)
    printer(tmp_path, f"touch {tmp_path}/ran; echo {CANARY}")
    root = tmp_path / "project"
    (root / "toolsets/demo").mkdir(parents=True)
    configure(root, f"secret_command: [{tmp_path}/printer, '{{name}}']\n")
    (root / "toolsets/demo/toolset.yaml").write_text(MANIFEST)
    return root


def printer(folder: Path, does: str) -> None:
    (folder / "printer").write_text(f"#!/bin/sh\n{does}\n")
    (folder / "printer").chmod(0o755)


@pytest.mark.parametrize(
    "command",
    [
        "secret list",
        "secret list --json",
        "secret check IN_FILE",
        "secret check IN_ENV --json",
        "secret check PRINTED",
        "doctor --quick",
        "doctor --quick --json",
        "authority show demo",
        "toolset show demo --json",
        "bundle export demo --json",
    ],
)
def test_no_command_prints_a_value(
    cli: Cli, root: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    cli("secret", "allow", "--no-terminal", "test")
    code, shown = cli(*command.split())

    assert code == 0
    assert CANARY not in shown
    assert (root.parent / "ran").exists() == (command == "secret check PRINTED")


@pytest.mark.parametrize("watched", [False, True])
def test_only_a_terminal_shows_the_errors_of_the_command(
    cli: Cli, root: Path, monkeypatch: pytest.MonkeyPatch, *, watched: bool
) -> None:
    printer(root.parent, "printf 'the vault is \\033[31mlocked' >&2; exit 2")
    cli("secret", "allow", "--no-terminal", "test")
    monkeypatch.setattr(output, "is_watched", lambda: watched)
    code, shown = cli("secret", "check", "PRINTED")

    assert (code, "exit code 2" in shown) == (1, True)
    assert ("the vault is \\u{1b}[31mlocked\n" in shown) == watched
    assert ("vault" in shown) == watched
