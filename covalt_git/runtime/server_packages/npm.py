"""Packages of npm: a tree of ``package-lock.json`` (lockfile version 3), installed by ``npm ci --ignore-scripts``.

npm reads the user's settings here only through a file of our own: the URL of the registries, the credentials
of these registries, and the certificates.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.models.sources.package_command import package_name
from covalt_git.models.sources.tool_lock import NO_DIGEST, LockedPackage, LockedPackages
from covalt_git.runtime.environments import CannotInstallError
from covalt_git.runtime.server_packages.steps import Output, failure, registry_hosts
from covalt_git.system import programs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.models.sources.package_command import PackageCommand
    from covalt_git.runtime.server_packages.steps import Installer

_NEEDED: Final = (
    "name",
    "dependencies",
    "optionalDependencies",
    "peerDependencies",
    "peerDependenciesMeta",
    "bin",
    "dev",
    "devOptional",
    "optional",
    "peer",
    "inBundle",
    "os",
    "cpu",
    "libc",
)
"""Keys of a package in ``package-lock.json``, without which npm would not install the same tree."""

_OPTIONS = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-progress", "--loglevel=error")
_OURS = ("package.json", "package-lock.json", "npmrc", ".cache")
_CREDENTIAL = re.compile(
    r"(//\S+?)/?:(_authToken|_auth|username|_password|certfile|keyfile)\s*=\s*(.*)"
)


class _Settings(NamedTuple):
    """Settings of npm for the installation: lines of its file, hosts, and files of certificates."""

    lines: tuple[str, ...]
    hosts: tuple[str, ...]
    files: tuple[Path, ...]


def resolve(
    command: PackageCommand, installer: Installer, folder: Path, previous: LockedPackages | None
) -> LockedPackages:
    """Resolve the packages of a command, install them in ``folder``, and return them.

    If they are those of ``previous``, which are installed, nothing is installed, and ``previous`` is returned.

    Raises:
        CannotInstallError: if npm fails, or a package does not come from a registry.
    """
    settings = _settings(installer)
    installer.report(f"resolving {', '.join(command.requirements)}")
    _write_manifest(folder, _dependencies(command.requirements))
    _npm(installer, folder, settings, "install", "--package-lock-only")
    lock = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))
    places = {place: facts for place, facts in lock["packages"].items() if place}
    packages = {place: _package(place, facts) for place, facts in sorted(places.items())}
    program = LockedPackages(
        digest=NO_DIGEST,
        kind="npm",
        requirements=command.requirements,
        program="",
        packages=packages,
    )
    if previous is not None and program.same_packages(previous):
        return previous
    _install(program, installer, folder, settings)
    return program.model_copy(update={"program": _program(command, folder)})


def install(program: LockedPackages, installer: Installer, folder: Path) -> None:
    """Install the packages of a lock in ``folder``.

    Raises:
        CannotInstallError: if npm fails, such as for other bytes than those of the lock.
    """
    _install(program, installer, folder, _settings(installer))


def _install(
    program: LockedPackages, installer: Installer, folder: Path, settings: _Settings
) -> None:
    installer.report(f"installing {len(program.packages)} packages of npm")
    # By their versions: npm compares a tag, such as latest, with what the registry has now.
    names = map(package_name, program.requirements)
    exact = {name: program.packages[f"node_modules/{name}"].version for name in names}
    _write_manifest(folder, exact)
    root = {"dependencies": exact}
    packages: dict[str, Any] = {"": root}
    for place, package in program.packages.items():
        facts: dict[str, Any] = {"version": package.version, **package.npm}
        if package.hashes:
            facts["integrity"] = " ".join(package.hashes)
        if package.install_script:
            facts["hasInstallScript"] = True
        packages[place] = facts
    lock = {"name": "server", "lockfileVersion": 3, "requires": True, "packages": packages}
    (folder / "package-lock.json").write_text(json.dumps(lock), encoding="utf-8")
    _npm(installer, folder, settings, "ci")
    for name in _OURS:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    # npm's own list of what it installed, with the addresses.
    (folder / "node_modules" / ".package-lock.json").unlink(missing_ok=True)


def start(program: LockedPackages, folder: Path) -> tuple[str, ...]:
    """Return the beginning of the command that starts the program."""
    path = folder / program.program
    with path.open("rb") as file:
        first = file.readline(256)
    is_node = not first.startswith(b"#!") or b"node" in first
    return ("node", str(path)) if is_node and path.suffix != ".exe" else (str(path),)


def _npm(installer: Installer, folder: Path, settings: _Settings, *arguments: str) -> None:
    file = folder / "npmrc"
    file.touch(0o600)
    cache = f"cache={folder / '.cache'}"
    file.write_text("\n".join((*settings.lines, cache, "")), encoding="utf-8")
    env = {"npm_config_userconfig": str(file), "npm_config_globalconfig": os.devnull}
    argv = ["npm", *arguments, *_OPTIONS]
    output = installer.run(argv, folder, settings.hosts, env=env, readable=settings.files)
    if not output.succeeded:
        raise failure(installer.name, output)


def _write_manifest(folder: Path, dependencies: dict[str, str]) -> None:
    manifest = {
        "name": "server",
        "version": "0.0.0",
        "private": True,
        "dependencies": dependencies,
    }
    (folder / "package.json").write_text(json.dumps(manifest), encoding="utf-8")


def _dependencies(requirements: tuple[str, ...]) -> dict[str, str]:
    names = {package_name(text): text for text in requirements}
    return {
        name: text.removeprefix(name).removeprefix("@") or "latest" for name, text in names.items()
    }


def _package(place: str, facts: dict[str, Any]) -> LockedPackage:
    name = facts.get("name") or place.rpartition("node_modules/")[2]
    bundled = bool(facts.get("inBundle"))
    if facts.get("link") or "resolved" in facts or not (bundled or facts.get("integrity")):
        raise CannotInstallError(
            f"the package {name!r} does not come from a registry, so it cannot be pinned",
            hint="choose a version of the package whose dependencies all come from a registry",
        )
    return LockedPackage(
        name=name,
        version=facts["version"],
        hashes=tuple(facts.get("integrity", "").split()),
        install_script=bool(facts.get("hasInstallScript")),
        npm={key: facts[key] for key in _NEEDED if key in facts},
    )


def _program(command: PackageCommand, folder: Path) -> str:
    """Return the path of the program, by the rule of npx: its name, that of the package, or the only program."""
    name = package_name(command.requirements[0])
    programs_by_name: dict[str, str] = {}
    for requirement in command.requirements:
        place = Path("node_modules") / package_name(requirement)
        manifest = json.loads((folder / place / "package.json").read_text(encoding="utf-8"))
        bin_of = manifest.get("bin") or {}
        own = package_name(requirement).rpartition("/")[2]
        listed = {own: bin_of} if isinstance(bin_of, str) else bin_of
        for key, path in listed.items():
            programs_by_name.setdefault(key, os.path.normpath(place / path))
    program = command.program or name.rpartition("/")[2]
    if program in programs_by_name:
        return programs_by_name[program]
    if command.program is None and len(set(programs_by_name.values())) == 1:
        return next(iter(programs_by_name.values()))
    raise CannotInstallError(
        f"the package {name!r} has no program {program!r}",
        hint=f"its programs are: {', '.join(sorted(programs_by_name)) or 'none'}; name one with --package",
    )


def _settings(installer: Installer) -> _Settings:
    """Return the settings of the user's npm that the installation needs.

    Raises:
        CannotInstallError: if npm is not installed.
    """
    try:
        listed = programs.run(
            ["npm", "config", "list", "--json"], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotInstallError(
            f"the packages of {installer.name} cannot be installed: npm cannot be started: {error}",
            hint="install Node.js with npm",
        ) from None
    if listed.returncode:
        raise failure(installer.name, Output(listed.stderr, succeeded=False))
    values = json.loads(listed.stdout)
    registries = {
        key: value
        for key, value in values.items()
        if isinstance(value, str) and (key == "registry" or key.endswith(":registry"))
    }
    lines = [f"{key}={value}" for key, value in registries.items()]
    lines += [f"{key}={json.dumps(values[key])}" for key in ("strict-ssl",) if key in values]
    files = []
    if isinstance(values.get("cafile"), str):
        lines.append(f"cafile={values['cafile']}")
        files.append(Path(values["cafile"]))
    lines += ["omit-lockfile-registry-resolved=true", "update-notifier=false", "fetch-retries=1"]
    prefixes = tuple(value.partition(":")[2].rstrip("/") for value in registries.values())
    for url, key, value in _credentials(values):
        if any(prefix.startswith(url) or url.startswith(prefix) for prefix in prefixes):
            lines.append(f"{url}/:{key}={value}")
            if key in {"certfile", "keyfile"}:
                files.append(Path(value))
    return _Settings(
        tuple(lines),
        tuple(dict.fromkeys(host for url in registries.values() for host in _hosts(url))),
        tuple(files),
    )


def _hosts(url: str) -> tuple[str, ...]:
    try:
        return registry_hosts(url)
    except CovaltError as error:
        raise CannotInstallError(
            f"the registry of npm is not a URL: {error.message}", hint="npm config get registry"
        ) from None


def _credentials(values: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the credentials of the user's npm: URL without its scheme, key and value; npm lists none of them."""
    lines = [
        f"{key[11:]}={value}"
        for key, value in os.environ.items()
        if key.lower().startswith("npm_config_//")
    ]
    for key in ("globalconfig", "userconfig"):
        file = Path(str(values.get(key)))
        if file.is_file():
            lines += file.read_text(encoding="utf-8", errors="replace").splitlines()
    for line in lines:
        match = _CREDENTIAL.fullmatch(line.strip())
        if match is not None:
            value = re.sub(r"\$\{(\w+)\}", lambda name: os.environ.get(name[1], name[0]), match[3])
            yield match[1], match[2], value.strip().strip("\"'")
