"""Packages of PyPI: wheels with their hashes, installed by ``pip install --require-hashes`` in a virtual environment.

pip reads the user's settings here only through variables: the indexes with the credentials of their URLs, and the
certificates.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from covalt_git.errors import CovaltError
from covalt_git.models.sources.package_command import package_name
from covalt_git.models.sources.tool_lock import NO_DIGEST, LockedPackage, LockedPackages
from covalt_git.runtime.environments import CannotInstallError, pip_command
from covalt_git.runtime.installations import installation
from covalt_git.runtime.server_packages.steps import failure, is_private, registry_hosts
from covalt_git.system import programs

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence

    from covalt_git.models.sources.package_command import PackageCommand
    from covalt_git.runtime.server_packages.steps import Installer, Output

VENV = "venv"
"""Folder of the virtual environment."""

_INDEX_FILES = Path(__file__).with_name("index_files.py")
_QUIET = ("--no-input", "--no-color", "--disable-pip-version-check", "--isolated", "--retries", "1")


class _Settings(NamedTuple):
    """Settings of pip for the installation: its options, the URLs of indexes, hosts, and files to read."""

    options: tuple[str, ...]
    indexes: tuple[str, ...]
    hosts: tuple[str, ...]
    files: tuple[Path, ...]


def resolve(
    command: PackageCommand, installer: Installer, folder: Path, previous: LockedPackages | None
) -> LockedPackages:
    """Resolve the packages of a command, install them in ``folder``, and return them.

    If they are those of ``previous``, which are installed, nothing is installed, and ``previous`` is returned.

    Raises:
        CannotInstallError: if pip fails, or a package has no wheel for this Python.
    """
    settings = _settings(installer)
    installer.report(f"resolving {', '.join(command.requirements)}")
    _make_environment(command.python, installer, folder)
    names = [_normal(package_name(text)) for text in command.requirements]
    listed = _index_files(installer, folder, settings, names)
    for name, files in listed.items():
        if files and not any(entry["file"].endswith(".whl") for entry in files):
            raise _only_source(installer, name)
    settings = _with_files(settings, listed)
    report = folder / "report.json"
    output = _pip(
        installer,
        folder,
        settings,
        "install",
        "--dry-run",
        "--ignore-installed",
        "--report",
        str(report),
        *("--only-binary", ":all:", "--", *command.requirements),
    )
    if not output.succeeded:
        _check_source(installer, folder, settings, output)
        raise failure(installer.name, output)
    chosen = json.loads(report.read_text(encoding="utf-8"))["install"]
    report.unlink()
    listed = _index_files(
        installer, folder, settings, [_normal(entry["metadata"]["name"]) for entry in chosen]
    )
    packages = {package.name: package for package in (_package(entry, listed) for entry in chosen)}
    program = LockedPackages(
        digest=NO_DIGEST,
        kind="pypi",
        requirements=command.requirements,
        python=command.python,
        program="",
        packages=dict(sorted(packages.items())),
    )
    if previous is not None and program.same_packages(previous):
        return previous
    _install(program, installer, folder, _with_files(settings, listed))
    return program.model_copy(update={"program": _program(command, folder)})


def install(program: LockedPackages, installer: Installer, folder: Path) -> None:
    """Install the packages of a lock in ``folder``.

    Raises:
        CannotInstallError: if pip fails, such as for other bytes than those of the lock.
    """
    settings = _settings(installer)
    _make_environment(program.python, installer, folder)
    listed = _index_files(installer, folder, settings, list(program.packages))
    _install(program, installer, folder, _with_files(settings, listed))


def _install(
    program: LockedPackages, installer: Installer, folder: Path, settings: _Settings
) -> None:
    installer.report(f"installing {len(program.packages)} packages of PyPI")
    file = folder / "requirements.txt"
    rows = (
        " ".join((f"{name}=={package.version}", *(f"--hash={digest}" for digest in package.hashes)))
        for name, package in program.packages.items()
    )
    file.write_text("\n".join((*rows, "")), encoding="utf-8")
    options = (
        "--require-hashes",
        "--only-binary",
        ":all:",
        "--no-deps",
        "--requirement",
        str(file),
    )
    output = _pip(installer, folder, settings, "install", *options)
    if not output.succeeded:
        raise failure(installer.name, output)
    file.unlink()


def start(program: LockedPackages, folder: Path) -> tuple[str, ...]:
    """Return the beginning of the command that starts the program."""
    # The first line of the program has the path of the folder before it was renamed.
    return (str(folder / VENV / "bin" / "python"), str(folder / program.program))


def _make_environment(python: str | None, installer: Installer, folder: Path) -> None:
    interpreter = _interpreter(python, installer)
    command = [interpreter, "-I", "-m", "venv", "--without-pip", str(folder / VENV)]
    output = installer.run(command, folder, env={}, readable=installation(Path(interpreter)))
    if not output.succeeded:
        raise failure(installer.name, output)


def _interpreter(python: str | None, installer: Installer) -> str:
    if python is None:
        return sys.executable
    name = f"python{python}" if re.fullmatch(r"[\d.]+", python) else python
    path = programs.find(name)
    if path is None:
        raise CannotInstallError(
            f"the packages of {installer.name} cannot be installed: there is no interpreter {name!r}",
            hint=f"install {name}, or declare another --python",
        )
    return path


def _pip(installer: Installer, folder: Path, settings: _Settings, *arguments: str) -> Output:
    python = str(folder / VENV / "bin" / "python")
    command, *options = arguments
    argv = [*pip_command(), "--python", python, *_QUIET, command]
    argv += ["--progress-bar", "off", "--no-cache-dir", *settings.options, *options]
    return installer.run(
        argv,
        folder,
        settings.hosts,
        env={},
        # The Python of the environment is a link to its base installation, which is outside of the writable folder.
        readable=(*settings.files, *installation(Path(python).resolve())),
    )


def _index_files(
    installer: Installer, folder: Path, settings: _Settings, names: Sequence[str]
) -> dict[str, list[dict[str, Any]]]:
    """Return the files of packages, as the pages of the indexes list them, by normalized names."""
    if not settings.indexes:
        return {}
    pages = folder / "index.json"
    request = json.dumps({"indexes": settings.indexes, "names": names, "to": str(pages)})
    source = _INDEX_FILES.read_text(encoding="utf-8")
    output = installer.run(
        programs.python("-c", source, request),
        folder,
        settings.hosts,
        env={},
        readable=settings.files,
    )
    if not output.succeeded:
        raise failure(installer.name, output)
    listed: dict[str, list[dict[str, Any]]] = json.loads(pages.read_text(encoding="utf-8"))
    pages.unlink()
    return listed


def _with_files(settings: _Settings, listed: dict[str, list[dict[str, Any]]]) -> _Settings:
    """Return settings with the hosts of the files: an index may have them at another host than its pages."""
    origins = {entry["origin"] for files in listed.values() for entry in files}
    private = is_private(settings.hosts)
    others = (
        host
        for origin in sorted(origins)
        if origin.startswith("http")
        for host in _hosts(origin, private=private)
    )
    return settings._replace(hosts=tuple(dict.fromkeys((*settings.hosts, *others))))


def _package(entry: dict[str, Any], listed: dict[str, list[dict[str, Any]]]) -> LockedPackage:
    name, version = _normal(entry["metadata"]["name"]), entry["metadata"]["version"]
    archive = entry["download_info"].get("archive_info", {})
    chosen = archive.get("hashes", {}).get("sha256")
    if chosen is None:
        raise CannotInstallError(f"the package {name!r} does not come from an index")
    # The hashes for other platforms too, so that a lock that is made there is the same.
    hashes = {chosen} | {
        file["sha256"]
        for file in listed.get(name, ())
        if file["sha256"] and _wheel_of(file["file"]) == (name, version)
    }
    return LockedPackage(
        name=name, version=version, hashes=tuple(f"sha256:{digest}" for digest in sorted(hashes))
    )


def _wheel_of(file: str) -> tuple[str, str] | None:
    """Return the name and the version in the name of a wheel."""
    if not file.endswith(".whl"):
        return None
    name, version, *_ = [*file.split("-"), ""]
    return _normal(name), version


def _check_source(installer: Installer, folder: Path, settings: _Settings, output: Output) -> None:
    """Raise an error if pip has no wheel of a package that has a source distribution."""
    match = re.search(r"No matching distribution found for ([A-Za-z0-9._-]+)", output.text)
    if match is None:
        return
    name = _normal(match[1])
    files = _index_files(installer, folder, settings, [name]).get(name, [])
    if files and not any(entry["file"].endswith(".whl") for entry in files):
        raise _only_source(installer, name)


def _only_source(installer: Installer, name: str) -> CannotInstallError:
    return CannotInstallError(
        f"the packages of {installer.name} cannot be installed: {name!r} has only source distributions,"
        " whose code would run during the installation",
        hint=f"build its wheel yourself, after you have read it: pip wheel {name} --wheel-dir DIR; then "
        "pip config set global.find-links DIR",
    )


def _program(command: PackageCommand, folder: Path) -> str:
    name = package_name(command.requirements[0])
    program = command.program or name
    scripts = Path(VENV, "bin")
    if (folder / scripts / program).is_file() and program == Path(program).name:
        return str(scripts / program)
    own = _scripts(folder, name)
    if command.program is None and len(own) == 1:
        return str(scripts / own[0])
    raise CannotInstallError(
        f"the package {name!r} has no program {program!r}",
        hint=f"its programs are: {', '.join(own) or 'none'}; name one with --from or --spec",
    )


def _scripts(folder: Path, name: str) -> list[str]:
    """Return the names of the programs of a package, from its metadata (entry points specification)."""
    for file in (folder / VENV).glob("lib/python*/site-packages/*.dist-info/entry_points.txt"):
        if _normal(file.parent.name.partition("-")[0]) == _normal(name):
            section = ""
            names = []
            for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
                if line.startswith("["):
                    section = line.strip()
                elif section == "[console_scripts]" and "=" in line:
                    names.append(line.partition("=")[0].strip())
            return sorted(names)
    return []


def _normal(name: str) -> str:
    """Return a normalized package name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _settings(installer: Installer) -> _Settings:
    """Return the settings of the user's pip that the installation needs."""
    values = _configuration(installer)
    index = values.get("index-url") or values.get("default")
    extra = values.get("extra-index-url", "").split()
    links = values.get("find-links", "").split()
    options: list[str] = []
    indexes: list[str] = []
    hosts: list[str] = []
    files: list[Path] = []
    places = [("--index-url", index or ""), *(("--extra-index-url", url) for url in extra)]
    if values.get("no-index", "").lower() in {"1", "true", "yes", "on"}:
        options.append("--no-index")
        places = []
    for option, url in (*places, *(("--find-links", url) for url in links)):
        parts = urlsplit(url)
        if parts.scheme in {"http", "https"}:
            bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
            hosts += _hosts(bare)
            indexes += [url] if option != "--find-links" else []
        elif parts.scheme in {"", "file"}:
            place = Path(unquote(parts.path)).expanduser()
            if not place.is_absolute() or not place.exists():
                continue
            # The index of a mirror is the folder `simple`, and the packages are in other folders next to it.
            files.append(place.parent if place.name == "simple" else place)
        else:
            continue
        options += [option, url]
    for host in values.get("trusted-host", "").split():
        options += ["--trusted-host", host]
    if "cert" in values:
        options += ["--cert", values["cert"]]
        files.append(Path(values["cert"]))
    return _Settings(tuple(options), tuple(indexes), tuple(dict.fromkeys(hosts)), tuple(files))


