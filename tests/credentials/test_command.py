"""The command that prints secrets: real programs that run only once they are allowed."""

import os
from pathlib import Path

import pytest

from covalt_git.credentials.command import CommandNotAllowedError, SecretCommand, SecretCommandError
from tests.tables import tables
from tests.trusting import use_config

TABLES = tables(__file__)

CANARY = "sk-canary/+7f"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a user, outside of the project ``tmp_path / "project"``."""
    use_config(monkeypatch, tmp_path / "config")
    (tmp_path / "project").mkdir()
    return tmp_path


def script(folder: Path, text: str, name: str = "printer") -> str:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


def command(home: Path, *argv: str, seconds: float = 20.0) -> SecretCommand:
    return SecretCommand((home / "project").resolve(), argv, seconds)


def allowed(home: Path, text: str, *argv: str, seconds: float = 20.0) -> SecretCommand:
    """Return an allowed command that runs a shell script."""
    made = command(home, script(home, text), *(argv or ["{name}"]), seconds=seconds)
    made.allow()
    return made


def failure(made: SecretCommand, name: str = "KEY") -> SecretCommandError:
    with pytest.raises(SecretCommandError) as raised:
        made.ask(name)
    assert CANARY not in f"{raised.value}{raised.value.as_json()}"
    return raised.value


# Output


@pytest.mark.parametrize(
    ("prints", "value"),
    [
        ("printf %s 'a b '", "a b "),
        ("printf 'a\\n'", "a"),
        ("printf 'a\\r\\n'", "a"),
        ("printf 'one\\ntwo\\n\\n'", "one\ntwo\n"),
        ("printf 'ü€'", "ü€"),
        ('printf %s "$1"', "KEY"),
        ("exit 0", None),
        ("echo", None),
        ("head -c 65536 /dev/zero | tr '\\0' x", "x" * 65536),
    ],
)
def test_the_output_without_its_line_end_is_the_value(
    home: Path, prints: str, value: str | None
) -> None:
    assert allowed(home, prints).ask("KEY") == value


@pytest.mark.parametrize(
    ("does", "why"),
    [
        (f"echo {CANARY}; exit 3", "exit code 3"),
        (f"echo {CANARY} >&2; exit 1", "exit code 1"),
        (f"echo {CANARY}; kill -9 $$", "signal 9"),
        (f"echo {CANARY}; printf '\\377'", "not UTF-8 text"),
        (f"printf '{CANARY}\\0'", "not UTF-8 text"),
        ("yes", "more than 64 KiB"),
        ("head -c 65537 /dev/zero", "more than 64 KiB"),
    ],
)
def test_other_output_is_an_error_that_does_not_repeat_it(home: Path, does: str, why: str) -> None:
    error = failure(allowed(home, does))

    assert why in error.message
    assert error.hint == "covalt-git secret check KEY"


@pytest.mark.parametrize("does", ["echo half; sleep 60", "exec >&- 2>&-; sleep 60"])
def test_a_command_that_does_not_end_is_killed(home: Path, does: str) -> None:
    made = allowed(home, f"echo $$ > {home}/pid; {does}", seconds=0.3)

    assert "took longer than 0.3 s" in failure(made).message
    with pytest.raises(ProcessLookupError):
        os.kill(int((home / "pid").read_text()), 0)


def test_a_command_has_no_input_and_does_not_run_in_the_project(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home / "project")

    assert allowed(home, "cat; pwd").ask("KEY") == "/"


# Names


@pytest.mark.parametrize("name", TABLES["no_identifiers"])
def test_a_name_that_is_no_identifier_runs_nothing(home: Path, name: str) -> None:
    failure(allowed(home, f"touch {home}/ran"), name)

    assert not (home / "ran").exists()


def test_the_name_replaces_its_placeholder_in_every_argument_without_a_shell(home: Path) -> None:
    arguments = ("a/{name}/{name}", "$(id)", "{name}*; id", "")
    made = allowed(home, 'printf "%s|" "$@"', *arguments)

    assert made.ask("KEY") == "a/KEY/KEY|$(id)|KEY*; id||"


# Consent


def test_a_command_runs_only_while_exactly_it_is_allowed(home: Path) -> None:
    program = script(home, f"touch {home}/ran; echo value")
    made = command(home, program, "{name}")

    error = failure(made)
    assert isinstance(error, CommandNotAllowedError)
    assert error.code == "secret_command_not_allowed"
    assert error.hint.endswith("covalt-git secret allow")
    assert program in error.message
    assert not (home / "ran").exists()

    made.allow()
    assert made.ask("KEY") == "value"
    (home / "ran").unlink()
    for other in (
        command(home, program, "{name}", "more"),
        command(home, program, "{name} more"),
        SecretCommand(home / "elsewhere", (program, "{name}")),
    ):
        assert failure(other).code == "secret_command_not_allowed"
    assert made.forbid()
    assert failure(made).code == "secret_command_not_allowed"
    assert not made.forbid()
    assert not (home / "ran").exists()


def test_a_value_is_not_used_if_the_permission_ends_while_the_command_waits(home: Path) -> None:
    consents = home / "config/covalt-git/allowed-commands"

    assert failure(allowed(home, f"rm {consents}/*; echo value")).code == (
        "secret_command_not_allowed"
    )


def test_consent_is_a_private_file_outside_the_project(home: Path) -> None:
    made = allowed(home, "echo value")

    (consent,) = (home / "config/covalt-git/allowed-commands").iterdir()
    assert consent.stat().st_mode & 0o777 == 0o600
    assert consent.parent.stat().st_mode & 0o777 == 0o700
    assert [file.name for file in (home / "project").iterdir()] == ["data"]
    consent.chmod(0o620)
    assert failure(made).hint == f"chmod 600 {consent}"
    consent.chmod(0o600)
    consent.write_text("{}")
    assert failure(made).code == "secret_command_not_allowed"


def test_no_file_of_the_project_can_be_allowed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = home / "project/bin"
    inside.mkdir()
    script(inside, "echo value", "get-secret")
    (home / "link").symlink_to(inside / "get-secret")
    (home / "folder").symlink_to(home / "project")
    # Its end is outside, but the link on the way is the project's.
    (inside / "out").symlink_to(home)
    (home / "a b").symlink_to(inside)
    (home / "round").symlink_to("folder/bin/out")
    path = str(inside / "get-secret")
    missing = str(inside / "later")
    monkeypatch.setenv("PATH", f"{inside}:{os.environ['PATH']}")

    for argv in (
        ["get-secret", "{name}"],
        [str(inside / "get-secret"), "{name}"],
        [str(home / "link"), "{name}"],
        ["sh", str(inside / "get-secret"), "{name}"],
        ["sh", f"{home}/other/../project/bin/get-secret", "{name}"],
        ["sh", missing, "{name}"],
        ["sh", path.lstrip("/"), "{name}"],  # it runs in `/`
        ["sh", f"./usr/../{path}", "{name}"],
        ["sh", f"{home}/folder/bin/get-secret", "{name}"],
        ["sh", f"{home}/folder/bin/../bin/get-secret", "{name}"],
        ["sh", f"{home}/round/anything", "{name}"],
        ["sh", f"/proc/self/root{path}", "{name}"],
        ["sh", "-c", f". {path}", "{name}"],
        ["sh", "-c", f"exec<{path}", "{name}"],
        ["env", f"BASH_ENV={path}", "bash", "-c", "echo", "{name}"],
        ["env", f"PYTHONPATH=/usr:{inside}", "python3", "{name}"],
        ["env", f"-C{inside}", "sh", "get-secret", "{name}"],
        ["env", f"--chdir={path.lstrip('/')}", "sh", "{name}"],
        ["env", f"BASH_ENV={home}/a b/get-secret", "bash", "-c", "echo", "{name}"],
        ["curl", f"file://{path}", "{name}"],
        ["curl", f"FILE://{path}", "{name}"],
        ["curl", f"File://localhost{path}", "{name}"],
        ["curl", f"file:{path.replace('project', '%70roject')}", "{name}"],
        ["git", "archive", f"git+file://{path}", "{name}"],
    ):
        with pytest.raises(SecretCommandError, match="which is in the project"):
            command(home, *argv).allow()


def test_a_link_that_is_made_later_does_not_lead_into_the_project(home: Path) -> None:
    (home / "project/KEY").write_text("echo value")
    (home / "bin").mkdir()
    made = command(home, "sh", f"{home}/bin/{{name}}")
    made.allow()
    (home / "bin").rmdir()
    (home / "bin").symlink_to(home / "project")

    assert "which is in the project" in failure(made).message


def test_texts_that_only_look_like_paths_can_be_allowed(home: Path) -> None:
    project = (home / "project").resolve()
    for argument in (f"op:/{project}/{{name}}", "covalt/{name}", "-n", "", "a=b:c", "\0"):
        command(home, "echo", argument).allow()
