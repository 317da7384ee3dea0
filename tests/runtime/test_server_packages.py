"""Packages of MCP servers: pinned by hashes, installed once in the sandbox, and read-only afterwards."""

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from covalt_git.models.sources.package_command import package_command
from covalt_git.models.sources.tool_lock import LockedPackages
from covalt_git.models.toolset_manifest import McpServer
from covalt_git.runtime import sandbox_levels
from covalt_git.runtime.environments import CannotInstallError
from covalt_git.runtime.sandbox_levels import SandboxNeededError
from covalt_git.runtime.server_packages import cache, npm
from covalt_git.runtime.server_packages.steps import Installer
from covalt_git.system import file_lock
from covalt_git.system.remove_tree import remove_tree
from tests.package_registry import Registry, used_registry

npm_is_here = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")


def left_to_rest(command: str) -> Any:
    """Return a parameter for the other of two installers: npm and pip take seconds for each step of a test."""
    return pytest.param(command, marks=[npm_is_here, pytest.mark.rest])


class Copy:
    """A copy of a toolset without files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def hold(self) -> Any:
        return self

    def close(self) -> None:
        pass


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    if sandbox_levels.level() != "full":
        pytest.skip("packages are installed in the sandbox level full")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with used_registry(monkeypatch) as registry:
        yield registry


@pytest.fixture
def installer(tmp_path: Path) -> Installer:
    folder = tmp_path / "toolset"
    folder.mkdir()
    return Installer("gear/said", Copy(folder))  # type: ignore[arg-type]


def resolved(installer: Installer, command: str, *args: str) -> LockedPackages:
    declared = package_command(McpServer(id="said", command=command, args=args))
    assert declared is not None
    return cache.resolve(declared, installer)


def with_words(registry: Registry, says: str = "one") -> None:
    """Add the package ``said`` to the index, whose program prints a word of its dependency."""
    registry.wheel("words", "1.0", {"words.py": f"WORD = {says!r}\n"})
    program = "def main():\n    from words import WORD\n    print(WORD)\n"
    registry.wheel("said", "1.0", {"said.py": program}, needs="words", program="said = said:main")


def printed(program: LockedPackages, installer: Installer) -> str:
    argv = cache.installed(program, installer).argv
    return subprocess.run(argv, capture_output=True, text=True, check=True, input="").stdout


def unregistered(name: str) -> LockedPackages:
    """Return the lock of a package that no registry has."""
    return LockedPackages(
        kind="pypi",
        requirements=(name,),
        program=f"bin/{name}",
        packages={},
        digest="sha256:" + "0" * 64,
    ).pinned()


def put_installation(program: LockedPackages) -> None:
    """Put the file of a program where its packages are installed."""
    file = cache._target(program) / "bin" / "said"
    file.parent.mkdir(parents=True)
    file.write_text("said")


def left_over() -> list[str]:
    return [path.name for path in cache.cache_folder().iterdir() if path.name.startswith(".")]


@npm_is_here
def test_packages_of_npm_are_pinned_by_hash_and_none_of_their_code_runs(
    registry: Registry, installer: Installer, tmp_path: Path
) -> None:
    canary = tmp_path / "it-ran"
    registry.node("words", "1.0.0", {"index.js": "module.exports = 'one'"})
    registry.node(
        "said",
        "1.0.0",
        {"cli.js": "console.log(require('words'))"},
        bin="cli.js",
        scripts={"postinstall": f"touch {canary}", "preinstall": f"touch {canary}"},
        dependencies={"words": "^1.0.0"},
    )

    program = resolved(installer, "npx", "-y", "said")

    assert printed(program, installer) == "one\n"
    assert not canary.exists()
    rows = program.packages
    assert {place: row.version for place, row in rows.items()} == {
        "node_modules/said": "1.0.0",
        "node_modules/words": "1.0.0",
    }
    assert all(row.hashes[0].startswith("sha512-") for row in rows.values())
    assert rows["node_modules/said"].install_script
    assert not rows["node_modules/words"].install_script
    assert "127.0.0.1" not in program.model_dump_json()
    assert program.files == 4
    folder = cache.installed(program, installer).folder
    assert not [
        path for path in folder.rglob("*") if path.lstat().st_mode & 0o222 and not path.is_symlink()
    ]


def test_packages_of_pypi_are_wheels_with_the_hashes_of_all_platforms(
    registry: Registry, installer: Installer
) -> None:
    with_words(registry)
    registry.file("words", "words-1.0-cp311-cp311-win_amd64.whl", b"another platform's")
    (cache.cache_folder() / ".new-killed").mkdir(parents=True)  # of a killed process

    program = resolved(installer, "uvx", "said")

    assert printed(program, installer) == "one\n"
    assert set(program.packages) == {"said", "words"}
    assert len(program.packages["words"].hashes) == 2
    assert left_over() == []
    assert program.program == "venv/bin/said"
    assert "127.0.0.1" not in program.model_dump_json()


@pytest.mark.rest  # tests/models has what each command declares
@pytest.mark.parametrize(
    ("command", "other"),
    [
        pytest.param(["npx", "-y", "said"], ["npx", "-y", "said@1"], marks=npm_is_here),
        (["uvx", "said"], ["pipx", "run", "--spec", "said==1.0", "said"]),
    ],
)
def test_commands_that_declare_the_same_packages_have_the_same_lock(
    registry: Registry, installer: Installer, command: list[str], other: list[str]
) -> None:
    registry.node_server("1.0.0")
    with_words(registry)

    assert resolved(installer, *other).packages == resolved(installer, *command).packages


def test_a_source_distribution_is_refused_with_a_hint(
    registry: Registry, installer: Installer
) -> None:
    registry.file("said", "said-1.0.tar.gz", b"setup.py would run")
    registry.file("words", "words-1.0.tar.gz", b"setup.py would run")
    registry.wheel("needs-words", "1.0", {}, needs="words")

    for name in ("said", "needs-words"):
        with pytest.raises(CannotInstallError, match="has only source distributions") as caught:
            resolved(installer, "uvx", name)
        assert "pip wheel" in (caught.value.hint or "")
    assert left_over() == []


@pytest.mark.rest
@pytest.mark.parametrize("command", ["uvx", left_to_rest("npx")])
def test_a_deleted_cache_is_installed_again_with_the_same_hashes_or_not_at_all(
    registry: Registry, installer: Installer, command: str
) -> None:
    registry.node_server("1.0.0")
    with_words(registry)
    program = resolved(installer, command, "said")
    folder = cache.installed(program, installer).folder

    remove_tree(folder)
    assert cache.installed(program, installer).folder == folder
    assert folder.is_dir()
    remove_tree(folder)
    registry.node_server("1.0.0", says="other")
    with_words(registry, "other")

    with pytest.raises(CannotInstallError, match="other bytes than the pinned hashes"):
        cache.installed(program, installer)
    assert not folder.exists()
    assert left_over() == []


@pytest.mark.rest
@npm_is_here
@pytest.mark.parametrize("runner", ["npx", left_to_rest("uvx")])
def test_packages_that_are_still_the_newest_are_not_installed_again(
    registry: Registry, installer: Installer, runner: str
) -> None:
    lines: list[str] = []
    said = McpServer(id="said", command=runner, args=("said",))
    command = package_command(said)
    assert command is not None
    registry.node_server("1.0.0")
    with_words(registry)
    reporting = installer._replace(report=lines.append)
    previous = cache.resolve(command, reporting)
    assert any("installing" in line for line in lines)
    lines.clear()

    assert cache.resolve(command, reporting, previous) == previous
    assert not any("installing" in line for line in lines)
    # Another start file, as a pull can write it into the lock, is not that of the packages.
    pulled = previous.model_copy(update={"program": "other"}).pinned()
    assert cache.resolve(command, reporting, pulled) == previous

    registry.node_server("1.1.0")
    registry.wheel("words", "1.1", {"words.py": "WORD = 'two'\n"})
    assert cache.resolve(command, reporting, previous).packages != previous.packages


@pytest.mark.rest
@npm_is_here
def test_files_that_changed_in_the_cache_are_installed_again(
    registry: Registry, installer: Installer
) -> None:
    registry.node_server("1.0.0")
    program = resolved(installer, "npx", "said")
    folder = cache.installed(program, installer).folder
    file = folder / "node_modules/words/index.js"
    before = file.stat()
    file.chmod(0o644)
    file.write_text(file.read_text(encoding="utf-8").replace("one", "two"), encoding="utf-8")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    file.chmod(0o444)

    cache.check(program, installer)

    assert "one" in file.read_text(encoding="utf-8")
    # Another time of the same content, as after a restored backup, needs no registry.
    file.chmod(0o444)
    os.utime(file)
    seen = len(registry.requests)
    cache.check(program, installer)
    assert len(registry.requests) == seen


@pytest.mark.rest
@npm_is_here
def test_two_installations_at_once_make_one(registry: Registry, installer: Installer) -> None:
    registry.node_server("1.0.0")
    program = resolved(installer, "npx", "said")
    folder = cache.installed(program, installer).folder
    remove_tree(folder)
    seen = len(registry.requests)
    reports: list[str] = []
    waiting = installer._replace(report=reports.append)
    threads = [threading.Thread(target=cache.installed, args=(program, waiting)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert folder.is_dir()
    archives = [path for path, _ in registry.requests[seen:] if path.endswith(".tgz")]
    assert len(archives) == len(set(archives))
    assert "waiting for another installation of the same" in reports
    assert left_over() == []


@pytest.mark.rest
@npm_is_here
def test_a_full_disk_leaves_nothing_half_installed(
    registry: Registry, installer: Installer, tmp_path: Path
) -> None:
    registry.node("said", "1.0.0", {"cli.js": "//" + "x" * (2 << 20)}, bin="cli.js")
    small = tmp_path / "cache"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root mounts a small disk")
    try:
        with pytest.raises(CannotInstallError, match="the disk is full") as caught:
            resolved(installer, "npx", "said")
        assert "make room" in (caught.value.hint or "")
        assert left_over() == []
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.rest
@pytest.mark.parametrize("command", ["uvx", left_to_rest("npx")])
def test_a_registry_that_does_not_answer_and_a_package_that_it_lacks_are_named(
    registry: Registry, installer: Installer, command: str
) -> None:
    registry.node("said", "1.0.0", {"cli.js": ""}, bin="cli.js")
    registry.wheel("said", "1.0", {"said.py": ""}, program="said = said:main")
    version = "said@9" if command == "npx" else "said==9"
    for name, others in (("missing", "missing"), (version, version)):
        with pytest.raises(CannotInstallError, match=f"does not have it: .*{others}") as caught:
            resolved(installer, command, name)
        hint = caught.value.hint or ""
        assert ("PyPI" in hint, "npm view" in hint) == (command == "uvx", command == "npx")
    if command == "uvx":
        assert "newest versions: 1.0" in caught.value.message
    registry.server.shutdown()
    registry.server.server_close()
    with pytest.raises(CannotInstallError, match="the registry cannot be reached"):
        resolved(installer, command, "said")


@pytest.mark.rest
def test_a_package_for_another_python_is_named_as_such(
    registry: Registry, installer: Installer
) -> None:
    registry.wheel("said", "1.0", {"said.py": ""}, program="said = said:main", python=">=99")

    with pytest.raises(CannotInstallError, match=r"it is for another Python: .*>=99") as caught:
        resolved(installer, "uvx", "said")
    assert "--python" in (caught.value.hint or "")


@pytest.mark.usefixtures("registry")
def test_the_hint_on_a_machine_without_npm_says_what_to_install(
    installer: Installer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(CannotInstallError) as caught:
        resolved(installer, "npx", "said")

    assert caught.value.hint == "install Node.js with npm"


@npm_is_here
def test_an_installation_has_the_credentials_of_its_registry_only(
    registry: Registry, installer: Installer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.node_server("1.0.0")
    settings = tmp_path / "npmrc"
    host = registry.url.partition(":")[2]
    settings.write_text(
        f"{host}/npm/:_authToken=${{OWN_TOKEN}}\n//other.example/:_authToken=secret-of-another\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("npm_config_userconfig", str(settings))
    monkeypatch.setenv("OWN_TOKEN", "secret-of-this")
    monkeypatch.setenv("UNRELATED", "secret-of-the-user")
    seen: dict[str, str] = {}
    run = Installer.run

    def spy(self: Installer, argv: Any, folder: Path, *args: Any, **options: Any) -> Any:
        seen.update(options["env"], npmrc=(folder / "npmrc").read_text(encoding="utf-8"))
        return run(self, argv, folder, *args, **options)

    monkeypatch.setattr(Installer, "run", spy)
    program = resolved(installer, "npx", "said")

    assert {sent for _, sent in registry.requests} == {"Bearer secret-of-this"}
    assert "secret-of-another" not in json.dumps(seen)
    assert "secret-of-the-user" not in json.dumps(seen)
    folder = cache.installed(program, installer).folder
    assert not list(folder.rglob("npmrc"))


@npm_is_here
def test_a_dependency_from_an_address_is_refused(registry: Registry, installer: Installer) -> None:
    path = registry.node("words", "1.0.0", {"index.js": ""})
    registry.node(
        "said", "1.0.0", {"cli.js": ""}, bin="cli.js", dependencies={"words": registry.url + path}
    )

    with pytest.raises(CannotInstallError, match="does not come from a registry"):
        resolved(installer, "npx", "said")


def test_a_machine_without_the_level_full_installs_only_with_the_grant_without_a_sandbox(
    registry: Registry, installer: Installer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_words(registry)
    monkeypatch.setattr(sandbox_levels, "level", lambda: "landlock")
    with pytest.raises(SandboxNeededError):
        resolved(installer, "uvx", "said")

    program = resolved(installer._replace(unsandboxed=True), "uvx", "said")

    assert printed(program, installer) == "one\n"


def test_an_installation_reaches_nothing_but_its_registry(
    registry: Registry, installer: Installer, tmp_path: Path
) -> None:
    private = tmp_path / "private"
    private.write_text("secret", encoding="utf-8")
    folder = tmp_path / "work"
    folder.mkdir()
    probe = (
        "import socket, sys, urllib.request\n"
        "from pathlib import Path\n"
        f"print(Path({str(private)!r}).exists())\n"
        f"print(urllib.request.urlopen({registry.url!r} + '/simple/words/').status)\n"
        "try: urllib.request.urlopen('http://127.0.0.1:9/')\n"
        "except OSError as error: print(error)\n"
    )
    with_words(registry)
    rule = registry.url.partition("://")[2]

    output = installer.run([sys.executable, "-I", "-c", probe], folder, [rule], env={})

    assert output.text.splitlines() == ["False", "200", "HTTP Error 403: egress_refused"]


def test_the_program_of_an_installation_is_a_file_of_its_packages(
    installer: Installer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = unregistered("said")
    put_installation(program)
    (cache.cache_folder().parent / "other").write_text("of another program")

    assert cache.installed(program, installer).folder == cache._target(program)
    for escaped in ("../../../../../../../../bin/sh", "../../other", "missing"):
        other = program.model_copy(update={"program": escaped}).pinned()
        put_installation(other)
        with pytest.raises(CannotInstallError, match="have no file"):
            cache.installed(other, installer)


def test_an_installation_of_which_a_file_changed_is_not_that_which_was_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    target = cache._target(unregistered("said"))
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "said").write_text("one")
    target.parent.mkdir(parents=True)
    cache._publish(tmp_path / "new", target)
    file = target / "said"
    before = file.stat()
    assert cache._is_intact(target)

    os.utime(file)  # as after a restored backup
    assert cache._is_intact(target)
    file.chmod(0o644)
    file.write_text("two")
    file.chmod(stat.S_IMODE(before.st_mode))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not cache._is_intact(target)


def test_an_installation_is_removed_if_no_lock_has_it_and_nothing_runs_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    locked, used, unused = (unregistered(name) for name in ("locked", "used", "unused"))
    for program in (locked, used, unused):
        put_installation(program)

    assert cache.remove_unused([locked], unused_s=60).installations == 0  # they are new
    with file_lock.held(cache._target(used).with_suffix(cache._USED), create=True, shared=True):
        removed = cache.remove_unused([locked], unused_s=-60)

    assert (removed.installations, removed.size > 0) == (1, True)
    assert [cache._target(one).is_dir() for one in (locked, used, unused)] == [True, True, False]


@pytest.mark.rest
def test_the_program_of_a_lock_is_a_file_of_its_packages(
    registry: Registry, installer: Installer
) -> None:
    with_words(registry)
    program = resolved(installer, "uvx", "said")
    escaped = program.model_copy(update={"program": "../../../../bin/sh"}).pinned()

    with pytest.raises(CannotInstallError, match="have no file"):
        cache.installed(escaped, installer)


def test_npm_prefers_the_program_with_the_name_of_the_package(tmp_path: Path) -> None:
    place = tmp_path / "node_modules/@m/said"
    place.mkdir(parents=True)
    manifest = {"bin": {"other": "o.js", "said": "./s.js"}}
    (place / "package.json").write_text(json.dumps(manifest), encoding="utf-8")

    def program(*args: str) -> str:
        command = package_command(McpServer(id="s", command="npx", args=args))
        assert command is not None
        return npm._program(command, tmp_path)

    assert program("@m/said") == "node_modules/@m/said/s.js"
    assert program("-p", "@m/said", "other") == "node_modules/@m/said/o.js"
    with pytest.raises(CannotInstallError, match="has no program 'third'"):
        program("-p", "@m/said", "third")