def _configuration(installer: Installer) -> dict[str, str]:
    """Return the user's configuration of pip; ``default`` is the index that pip has without one."""
    listed = _pip_output(installer, "config", "list")
    values: dict[str, str] = {}
    # A variable wins over the section of a command, and that over `global`.
    for section in ("global", "install", ":env:"):
        for line in listed.splitlines():
            key, _, value = line.partition("=")
            at, _, name = key.rpartition(".")
            if at == section and value:
                values[name] = str(ast.literal_eval(value))
    # Each start of pip takes half a second, and the default counts only without another index.
    if not values.get("index-url"):
        described = _pip_output(installer, "install", "--help")
        match = re.search(r"\(default\s+(https?://\S+?)\)", described)
        if match is not None:
            values["default"] = match[1]
    return values


def _pip_output(installer: Installer, *words: str) -> str:
    """Return what our pip prints about itself."""
    try:
        output: subprocess.CompletedProcess[str] = programs.run(
            [*pip_command(), *words], capture_output=True, text=True, timeout=60
        )
    except OSError as error:
        raise CannotInstallError(
            f"the packages of {installer.name} cannot be installed: pip cannot be started: {error}"
        ) from None
    return output.stdout


def _hosts(url: str, *, private: bool = True) -> tuple[str, ...]:
    try:
        return registry_hosts(url, private=private)
    except CovaltError as error:
        raise CannotInstallError(
            f"an index of pip is not a URL: {error.message}", hint="pip config list"
        ) from None
