"""The pages of docs/start and docs/how-to run as they are written; see :mod:`tests.page_reader`."""

import configparser
import json
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import mcp_types
import pytest
from mcp import Client, StdioServerParameters

from tests.page_reader import HOME, PROGRAM, Reader
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
    "how-to/agents-with-different-rights": {},
    "how-to/back-up": {},
    "how-to/behind-tls": {},
    "how-to/http-tool-with-secret": {},
    "how-to/mcp-servers": {},
    "how-to/recover": {},
    "how-to/registry": {},
    "how-to/rename-a-toolset": {},
    "how-to/require-approval": {
        'covalt-git call c1 app-builder:write_file \'{"path": "config/a.txt", "content": "x"}\' < /dev/null': 4
    },
    "how-to/rest-apis": {},
    "how-to/scripts": {},
    "how-to/upgrade": {},
}
"""Each page with the exit codes of its commands that fail on purpose."""
ENDS = {
    "how-to/mcp-servers": "A server of your own has",
    "how-to/registry": "## Register a tool over HTTP",
    "how-to/rest-apis": "## Add a document",
    "how-to/scripts": "## Let an agent script",
}
"""Where the steps of a page end, and its reference begins, which other tests check."""
LONG = {
    f"how-to/{name}"
    for name in (
        "back-up",
        "http-tool-with-secret",
        "mcp-servers",
        "recover",
        "rename-a-toolset",
        "require-approval",
        "rest-apis",
        "scripts",
    )
}
"""Pages whose steps take longer than a test may: ``make test-rest`` runs them."""

WRITING_TOOLS = {
    *(f"app-builder_{name}" for name in ("delete_file", "edit_file", "run_command", "write_file")),
    *(f"data-lab_{name}" for name in ("load_sample", "report", "select_rows")),
    "resume",
}
"""The tools of the page's agent that can change files: page 5 has a case for each, and no other may write unasked."""
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
    if "resume" in request:
        calls = [("resume", {"execution_id": reader.pending})]

    async def work(words: list[str], chat: list[str], calls: list[tuple[str, Any]]) -> None:
        server = StdioServerParameters(
            command=words[0], args=[*words[1:], *chat], cwd=reader.folder, env=reader.env
        )
        async with Client(server, client_info=AGENT) as client:
            tools = (await client.list_tools()).tools
            assert {tool.name for tool in tools if not is_read_only(tool)} == WRITING_TOOLS
            for name, args in calls:
                result = await client.call_tool(name, args)
                assert bool(result.is_error) == ("theme" in request), result
                reader.pending = ((result.meta or {}).get("covalt-git/error") or {}).get(
                    "execution_id", ""
                )

    first, *others = entries(reader)
    assert all(words[-4:] == first[-4:] for words in others)
    continues = "theme" in request or "resume" in request
    anyio.run(work, first, ["--chat", "c2"] if continues else [], calls)


def is_read_only(tool: mcp_types.Tool) -> bool:
    return bool(tool.annotations and tool.annotations.read_only_hint)


def issues(environ: dict[str, Any], start: Any) -> list[bytes]:
    """Answer as the API of the page about secrets."""
    key = environ.get("HTTP_X_KEY") or environ.get("HTTP_AUTHORIZATION", "")
    is_known = key.removeprefix("Bearer ") == "the-key-of-the-api"
    start("200 OK" if is_known else "401 Unauthorized", [("Content-Type", "application/json")])
    answer = {"issues": [{"id": 7, "title": "The login page is slow"}]}
    return [json.dumps(answer).encode()]


@pytest.fixture(scope="module")
def hosts() -> Iterator[dict[str, str]]:
    """The API of the pages, on this machine."""
    with listening(issues) as port:
        server = f"127.0.0.1:{port}"
        yield {
            "https://api.example.com": f"http://{server}",
            # The default port of users is a number here.
            **{
                f"{words} api.example.com (port 443)": f"{words} {server}"
                for words in ("shop may reach", "tracker may reach", "request to")
            },
            "to api.example.com (port 443) in": f"to {server} in",
            "api.example.com": f"127.0.0.1:{port}",
        }


@pytest.mark.rest
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


def test_the_unit_of_a_server_starts_it_with_its_token(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with Reader(home) as reader:
        reader.reads_after_the_first_page()
        reader.folder = home / "demo"
        reader.performs(DOCS / "how-to/run-on-a-server.md")
        unit = home / ".config/systemd/user/covalt-git.service"
        settings = configparser.ConfigParser(interpolation=None)
        settings.optionxform = str  # type: ignore[assignment,method-assign]
        settings.read_string(unit.read_text(encoding="utf-8").replace("%h", str(home)))
        service = settings["Service"]
        secrets = Path(service["EnvironmentFile"])
        name, _, token = secrets.read_text(encoding="utf-8").strip().partition("=")
        program, *words = shlex.split(service["ExecStart"])
        reader.env[name] = token
        reader.folder = home

        assert reader.codes == {}
        assert secrets.stat().st_mode & 0o077 == 0
        assert f"?token={token}" in reader.serves(*words)
        assert program == PROGRAM.replace(HOME, str(home))
        if systemd := shutil.which("systemd-analyze"):
            Path(program).parent.mkdir(parents=True)
            Path(program).symlink_to(home.with_name("bin") / "covalt-git")
            verify = [systemd, "--user", "verify", str(unit)]
            env = {**reader.env, "XDG_RUNTIME_DIR": str(tmp_path)}
            answer = subprocess.run(verify, env=env, capture_output=True, text=True, check=False)
            assert (answer.returncode, str(unit) in answer.stderr) == (0, False), answer.stderr


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.rest if name in LONG else ()) for name in PAGES]
)
def test_a_page_runs_as_it_is_written(
    name: str, hosts: dict[str, str], tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    home, page = tmp_path / "home", DOCS / f"{name}.md"
    home.mkdir()
    with Reader(home, agent, hosts) as reader:
        if "$ cd ~ && covalt-git init" not in page.read_text(encoding="utf-8"):
            reader.reads_after_the_first_page()
            reader.folder = home / "demo"
        reader.performs(page, until=ENDS.get(name))

    if pytestconfig.getoption("update_golden"):
        page.write_text(reader.text, encoding="utf-8")
    assert reader.codes == PAGES[name]
    assert "\n".join(reader.differences) == ""
