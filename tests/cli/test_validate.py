"""``validate`` and ``explain`` as people, hooks and workflows call them."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from covalt_git import yaml_text
from covalt_git.cli.terminal import progress_bar
from covalt_git.problems.explain import titles
from tests import command
from tests.toolsets.projects import CASES, MANIFEST, REPOSITORY, put_case, put_hello

if TYPE_CHECKING:
    from pathlib import Path

TYPO = MANIFEST.replace("entrypoint", "entrypont")


def covalt(*args: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    done = command.run(*args, cwd=cwd, env=os.environ | environment)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def on_a_terminal(*args: str, cwd: Path, **environment: str) -> str:
    """Return what a terminal of 100 columns gets."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "covalt_git", *args],
        cwd=cwd,
        env=os.environ | {"COLUMNS": "100", "TERM": "xterm"} | environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ):
        os.close(theirs)
        parts = []
        try:
            while part := os.read(ours, 65536):
                parts.append(part)
        except OSError:  # Linux ends a terminal so
            pass
    os.close(ours)
    return b"".join(parts).decode().replace("\r\n", "\n")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose toolset ``hello`` has a misspelt key in line 10."""
    put_hello(tmp_path, TYPO)
    return tmp_path


# --- for people -----------------------------------------------------------------------------------


def test_a_terminal_gets_the_line_with_carets_and_a_pipe_gets_plain_lines(project: Path) -> None:
    shown = on_a_terminal("validate", cwd=project, NO_COLOR="1")
    piped = covalt("validate", cwd=project).stdout

    assert shown.startswith(
        "toolsets/hello/toolset.yaml:10:5: CG201 tools[greet]: unknown key 'entrypont'\n"
        "10 |     entrypont: tools.hello:greet\n"
        "   |     ^^^^^^^^^\n"
        "  hint: write 'entrypoint'; known keys:"
    )
    assert "\x1b" not in shown
    assert "^" not in piped
    assert "\x1b" not in piped


def test_no_excerpt_shows_a_credential(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    put_hello(tmp_path, MANIFEST + f"description: use {token} for it\n")
    shown = on_a_terminal("validate", cwd=tmp_path, NO_COLOR="1")

    assert "CG212" in shown
    assert "| description: use ghp_***" in shown
    assert token[:12] not in shown


def test_colours_come_on_a_terminal_that_wants_them(project: Path) -> None:
    environment = dict.fromkeys(("NO_COLOR",), "")

    assert "\x1b[31m" in on_a_terminal("validate", cwd=project, **environment)


def test_what_can_be_mended_is_told(project: Path) -> None:
    done = covalt("validate", cwd=project)

    assert done.stderr == "1 of them can be mended: covalt-git validate --fix\n"


# --- which problems -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("paths", "reported"),
    [
        pytest.param(["toolsets/hello/toolset.yaml"], True, id="the-file"),
        pytest.param(["toolsets/hello"], True, id="its-folder"),
        pytest.param(["."], True, id="the-project"),
        pytest.param(["toolsets/hello/tools/hello.py"], True, id="what-the-manifest-names"),
        pytest.param(["covalt.yaml"], False, id="another-file"),
        pytest.param(["covalt.yaml", "toolsets"], True, id="several"),
    ],
)
def test_paths_choose_what_is_reported(project: Path, paths: list[str], *, reported: bool) -> None:
    done = covalt("validate", *paths, cwd=project)

    assert ("CG201" in done.stdout) is reported
    assert done.returncode == reported


def test_a_name_that_only_begins_alike_is_another(project: Path) -> None:
    shutil.copytree(project / "toolsets/hello", project / "toolsets/hello-2")

    done = covalt("validate", "toolsets/hello-2", "--json", cwd=project)

    paths = {one["path"] for one in json.loads(done.stdout)["problems"]}
    assert paths == {"toolsets/hello-2/toolset.yaml"}


def test_a_project_is_found_from_the_paths(project: Path) -> None:
    assert covalt("validate", str(project.name), cwd=project.parent).returncode == 1
    file = f"{project.name}/toolsets/hello/toolset.yaml"
    assert covalt("validate", file, cwd=project.parent).returncode == 1


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(["nowhere.yaml"], id="no-such-path"),
        pytest.param(["covalt.yaml", "/"], id="outside"),
        pytest.param(["--format", "xml"], id="unknown-format"),
        pytest.param(["--json", "--format", "text"], id="two-formats"),
        pytest.param(["--fix", "--diff"], id="fix-and-diff"),
        pytest.param(["--diff", "--format", "sarif"], id="diff-in-a-format"),
        pytest.param(["--write-baseline"], id="no-baseline-to-update"),
        pytest.param(["--baseline", "gone.json"], id="no-such-baseline"),
    ],
)
def test_a_wrong_call_is_2_and_prints_nothing_to_read(project: Path, args: list[str]) -> None:
    done = covalt("validate", *args, cwd=project)

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr


def test_warnings_fail_only_when_they_are_asked_to(tmp_path: Path) -> None:
    put_case(CASES / "html-without-a-page", tmp_path)

    assert covalt("validate", cwd=tmp_path).returncode == 0
    assert covalt("validate", "--strict", cwd=tmp_path).returncode == 1


# --- formats --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["text", "json", "github", "sarif", "junit"])
@pytest.mark.parametrize("sound", [True, False])
def test_every_format_has_the_problems_and_the_exit_code(
    project: Path, form: str, *, sound: bool
) -> None:
    if sound:
        (project / "toolsets/hello/toolset.yaml").write_text(MANIFEST, encoding="utf-8")

    done = covalt("validate", "--format", form, cwd=project)
    again = covalt("validate", "--format", form, cwd=project)

    assert done.returncode == (0 if sound else 1)
    assert done.stdout == again.stdout
    assert _count(form, done.stdout) == (0 if sound else 1)
    assert str(project) not in done.stdout


def _count(form: str, said: str) -> int:
    read: dict[str, Any] = {
        "text": lambda: said.count(" CG"),
        "json": lambda: len(json.loads(said)["problems"]),
        "github": lambda: said.count("::error"),
        "sarif": lambda: len(json.loads(said)["runs"][0]["results"]),
        "junit": lambda: int(ET.fromstring(said).get("failures", "")),
    }
    found: int = read[form]()
    return found


def test_json_names_the_item(project: Path) -> None:
    (told,) = json.loads(covalt("validate", "--json", cwd=project).stdout)["problems"]

    assert told["item"] == "tools[greet]"
    assert (told["path"], told["line"], told["col"]) == ("toolsets/hello/toolset.yaml", 10, 5)


# --- baselines ------------------------------------------------------------------------------------


def test_a_baseline_hides_what_is_known_and_tells_what_is_stale(project: Path) -> None:
    manifest = project / "toolsets/hello/toolset.yaml"
    made = covalt("validate", "--baseline", "known.json", "--write-baseline", cwd=project)
    assert (made.returncode, made.stdout) == (0, "1 problem written to known.json\n")

    manifest.write_text("# a line above\n" + TYPO, encoding="utf-8")
    known = covalt("validate", "--baseline", "known.json", cwd=project)
    assert known.returncode == 0
    assert known.stdout == "1 toolset, 0 tools: no problems, 1 more in the baseline\n"

    manifest.write_text(TYPO + "colour: red\n", encoding="utf-8")
    new = covalt("validate", "--baseline", "known.json", cwd=project)
    assert new.returncode == 1
    assert "unknown key 'colour'" in new.stdout
    assert "entrypont'" not in new.stdout

    manifest.write_text(MANIFEST, encoding="utf-8")
    mended = covalt("validate", "--baseline", "known.json", cwd=project)
    assert mended.returncode == 0
    assert "1 line of the baseline without a problem any more" in mended.stderr
    assert "hint: covalt-git validate --baseline known.json --write-baseline" in mended.stderr


def test_a_baseline_that_did_not_change_is_the_same_file(project: Path) -> None:
    covalt("validate", "--baseline", "known.json", "--write-baseline", cwd=project)
    before = (project / "known.json").read_bytes()
    covalt("validate", "--baseline", "known.json", "--write-baseline", cwd=project)

    assert (project / "known.json").read_bytes() == before


# --- mending --------------------------------------------------------------------------------------


def test_fix_writes_tells_and_checks_again(project: Path) -> None:
    manifest = project / "toolsets/hello/toolset.yaml"
    manifest.chmod(0o640)

    done = covalt("validate", "--fix", cwd=project)

    assert manifest.read_text(encoding="utf-8") == MANIFEST
    assert manifest.stat().st_mode & 0o777 == 0o640
    assert done.returncode == 0
    assert done.stdout == "1 toolset, 1 tool: no problems\n"
    assert done.stderr == (
        "mended toolsets/hello/toolset.yaml:10:5: "
        "CG201 tools[greet]: 'entrypont' is now 'entrypoint'\n"
    )
    assert sorted(one.name for one in manifest.parent.iterdir()) == ["tools", "toolset.yaml"]
    assert covalt("validate", "--fix", cwd=project).stderr == ""


def test_diff_shows_what_fix_would_do_and_git_takes_it(project: Path) -> None:
    manifest = project / "toolsets/hello/toolset.yaml"

    done = covalt("validate", "--diff", cwd=project)

    assert done.returncode == 1
    assert done.stderr == "1 problem would be mended\n"
    assert manifest.read_text(encoding="utf-8") == TYPO
    subprocess.run(["git", "apply", "-"], cwd=project, input=done.stdout, text=True, check=True)
    assert manifest.read_text(encoding="utf-8") == MANIFEST
    assert covalt("validate", "--diff", cwd=project).stdout == ""


def test_fix_keeps_to_the_paths_it_is_given(project: Path) -> None:
    covalt("validate", "--fix", "covalt.yaml", cwd=project)

    assert (project / "toolsets/hello/toolset.yaml").read_text(encoding="utf-8") == TYPO


def test_fix_leaves_a_link_alone(project: Path) -> None:
    manifest = project / "toolsets/hello/toolset.yaml"
    (project / "covalt.yaml").rename(project / "elsewhere.yaml")
    (project / "elsewhere.yaml").write_text("version: 1\nroels: {}\n", encoding="utf-8")
    (project / "covalt.yaml").symlink_to("elsewhere.yaml")

    covalt("validate", "--fix", cwd=project)

    assert (project / "covalt.yaml").is_symlink()
    assert "roels" in (project / "elsewhere.yaml").read_text(encoding="utf-8")
    assert manifest.read_text(encoding="utf-8") == MANIFEST


# --- explain --------------------------------------------------------------------------------------


def test_explain_lists_all_codes_and_prints_one(tmp_path: Path) -> None:
    listed = covalt("explain", cwd=tmp_path).stdout
    one = covalt("explain", "cg201", cwd=tmp_path).stdout
    told = json.loads(covalt("explain", "CG201", "--json", cwd=tmp_path).stdout)

    assert all(f"{code}  {title}" in listed for code, title in titles().items())
    assert one.startswith("# CG201: a key that nothing reads\n\n## What\n")
    assert told.keys() == {"code", "title", "what", "why", "how_to_mend"}
    assert len(json.loads(covalt("explain", "--json", cwd=tmp_path).stdout)) == len(titles())


def test_an_unknown_code_names_the_nearest(tmp_path: Path) -> None:
    done = covalt("explain", "CG2O1", cwd=tmp_path)

    assert done.returncode == 1
    assert "no code 'CG2O1'" in done.stderr
    assert "did you mean 'CG" in done.stderr


def test_explain_is_laid_out_on_a_terminal(tmp_path: Path) -> None:
    shown = on_a_terminal("explain", "CG201", cwd=tmp_path, NO_COLOR="")

    assert "\x1b[1mCG201: a key that nothing reads\x1b[0m" in shown
    assert "```" not in shown
    assert "##" not in shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert "    entrypont: tools.hello:greet" in plain.replace("      entrypont", "    entrypont")
    assert max(map(len, plain.splitlines())) <= 88


# --- hooks, workflows and the bar -----------------------------------------------------------------


@pytest.fixture
def path_with_covalt(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A search path on which ``covalt-git`` is this checkout."""
    folder = tmp_path_factory.mktemp("bin")
    script = folder / "covalt-git"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m covalt_git "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_the_hooks_run_and_look_at_the_files_of_a_project(
    project: Path, path_with_covalt: str
) -> None:
    hooks = yaml_text.load((REPOSITORY / ".pre-commit-hooks.yaml").read_bytes(), "hooks").data

    codes = []
    for hook in hooks:
        done = subprocess.run(
            hook["entry"].split(),
            cwd=project,
            env=os.environ | {"PATH": path_with_covalt},
            check=False,
        )
        codes.append(done.returncode)
        for path in ("covalt.yaml", "toolsets/a/tools/b.py", "sub/toolsets/state/a.yaml"):
            assert re.search(hook["files"], path)
        assert not re.search(hook["files"], "docs/toolsets.md")

    assert codes == [1, 0]  # the second one mends


