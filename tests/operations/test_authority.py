"""``compare_authority`` reads commits as they are: it follows no link, and runs and writes nothing."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.authority.corpus import CASES, sample
from tests.examples import rest
from tests.github_action import run_step, search_path
from tests.operations_client import Operations
from tests.workspaces.stores import commit_all, git

NAMED = {case.name: case for case in CASES}


def put(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


def change(root: Path, *names: str) -> None:
    """Put the changes of these cases of the corpus into the working tree."""
    files = sample()
    for name in names:
        NAMED[name].edit(files)
    for path in set(sample()) - set(files):
        (root / path).unlink()
        for folder in (root / path).parents:
            if any(folder.iterdir()):
                break
            folder.rmdir()  # Git knows no empty folder
    put(root, files)


def commit(root: Path, branch: str) -> None:
    git(root, "checkout", "-q", "-b", branch)
    commit_all(root)


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample project, below the root of a repository; not to be changed."""
    project = tmp_path_factory.mktemp("work") / "demo"
    put(project, sample())
    git(project, "init", "-q", "-b", "main", str(project.parent))
    commit_all(project.parent)
    return project


@pytest.fixture
def root(committed: Path, tmp_path: Path) -> Path:
    subprocess.run(["cp", "-a", committed.parent, tmp_path / "work"], check=True)
    return tmp_path / "work/demo"


def compared(operate: Operations, revisions: str) -> Any:
    return operate("compare_authority", revisions=revisions)


def messages(found: Any) -> str:
    return "\n".join(one["message"] for one in found["changes"])


def test_three_dots_compare_with_the_merge_base(root: Path, operate: Operations) -> None:
    change(root, "a tool goes")
    commit(root, "mine")
    git(root, "checkout", "-q", "main")
    change(root, "a role becomes admin")
    git(root, "commit", "-q", "-a", "-m", "theirs")

    assert "admin" not in messages(compared(operate, "main...mine"))
    assert "admin" in messages(compared(operate, "main..mine"))


@pytest.mark.parametrize("revisions", ["nope", "main..nope", "nope...main", "main..HEAD:demo", ""])
def test_only_commits_are_compared(operate: Operations, revisions: str) -> None:
    assert operate.error("compare_authority", revisions=revisions).exit_code == 2


def test_a_change_has_its_places(root: Path, operate: Operations) -> None:
    change(root, "a new argument", "a README changes")
    (found,) = compared(operate, "HEAD")["changes"]

    assert (found["verdict"], found["subject"], found["kind"]) == (
        "widening",
        "notes:write",
        "schema",
    )
    assert found["at"] == {"path": "toolsets/notes/toolset.yaml", "line": 17, "col": 9}
    assert found["was"] == {"path": "toolsets/notes/toolset.yaml", "line": 15, "col": 7}


def test_errors_in_one_state_may_widen(root: Path, operate: Operations) -> None:
    change(root, "covalt.yaml has an unknown key")
    commit(root, "broken")
    found = compared(operate, "main..broken")

    (problem,) = found["problems"]
    assert (problem["in"], problem["path"], problem["code"]) == ("HEAD", "covalt.yaml", "CG201")
    assert [one["certain"] for one in found["changes"]] == [False]
    assert found["grown"]


def test_removing_a_broken_toolset_narrows(root: Path, operate: Operations) -> None:
    change(root, "a toolset is no YAML any more")
    commit(root, "broken")
    change(root, "a toolset goes")
    commit(root, "gone")
    found = compared(operate, "broken..gone")

    assert [one["verdict"] for one in found["changes"]] == ["narrowing"]
    assert not found["grown"]


def test_nothing_is_written_or_run(root: Path, operate: Operations) -> None:
    notes = "toolsets/notes/tools/notes.py"
    put(root, {notes: f"raise SystemExit('it ran')\n{sample()[notes]}"})
    commit(root, "hostile")
    before = {path: path.lstat().st_mtime_ns for path in sorted(root.parent.rglob("*"))}
    loaded = set(sys.modules)
    compared(operate, "main..hostile")

    assert {path: path.lstat().st_mtime_ns for path in sorted(root.parent.rglob("*"))} == before
    assert not any("tools.notes" in name for name in set(sys.modules) - loaded)


