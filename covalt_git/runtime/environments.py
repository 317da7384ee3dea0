"""Environments with the Python packages of toolsets: one for each set of requirements, for all projects.

An environment is created under a unique name in the user's cache, and used only when it is complete: a link to
it is then created atomically.  Processes that need the same one wait for each other.  Only wheels are installed,
so that no code of a package runs.  The installer is uv if it is on the path, else pip, with the user's settings; it runs
in ``/``, because both read files of the current folder.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
import site
import subprocess
import sys
import sysconfig
import threading
from collections import deque
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.json_values import canonical_json
from covalt_git.system import file_lock, private_files, programs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

OWN_NEEDS = ("pydantic>=2.11", "docstring-parser>=0.16", "typing-extensions>=4.12")
"""What the SDK needs, in every environment."""

FORMAT = 1
"""Version of the layout; a new one makes old environments unused."""

_LAST_LINES = 20
_NEWS = "(Collecting|Downloading|Processing|Using|Installing|Resolved|Prepared|Installed) "
_CREDENTIALS = r"//[^/@\s]+@"
_COMPLAINT = "(?i)error|\u00d7|\u2570"
_LOOK_S = 0.2
# PEP 508 without direct references, which an installer would fetch from anywhere, and build.
_NEED = r"(?i)[A-Z0-9](?:[A-Z0-9._-]*[A-Z0-9])?\s*(?:\[[A-Z0-9._,\s-]*\])?\s*(?:[(<>=!~;][^@\n]*)?"


class CannotInstallError(CovaltError):
    """An installation that failed; the message has the end of the installer's output."""

    code = "cannot_install"
    http_status = 502


class InstallCancelledError(CovaltError):
    """The call that an installation was for is cancelled."""

    code = "cancelled"
    exit_code = 130
    http_status = 409


def cache_folder() -> Path:
    return private_files.cache_folder() / "environments"


def interpreter(
    needs: Sequence[str],
    *,
    report: Callable[[str], None] = lambda _: None,
    cancel: threading.Event | None = None,
) -> Path:
    """Return an interpreter with the packages ``needs``; install them first if necessary.

    Without needs it is our own.  ``report`` is called with lines of the installer's output.

    Raises:
        CannotInstallError: with the installer's last lines.
        InstallCancelledError: if ``cancel`` is set meanwhile.
    """
    if not needs:
        return Path(sys.executable)
    for need in needs:
        _check(need)
    link = cache_folder() / _key(needs)
    if (python := _python_of(link)) is not None:
        return python
    link.parent.mkdir(parents=True, exist_ok=True)
    cancel = cancel or threading.Event()
    with install_lock(link.with_suffix(".lock"), report, cancel):
        if (python := _python_of(link)) is not None:  # another process was first
            return python
        # Under the lock: the processes that began them were killed
        # (test_what_a_killed_installation_left_is_cleared_away).
        for half_made in link.parent.glob(f"{link.name}-*"):
            shutil.rmtree(half_made, ignore_errors=True)
        # Not renamed afterwards: the programs of an environment know its path.
        folder = link.with_name(f"{link.name}-{secrets.token_hex(4)}")
        try:
            _install(folder, [*needs, *OWN_NEEDS], report, cancel)
            _publish(folder, link)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    return folder.resolve() / "bin" / "python"


def _check(need: str) -> None:
    """Raise an error for a requirement that an installer would take for an option, a file or a URL."""
    if not re.fullmatch(_NEED, need):
        raise CannotInstallError(
            f"{need!r} is not a requirement of a name and a version",
            hint="write python.dependencies as jinja2>=3",
        )


def _key(needs: Sequence[str]) -> str:
    """Return the name of the environment, a digest of its requirements and its interpreter."""
    content = {
        "format": FORMAT,
        "needs": sorted(set(needs)),
        "python": [sys.version, sysconfig.get_platform(), sys.base_prefix],
    }
    return canonical_json.digest(content).removeprefix("sha256:")[:24]


def _python_of(link: Path) -> Path | None:
    python = link / "bin" / "python"
    return link.resolve() / "bin" / "python" if python.exists() else None


def _publish(folder: Path, link: Path) -> None:
    new = folder.with_suffix(".link")
    new.symlink_to(folder.name)
    new.replace(link)