@pytest.mark.parametrize("paths", ["", "covalt.yaml\ntoolsets/hello\n"])
def test_the_scripts_of_the_action_annotate_and_write_sarif(
    project: Path, path_with_covalt: str, tmp_path_factory: pytest.TempPathFactory, paths: str
) -> None:
    temporary = tmp_path_factory.mktemp("runner")
    action = yaml_text.load((REPOSITORY / "action.yml").read_bytes(), "action.yml").data
    steps = {step["name"]: step for step in action["runs"]["steps"] if "name" in step}
    given = {"PATHS": paths, "BASELINE": "", "STRICT": "false", "RUNNER_TEMP": str(temporary)}

    def run(name: str) -> subprocess.CompletedProcess[str]:
        assert steps[name]["shell"] == "bash"
        assert "${{" not in steps[name]["run"]  # inputs reach a script as variables only
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", steps[name]["run"]],
            cwd=project,
            env=os.environ | {"PATH": path_with_covalt} | given,
            capture_output=True,
            text=True,
            check=False,
        )

    written, told = run("Write SARIF"), run("Validate")

    assert written.returncode == 0, written.stderr
    log = json.loads((temporary / "covalt-git.sarif").read_text(encoding="utf-8"))
    assert [one["ruleId"] for one in log["runs"][0]["results"]] == ["CG201"]
    assert told.returncode == 1
    assert told.stdout.startswith("::error file=toolsets/hello/toolset.yaml,line=10,col=5,title=")
    used = set(re.findall(r"inputs\.([\w-]+)", json.dumps(action["runs"])))
    assert used == action["inputs"].keys()


def test_a_bar_moves_on_a_terminal_once_the_patience_is_over(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(patience_s: float) -> str:
        told = progress_bar.Bar("toolsets", patience_s)
        told(1, 2)
        told(2, 2)
        return capsys.readouterr().err

    assert read(0) == ""  # nobody looks

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert "[##########..........] 1/2 toolsets" in read(0)
    assert read(60) == ""
