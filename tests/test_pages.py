"""The pages of docs/start and docs/how-to run as they are written; see :mod:`tests.page_reader`."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import mcp_types
import pytest
from mcp import Client, StdioServerParameters

from tests.page_reader import Reader
from tests.wsgi_server import listening

DOCS = Path(__file__).parents[1] / "docs"
START = ("install", "own-tool", "connect-your-agent", "go-back-and-merge", "review-in-ci")
FAILURES_OF_START = {
    "covalt-git call may expenses:totals --arg file=may.csv": 1,
    "covalt-git chat merge trip idea": 1,
    'git commit -qm "Change a key"': 1,
    "covalt-git authority diff main...HEAD": 3,
    "covalt-git authority diff main...HEAD --format markdown > summary.md": 3,
}
PAGES: dict[str, dict[str, int]] = {
    "how-to/back-up": {},
    "how-to/behind-tls": {},
    "how-to/http-tool-with-secret": {},
    "how-to/recover": {},
    "how-to/require-approval": {
        'covalt-git call c1 app-builder:write_file \'{"path": "config/a.txt", "content": "x"}\' < /dev/null': 4
    },
    "how-to/upgrade": {},
}
"""Each page with the exit codes of its commands that fail on purpose."""


AGENT = mcp_types.Implementation(name="claude-code", version="2")


def entries(reader: Reader) -> Iterator[list[str]]:
    """Yield the command of each entry that the page has written for a host."""
    for file in (".mcp.json", ".vscode/mcp.json", "opencode.json", "../.codex/config.toml"):
        text = (reader.folder / file).read_text(encoding="utf-8")
        settings = tomllib.loads(text) if file.endswith("toml") else json.loads(text)
        (servers,) = [value for key, value in settings.items() if isinstance(value, dict)]
        entry = servers["covalt-git"]
        words = [entry["command"]] if isinstance(entry["command"], str) else entry["command"]
        words = [*words, *entry.get("args", [])]
        yield [word.replace("${workspaceFolder}", str(reader.folder)) for word in words]


def agent(reader: Reader, request: str) -> None:
    """Do what the page asks the agent, through the server that the entry of Claude Code starts."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("data-lab_load_sample", {}),
        ("data-lab_report", {"path": "weather.csv"}),
        ("app-builder_write_file", {"path": "index.html", "content": "<h1>Weather</h1>\n"}),
    ]
    if "theme" in request:
        calls = [
            ("app-builder_write_file", {"path": "config/theme.yaml", "content": "colour: green\n"})
        ]

    async def work(words: list[str], chat: list[str], calls: list[tuple[str, Any]]) -> None:
        server = StdioServerParameters(
            command=words[0], args=[*words[1:], *chat], cwd=reader.folder, env=reader.env
        )
        async with Client(server, client_info=AGENT) as client:
            assert len((await client.list_tools()).tools) > 10
            for name, args in calls:
                await client.call_tool(name, args)

    first, *others = entries(reader)
    assert all(words[-4:] == first[-4:] for words in others)
    anyio.run(work, first, ["--chat", "c2"] if "theme" in request else [], calls)


def issues(environ: dict[str, Any], start: Any) -> list[bytes]:
    """Answer as the API of the page about secrets."""
    is_known = environ.get("HTTP_AUTHORIZATION") == "Bearer the-key-of-the-api"
    start("200 OK" if is_known else "401 Unauthorized", [("Content-Type", "application/json")])
    answer = {"issues": [{"id": 7, "title": "The login page is slow"}]}
    return [json.dumps(answer).encode()]


@pytest.fixture(scope="module")
def hosts() -> Iterator[dict[str, str]]:
    """The API of the pages, on this machine."""
    with listening(issues) as port:
        yield {
            "https://api.example.com": f"http://127.0.0.1:{port}",
            "api.example.com": f"127.0.0.1:{port}",
        }


def test_the_start_pages_run_in_their_order_in_one_home(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with Reader(home, agent) as reader:
        for name in START:
            page = DOCS / f"start/{name}.md"
            reader.performs(page)
            if pytestconfig.getoption("update_golden"):
                page.write_text(reader.text, encoding="utf-8")
    assert reader.codes == FAILURES_OF_START
    assert "\n".join(reader.differences) == ""


@pytest.mark.parametrize("name", PAGES)
def test_a_page_runs_as_it_is_written(
    name: str, hosts: dict[str, str], tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    home, page = tmp_path / "home", DOCS / f"{name}.md"
    home.mkdir()
    with Reader(home, agent, hosts) as reader:
        reader.reads_after_the_first_page()
        reader.folder = home / "demo"
        reader.performs(page)

    if pytestconfig.getoption("update_golden"):
        page.write_text(reader.text, encoding="utf-8")
    assert reader.codes == PAGES[name]
    assert "\n".join(reader.differences) == ""
