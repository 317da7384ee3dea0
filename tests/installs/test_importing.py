"""Importing toolsets: hostile bundles leave no files, others are disabled, and none of their code runs."""

import functools
import io
import shutil
import zipfile
from functools import partial
from pathlib import Path

import pytest

from covalt_git.bundles.archive_reader import BadBundleError
from covalt_git.installs.importing import InstalledError, import_toolset
from covalt_git.installs.uninstall import uninstall
from covalt_git.toolsets.project_files import read_project
from covalt_git.toolsets.toolset import read_toolset
from tests.installs import hostile_bundles as hostile
from tests.installs.conftest import contents
from tests.installs.hostile_bundles import GOOD, File, archive
from tests.killing import kills
from tests.toolsets.test_reading_touches_nothing import started, watched


@functools.cache
def evil() -> list[tuple[str, bytes]]:
    return [
        *((f"{kind}-{at}", hostile.with_name(name)) for kind, names in hostile.NAMES.items() for at, name in enumerate(names)),
        *(
            (f"pair-{at}", archive((*GOOD, *(File(name.encode(), b"%d" % n) for n, name in enumerate(pair)))))
            for at, pair in enumerate(hostile.PAIRS)
        ),
        *hostile.structures(),
        *hostile.bombs(),
        *((f"manifest-{name}", archive((File(b"toolset.yaml", content), GOOD[1]))) for name, content in hostile.manifests()),
        *((f"file-{name}", archive((*GOOD, File(name.encode(), content)))) for name, content in hostile.FILES.items()),
        ("no-manifest", archive(GOOD[1:])),
        ("manifest-in-a-folder", archive((File(b"demo/toolset.yaml", hostile.MANIFEST),))),
    ]  # fmt: skip


def save(folder: Path, content: bytes) -> Path:
    file = folder / "demo.zip"
    file.write_bytes(content)
    return file


@pytest.mark.requirement("covalt-3.1.manifest", "covalt-3.3.1")
@pytest.mark.parametrize("part", range(4))
def test_a_hostile_bundle_is_refused_and_leaves_nothing(root: Path, part: int) -> None:
    for name, content in evil()[part::4]:
        bundle = save(root, content)
        before = contents(root)

        with pytest.raises(BadBundleError) as refused:
            pytest.fail(f"imported {name}: {import_toolset(root, bundle)}")

        assert refused.value.problems or "toolset.yaml" in refused.value.message, name
        for problem in refused.value.problems:
            assert problem.path.startswith("demo.zip"), name
            assert problem.code.startswith("CG"), name
            assert problem.message, name
        assert contents(root) == before, name


def test_an_unusual_bundle_is_imported_as_it_is(root: Path) -> None:
    folder = root / "toolsets/demo"
    for name, content in hostile.good():
        imported = import_toolset(root, save(root, content), force=True)

        with zipfile.ZipFile(io.BytesIO(content)) as bundle:
            files = [one for one in bundle.infolist() if not one.is_dir()]
            wanted = sorted((one.filename, bundle.read(one)) for one in files)
        assert [one for one in contents(folder) if (folder / one[0]).is_file()] == wanted, name
        assert imported.toolset.digest == read_toolset(root, "demo").digest
        uninstall(root, "demo", force=True)


def test_an_imported_toolset_is_disabled_and_records_its_source(root: Path) -> None:
    import_toolset(root, save(root, archive(GOOD)))

    toolset = read_toolset(root, "demo")
    assert not toolset.enabled
    assert toolset.state.enabled is False  # written down, not left to the default
    assert toolset.state.imported
    assert toolset.state.grants == {}
    assert toolset.state.source_type == "zip"
    assert toolset.state.digest == toolset.digest
    assert toolset.state.version == "1"
    assert sorted(path.name for path in (root / "toolsets").iterdir()) == ["demo", "state"]


def test_a_directory_is_imported_like_a_bundle(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("theirs") / "any-name"
    (folder / "tools/__pycache__").mkdir(parents=True)
    (folder / "toolset.yaml").write_bytes(hostile.MANIFEST)
    (folder / "tools/a.py").write_bytes(hostile.TOOL)
    (folder / "tools/__pycache__/a.pyc").write_bytes(b"x")
    link = folder / "link"
    link.symlink_to("/etc/passwd")

    with pytest.raises(BadBundleError) as refused:
        import_toolset(root, folder)
    assert [one.path for one in refused.value.problems] == ["any-name/link"]
    link.unlink()
    imported = import_toolset(root, folder)

    assert imported.source_type == "local"
    assert [one.path for one in imported.toolset.files.files] == ["tools/a.py", "toolset.yaml"]
    assert not (root / "toolsets/demo/tools/__pycache__").exists()


def test_a_toolset_of_the_project_is_never_replaced(root: Path) -> None:
    folder = root / "toolsets/demo"
    folder.mkdir(parents=True)
    (folder / "toolset.yaml").write_bytes(hostile.MANIFEST)
    before = contents(root / "toolsets")

    for force in (False, True):
        with pytest.raises(InstalledError, match="'demo' is the project's own"):
            import_toolset(root, save(root, archive(GOOD)), force=force)

    assert contents(root / "toolsets") == before


def test_an_id_that_differs_in_a_hyphen_only_is_refused(root: Path) -> None:
    import_toolset(root, save(root, archive((replace_id("de-mo"), GOOD[1]))))
    before = contents(root / "toolsets")

    with pytest.raises(InstalledError, match="'de-mo' already exists"):
        import_toolset(root, save(root, archive((replace_id("de_mo"), GOOD[1]))))

    assert contents(root / "toolsets") == before


def replace_id(name: str) -> File:
    return File(b"toolset.yaml", hostile.MANIFEST.replace(b"id: demo", b"id: " + name.encode()))


@pytest.mark.kills
def test_a_killed_import_leaves_a_complete_disabled_toolset_or_nothing(root: Path) -> None:
    file = save(root, archive(GOOD))
    saved = shutil.copytree(root, root.parent / "saved")

    def reset() -> None:
        shutil.rmtree(root)
        shutil.copytree(saved, root)

    ends = []
    for _ in kills(partial(import_toolset, root, file), reset):
        ends.append((root / "toolsets/demo").exists())
        if ends[-1]:
            toolset = read_toolset(root, "demo")
            assert toolset.sound
            assert not toolset.enabled
        else:
            assert [one for one in read_project(root).problems if one.severity == "error"] == []
            assert import_toolset(root, file).toolset.sound
    assert (ends[0], ends[-1]) == (False, True)


def test_importing_runs_nothing_and_opens_no_connection(root: Path) -> None:
    file = save(root, archive(GOOD))
    with watched() as events:
        import_toolset(root, file)

    assert "os.rename" in events
    assert started(events) == []
