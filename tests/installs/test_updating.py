"""Updating a toolset merges both versions, keeps the project's decisions, and never stops halfway."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from covalt_git.bundles.archive_reader import BadBundleError, read_folder, unpack
from covalt_git.errors import CovaltError
from covalt_git.installs.importing import import_toolset
from covalt_git.installs.updating import NotUpdatedError, update
from covalt_git.manifests.state_files import write_state
from covalt_git.models.toolset_state import LocalOverride
from covalt_git.toolsets import update_lock
from covalt_git.toolsets.project_files import read_project
from covalt_git.toolsets.state_store import set_enabled
from covalt_git.toolsets.toolset import read_toolset
from tests.examples import one_in
from tests.installs import hostile_bundles as hostile
from tests.installs.conftest import contents
from tests.installs.hostile_bundles import File, archive
from tests.killing import kills
from tests.workspaces.stores import git

MANIFEST = hostile.MANIFEST.replace(b'version: "1"\n', b'version: "1"\ndescription: For all\n')
TOOL = b'def run() -> str:\n    """Run."""\n    return "x"\n\n\n# the end\n'


def bundle(folder: Path, version: str, tool: bytes = TOOL, **more: bytes) -> Path:
    manifest = MANIFEST.replace(b'"1"', f'"{version}"'.encode())
    path = folder / f"demo-{version}.zip"
    files = {"toolset.yaml": manifest, "tools/a.py": tool} | more
    path.write_bytes(
        archive(tuple(File(name.encode(), content) for name, content in files.items()))
    )
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project that took in ``demo`` 1 and switched it on, with one of its tools renamed here."""
    made = tmp_path / "project"
    (made / "toolsets").mkdir(parents=True)
    (made / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    import_toolset(made, bundle(tmp_path, "1", **{"notes.md": b"old\n"}))
    set_enabled(made, "demo", enabled=True)
    state = read_toolset(made, "demo").state
    overrides = {"run": LocalOverride(name_override="Start")}
    write_state(state_file(made), state.model_copy(update={"overrides": overrides}))
    return made


def state_file(root: Path) -> Path:
    return root / "toolsets/state/demo.yaml"


def write(root: Path, path: str, content: bytes) -> None:
    (root / "toolsets/demo" / path).write_bytes(content)


def read(root: Path, path: str) -> bytes:
    return (root / "toolsets/demo" / path).read_bytes()


def test_an_update_merges_both_versions_and_keeps_decisions(root: Path) -> None:
    write(root, "toolset.yaml", MANIFEST.replace(b"For all", b"For us"))
    write(root, "tools/a.py", TOOL.replace(b"Run.", b"Run it."))
    write(root, "mine.md", b"mine")
    newer = TOOL.replace(b"# the end", b"# the very end")

    found = update(root, "demo", bundle(root.parent, "2", newer, **{"more.md": b"more"}))

    assert [(step.path, step.kind) for step in found.steps] == [
        ("mine.md", "kept"),
        ("more.md", "added"),
        ("notes.md", "removed"),
        ("tools/a.py", "merged"),
        ("toolset.yaml", "merged"),
    ]
    assert (found.old_version, found.new_version, found.base_known) == ("1", "2", True)
    toolset = read_toolset(root, "demo")
    assert toolset.sound
    assert toolset.enabled
    assert toolset.digest == found.toolset.digest
    assert [tool.name for tool in toolset.tools] == ["Start"]
    assert toolset.manifest
    assert (toolset.manifest.version, toolset.manifest.description) == ("2", "For us")
    assert read(root, "tools/a.py") == newer.replace(b"Run.", b"Run it.")
    assert (toolset.state.version, toolset.state.source_ref) == ("2", "demo-2.zip")
    assert sorted(path.name for path in (root / "toolsets").iterdir()) == ["demo", "state"]


def test_a_forced_update_replaces_the_files_and_stores_the_old_ones(root: Path) -> None:
    write(root, "tools/a.py", TOOL.replace(b"Run.", b"Ours."))
    ours = read_folder(root / "toolsets/demo")

    found = update(root, "demo", bundle(root.parent, "2"), force=True)

    assert not found.conflicts
    assert read(root, "tools/a.py") == TOOL
    assert found.replaced
    assert unpack(found.replaced.read_bytes(), "kept") == ours
    assert read_toolset(root, "demo").digest == read_toolset(root, "demo").state.digest


@pytest.mark.requirement("covalt-1.1.source_ref")
def test_an_update_is_read_from_the_source_of_the_import(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    shutil.copy(bundle(root.parent, "1.5"), root / "demo.zip")
    import_toolset(root, Path("demo.zip"))
    shutil.copy(bundle(root.parent, "2"), root / "demo.zip")

    assert update(root, "demo").new_version == "2"

    (root / "demo.zip").unlink()
    with pytest.raises(NotUpdatedError, match=r"'demo\.zip', which does not exist") as refused:
        update(root, "demo")
    assert "--from" in refused.value.hint


def test_conflicts_are_marked_and_stop_updates_until_they_are_decided(root: Path) -> None:
    write(root, "tools/a.py", TOOL.replace(b"Run.", b"Ours."))
    newer = bundle(
        root.parent,
        "2\\n=======\\n" + "x" * 99,
        TOOL.replace(b"Run.", b"Theirs."),
    )
    before = contents(root)
    planned = update(root, "demo", newer, dry_run=True)
    assert contents(root) == before

    found = update(root, "demo", newer)

    assert (planned.steps, planned.toolset.digest) == (found.steps, found.toolset.digest)
    assert [step.path for step in found.conflicts] == ["tools/a.py"]
    lines = read(root, "tools/a.py").splitlines()
    marks = [b"<<<<<<< yours", b"=======", b">>>>>>> 2 ======= " + b"x" * 50]
    assert [line for line in lines if line[:7] in {mark[:7] for mark in marks}] == marks
    assert not read_toolset(root, "demo").sound
    with pytest.raises(NotUpdatedError, match=r"in tools/a\.py"):
        update(root, "demo", newer)

    write(root, "tools/a.py", TOOL.replace(b"Run.", b"Both."))
    third = TOOL.replace(b"Run.", b"Theirs.").replace(b"the end", b"third")
    assert not update(root, "demo", bundle(root.parent, "3", third)).conflicts
    assert read(root, "tools/a.py") == TOOL.replace(b"Run.", b"Both.").replace(b"the end", b"third")


@pytest.mark.parametrize("in_git", [True, False])
def test_the_imported_version_that_is_not_stored_is_looked_for_in_git(
    root: Path, *, in_git: bool
) -> None:
    if in_git:
        git(root, "init", "-q")
        git(root, "add", "toolsets")
        git(root, "commit", "-qm", "as imported")
    write(root, "tools/a.py", TOOL.replace(b"Run.", b"Ours."))
    if in_git:
        git(root, "commit", "-qam", "ours")
    shutil.rmtree(root / "data")

    newer = bundle(root.parent, "2", TOOL.replace(b"the end", b"second"))
    found = update(root, "demo", newer)

    assert found.base_known == in_git
    assert [one.path for one in found.conflicts] == (
        [] if in_git else ["tools/a.py", "toolset.yaml"]
    )
    both = TOOL.replace(b"Run.", b"Ours.").replace(b"the end", b"second")
    assert (read(root, "tools/a.py") == both) == in_git


@pytest.mark.parametrize(
    ("toolset_id", "old", "new", "error", "words"),
    [
        ("own", b"", b"", NotUpdatedError, "'own' is the project's own"),
        ("demo", b"id: demo", b"id: other", NotUpdatedError, "is the toolset 'other', not 'demo'"),
        ("demo", b"id: run", b"id: RUN!", BadBundleError, "cannot be imported"),
    ],
)
def test_a_refused_update_changes_nothing(
    root: Path, toolset_id: str, old: bytes, new: bytes, error: type[CovaltError], words: str
) -> None:
    (root / "toolsets/own").mkdir()
    (root / "toolsets/own/toolset.yaml").write_bytes(MANIFEST.replace(b"demo", b"own"))
    newer = bundle(root.parent, "2", **{"toolset.yaml": MANIFEST.replace(old, new)})
    before = contents(root)

    with pytest.raises(error, match=words):
        update(root, toolset_id, newer)

    assert contents(root) == before


@pytest.mark.kills
@pytest.mark.parametrize("exchanges", one_in(2, [True, False]))
def test_a_killed_update_leaves_the_old_or_the_new_version(
    root: Path, monkeypatch: pytest.MonkeyPatch, *, exchanges: bool
) -> None:
    if not exchanges:  # as on file systems that cannot exchange two names

        def cannot(*_: object) -> None:
            raise OSError(22, "Invalid argument")

        monkeypatch.setattr(update_lock, "_exchange_atomically", cannot)
    newer = bundle(root.parent, "2", TOOL.replace(b"Run.", b"Theirs."))
    write(root, "mine.md", b"mine")
    saved = shutil.copytree(root, root.parent / "saved")
    old = read_toolset(root, "demo").digest
    new = update(root, "demo", newer, dry_run=True).toolset.digest
    versions = []

    def reset() -> None:
        shutil.rmtree(root)
        shutil.copytree(saved, root)

    for _ in kills(lambda: update(root, "demo", newer), reset):
        if exchanges:  # also before the next process completes it
            assert read_toolset(root, "demo").digest in {old, new}
        # The next decision completes the update.
        set_enabled(root, "demo", enabled=True)
        toolset = read_toolset(root, "demo")
        assert (toolset.digest, toolset.state.version) in {(old, "1"), (new, "2")}
        assert [one for one in read_project(root).problems if one.severity == "error"] == []
        assert not list((root / "toolsets").glob(".update*"))
        versions.append(toolset.state.version or "")

    assert versions == sorted(versions)
    assert (versions[0], versions[-1]) == ("1", "2")


@pytest.mark.parametrize(
    "note",
    [
        *(f'{{"digest": "x", "folder": "{folder}", "state": {{}}}}' for folder in ["PRECIOUS", "../precious", "toolsets/../../precious", "toolsets/.incoming-x/toolsets/demo2", "state", "toolsets/.incoming-none/toolsets/demo2"]),
        "{",
        "",
    ],
)  # fmt: skip
def test_a_forged_note_of_an_update_moves_nothing(root: Path, note: str) -> None:
    precious = root.parent / "precious"
    (precious / "toolsets/demo2").mkdir(parents=True)
    (root / "toolsets/.incoming-x").symlink_to(precious)
    file = root / "toolsets/.update-demo2.json"
    file.write_text(note.replace("PRECIOUS", str(precious)), encoding="utf-8")
    (root / "toolsets/.update-folder.json").mkdir()

    set_enabled(root, "demo", enabled=False)

    assert (precious / "toolsets/demo2").is_dir()
    assert not file.exists()
    assert not (root / "toolsets/demo2").exists()


def test_a_toolset_that_was_imported_from_a_document_is_updated_from_it(
    root: Path, tmp_path: Path, cli: Callable[..., tuple[int, str]]
) -> None:
    file = tmp_path / "mcp.json"
    for server, command in (
        ("files", ("bundle", "import", str(file), "--as", "mine")),
        ("time", ("toolset", "update", "mine", "--from", str(file))),
    ):
        file.write_text(f'{{"mcpServers": {{"{server}": {{"command": "{server}-server"}}}}}}')
        code, text = cli(*command)
        assert code == 0, text

    assert "id: time" in (root / "toolsets/mine/toolset.yaml").read_text()
