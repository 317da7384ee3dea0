"""Attacks that run other code than what was checked, granted, approved and recorded."""

import importlib.util
import itertools
import os
import py_compile
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.calls.engine import CallRequest
from covalt_git.catalog.catalog import BrokenToolsetError
from covalt_git.connections.pool import CONNECTIONS
from covalt_git.errors import CovaltError
from covalt_git.grants.grants import add_grant
from covalt_git.runtime.pool import shared
from covalt_git.runtime.python_tool import run
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.toolsets.toolset_copies import ToolsetChangedError, ToolsetCopy
from tests.calls.conftest import World, make_world
from tests.examples import examples
from tests.runtime.conftest import Workshop
from tests.taking_servers import take
from tests.trusting import use_config

SERVER = Path(__file__).parents[2] / "fixtures" / "servers" / "first_era.py"
WHO = "def who(workspace=None) -> str:\n    return {!r}\n"
TOOL = 'manifest_version: "1"\nid: {0}\nname: A\nversion: "1"\ntools: [{{id: who, entrypoint: "{1}"}}]\n'


def compiled(file: Path, source: str, cache: Path | None = None) -> Path:
    """Write bytecode of ``source`` that Python believes to be that of ``file``, unchecked."""
    other = file.with_name("other.py.txt")
    other.write_text(source, encoding="utf-8")
    target = cache or Path(importlib.util.cache_from_source(str(file)))
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(
        str(other), str(target), dfile=str(file), doraise=True, invalidation_mode=mode
    )
    other.unlink()
    return target


def who(world: World, toolset: str = "aim", **changes: Any) -> Any:
    project = world.project()
    with project.chats.open("c1") as chat:
        return project.engine().call(chat, CallRequest(f"{toolset}:who", {}, **changes))


@pytest.fixture
def aim(world: World) -> World:
    """A project with a tool that says who it is: ``checked``."""
    world.write("aim/toolset.yaml", TOOL.format("aim", "tools.a:who"))
    world.write("aim/tools/a.py", WHO.format("checked"))
    return world


def test_bytecode_next_to_the_source_is_not_run(aim: World) -> None:
    """An unchecked-hash .pyc in __pycache__ would win over the source that was reviewed."""
    digest = read_toolset(aim.root, "aim").digest
    compiled(aim.root / "toolsets/aim/tools/a.py", WHO.format("attacker"))

    outcome = who(aim)

    assert outcome.call.result == "checked"
    assert read_toolset(aim.root, "aim").digest == digest


@pytest.mark.parametrize("name", ["b.pyc", "b.pyo", "B.PYC", "deeper/b.pyc"])
def test_bytecode_without_source_is_a_problem(aim: World, name: str) -> None:
    """A .pyc file outside of __pycache__ is a module that cannot be reviewed."""
    source = aim.root / "toolsets/aim/tools/a.py"
    compiled(source, WHO.format("attacker"), aim.root / "toolsets/aim/tools" / name)

    with pytest.raises(BrokenToolsetError) as caught:
        who(aim)

    problem = caught.value.problems[0]
    assert (problem.code, problem.path) == ("CG305", f"toolsets/aim/tools/{name}")
    assert problem.hint == f"rm toolsets/aim/tools/{name}"


def test_a_tool_cannot_import_from_pycache(world: World) -> None:
    """The source that was reviewed imports a module from a folder that is in no digest."""
    world.write("aim/toolset.yaml", TOOL.format("aim", "tools.a:who"))
    # Of an import statement, `validate` reports that the module does not exist.
    imports = "import importlib\nb = importlib.import_module('tools.__pycache__.b')"
    world.write("aim/tools/a.py", f"{imports}\ndef who() -> str:\n    return b.who()\n")
    world.write("aim/tools/__pycache__/b.py", WHO.format("attacker"))

    outcome = who(world)

    assert outcome.error is not None
    assert outcome.error.code == "cannot_load"


@pytest.mark.parametrize("kind", ["file", "link", "folder of an entrypoint"])
def test_pycache_cannot_hold_code_of_a_toolset(aim: World, kind: str) -> None:
    """A file or link of that name, or a module in it, would be read and left out of the digest."""
    place = aim.root / "toolsets/aim/tools/__pycache__"
    if kind == "file":
        place.write_bytes(b"x")
    elif kind == "link":
        place.symlink_to("a.py")
    else:
        aim.write("aim/toolset.yaml", TOOL.format("aim", "tools.__pycache__.a:who"))
        aim.write("aim/tools/__pycache__/a.py", WHO.format("attacker"))

    with pytest.raises(BrokenToolsetError):
        who(aim)


