"""A toolset from a template works at once: every command that ``toolset new`` prints is typed here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from covalt_git.toolsets.new_project import create_project
from tests import command
from tests.runtime.http_upstream import upstream


@pytest.fixture
def root(tmp_path: Path) -> Path:
    create_project(tmp_path / "demo")
    return tmp_path / "demo"


def covalt(root: Path, *args: str) -> subprocess.CompletedProcess[str]:
    done = command.run(*args, cwd=root)
    assert "Traceback" not in done.stderr
    return done


def typed(root: Path, line: str) -> str:
    """Run a printed line in a shell, as whoever copies it does; return what it printed."""
    program = f'covalt-git() {{ {sys.executable} -m covalt_git "$@"; }}\n'
    done = subprocess.run(
        ["bash", "-c", program + line], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


def steps(printed: str) -> list[str]:
    return [line.strip() for line in printed.partition("next:\n")[2].splitlines()]


@pytest.mark.parametrize(
    ("template", "said"),
    [
        pytest.param("python", '"path": "notes.md"', id="python"),
        pytest.param("html", '"word": "be"', id="html"),
    ],
)
def test_what_is_printed_next_works_as_it_stands(root: Path, template: str, said: str) -> None:
    made = covalt(root, "toolset", "new", "mine", "--template", template)

    assert made.returncode == 0
    validate, test, chat, call = (typed(root, line) for line in steps(made.stdout))
    assert validate.endswith("no problems\n")
    assert "failed" not in test
    assert chat.startswith("c1")
    assert said in call


def test_where_there_is_a_chat_the_call_is_made_in_it(root: Path) -> None:
    covalt(root, "chat", "new", "--id", "work")

    printed = covalt(root, "toolset", "new", "mine").stdout

    assert steps(printed)[-1] == """covalt-git call work mine:add_note '{"text":"Buy milk"}'"""


def test_the_http_template_says_what_has_to_be_granted_and_then_asks_that_host(root: Path) -> None:
    printed = covalt(root, "toolset", "new", "weather", "--template", "http").stdout
    validate, grant, test, chat, call = steps(printed)

    assert grant == "covalt-git grant add weather network api.open-meteo.com"
    typed(root, validate)
    assert "skipped" in typed(root, test)
    typed(root, chat)
    assert typed(root, grant) == (
        "weather may reach api.open-meteo.com (port 443), until a file of it changes\n"
    )
    # The same with a host of this machine in the place of that one.
    with upstream() as host:
        manifest = root / "toolsets/weather/toolset.yaml"
        text = manifest.read_text(encoding="utf-8")
        manifest.write_text(
            text.replace("https://api.open-meteo.com/v1/forecast", f"{host.url}/echo"),
            encoding="utf-8",
        )
        stale = covalt(root, "call", "c1", "weather:current_weather", ARGS)
        hint = stale.stderr.rpartition("hint: ")[2].strip()
        typed(root, hint)
        answer = typed(root, call)

    assert "it has changed since that was granted" in stale.stderr
    assert hint == f"covalt-git grant add weather network {host.address}"
    assert '"latitude": [' in answer
    assert '"temperature_2m,wind_speed_10m"' in answer


ARGS = '{"latitude": 47.6, "longitude": -122.3}'


def test_the_mcp_template_is_shown_and_starts_nothing(root: Path) -> None:
    printed = covalt(root, "toolset", "new", "clock", "--template", "mcp").stdout

    *before, last = steps(printed)
    _, granted = (typed(root, line) for line in before)
    assert "clock may start its MCP server clock, until any of this changes:" in granted
    assert last == "covalt-git source refresh clock"
    assert "MCP servers: clock\n" in covalt(root, "toolset", "show", "clock").stdout


def test_json_tells_what_was_made_and_what_is_next(root: Path) -> None:
    done = covalt(root, "toolset", "new", "mine", "--name", "My Own", "--json")

    told = json.loads(done.stdout)
    assert told["toolset_id"] == "mine"
    assert told["made"] == ["toolsets/mine/tools/notes.py", "toolsets/mine/toolset.yaml"]
    assert told["next"][0] == "covalt-git validate toolsets/mine"
    assert "name: My Own\n" in (root / "toolsets/mine/toolset.yaml").read_text(encoding="utf-8")


def test_a_taken_id_is_refused_and_nothing_is_changed(root: Path) -> None:
    before = (root / "toolsets/data-lab/toolset.yaml").read_bytes()

    done = covalt(root, "toolset", "new", "data_lab")

    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        "the id 'data_lab' is taken: there is toolsets/data-lab\n  hint: try 'data_lab-2'\n",
    )
    assert (root / "toolsets/data-lab/toolset.yaml").read_bytes() == before
