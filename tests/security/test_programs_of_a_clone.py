"""Programs that we start with the user's account: neither the current folder nor its files decide what they do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from covalt_git.cli.mcp_hosts import BY_NAME, _started
from covalt_git.connections.definition import Definition, Name
from covalt_git.connections.pool import Connections
from covalt_git.credentials.command import SecretCommand
from covalt_git.errors import CovaltError
from covalt_git.installs import signatures
from covalt_git.runtime import environments, machine, probes
from covalt_git.system import programs

MODULES = (
    "venv",
    "pip",
    "ensurepip",
    "webbrowser",
    "sitecustomize",
    "usercustomize",
    "subprocess",
    "json",
)
PROGRAMS = (
    "uv",
    "git",
    "ssh-keygen",
    "xdg-open",
    "x-www-browser",
    "www-browser",
    "python3",
    "covalt-git",
)
ENTRIES = (".", "", "bin", "./bin")


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "it-ran"


@pytest.fixture
def clone(tmp_path: Path, canary: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with modules and programs of names that we use, and a user who has relative paths."""
    folder = tmp_path / "clone"
    (folder / "bin").mkdir(parents=True)
    for name in MODULES:
        (folder / f"{name}.py").write_text(f"open({str(canary)!r}, 'a').write('{name}.py ')\n")
    for program in (place / name for name in PROGRAMS for place in (folder, folder / "bin")):
        program.write_text(f"#!/bin/sh\necho {program} >> {canary}\n")
        program.chmod(0o755)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", os.pathsep.join((*ENTRIES, os.environ["PATH"])))
    monkeypatch.setenv("PYTHONPATH", ".")
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.delenv("BROWSER", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_NO_INDEX", "1")
    return folder


@pytest.mark.usefixtures("clone")
def test_an_installation_imports_nothing_of_the_current_folder(canary: Path) -> None:
    with pytest.raises(environments.CannotInstallError, match="nowhere-to-be-found"):
        environments.interpreter(["nowhere-to-be-found"])

    assert not canary.exists()


@pytest.mark.rest
@pytest.mark.usefixtures("clone")
def test_without_a_pip_of_ours_the_archive_of_python_installs(
    canary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments.site, "getsitepackages", list)  # type: ignore[attr-defined]

    with pytest.raises(environments.CannotInstallError) as caught:
        environments.interpreter(["nowhere-to-be-found"])

    if "neither uv nor pip" in caught.value.message:
        pytest.skip("this Python has no pip")
    assert "nowhere-to-be-found" in caught.value.message
    assert not canary.exists()


def test_uv_reads_no_configuration_of_the_current_folder(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads ``uv.toml`` and ``pyproject.toml`` of its folder; to compile, it would start the environment."""
    own = tmp_path / "own"
    own.mkdir()
    notes = tmp_path / "notes"
    python = f"{sys.executable} -I -m venv --without-pip"
    (own / "uv").write_text(
        f'#!/bin/sh\necho "$PWD|$*|$UV_COMPILE_BYTECODE" >> {notes}\n'
        f'case "$*" in *" venv "*) for last; do :; done; {python} "$last";; esac\n'
    )
    (own / "uv").chmod(0o755)
    monkeypatch.setenv("UV_COMPILE_BYTECODE", "1")
    monkeypatch.setenv("PATH", f"{own}{os.pathsep}{os.environ['PATH']}")

    environments.interpreter(["jinja2"])

    made, installed = notes.read_text().splitlines()
    assert {made.partition("|")[0], installed.partition("|")[0]} == {"/"}
    assert "--no-compile-bytecode" in installed
    assert installed.endswith("|")  # uv accepts either the option or the variable
    assert list(clone.glob("*.lock")) == []


@pytest.mark.usefixtures("clone")
def test_no_program_is_found_in_a_relative_folder_of_the_path(canary: Path, tmp_path: Path) -> None:
    machine.facts(tmp_path)
    with pytest.raises(CovaltError):
        signatures.sign(b"content", tmp_path / "no-key")
    programs.browse("http://127.0.0.1:9/")
    programs.run(["python3", "-c", "import subprocess; subprocess.run(['git', '--version'])"])
    entry = _started(BY_NAME["claude-code"], tmp_path, [])
    command = SecretCommand(
        tmp_path / "project", ("sh", "-c", "git --version; python3 -m json.tool -h")
    )
    command.root.mkdir()
    command.allow("a test")
    command.ask("API_KEY")

    assert not canary.exists()
    assert Path(str(entry["command"])).is_absolute() or entry["command"] == "covalt-git"


@pytest.mark.rest
@pytest.mark.usefixtures("clone")
def test_the_probes_of_doctor_import_nothing_of_the_current_folder(canary: Path) -> None:
    assert probes.run("process")
    assert not canary.exists()


@pytest.mark.usefixtures("clone")
@pytest.mark.parametrize("name", ["./bin/git", "bin/git", "no-such-program"])
def test_a_relative_program_does_not_exist(name: str) -> None:
    assert programs.find(name) is None
    with pytest.raises(FileNotFoundError):
        programs.run([name])


def test_a_granted_server_starts_below_no_folder_of_others(
    clone: Path, tmp_path: Path, canary: Path
) -> None:
    """npx runs programs of ``node_modules`` in any folder above, which in ``/tmp`` another user can make."""
    notes, connections = tmp_path / "notes", Connections()
    script = f"pwd > {notes}; ls -A | wc -l >> {notes}; git --version"
    defined = Definition(
        Name(clone, "demo", "server", "c1"), "stdio", argv=("sh", "-c", script), workspace=tmp_path
    )

    with pytest.raises(CovaltError):
        connections.begin(defined)
    connections.close()

    folder, count = notes.read_text().split()
    assert Path(folder).parent == tmp_path / "cache/covalt-git/servers"
    assert count == "0"
    assert not Path(folder).exists()
    assert not canary.exists()


def test_a_granted_server_finds_no_program_in_a_relative_folder_of_the_path(
    clone: Path, tmp_path: Path, canary: Path
) -> None:
    """With ``cwd``, ``.`` would be its toolset's, whose files the grant need not cover."""
    defined = Definition(
        Name(clone, "demo", "server", "c1"),
        "stdio",
        argv=("uv", "run"),
        cwd=clone,
        workspace=tmp_path,
    )
    connections = Connections()

    with pytest.raises(CovaltError):
        connections.begin(defined)
    connections.close()

    assert not canary.exists()


def test_python_m_covalt_git_imports_nothing_of_the_current_folder(
    clone: Path, canary: Path
) -> None:
    (clone / "click.py").write_text(f"open({str(canary)!r}, 'w')\nraise SystemExit")
    path = os.pathsep.join(filter(None, sys.path))
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": path}
    command = [sys.executable, "-m", "covalt_git", "--version"]
    shown = subprocess.run(command, cwd=clone, env=env, capture_output=True, check=True)

    assert b"covalt-git" in shown.stdout
    assert not canary.exists()