@pytest.mark.parametrize("way", ["import", "program"])
def test_bytecode_in_the_workspace_is_not_run(world: World, way: str) -> None:
    """An earlier call leaves bytecode, ignored by every commit, next to a module of the workspace."""
    load = {
        "import": "sys.path.insert(0, str(workspace)); import helper; return helper.who()",
        "program": "return subprocess.run([sys.executable, '-c', 'import helper; print(helper.who())'],"
        " cwd=workspace, capture_output=True, text=True).stdout.strip()",
    }
    world.write("aim/toolset.yaml", TOOL.format("aim", "tools.a:who"))
    world.write(
        "aim/tools/a.py",
        f"import subprocess, sys\nfrom pathlib import Path\ndef who(workspace: Path) -> str:\n    {load[way]}\n",
    )
    helper = world.workspace / "helper.py"
    helper.write_text(WHO.format("checked"), encoding="utf-8")
    compiled(helper, WHO.format("attacker"))

    assert who(world).call.result == "checked"


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A project with a granted MCP program of two files."""
    use_config(monkeypatch, tmp_path / "config")
    world = make_world(tmp_path / "project")
    world.write(
        "aim/toolset.yaml",
        'manifest_version: "1"\nid: aim\nname: A\nversion: "1"\nmcp_servers:\n'
        f"  - {{id: served, command: {sys.executable}, args: [server/main.py, {tmp_path}/said],"
        " requires_confirmation: false}\n",
    )
    start = "import sys, helper\nopen(sys.argv[1], 'w').write(helper.who())\n"
    world.write("aim/server/main.py", start + SERVER.read_text(encoding="utf-8"))
    world.write("aim/server/helper.py", WHO.format("checked"))
    yield world
    CONNECTIONS.close()


def test_a_granted_program_runs_no_bytecode(served: World, tmp_path: Path) -> None:
    """Bytecode next to a helper of a granted MCP program would run outside the sandbox."""
    add_grant(served.root, "aim", "process", "served", by="me")
    take(served.root, "aim", "served")
    compiled(served.root / "toolsets/aim/server/helper.py", WHO.format("attacker"))

    project = served.project()
    with project.chats.open("c1") as chat:
        outcome = project.engine().call(chat, CallRequest("served:add", {"a": 1, "b": 1}))

    assert outcome.error is None
    assert (tmp_path / "said").read_text(encoding="utf-8") == "checked"


@pytest.mark.parametrize("name", ["node", "npx"])
def test_a_granted_program_loads_nothing_of_the_folders_above(
    world: World, tmp_path: Path, name: str
) -> None:
    """node and npx look for packages and programs in every folder above, where a pull can add them to the project."""
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    canary = tmp_path / "it-ran"
    start = {"node": "args: [server.js]", "npx": "args: [--no-install, helper], cwd: ."}[name]
    world.write(
        "aim/toolset.yaml",
        'manifest_version: "1"\nid: aim\nname: A\nversion: "1"\nmcp_servers:\n'
        f"  - {{id: served, command: {name}, {start}, requires_confirmation: false}}\n",
    )
    world.write("aim/server.js", "try { require('helper') } catch {}\n")
    add_grant(world.root, "aim", "process", "served", by="me")
    for folder in (world.root, world.root / "data"):
        (folder / "node_modules/.bin").mkdir(parents=True)
        (folder / "node_modules/helper").mkdir()
        module = f"require('fs').writeFileSync({str(canary)!r}, '')\n"
        (folder / "node_modules/helper/index.js").write_text(module, encoding="utf-8")
        program = folder / "node_modules/.bin/helper"
        program.write_text(f"#!/bin/sh\ntouch {canary}\n", encoding="utf-8")
        program.chmod(0o755)

    with pytest.raises(CovaltError):  # it answers nothing
        take(world.root, "aim", "served")
    CONNECTIONS.close()

    assert not canary.exists()


def test_files_swapped_between_check_and_run_never_run_under_the_old_digest(aim: World) -> None:
    """An editor, a checkout or an update swaps a file after it was hashed, before it is imported."""
    file = aim.root / "toolsets/aim/tools/a.py"
    sources = [WHO.format("A"), WHO.format("B")]
    digests = {}
    for mark, source in zip("AB", sources, strict=True):
        file.write_text(source, encoding="utf-8")
        digests[mark] = read_toolset(aim.root, "aim").digest
    stop = threading.Event()

    def swap() -> None:
        other = aim.root / "other.py"
        for turn in itertools.cycle((0, 1)):
            other.write_text(sources[turn], encoding="utf-8")
            other.replace(file)
            if stop.wait(0.003):
                return

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for _ in range(16):
            with suppress(ToolsetChangedError):  # then nothing ran
                who(aim)
    finally:
        stop.set()
        swapper.join()

    calls = [manifest.record.call for manifest in aim.log()]
    ran = [(call.result, call.toolset.digest) for call in calls if call and call.error is None]
    assert set(ran) == set(digests.items())


def test_a_copy_that_was_altered_is_written_again(aim: World) -> None:
    """Another program of the user's changes, adds or removes a file of the copy that tools run from."""
    copy = ToolsetCopy.of(read_toolset(aim.root, "aim"))
    changes: list[Callable[[Path], object]] = [
        lambda folder: (folder / "tools/a.py").write_text(WHO.format("attacker"), encoding="utf-8"),
        lambda folder: (folder / "tools/b.py").write_text("x", encoding="utf-8"),
        lambda folder: (folder / "tools/a.py").unlink(),
        lambda folder: (folder / "tools/a.py").chmod(0o755),
        lambda folder: (folder / "link").symlink_to("/etc"),
    ]
    for change in changes:
        copy.make()
        for path in (copy.folder, copy.folder / "tools", copy.folder / "tools/a.py"):
            path.chmod(0o755)
        change(copy.folder)
        held = copy.hold()
        held.close()
        assert visible(copy.folder) == visible(copy.source)
    shared().end_idle()
    assert who(aim).call.result == "checked"


