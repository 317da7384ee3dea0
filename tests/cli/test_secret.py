"""``covalt-git secret``: where secrets come from, what may print them, and never a value."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from covalt_git.cli import cli
from covalt_git.cli.terminal import output
from covalt_git.errors import CovaltError
from covalt_git.grants.grants import grant_secret

CANARY = "sk-canary/+7f"
MANIFEST = 'id: demo\nname: Demo\nversion: "1"\nsecrets: [IN_FILE, IN_ENV, PRINTED]\n'


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose toolset asks for three secrets, each from another place."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("IN_ENV", f"{CANARY}-e")
    secrets = tmp_path / "config/covalt-git/secrets.env"
    secrets.parent.mkdir(parents=True)
    secrets.write_text(f"IN_FILE={CANARY}-f\n")
    secrets.chmod(0o600)
    printer(tmp_path, f"echo {CANARY}")
    root = tmp_path / "project"
    (root / "toolsets/demo").mkdir(parents=True)
    configure(root, f"secret_command: [{tmp_path}/printer, '{{name}}']\n")
    (root / "toolsets/demo/toolset.yaml").write_text(MANIFEST)
    return root


def configure(root: Path, text: str) -> None:
    (root / "covalt.yaml").write_text(f"version: 1\n{text}")


def printer(folder: Path, does: str) -> None:
    (folder / "printer").write_text(f"#!/bin/sh\n{does}\n")
    (folder / "printer").chmod(0o755)


def covalt(root: Path, *args: str) -> str:
    result = CliRunner().invoke(cli, ["-C", str(root), *args])
    assert CANARY not in result.output
    if result.exception:
        raise result.exception
    return result.output


def test_list_says_where_each_comes_from_and_asks_nobody(root: Path, tmp_path: Path) -> None:
    printer(tmp_path, f"touch {tmp_path}/ran")
    grant_secret(root, "demo", "PRINTED", ["example.com"], by="me")
    rows = [line.split("  ") for line in covalt(root, "secret", "list").splitlines()]
    assert [[cell.strip() for cell in row if cell] for row in rows[1:]] == [
        ["IN_ENV", "demo", "nowhere", "the environment"],
        ["IN_FILE", "demo", "nowhere", "the file"],
        ["PRINTED", "demo", "example.com", "the command, once allowed: covalt-git secret allow"],
    ]

    covalt(root, "secret", "allow")
    told = {
        one["name"]: one for one in json.loads(covalt(root, "secret", "list", "--json"))["secrets"]
    }
    assert told["PRINTED"] == {
        "name": "PRINTED",
        "toolset_id": "demo",
        "granted": True,
        "hosts": ["example.com"],
        "source": "command",
        "allowed": True,
    }
    assert told["IN_ENV"]["allowed"] is None
    assert not (tmp_path / "ran").exists()

    configure(root, "")
    assert "nowhere: it is not set" in covalt(root, "secret", "list")


def test_doctor_shows_the_command_and_whether_it_may_run(root: Path, tmp_path: Path) -> None:
    before = covalt(root, "doctor", "--quick")
    covalt(root, "secret", "allow")
    after = covalt(root, "doctor", "--quick")
    covalt(root, "secret", "forbid")

    for shown, note in ((before, "covalt-git secret allow"), (after, "allowed")):
        (line,) = [line for line in shown.splitlines() if line.startswith("secret command")]
        assert f"{tmp_path}/printer" in line
        assert line.endswith(note)
    assert "secret allow" in covalt(root, "doctor", "--quick")
    configure(root, "")
    assert "secret command" not in covalt(root, "doctor", "--quick")


def test_a_changed_command_has_to_be_allowed_again(root: Path, tmp_path: Path) -> None:
    assert "this may run here" in covalt(root, "secret", "allow")
    assert (
        covalt(root, "secret", "check", "PRINTED") == "PRINTED: 13 characters, from the command\n"
    )
    configure(root, f"secret_command: [{tmp_path}/printer, --all, '{{name}}']\n")

    with pytest.raises(CovaltError) as caught:
        covalt(root, "secret", "check", "PRINTED")

    assert caught.value.code == "secret_command_not_allowed"
    assert json.loads(covalt(root, "secret", "allow", "--json"))["allowed"] is True
    assert json.loads(covalt(root, "secret", "forbid", "--json"))["allowed"] is False
    assert covalt(root, "secret", "forbid") == "it was not allowed\n"


def test_check_tells_the_place_and_the_length(root: Path) -> None:
    assert covalt(root, "secret", "check", "IN_FILE") == "IN_FILE: 15 characters, from the file\n"
    told = json.loads(covalt(root, "secret", "check", "IN_ENV", "--json"))
    assert told == {
        "name": "IN_ENV",
        "source": "environment",
        "characters": 15,
        "masked": True,
    }
    with pytest.raises(CovaltError, match="no secret 'HOME'"):
        covalt(root, "secret", "check", "HOME")


@pytest.mark.parametrize("watched", [False, True])
def test_only_a_person_who_looks_sees_what_a_failing_command_said(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, watched: bool
) -> None:
    printer(tmp_path, "printf 'the vault is \\033[31mlocked' >&2; exit 2")
    covalt(root, "secret", "allow")
    monkeypatch.setattr(output, "is_watched", lambda: watched)

    result = CliRunner().invoke(cli, ["-C", str(root), "secret", "check", "PRINTED"])

    assert isinstance(result.exception, CovaltError)
    assert "exit code 2" in result.exception.message
    assert "vault" not in str(result.exception)
    assert result.stderr == ("the vault is \\u{1b}[31mlocked\n" if watched else "")


def test_export_neither_asks_nor_minds_the_command(root: Path, tmp_path: Path) -> None:
    printer(tmp_path, f"touch {tmp_path}/ran")
    covalt(root, "secret", "allow")

    covalt(root, "bundle", "export", "demo", "-o", str(tmp_path / "demo.zip"))

    assert (tmp_path / "demo.zip").exists()
    assert not (tmp_path / "ran").exists()


def test_it_is_for_roles_that_may_do_everything(root: Path) -> None:
    with (root / "covalt.yaml").open("a") as config:
        config.write('roles: {maker: {allow: ["**"]}}\n')

    for verb in (["list"], ["allow"], ["forbid"], ["check", "IN_ENV"]):
        with pytest.raises(CovaltError, match="your role may not"):
            covalt(root, "--role", "maker", "secret", *verb)
    configure(root, "")
    with pytest.raises(CovaltError, match="names no secret_command"):
        covalt(root, "secret", "allow")
