"""The examples of docs/how-to/move-your-tools.md work, in their order, in one folder."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from covalt_git.cli import cli
from tests.formats import laws

PAGE = (laws.REPOSITORY / "docs/how-to/move-your-tools.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(
    r"(?:(?:In|in) `(?P<file>[\w./-]+)`[^`]*?:\n\n```(?:json|yaml|markdown)\n(?P<content>.*?)```\n)"
    r"|```sh\ncovalt-git (?P<command>[^\n]+)\n```",
    re.DOTALL,
)


def test_every_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made: list[str] = []
    for example in EXAMPLE.finditer(PAGE):
        if example["file"]:
            file = tmp_path / example["file"]
            file.parent.mkdir(exist_ok=True)
            file.write_text(example["content"], encoding="utf-8")
            continue
        args = shlex.split(example["command"])
        done = CliRunner().invoke(cli, args, catch_exceptions=False)

        assert done.exit_code == 0, done.output
        assert Path(args[-1]).exists()
        made += [args[-1]] if "toolset" in args else []
    assert len(made) == PAGE.count("--to toolset -o") - 1  # the first block is an outline
    for name in made:
        done = CliRunner().invoke(
            cli, ["convert", name, "--to", "toolset", "--dry-run", "--strict"]
        )
        assert done.exit_code == 0, done.output