@contextlib.contextmanager
def install_lock(
    path: Path, report: Callable[[str], None], cancel: threading.Event
) -> Iterator[None]:
    """Hold the lock of an installation; report that another process has it, and stop waiting if cancelled.

    Raises:
        InstallCancelledError: if ``cancel`` is set meanwhile.
    """
    with path.open("w") as file:
        if not file_lock.acquire(file.fileno(), wait=False):
            report("waiting for another installation of the same")
            # Tried again and again: a wait in flock(2) would not notice a cancellation.
            while not file_lock.acquire(file.fileno(), wait=False):
                if cancel.wait(_LOOK_S):
                    raise InstallCancelledError("the installation was cancelled before it began")
        yield


def _install(
    folder: Path, needs: list[str], report: Callable[[str], None], cancel: threading.Event
) -> None:
    report(f"installing {', '.join(needs[: -len(OWN_NEEDS)])}")
    uv = programs.find("uv")
    if uv is not None:
        quiet = [uv, "--color", "never", "--no-progress"]
        new = ["venv", "--no-project", "--python", sys.executable, str(folder)]
        _run([*quiet, *new], report, cancel)
        options = ["--python", str(folder / "bin" / "python"), "--only-binary", ":all:"]
        # To compile bytecode, uv starts the environment's interpreter, which would run the packages' `.pth`
        # files.  The user's settings may ask for it: `_run` removes the variable, which excludes this option.
        options.append("--no-compile-bytecode")
        _run([*quiet, "pip", "install", *options, "--", *needs], report, cancel)
        return
    # Without pip: it could only be used by the environment's interpreter, which may not be started here.
    _run(programs.python("-m", "venv", "--without-pip", str(folder)), report, cancel)
    pip = [*pip_command(), "--python", str(folder / "bin" / "python")]
    plain = ["--no-input", "--no-color", "--disable-pip-version-check", "--retries", "2"]
    options = ["--progress-bar", "off", "--only-binary", ":all:", "--", *needs]
    _run([*pip, *plain, "install", *options], report, cancel)


def pip_command() -> list[str]:
    """Return the command of our pip, or of the one that Python has in an archive.

    It is never the environment's: while a package is installed, it could replace modules of that pip.
    """
    if PathFinder.find_spec("pip", site.getsitepackages()) is not None:
        return programs.python("-m", "pip")
    given = sysconfig.get_config_var("WHEEL_PKG_DIR")  # where a distribution of Linux has it
    folders = [
        Path(sysconfig.get_path("stdlib"), "ensurepip", "_bundled"),
        *([Path(given)] if given else []),
    ]
    wheels = [wheel for folder in folders for wheel in folder.glob("pip-*.whl")]
    if not wheels:
        raise CannotInstallError(
            "neither uv nor pip is installed", hint="install one, such as python3-pip"
        )
    return programs.python(str(max(wheels) / "pip"))


def _run(argv: list[str], report: Callable[[str], None], cancel: threading.Event) -> None:
    """Run an installer until it ends, and report its output by lines."""
    last: deque[str] = deque(maxlen=_LAST_LINES)
    env = programs.environment()
    env.pop("UV_COMPILE_BYTECODE", None)
    with programs.start(
        argv,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as program:
        assert program.stdout is not None
        # The loop below waits for a line, also while the installer is silent, and would not notice a cancellation.
        ender = threading.Thread(target=_end_when, args=(cancel, program), daemon=True)
        ender.start()
        try:
            for line in program.stdout:
                # The URL of an index may have a password, and the line is shown and recorded.
                text = re.sub(_CREDENTIALS, "//***@", line.strip())
                last.append(text)
                if re.match(_NEWS, text):
                    report(text)
            program.wait()
        finally:
            program.kill()
    if cancel.is_set():
        raise InstallCancelledError("the installation was cancelled and removed")
    if program.returncode:
        complaints = [line for line in last if re.match(_COMPLAINT, line)] or list(
            filter(None, last)
        )
        hints = [hint for words, hint in _HINTS.items() if words in " ".join(last)]
        raise CannotInstallError(
            f"the dependencies of its Python tools cannot be installed: {'; '.join(complaints[-3:])}",
            hint=(hints or ["correct python.dependencies of its toolset.yaml"])[0],
        )


def _end_when(cancel: threading.Event, program: subprocess.Popen[str]) -> None:
    while program.poll() is None:
        if cancel.wait(_LOOK_S):
            program.kill()


_OFFLINE = "the package index does not answer: go online, or check `pip config list`"
_HINTS = {
    "name resolution": _OFFLINE,
    "Network is unreachable": _OFFLINE,
    "Connection refused": _OFFLINE,
    "Failed to establish a new connection": _OFFLINE,
    "No matching distribution": "correct python.dependencies; only wheels for this Python are taken",
    "No space left": "make room, then call again",
}
"""Hints for errors of the installer, by a text of its output."""
