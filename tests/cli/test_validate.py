"""``validate`` as hooks, workflows and users at a terminal run them."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from covalt_git import yaml_text
from covalt_git.cli import main
from tests import command
from tests.examples import one_in
from tests.github_action import ACTION, run_step, search_path
from tests.operations.test_validation import TYPO
from tests.toolsets.projects import MANIFEST, REPOSITORY, put_hello

COUNTS: dict[str, Callable[[str], int]] = {
    "text": lambda shown: shown.count(" CG"),
    "json": lambda shown: len(json.loads(shown)["problems"]),
    "github": lambda shown: shown.count("::error"),
    "sarif": lambda shown: len(json.loads(shown)["runs"][0]["results"]),
    "junit": lambda shown: int(ET.fromstring(shown).get("failures", "")),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project whose toolset ``hello`` has a misspelt key in line 10."""
    put_hello(tmp_path, TYPO)
    return tmp_path


def at_a_terminal(root: Path, *args: str, **environment: str) -> str:
    """Return what a terminal of 100 columns shows."""
    env = os.environ | {"COLUMNS": "100", "TERM": "xterm"} | environment
    return command.Terminal(*args, cwd=root, env=env).end().replace("\r\n", "\n")


@pytest.mark.parametrize("form", COUNTS)
@pytest.mark.parametrize("count", [0, 1])
def test_every_format_has_all_problems_and_the_exit_code(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    form: str,
    count: int,
) -> None:
    if count == 0:
        (root / "toolsets/hello/toolset.yaml").write_text(MANIFEST, encoding="utf-8")
    monkeypatch.chdir(root)
    with pytest.raises(SystemExit) as ended:
        main(["validate", "--format", form])
    printed = capsys.readouterr().out

    assert (ended.value.code, COUNTS[form](printed)) == (count, count)
    assert str(root) not in printed


def test_a_terminal_shows_the_line_with_the_place_marked(root: Path) -> None:
    shown = at_a_terminal(root, "validate", NO_COLOR="1")

    assert "\n10 |     entrypont: tools.hello:greet\n   |     ^^^^^^^^^\n" in shown
    assert "\x1b" not in shown
    assert "\x1b[31m" in at_a_terminal(root, "validate", NO_COLOR="")


def test_no_excerpt_shows_a_credential(root: Path) -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    text = f"{MANIFEST}description: use {token} for it\n"
    (root / "toolsets/hello/toolset.yaml").write_text(text, encoding="utf-8")
    shown = at_a_terminal(root, "validate", NO_COLOR="1")

    assert "| description: use ghp_***" in shown
    assert token[:12] not in shown


# --- hooks and workflows ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A search path on which ``covalt-git`` is this checkout."""
    return search_path(tmp_path_factory.mktemp("path") / "bin")


def test_the_hooks_run_for_the_files_of_a_project(root: Path, path: str) -> None:
    hooks = yaml_text.load((REPOSITORY / ".pre-commit-hooks.yaml").read_bytes(), "hooks").data
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)

    codes = []
    for hook in hooks:
        entry, env = hook["entry"].split(), os.environ | {"PATH": path}
        codes.append(subprocess.run(entry, cwd=root, env=env, check=False).returncode)
        for file in ("covalt.yaml", "toolsets/a/tools/b.py", "sub/toolsets/state/a.yaml"):
            assert re.search(hook["files"], file)
        assert not re.search(hook["files"], "docs/reference/toolset-yaml.md")
    assert codes == [1, 0]  # the second one fixes


@pytest.mark.parametrize("paths", one_in(2, ["covalt.yaml\ntoolsets/hello\n", ""]))
def test_the_github_action_annotates_and_writes_sarif(
    root: Path, path: str, tmp_path_factory: pytest.TempPathFactory, paths: str
) -> None:
    temporary = tmp_path_factory.mktemp("runner")
    inputs = {"PATHS": paths, "BASELINE": "", "STRICT": "false", "RUNNER_TEMP": str(temporary)}
    written, annotated = (
        run_step(name, root, PATH=path, **inputs) for name in ("Write SARIF", "Validate")
    )
    log: dict[str, Any] = json.loads((temporary / "covalt-git.sarif").read_text(encoding="utf-8"))

    assert written.returncode == 0, written.stderr
    assert [one["ruleId"] for one in log["runs"][0]["results"]] == ["CG201"]
    assert annotated.returncode == 1
    assert annotated.stdout.startswith("::error file=toolsets/hello/toolset.yaml,line=10,col=5,")
    used = set(re.findall(r"inputs\.([\w-]+)", json.dumps(ACTION["runs"])))
    assert used == ACTION["inputs"].keys()


@pytest.mark.parametrize("path", ["{name}/toolsets/hello", "toolsets/hello"])
def test_a_path_is_relative_to_the_caller_or_to_the_folder_of_the_option(
    root: Path, path: str
) -> None:
    place = path.format(name=root.name)
    done = command.run("-C", root.name, "validate", place, cwd=root.parent)

    assert done.returncode == 1
    assert f"{root.name}/toolsets/hello/toolset.yaml:10:5: CG201" in done.stdout


@pytest.mark.parametrize("options", [("--diff",), ("--fix", "--diff")])
def test_diff_shows_what_a_fix_would_do_or_that_it_does_nothing(
    root: Path, options: tuple[str, ...]
) -> None:
    file = root / "toolsets/hello/toolset.yaml"
    before = file.read_text()
    shown = command.run("validate", *options, cwd=root)
    assert "+    entrypoint: tools.hello:greet" in shown.stdout
    assert file.read_text() == before

    file.write_text(before.replace("entrypont:", "something_else:"))
    nothing = command.run("validate", *options, cwd=root)
    assert nothing.returncode == 1
    assert "unknown key 'something_else'" in nothing.stdout
    assert "--fix changes nothing" in nothing.stderr
