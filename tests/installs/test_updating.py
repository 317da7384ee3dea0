"""Updating a toolset merges both versions, keeps the project's decisions, and never stops halfway."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from covalt_git.bundles.archive_reader import BadBundleError, read_folder, unpack
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.grants.grants import grant_network, grant_process
from covalt_git.grants.status import missing_grants
from covalt_git.installs import updating
from covalt_git.installs.importing import import_toolset
from covalt_git.installs.local_changes import differences
from covalt_git.installs.updating import NotUpdatedError, update
from covalt_git.manifests.state_files import write_state
from covalt_git.models.toolset_state import LocalOverride
from covalt_git.toolsets import update_lock
from covalt_git.toolsets.project_files import read_project
from covalt_git.toolsets.state_store import set_enabled
from covalt_git.toolsets.toolset import read_toolset
from tests.installs import hostile_bundles as hostile
from tests.installs.conftest import contents, git
from tests.installs.hostile_bundles import File, archive
from tests.killing import killed_at

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


def test_a_second_update_merges_with_the_first(root: Path) -> None:
    write(root, "tools/a.py", TOOL.replace(b"Run.", b"Run it."))
    second = TOOL.replace(b"# the end", b"# second")
    update(root, "demo", bundle(root.parent, "2", second))

    found = update(root, "demo", bundle(root.parent, "3", second.replace(b"second", b"third")))

    assert not found.conflicts
    assert read(root, "tools/a.py") == TOOL.replace(b"Run.", b"Run it.").replace(
        b"the end", b"third"
    )


def test_conflicts_are_marked_in_the_files_and_stop_the_toolset(root: Path) -> None:
    write(root, "tools/a.py", TOOL.replace(b"Run.", b"Ours."))
    newer = bundle(root.parent, "2", TOOL.replace(b"Run.", b"Theirs."))

    found = update(root, "demo", newer)

    assert [step.path for step in found.conflicts] == ["tools/a.py"]
    assert b"<<<<<<< yours\n" in read(root, "tools/a.py")
    assert not read_toolset(root, "demo").sound
    with pytest.raises(NotUpdatedError, match=r"in tools/a\.py") as refused:
        update(root, "demo", newer)
    assert "--force" in refused.value.hint

    write(root, "tools/a.py", TOOL.replace(b"Run.", b"Both."))
    assert read_toolset(root, "demo").sound
    third = TOOL.replace(b"Run.", b"Theirs.").replace(b"the end", b"third")
    assert not update(root, "demo", bundle(root.parent, "3", third)).conflicts
    assert read(root, "tools/a.py") == TOOL.replace(b"Run.", b"Both.").replace(b"the end", b"third")


@pytest.mark.parametrize("lines", [b"<<<<<<< a\n=======\n", b"=======\n>>>>>>> a\n"])
def test_many_lines_like_conflict_marks_are_no_conflict(
    root: Path, tmp_path: Path, lines: bytes
) -> None:
    marks = {"marks.txt": lines * 20_000}
    update(root, "demo", bundle(tmp_path, "2", **marks))

    assert update(root, "demo", bundle(tmp_path, "3", **marks)).new_version == "3"


def test_a_version_of_several_lines_is_one_mark(root: Path, tmp_path: Path) -> None:
    write(root, "notes.md", b"ours\n")
    theirs = bundle(tmp_path, "2\\n=======\\n" + "x" * 99, **{"notes.md": b"theirs\n"})

    update(root, "demo", theirs)
    told = b"<<<<<<< yours\nours\n=======\ntheirs\n>>>>>>> 2 ======= " + b"x" * 50 + b"\n"
    assert read(root, "notes.md") == told


def test_a_dry_run_returns_the_steps_of_the_update_and_changes_nothing(root: Path) -> None:
    write(root, "tools/a.py", TOOL.replace(b"Run.", b"Ours."))
    newer = bundle(root.parent, "2", TOOL.replace(b"Run.", b"Theirs."))
    before = contents(root)

    planned = update(root, "demo", newer, dry_run=True)

    assert contents(root) == before
    done = update(root, "demo", newer)
    assert (planned.steps, planned.toolset.digest) == (done.steps, done.toolset.digest)


def test_a_forced_update_replaces_the_files_and_stores_the_old_ones(root: Path) -> None:
    write(root, "tools/a.py", TOOL.replace(b"Run.", b"Ours."))
    ours = read_folder(root / "toolsets/demo")

    found = update(root, "demo", bundle(root.parent, "2"), force=True)

    assert not found.conflicts
    assert read(root, "tools/a.py") == TOOL
    assert found.replaced
    assert unpack(found.replaced.read_bytes(), "kept") == ours
    assert read_toolset(root, "demo").digest == read_toolset(root, "demo").state.digest


def test_the_imported_version_is_found_in_git_if_it_was_not_stored(root: Path) -> None:
    git(root, "init", "-q")
    (root / ".gitignore").write_text("data\n", encoding="utf-8")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "as imported")
    write(root, "tools/a.py", TOOL.replace(b"Run.", b"Ours."))
    git(root, "commit", "-qam", "ours")
    (root / "toolsets/demo/tools/__pycache__").mkdir()
    shutil.rmtree(root / "data")

    found = update(root, "demo", bundle(root.parent, "2", TOOL.replace(b"the end", b"second")))

    assert (found.base_known, found.conflicts) == (True, [])
    assert read(root, "tools/a.py") == TOOL.replace(b"Run.", b"Ours.").replace(
        b"the end", b"second"
    )


def test_without_the_imported_version_every_difference_is_a_conflict(root: Path) -> None:
    write(root, "tools/a.py", TOOL.replace(b"Run.", b"Ours."))
    shutil.rmtree(root / "data")

    found = update(root, "demo", bundle(root.parent, "2", **{"notes.md": b"old\n"}))

    assert not found.base_known
    assert [step.path for step in found.conflicts] == ["tools/a.py", "toolset.yaml"]
    assert read(root, "notes.md") == b"old\n"


def test_an_update_is_read_from_the_source_of_the_import(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    shutil.copy(bundle(root.parent, "1.5"), root / "demo.zip")
    import_toolset(root, Path("demo.zip"))
    shutil.copy(bundle(root.parent, "2"), root / "demo.zip")

    assert update(root, "demo").new_version == "2"

    (root / "demo.zip").unlink()
    with pytest.raises(NotUpdatedError, match=r"'demo\.zip', which is not here") as refused:
        update(root, "demo")
    assert "--from" in refused.value.hint


def test_an_update_to_the_same_version_changes_nothing(root: Path) -> None:
    before = contents(root)

    found = update(root, "demo", bundle(root.parent, "1", **{"notes.md": b"old\n"}))

    assert found.steps == ()
    assert contents(root) == before


def test_importing_an_imported_toolset_is_an_update(root: Path) -> None:
    write(root, "mine.md", b"mine")

    imported = import_toolset(root, bundle(root.parent, "2"))

    assert imported.update
    assert imported.update.new_version == "2"
    assert read(root, "mine.md") == b"mine"
    assert read_toolset(root, "demo").enabled


def test_grants_that_an_update_ends_are_named_and_stay_stored(root: Path) -> None:
    grant_network(root, "demo", ["example.com"], by="me")

    found = update(root, "demo", bundle(root.parent, "2"))

    assert found.ended_grants == ("network",)
    grant = read_toolset(root, "demo").state.grants["network"]
    assert grant.digest != read_toolset(root, "demo").digest
    assert [(one.path, one.kind) for one in differences(root, "demo", "network")] == [
        ("notes.md", "deleted"),
        ("toolset.yaml", "modified"),
    ]


def test_a_grant_of_an_mcp_server_ends_only_with_that_server(root: Path) -> None:
    servers = MANIFEST + b"mcp_servers: [{id: maps, command: maps}, {id: far, command: far}]\n"
    write(root, "toolset.yaml", servers)
    for name in ("maps", "far"):
        grant_process(root, "demo", name, by="me")
    theirs = servers.replace(b'"1"', b'"2"').replace(b"command: far", b"command: evil")

    found = update(root, "demo", bundle(root.parent, "2", **{"toolset.yaml": theirs}), force=True)

    assert found.ended_grants == ("process-far",)
    toolset = read_toolset(root, "demo")
    assert [one.server for one in missing_grants(toolset)] == ["far"]


@pytest.mark.parametrize(
    ("toolset_id", "error", "words"),
    [
        ("dmeo", UnknownNameError, "dmeo"),
        ("own", NotUpdatedError, "'own' is the project's own"),
        ("demo", NotUpdatedError, "is the toolset 'other', not 'demo'"),
        ("demo", BadBundleError, "is not taken"),
    ],
)
def test_a_refused_update_changes_nothing(
    root: Path, toolset_id: str, error: type[CovaltError], words: str
) -> None:
    own = root / "toolsets/own"
    own.mkdir()
    (own / "toolset.yaml").write_bytes(MANIFEST.replace(b"id: demo", b"id: own"))
    manifest = MANIFEST.replace(b"id: demo", b"id: other")
    if error is BadBundleError:
        manifest = MANIFEST.replace(b"id: run", b"id: RUN!")
    newer = root.parent / "newer.zip"
    newer.write_bytes(archive((File(b"toolset.yaml", manifest), File(b"tools/a.py", TOOL))))
    before = contents(root)

    with pytest.raises(error, match=words):
        update(root, toolset_id, newer)

    assert contents(root) == before


@pytest.mark.parametrize("at_once", [True, False], ids=["exchanged", "one-after-the-other"])
def test_a_killed_update_leaves_the_old_or_the_new_version(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    at_once: bool,  # noqa: FBT001 - a parameter
) -> None:
    if not at_once:  # as on file systems that cannot exchange two names

        def cannot(*_: object) -> None:
            raise OSError(22, "Invalid argument")

        monkeypatch.setattr(update_lock, "_exchange_at_once", cannot)
    newer = bundle(root.parent, "2", TOOL.replace(b"Run.", b"Theirs."))
    write(root, "mine.md", b"mine")
    saved = root.parent / "saved"
    shutil.copytree(root, saved)
    old, new = read_toolset(root, "demo").digest, update(root, "demo", newer, dry_run=True).toolset.digest  # fmt: skip
    versions = []
    for step in range(1, 1000, 6):
        shutil.rmtree(root)
        shutil.copytree(saved, root)
        killed = killed_at(step, lambda: update(root, "demo", newer))
        if at_once:  # also before the next process completes it
            assert read_toolset(root, "demo").digest in {old, new}
        # The next decision completes the update.
        set_enabled(root, "demo", enabled=True)
        toolset = read_toolset(root, "demo")
        assert (toolset.digest, toolset.state.version) in {(old, "1"), (new, "2")}
        assert toolset.enabled
        assert [one for one in read_project(root).problems if one.severity == "error"] == []
        assert not list((root / "toolsets").glob(".update*"))
        versions.append(toolset.state.version or "")
        if not killed:
            break

    assert versions == sorted(versions)
    assert {versions[0], versions[-1]} == {"1", "2"}


@pytest.mark.parametrize(
    "folder",
    ["PRECIOUS", "../precious", "toolsets/../../precious", "toolsets/.incoming-x/toolsets/demo2", "state", "toolsets/.incoming-none/toolsets/demo2"],
)  # fmt: skip
@pytest.mark.parametrize("text", ['{"digest": "x", "folder": "FOLDER", "state": {}}', "{", ""])
def test_a_forged_note_of_an_update_moves_nothing(root: Path, folder: str, text: str) -> None:
    precious = root.parent / "precious"
    (precious / "toolsets/demo2").mkdir(parents=True)
    (root / "toolsets/.incoming-x").symlink_to(precious)
    said = folder.replace("PRECIOUS", str(precious))
    note = root / "toolsets/.update-demo2.json"
    note.write_text(text.replace("FOLDER", said), encoding="utf-8")
    (root / "toolsets/.update-folder.json").mkdir()

    set_enabled(root, "demo", enabled=False)
    assert (precious / "toolsets/demo2").is_dir()
    assert not note.exists()
    assert not (root / "toolsets/demo2").exists()


def test_a_full_disk_leaves_the_old_version(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "somewhere")

    before = contents(root / "toolsets")
    monkeypatch.setattr(updating, "fsync_all", full)

    with pytest.raises(CovaltError, match="no space left on device"):
        update(root, "demo", bundle(root.parent, "2"))

    assert contents(root / "toolsets") == before
