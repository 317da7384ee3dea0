"""The cases of fixtures/cli: each command prints what its transcript shows."""

import shutil
from pathlib import Path

import pytest

from tests.api_client import configure
from tests.transcripts import REPOSITORY, play
from tests.trusting import use_config

CASES = sorted(path.parent for path in (REPOSITORY / "fixtures/cli").glob("*/steps.txt"))


def make_project(case: Path, sample: Path, root: Path) -> Path:
    """Make the project of a case: its own files, or the sample toolsets."""
    if not (case / "project").is_dir():
        return Path(shutil.copytree(sample, root))
    (root / "toolsets").mkdir(parents=True)
    configure(root)
    return Path(shutil.copytree(case / "project", root, dirs_exist_ok=True))


LONG = {
    *("bundle-signing", "chat-branches", "chat-fork-export", "chat-merge", "chat-messages"),
    *("chat-replay", "grant-network", "grant-servers", "registry", "sources"),
    *("tool-describe", "tool-test", "toolset-update"),
}
"""Cases whose operations tests of their folders show with their texts."""


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=pytest.mark.rest if case.name in LONG else (), id=case.name)
        for case in CASES
    ],
)
def test_a_transcript(
    sample_project: Path,
    tmp_path: Path,
    case: Path,
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
) -> None:
    use_config(monkeypatch, tmp_path / "config")
    root = make_project(case, sample_project, tmp_path / "project")

    shown = play(case, root)

    expected = case / "expected.txt"
    if pytestconfig.getoption("update_golden"):
        expected.write_text(shown, encoding="utf-8")
    assert shown == expected.read_text(encoding="utf-8")