def visible(folder: Path) -> dict[str, tuple[bytes, bool]]:
    """Return what a program could read below a folder of files, and may execute."""
    return {
        str(path.relative_to(folder)): (
            path.read_bytes(),
            os.access(path, os.X_OK) and bool(path.stat().st_mode & 0o100),
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


NAMES = st.sampled_from(["a.py", "b.txt", "__pycache__", "x.pyc", "lib", "__init__.py", "c.so"])
TREES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=3).map("/".join),
    st.tuples(st.binary(max_size=4), st.booleans()),
    max_size=5,
)
LIST = """\
import os
from pathlib import Path

def run() -> dict:
    top = Path(__file__).parents[1]
    files = [path for path in sorted(top.rglob("*")) if not path.is_dir()]
    return {str(path.relative_to(top)): [path.read_bytes().hex(), bool(path.stat().st_mode & 0o100)] for path in files}
"""


def put(folder: Path, tree: dict[str, tuple[bytes, bool]]) -> None:
    folder.mkdir()
    (folder / "tools").mkdir()
    (folder / "tools/listing.py").write_text(LIST, encoding="utf-8")
    for path, (content, executable) in tree.items():
        file = folder / path
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        except OSError:  # another path took the name for a file, or a folder
            continue
        file.chmod(0o755 if executable else 0o644)


@given(one=TREES, other=TREES)
@settings(max_examples=examples(10), deadline=None)
def test_equal_digests_are_equal_bytes_in_the_sandbox(
    tmp_path_factory: pytest.TempPathFactory, one: dict[str, Any], other: dict[str, Any]
) -> None:
    """The law: what a tool can read of its toolset and the digest determine each other."""
    place = tmp_path_factory.mktemp("law")
    (place / "workspace").mkdir()
    seen = []
    for name, tree in (("one", one), ("other", {**one, **other})):
        put(place / name, tree)
        shop = Workshop(place / name, place / "workspace", place, shared())
        outcome = run(shop.job("tools.listing:run"))
        assert outcome.error is None
        listed = {
            path: (bytes.fromhex(text), mode) for path, (text, mode) in outcome.result.items()
        }
        assert listed.keys() == {file.path for file in shop.copy().files}
        seen.append((shop.copy().digest, listed))
    (first, first_seen), (second, second_seen) = seen
    assert (first == second) == (first_seen == second_seen)
