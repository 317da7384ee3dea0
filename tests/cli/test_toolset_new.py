"""``covalt-git toolset new``: each command that it prints works as it is printed."""

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.http_tools.upstream import upstream

Cli = Callable[..., tuple[int, str]]
MANIFEST = "toolsets/mine/toolset.yaml"


@pytest.fixture(autouse=True)
def _in_the_project(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)


def next_steps(cli: Cli, template: str) -> list[list[str]]:
    code, printed = cli("toolset", "new", "mine", "--template", template)
    assert code == 0
    return [shlex.split(line)[1:] for line in printed.partition("next:\n")[2].splitlines()]


@pytest.mark.parametrize(
    ("template", "result"), [("python", '"path": "notes.md"'), ("html", '"word": "be"')]
)
def test_the_printed_commands_work(cli: Cli, template: str, result: str) -> None:
    codes, printed = zip(*[cli(*step) for step in next_steps(cli, template)], strict=True)

    assert codes == (0, 0, 0, 0)
    assert result in printed[-1]


def test_the_commands_of_the_http_template_work_for_another_host(root: Path, cli: Cli) -> None:
    validate, _, test, chat, call = next_steps(cli, "http")
    assert [cli(*step)[0] for step in (validate, test, chat)] == [0, 0, 0]
    with upstream() as host:
        text = (root / MANIFEST).read_text(encoding="utf-8")
        (root / MANIFEST).write_text(
            text.replace("https://api.open-meteo.com/v1/forecast", f"{host.url}/echo"), "utf-8"
        )
        refused = cli(*call)[1]
        granted = cli(*shlex.split(refused.rpartition("hint: ")[2])[1:], "--no-terminal", "test")
        code, answer = cli(*call)

    assert (granted[0], code) == (0, 0)
    assert '"latitude": [' in answer
