"""The command that prints secrets: real programs, run only once they are allowed, and never believed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from covalt_git.credentials.command import CommandNotAllowedError, SecretCommand, SecretCommandError

CANARY = "sk-canary/+7f"


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a person, outside of the project ``tmp_path / "project"``."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "project").mkdir()
    return tmp_path


def script(folder: Path, text: str, name: str = "printer") -> str:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


def command(person: Path, *argv: str, seconds: float = 20.0) -> SecretCommand:
    return SecretCommand((person / "project").resolve(), argv, seconds)


def printing(person: Path, text: str, seconds: float = 20.0) -> SecretCommand:
    """Return a command that was allowed and runs a shell script."""
    made = command(person, script(person, text), "{name}", seconds=seconds)
    made.allow()
    return made


def failure(made: SecretCommand, name: str = "KEY") -> SecretCommandError:
    with pytest.raises(SecretCommandError) as caught:
        made.ask(name)
    told = caught.value
    assert CANARY not in f"{told}{told.as_json()}"
    return told


# --- what it prints --------------------------------------------------------------------------------


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
def test_what_is_printed_is_the_value(person: Path, prints: str, value: str | None) -> None:
    assert printing(person, prints).ask("KEY") == value


@pytest.mark.parametrize(
    ("does", "said"),
    [
        (f"echo {CANARY}; exit 3", "ended with exit code 3"),
        (f"echo {CANARY} >&2; exit 1", "ended with exit code 1"),
        (f"echo {CANARY}; kill -9 $$", "ended with signal 9"),
        (f"echo {CANARY}; printf '\\377'", "printed what is no text"),
        (f"printf '{CANARY}\\0'", "printed what is no text"),
        ("yes", "printed more than 64 KiB"),
        ("head -c 65537 /dev/zero", "printed more than 64 KiB"),
    ],
)
def test_what_is_no_value_fails_and_is_never_told(person: Path, does: str, said: str) -> None:
    told = failure(printing(person, does))

    assert told.message == f"the secret_command of covalt.yaml, asked for 'KEY', {said}"
    assert told.hint == "covalt-git secret check KEY"


def test_the_error_stream_is_kept_apart_and_short(person: Path) -> None:
    does = f"echo {CANARY}; echo no {CANARY} here >&2; head -c 99999 /dev/zero | tr '\\0' y >&2; exit 1"

    told = failure(printing(person, does))

    assert told.said.startswith("no *** here\nyyy")
    assert len(told.said) <= 4096


@pytest.mark.parametrize("does", ["sleep 60", "echo half; sleep 60", "exec >&- 2>&-; sleep 60"])
def test_one_that_does_not_end_is_ended(person: Path, does: str) -> None:
    made = printing(person, f"echo $$ > {person}/pid; {does}", seconds=0.5)

    assert "took longer than 0.5 s" in failure(made).message
    pid = int((person / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_it_has_no_input_and_is_not_in_the_project(
    person: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(person / "project")

    assert printing(person, "cat; pwd").ask("KEY") == "/"


# --- names -----------------------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.text(max_size=20).filter(lambda name: not name.isidentifier()))
def test_what_is_no_name_runs_nothing(person: Path, name: str) -> None:
    made = command(person, script(person, f"touch {person}/ran"), "{name}")
    made.allow()

    failure(made, name)

    assert not (person / "ran").exists()


@pytest.mark.parametrize("name", ["A;id", "$(id)", "-n", "A\n", "../A", "{name}", "", "A B", "Ä"])
def test_nothing_but_letters_digits_and_underscores_is_a_name(person: Path, name: str) -> None:
    failure(printing(person, f"touch {person}/ran"), name)

    assert not (person / "ran").exists()


def test_the_name_stands_in_every_argument_and_no_shell_reads_any(person: Path) -> None:
    program = script(person, 'printf "%s|" "$@"')
    made = command(person, program, "a/{name}/{name}", "$(id)", "{name}*; id", "")
    made.allow()

    assert made.ask("KEY") == "a/KEY/KEY|$(id)|KEY*; id||"


# --- consent ---------------------------------------------------------------------------------------


def test_it_does_not_run_before_it_is_allowed_nor_after_it_changed(person: Path) -> None:
    program = script(person, f"touch {person}/ran; echo value")
    made = command(person, program, "{name}")

    told = failure(made)
    assert isinstance(told, CommandNotAllowedError)
    assert told.code == "secret_command_not_allowed"
    assert told.hint.endswith("covalt-git secret allow")
    assert program in told.message
    assert not (person / "ran").exists()

    made.allow()
    assert made.ask("KEY") == "value"
    (person / "ran").unlink()
    for other in (
        command(person, program, "{name}", "more"),
        command(person, program, "{name} more"),
        SecretCommand(person / "elsewhere", (program, "{name}")),
    ):
        assert failure(other).code == "secret_command_not_allowed"
    assert made.forbid()
    assert failure(made).code == "secret_command_not_allowed"
    assert not made.forbid()
    assert not (person / "ran").exists()


def test_consent_is_the_person_s_alone_and_outside_the_project(person: Path) -> None:
    made = printing(person, "echo value")

    (consent,) = (person / "config/covalt-git/allowed-commands").iterdir()
    assert consent.stat().st_mode & 0o777 == 0o600
    assert consent.parent.stat().st_mode & 0o777 == 0o700
    assert not list((person / "project").iterdir())

    consent.chmod(0o620)
    assert failure(made).hint == f"chmod 600 {consent}"
    consent.chmod(0o600)
    consent.write_text("{}")
    assert failure(made).code == "secret_command_not_allowed"


def test_nothing_within_the_project_runs_though_it_is_allowed(
    person: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = person / "project/bin"
    inside.mkdir()
    script(inside, "echo value", "get-secret")
    (person / "link").symlink_to(inside / "get-secret")
    monkeypatch.setenv("PATH", f"{inside}:{os.environ['PATH']}")

    for argv in (
        ["get-secret", "{name}"],
        [str(inside / "get-secret"), "{name}"],
        [str(person / "link"), "{name}"],
        ["sh", str(inside / "get-secret"), "{name}"],
        ["sh", f"{person}/other/../project/bin/get-secret", "{name}"],
    ):
        with pytest.raises(SecretCommandError, match="which is in the project"):
            command(person, *argv).allow()


@pytest.mark.parametrize("program", ["no-such-program-7", "./printer", "/no/such/program", "/tmp"])
def test_a_program_that_is_not_there_cannot_be_allowed(person: Path, program: str) -> None:
    with pytest.raises(SecretCommandError, match="there is no program"):
        command(person, program, "{name}").allow()