@pytest.mark.parametrize(
    "path",
    [
        "covalt.yaml",
        "toolsets",
        rest("toolsets/state"),
        rest("toolsets/locks"),
        "toolsets/state/web.yaml",
    ],
)
def test_links_are_not_followed(root: Path, operate: Operations, path: str) -> None:
    hidden = root.parent / "hidden"
    hidden.mkdir()
    if (root / path).exists():
        (root / path).rename(hidden / "there")
    if path == "covalt.yaml":
        (hidden / "there").write_text("version: 1\nroles: {evil: {admin: true}}\n", "utf-8")
    (root / path).symlink_to(hidden / "there")
    commit(root, "linked")
    found = compared(operate, "main..linked")

    assert found["grown"]
    assert not all(one["certain"] for one in found["changes"])
    assert "evil" not in messages(found)


@pytest.mark.parametrize("path", ["toolsets/evil", rest("toolsets/web/tools")])
def test_submodules_may_widen(root: Path, operate: Operations, path: str) -> None:
    for number, branch in enumerate(("first", "second"), 1):
        entry = f"160000,{str(number) * 40},demo/{path}"
        git(root, "update-index", "--add", "--cacheinfo", entry)
        git(root, "commit", "-q", "-m", branch)
        git(root, "branch", branch)

    for base, head in (("main~2", "first"), ("first", "second")):
        found = compared(operate, f"{base}..{head}")
        assert (path, False) in [(one["at"]["path"], one["certain"]) for one in found["changes"]]
    assert not compared(operate, "second..second")["grown"]


def test_a_role_is_shown_its_own_tools(operate: Operations) -> None:
    (found,) = operate.as_role("reviewer")("get_authority")["toolsets"]

    assert found["toolset_id"] == "notes"
    assert [tool["tool_id"] for tool in found["tools"]] == ["notes:list_all"]
    assert found["packages"] == []


@pytest.mark.parametrize(
    ("changed", "fail", "code", "summary"),
    [
        rest("a role becomes admin", "false", 0, "authority grew: 1 wider", id="grown"),
        pytest.param("a role becomes admin", "true", 3, "authority grew: 1 wider", id="failing"),
        rest("a tool goes", "true", 0, "authority shrank: 1 narrower", id="shrunk"),
        pytest.param("", "true", 2, "was not compared", id="shallow"),
    ],
)
def test_the_github_action_writes_a_summary(
    root: Path, tmp_path: Path, changed: str, fail: str, code: int, summary: str
) -> None:
    base = git(root, "rev-parse", "HEAD").strip() if changed else "0" * 40
    if changed:
        change(root, changed)
        commit(root, "pull")
    done = run_step(
        "Authority",
        root,
        BASE=base,
        FAIL_ON_GROWN=fail,
        RUNNER_TEMP=str(tmp_path),
        GITHUB_STEP_SUMMARY=str(tmp_path / "summary.md"),
        PATH=search_path(tmp_path / "bin"),
    )

    assert done.returncode == code, done.stderr
    assert summary in (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert ("::warning" in done.stdout) is (not changed)


def test_a_grant_that_only_http_tools_keep_is_narrower(root: Path, operate: Operations) -> None:
    manifest = (
        'id: mixed\nname: Mixed\nversion: "1"\ntools:\n'
        '  - {id: send, http: {url: "https://api.example.com/"}}\n'
        '  - {id: act, entrypoint: "act:act"}\n'
    )
    code = '"""Acts."""\n\n\ndef act() -> str:\n    """Act."""\n    return "x"\n'
    put(root, {"toolsets/mixed/toolset.yaml": manifest, "toolsets/mixed/act.py": code})
    operate.as_role("owner")(
        "add_grant", toolset_id="mixed", kind="network", hosts=["api.example.com"]
    )
    commit(root, "granted")
    put(root, {"toolsets/mixed/act.py": code.replace("x", "y")})
    commit(root, "edited")

    def about_the_host(revisions: str) -> list[str]:
        found = compared(operate, revisions)["changes"]
        return [one["verdict"] for one in found if one["kind"] == "network"]

    assert about_the_host("granted..edited") == ["narrowing"]
    assert about_the_host("edited..granted") == ["widening"]
