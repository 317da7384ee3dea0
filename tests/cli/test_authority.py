"""``covalt-git authority``: what is there, what a commit changes, and what the action makes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git import yaml_text
from covalt_git.cli import main
from covalt_git.json_values.json_schema import value_problems
from tests.authority.corpus import CASES, Case, sample
from tests.toolsets.projects import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Covalt = Callable[..., tuple[int, str, str]]

NAMED = {case.name: case for case in CASES}


def git(root: Path, *args: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    done = subprocess.run(["git", "-C", str(root), *who, *args], capture_output=True, check=True)
    return done.stdout.decode().strip()


def put(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


def change(root: Path, *names: str) -> None:
    """Put the changes of these cases of the corpus into the working tree."""
    files = sample()
    for name in names:
        case: Case = NAMED[name]
        case.edit(files)
    for path in set(sample()) - set(files):
        (root / path).unlink()
        if not any((root / path).parent.iterdir()):
            (root / path).parent.rmdir()  # Git knows no empty folder
    put(root, files)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    project = tmp_path / "work" / "demo"
    put(project, sample())
    git(project, "init", "-q", "-b", "main", str(project.parent))
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "base")
    return project


@pytest.fixture
def covalt(root: Path, capsys: pytest.CaptureFixture[str]) -> Covalt:
    def run(*args: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["-C", str(root), *args])
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


def documented() -> str:
    return (REPOSITORY / "docs/authority.md").read_text(encoding="utf-8")


def commit(root: Path, branch: str) -> None:
    git(root, "checkout", "-q", "-b", branch)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", branch)


def test_a_toolset_is_shown_with_all_that_it_may(covalt: Covalt) -> None:
    code, said, _ = covalt("--role", "owner", "authority", "guest")

    assert code == 0
    assert "$ covalt-git authority show guest\n" + said in documented()


def test_grants_that_a_change_ended_are_told(root: Path, covalt: Covalt) -> None:
    change(root, "a file changes, and all grants end")
    _, said, _ = covalt("--role", "owner", "authority", "guest", "--json")

    (found,) = json.loads(said)["toolsets"]
    assert found["hosts"] == []
    assert found["stale_grants"] == ["network", "secret-GUEST_KEY", "unsandboxed"]


def test_a_role_is_shown_what_exists_for_it(covalt: Covalt) -> None:
    _, said, _ = covalt("--role", "reviewer", "authority", "--json")

    (found,) = json.loads(said)["toolsets"]
    assert found["toolset_id"] == "notes"
    assert [tool["tool_id"] for tool in found["tools"]] == ["notes:list_all"]
    assert found["packages"] == []


def test_commits_are_compared_in_words_with_places(root: Path, covalt: Covalt) -> None:
    change(
        root,
        "a role may call another toolset",
        "an override asks no longer",
        "another host",
        "an argument may be longer",
        "a file changes, and all grants end",
        "a role may approve less",
    )
    commit(root, "wider")
    code, said, _ = covalt("authority", "diff", "main..wider")

    assert code == 3
    assert "$ covalt-git authority diff main..wider\n" + said in documented()


def test_what_grew_decides_the_exit_code(root: Path, covalt: Covalt) -> None:
    change(root, "a tool goes")
    commit(root, "narrower")

    assert covalt("authority", "diff", "main..narrower")[0] == 0
    assert covalt("authority", "diff", "main..narrower", "--fail-on", "changed")[0] == 3
    assert covalt("authority", "diff", "narrower..main")[0] == 3
    assert covalt("authority", "diff", "narrower..main", "--fail-on", "never")[0] == 0
    assert covalt("authority", "diff", "main..main") == (0, "authority is the same\n", "")


def test_one_revision_is_compared_with_the_files_as_they_are(root: Path, covalt: Covalt) -> None:
    change(root, "another host is granted")

    assert "guest may reach evil.example" in covalt("authority", "diff", "HEAD")[1]


def test_three_dots_compare_with_where_both_come_from(root: Path, covalt: Covalt) -> None:
    change(root, "a tool goes")
    commit(root, "mine")
    git(root, "checkout", "-q", "main")
    change(root, "a role becomes admin")
    git(root, "commit", "-q", "-a", "-m", "theirs")

    assert "admin" not in covalt("authority", "diff", "main...mine")[1]
    assert "admin" in covalt("authority", "diff", "main..mine")[1]


@pytest.mark.parametrize("revisions", ["nope", "main..nope", "nope...main", "main..HEAD:demo", ""])
def test_what_is_no_commit_is_a_wrong_call(covalt: Covalt, revisions: str) -> None:
    code, said, err = covalt("authority", "diff", revisions)

    assert (code, said) == (2, "")
    assert "there is no whole commit" in err
    assert "git log --oneline" in err


def test_commits_without_a_common_one_are_a_wrong_call(root: Path, covalt: Covalt) -> None:
    git(root, "checkout", "-q", "--orphan", "alone")
    git(root, "commit", "-q", "-m", "alone")
    code, _, err = covalt("authority", "diff", "main...alone")

    assert code == 2
    assert "'main' and 'alone' have no commit in common" in err
    assert covalt("authority", "diff", "main..alone")[0] == 0


def test_what_cannot_be_read_is_told_with_its_problems(root: Path, covalt: Covalt) -> None:
    change(root, "covalt.yaml has an unknown key")
    commit(root, "broken")
    code, said, err = covalt("authority", "diff", "main..broken")

    assert code == 3
    assert "covalt.yaml:3:1: wider (cannot tell): covalt.yaml has errors in HEAD" in said
    assert "HEAD: covalt.yaml:3:1: CG201 unknown key 'standard_role'" in err


def test_what_is_broken_in_both_and_the_same_is_no_change(root: Path, covalt: Covalt) -> None:
    change(root, "a toolset is no YAML any more")
    commit(root, "broken")
    put(root, {"README.md": "Other\n"})
    code, said, err = covalt("authority", "diff", "HEAD")

    assert (code, said) == (0, "authority is the same\n")
    assert "BASE: toolsets/web/toolset.yaml" in err


def test_nothing_of_the_repository_is_touched_or_run(root: Path, covalt: Covalt) -> None:
    put(
        root,
        {
            "toolsets/notes/tools/notes.py": "raise SystemExit('it ran')\n"
            + sample()["toolsets/notes/tools/notes.py"]
        },
    )
    commit(root, "hostile")
    before = {path: path.lstat().st_mtime_ns for path in sorted(root.parent.rglob("*"))}
    loaded = set(sys.modules)
    covalt("authority", "diff", "main..hostile")

    assert {path: path.lstat().st_mtime_ns for path in sorted(root.parent.rglob("*"))} == before
    assert not any("tools.notes" in name for name in set(sys.modules) - loaded)


def test_a_link_in_a_commit_is_not_followed(root: Path, covalt: Covalt) -> None:
    outside = root.parent / "outside.yaml"
    outside.write_text("version: 1\nroles: {evil: {admin: true}}\n", encoding="utf-8")
    (root / "covalt.yaml").unlink()
    (root / "covalt.yaml").symlink_to(outside)
    commit(root, "linked")
    code, said, _ = covalt("authority", "diff", "main..linked")

    assert code == 3
    assert "covalt.yaml has errors in HEAD" in said
    assert "evil" not in said


@pytest.mark.parametrize(
    "path", ["toolsets", "toolsets/state", "toolsets/locks", "toolsets/state/web.yaml"]
)
def test_what_a_link_would_bring_nobody_can_tell(root: Path, covalt: Covalt, path: str) -> None:
    (root.parent / "hidden").mkdir()
    if (root / path).exists():
        (root / path).rename(root.parent / "hidden" / "there")
    (root / path).symlink_to(root.parent / "hidden" / "there")
    commit(root, "linked")
    code, said, _ = covalt("authority", "diff", "main..linked")

    assert code == 3
    assert "wider (cannot tell): toolsets" in said


@pytest.mark.parametrize("path", ["toolsets/evil", "toolsets/web/tools"])
def test_a_submodule_is_nothing_that_anybody_can_tell(
    root: Path, covalt: Covalt, path: str
) -> None:
    for number, branch in enumerate(("first", "second"), 1):
        entry = f"160000,{str(number) * 40},demo/{path}"
        git(root, "update-index", "--add", "--cacheinfo", entry)
        git(root, "commit", "-q", "-m", branch)
        git(root, "branch", branch)

    for base, head in (("main~2", "first"), ("first", "second")):
        code, said, _ = covalt("authority", "diff", f"{base}..{head}")
        assert code == 3
        assert f"wider (cannot tell): {path} has errors" in said
    assert covalt("authority", "diff", "second..second")[0] == 0


def test_a_broken_toolset_that_is_gone_is_less(root: Path, covalt: Covalt) -> None:
    change(root, "a toolset is no YAML any more")
    commit(root, "broken")
    change(root, "a toolset goes")
    commit(root, "gone")

    assert covalt("authority", "diff", "broken..gone")[:2] == (
        0,
        (
            "toolsets/web/toolset.yaml:2:1 in BASE: narrower: toolsets/web is gone, which had errors\n"
            "authority shrank: 1 narrower\n"
        ),
    )


def test_no_credential_is_shown(root: Path, covalt: Covalt) -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    gear = "toolsets/gear/toolset.yaml"
    put(root, {gear: sample()[gear].replace("DISK_MODE: quiet", f"DISK_MODE: {token}")})
    said = [covalt("--role", "owner", "authority", "gear")[1]]
    said += [
        covalt("authority", "diff", "HEAD", "--format", form)[1]
        for form in ("text", "json", "sarif", "markdown")
    ]

    assert all("MODE" in one for one in said)
    assert not any(token[:12] in one for one in said)


def test_json_has_all_of_it(root: Path, covalt: Covalt) -> None:
    change(root, "a new argument", "a README changes")
    code, said, _ = covalt("authority", "diff", "HEAD", "--json")
    found = json.loads(said)

    assert code == 3
    assert found["base"] == git(root, "rev-parse", "HEAD")
    assert found["head"] is None
    assert found["changes"] == [
        {
            "verdict": "widening",
            "certain": True,
            "subject": "notes:write",
            "kind": "schema",
            "message": "notes:write: takes a new argument 'force'",
            "at": {"path": "toolsets/notes/toolset.yaml", "line": 17, "col": 9},
            "was": {"path": "toolsets/notes/toolset.yaml", "line": 15, "col": 7},
            "details": [],
            "near": None,
        }
    ]


def test_sarif_satisfies_the_schema_and_names_files_from_the_repository(
    root: Path, covalt: Covalt
) -> None:
    change(root, "a toolset goes", "a role becomes admin")
    _, said, _ = covalt("authority", "diff", "HEAD", "--format", "sarif")
    log: dict[str, Any] = json.loads(said)
    schema = json.loads((REPOSITORY / "fixtures/sarif/sarif-2.1.0.json").read_text("utf-8"))

    assert value_problems(schema, log) == []
    results = log["runs"][0]["results"]
    assert results[0]["ruleId"] == "authority/admin"
    assert {one["level"] for one in results} == {"warning", "note"}
    places = [one["locations"][0]["physicalLocation"] for one in results]
    assert all(one["artifactLocation"]["uri"].startswith("demo/") for one in places)
    assert places[0]["region"] == {"startLine": 7, "startColumn": 12}


def test_markdown_takes_nothing_of_the_files_for_markdown(root: Path, covalt: Covalt) -> None:
    evil = "x](https://evil.example) <img src=x> **bold** @team `code`"
    put(root, {"covalt.yaml": sample()["covalt.yaml"].replace("node_modules/", json.dumps(evil))})
    _, said, _ = covalt("authority", "diff", "HEAD", "--format", "markdown")

    assert said.startswith("### covalt-git: authority grew: 1 wider, 1 narrower\n")
    assert (
        "x\\]\\(https://evil.example\\) \\<img src=x\\> \\*\\*bold\\*\\* \\@team \\`code\\`" in said
    )


# --- the action -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "fail", "code", "summary"),
    [
        pytest.param("a role becomes admin", "false", 0, "authority grew: 1 wider", id="grown"),
        pytest.param("a role becomes admin", "true", 3, "authority grew: 1 wider", id="failing"),
        pytest.param("a tool goes", "true", 0, "authority shrank: 1 narrower", id="shrunk"),
        pytest.param("a README changes", "true", 0, "authority is the same", id="same"),
        pytest.param("", "false", 0, "was not compared", id="shallow"),
        pytest.param("", "true", 2, "was not compared", id="shallow-and-failing"),
    ],
)
def test_the_script_of_the_action_writes_the_summary(
    root: Path, tmp_path: Path, changed: str, fail: str, code: int, summary: str
) -> None:
    action = yaml_text.load((REPOSITORY / "action.yml").read_bytes(), "action.yml").data
    (step,) = [one for one in action["runs"]["steps"] if one.get("name") == "Authority"]
    assert "${{" not in step["run"]  # inputs reach a script as variables only
    base = git(root, "rev-parse", "HEAD") if changed else "0" * 40
    if changed:
        change(root, changed)
        commit(root, "pull")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/covalt-git"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m covalt_git "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    given = {
        "BASE": base,
        "FAIL_ON_GROWN": fail,
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "PATH": f"{program.parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=root,
        env=os.environ | given,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == code, done.stderr
    assert summary in (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert ("::warning" in done.stdout) is (not changed)
