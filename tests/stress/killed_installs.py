"""Whoever is killed while a toolset comes, changes or goes leaves it as it was, or as it should be."""

from __future__ import annotations

import re
import shutil
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.grants.grants import grant_network, grant_process, grant_secret, revoke, revoke_all
from covalt_git.installs.importing import import_toolset
from covalt_git.installs.uninstall import uninstall
from covalt_git.installs.updating import update
from covalt_git.toolsets import update_lock
from covalt_git.toolsets.overrides import override_tool
from covalt_git.toolsets.state_store import set_enabled
from covalt_git.toolsets.toolset import read_toolset
from tests import command
from tests.killing import killed_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.stress.figures import Proof

PROMISE = (
    "If an import, an update, a change of the state or an uninstall is killed at any step, the "
    "toolset is as before or as after it, and the next command works."
)
COUNT = 100_000
"""The most kills of one kind; each kind ends where there is no step left to be killed at."""

_MANIFEST = """\
id: demo
name: Demo
version: "VERSION"
secrets: [A_KEY]
tools:
  - {id: run, entrypoint: "tools.a:run"}
  - {id: web, http: {url: "https://a.example/", headers: {A: "${A_KEY}"}}}
mcp_servers:
  - {id: helper, command: helper, args: [--fast]}
"""
_TOOL = 'def run() -> str:\n    """Run VERSION."""\n    return "x"\n\n\n# the end\n'
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+Z")

_Look = list[tuple[str, str]]


def _import(root: Path) -> None:
    import_toolset(root, root.parent / "1")


def _update(root: Path, *, force: bool = False) -> None:
    update(root, "demo", root.parent / "2", force=force)


KINDS: dict[str, tuple[bool, Callable[[Path], object]]] = {
    "import": (False, _import),
    "import over one": (True, lambda root: import_toolset(root, root.parent / "2")),
    "update": (True, _update),
    "update where folders cannot be exchanged": (True, _update),
    "update by force": (True, partial(_update, force=True)),
    "enable": (True, lambda root: set_enabled(root, "demo", enabled=True)),
    "override": (True, lambda root: override_tool(root, "demo:run", {"name_override": "Mine"})),
    "grant of a host": (True, lambda root: grant_network(root, "demo", ["b.example"], by="x")),
    "grant of a secret": (
        True,
        lambda root: grant_secret(root, "demo", "A_KEY", ["a.example"], by="x"),
    ),
    "revoke of one": (True, lambda root: revoke(root, "demo", "network")),
    "revoke of all": (True, lambda root: revoke_all(root, "demo")),
    "uninstall": (True, lambda root: uninstall(root, "demo", force=True)),
}
"""Each with whether the toolset is there before."""


def prove(proof: Proof, count: int, seed: int) -> None:  # noqa: ARG001 - nothing is drawn by lot
    """Kill every kind of change at every step, one step after another."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for version in ("1", "2"):
            _write_toolset(folder / version, version)
        for kind, (there, action) in KINDS.items():
            saved = folder / "saved"
            _make_project(saved / "project", folder, there=there)
            with _exchanging(at_once="cannot" not in kind):
                kills = _killed_at_every_step(proof, kind, action, saved, folder, count)
            proof.check(kills, f"{kind}: nothing was killed")
            proof.note(f"{kind}: steps, each with a kill", kills)
            shutil.rmtree(saved)
    proof.note("toolsets in another state", 0)
    proof.note("next commands that failed", 0)


def _killed_at_every_step(
    proof: Proof,
    kind: str,
    action: Callable[[Path], object],
    saved: Path,
    folder: Path,
    count: int,
) -> int:
    root = folder / "project"

    def start_again() -> None:
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(saved / "project", root, symlinks=True)

    start_again()
    old = _look(root)
    action(root)
    new = _look(root)
    proof.check(old != new, f"{kind} changes nothing")
    for step in range(1, count + 1):
        start_again()
        if not killed_at(step, lambda: action(root)):
            proof.check(_look(root) == new, f"{kind} does not come to its end")
            return step - 1
        where = f"{kind}, killed at step {step}"
        _check_inert(proof, where, root)
        # Whatever is done next brings to an end what was cut short.
        for args in (["toolset", "list"], ["toolset", "enable", "other"], ["validate"]):
            done = command.run(*args, cwd=root)
            proof.check(done.returncode == 0, f"{where}: {args}: {done.stdout}{done.stderr}")
        seen = _look(root)
        proof.check(seen in (old, new), f"{where}: neither the old state nor the new one")
        if seen == old:
            action(root)
            proof.check(_look(root) == new, f"{where}: it cannot be done again")
        proof.progress(step, step + 1)
    return count


def _check_inert(proof: Proof, where: str, root: Path) -> None:
    """Somebody else's toolset is never taken for one of our own, which would be on, not even for a moment."""
    if (root / "toolsets/demo").exists():
        found = read_toolset(root, "demo")
        proof.check(found.state.imported, f"{where}: it is taken for one of our own")


def _look(root: Path) -> _Look:
    """Return what is checked in of the toolset, without the times, which differ from try to try."""
    toolsets = root / "toolsets"
    files = (path for path in toolsets.rglob("*") if path.is_file())
    shown = {path.relative_to(toolsets).as_posix(): path for path in files}
    # A state without a toolset is what the first half of an import leaves, and means nothing.
    orphan = not (toolsets / "demo").exists()
    return sorted(
        (name, _TIME.sub("TIME", path.read_text(encoding="utf-8")))
        for name, path in shown.items()
        if "other" not in name
        and not name.startswith(update_lock.STAGED)  # cleared away an hour later
        and not (orphan and name == "state/demo.yaml")
    )


@contextmanager
def _exchanging(*, at_once: bool) -> Iterator[None]:
    """Have folders change places at once, or as on file systems that cannot do that."""
    before = update_lock._exchange_atomically

    def cannot(one: bytes, other: bytes) -> None:  # noqa: ARG001 - as it is called
        raise OSError(22, "Invalid argument")

    if not at_once:
        update_lock._exchange_atomically = cannot
    try:
        yield
    finally:
        update_lock._exchange_atomically = before


def _make_project(root: Path, folder: Path, *, there: bool) -> None:
    (root / "toolsets").mkdir(parents=True)
    (root / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    _write_toolset(root / "toolsets/other", "1", "other")
    set_enabled(root, "other", enabled=False)
    if there:
        import_toolset(root, folder / "1")
        grant_network(root, "demo", ["a.example"], by="x")
        grant_process(root, "demo", "helper", by="x")
        override_tool(root, "demo:web", {"requires_confirmation": True})
        changed = _TOOL.replace("# the end", "# our end").replace("VERSION", "1")
        (root / "toolsets/demo/tools/a.py").write_text(changed, encoding="utf-8")


def _write_toolset(folder: Path, version: str, toolset_id: str = "demo") -> None:
    (folder / "tools").mkdir(parents=True)
    manifest = _MANIFEST.replace("VERSION", version).replace("id: demo", f"id: {toolset_id}")
    if toolset_id != "demo":
        manifest = manifest.partition("mcp_servers")[0]  # which are a namespace of their own
    (folder / "toolset.yaml").write_text(manifest, encoding="utf-8")
    (folder / "tools/a.py").write_text(_TOOL.replace("VERSION", version), encoding="utf-8")
