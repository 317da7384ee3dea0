"""``validate``, baselines and ``fix_files``: which files they report on, and which they change."""

import subprocess
from pathlib import Path

import pytest

from tests.operations_client import Operations
from tests.toolsets.projects import MANIFEST, put_hello

TYPO = MANIFEST.replace("entrypoint", "entrypont")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project whose toolset ``hello`` has a misspelt key in line 10."""
    put_hello(tmp_path, TYPO)
    return tmp_path


@pytest.fixture
def manifest(root: Path) -> Path:
    return root / "toolsets/hello/toolset.yaml"


def places(operate: Operations, *paths: Path) -> list[str]:
    found = operate("validate", paths=paths)["problems"]
    return [f"{one['path']}:{one['line']}:{one['col']} {one['code']}" for one in found]


@pytest.mark.parametrize(
    ("paths", "reported"),
    [
        ("toolsets/hello/toolset.yaml", True),
        ("toolsets/hello", True),
        (".", True),
        ("toolsets/hello/tools/hello.py", True),
        ("covalt.yaml", False),
        ("covalt.yaml toolsets", True),
    ],
)
def test_paths_choose_which_files_are_reported(
    root: Path, operate: Operations, paths: str, *, reported: bool
) -> None:
    found = places(operate, *(root / path for path in paths.split()))

    assert found == (["toolsets/hello/toolset.yaml:10:5 CG201"] if reported else [])


def test_totals_and_missing_grants_are_those_of_the_chosen_toolsets(
    root: Path, operate: Operations
) -> None:
    other = root / "toolsets/other"
    other.mkdir()
    text = MANIFEST.partition("tools:")[0].replace("hello", "other")
    server = "mcp_servers: [{id: far, url: 'https://far.example/mcp'}]\n"
    (other / "toolset.yaml").write_text(text + server, encoding="utf-8")

    whole = operate("validate", paths=[root])
    hello = operate("validate", paths=[root / "toolsets/hello"])

    assert (whole["toolsets"], hello["toolsets"]) == (2, 1)
    (lacking,) = whole["lacking"]
    assert "other" in lacking["command"]
    assert hello["lacking"] == []


def test_a_baseline_hides_known_problems_only(
    root: Path, operate: Operations, manifest: Path
) -> None:
    known = root / "known.json"
    assert operate("write_baseline", baseline=known)["problems"] == 1
    before = known.read_bytes()
    operate("write_baseline", baseline=known)
    assert known.read_bytes() == before

    manifest.write_text(f"# a line above\n{TYPO}colour: red\n", encoding="utf-8")
    found = operate("validate", baseline=known)
    assert found["in_baseline"] == 1
    assert [one["item"] or one["message"] for one in found["problems"]] == ["unknown key 'colour'"]

    manifest.write_text(MANIFEST, encoding="utf-8")
    fixed = operate("validate", baseline=known)
    assert ([one["code"] for one in fixed["stale"]], fixed["problems"]) == (["CG201"], [])


def test_a_fix_renames_the_key_and_keeps_the_mode(operate: Operations, manifest: Path) -> None:
    manifest.chmod(0o640)
    (fixed,) = operate("fix_files")["fixed"]

    assert (fixed["path"], fixed["line"], fixed["col"]) == ("toolsets/hello/toolset.yaml", 10, 5)
    assert manifest.read_text(encoding="utf-8") == MANIFEST
    assert manifest.stat().st_mode & 0o777 == 0o640
    assert sorted(one.name for one in manifest.parent.iterdir()) == ["tools", "toolset.yaml"]
    assert operate("fix_files")["fixed"] == []


def test_the_difference_of_a_fix_is_applied_by_git(
    root: Path, operate: Operations, manifest: Path
) -> None:
    diff = operate("fix_files", write=False)["diff"]
    assert manifest.read_text(encoding="utf-8") == TYPO

    subprocess.run(["git", "apply", "-"], cwd=root, input=diff, text=True, check=True)
    assert manifest.read_text(encoding="utf-8") == MANIFEST


def test_fixes_keep_to_the_given_paths_and_leave_links_alone(
    root: Path, operate: Operations, manifest: Path
) -> None:
    operate("fix_files", paths=[root / "covalt.yaml"])
    assert manifest.read_text(encoding="utf-8") == TYPO

    (root / "elsewhere.yaml").write_text("version: 1\nroels: {}\n", encoding="utf-8")
    (root / "covalt.yaml").unlink()
    (root / "covalt.yaml").symlink_to("elsewhere.yaml")
    operate("fix_files")
    assert (root / "covalt.yaml").is_symlink()
    assert "roels" in (root / "elsewhere.yaml").read_text(encoding="utf-8")
    assert manifest.read_text(encoding="utf-8") == MANIFEST


def test_staged_files_are_checked_and_not_those_of_the_folder(
    root: Path, operate: Operations, manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found() -> list[str]:
        return [one["code"] for one in operate("validate", staged=True)["problems"]]

    assert operate.error("validate", staged=True).code == "unknown_revision"
    subprocess.run(["git", "init", "-q", root], check=True)
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    manifest.write_text(MANIFEST, encoding="utf-8")
    assert (found(), places(operate)) == (["CG201"], [])
    # As `git commit -a` does for its hooks.
    monkeypatch.setenv("GIT_INDEX_FILE", str(root / "other"))
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    manifest.write_text(TYPO, encoding="utf-8")

    assert (found(), places(operate)) == ([], ["toolsets/hello/toolset.yaml:10:5 CG201"])


def test_staged_files_of_a_project_below_its_repository_are_checked(tmp_path: Path) -> None:
    put_hello(tmp_path / "below", TYPO)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "add", "below"], cwd=tmp_path, check=True)
    found = Operations(tmp_path / "below")("validate", staged=True)["problems"]

    assert [one["path"] for one in found] == ["toolsets/hello/toolset.yaml"]
