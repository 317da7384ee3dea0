"""``covalt-git grant add TOOLSET secret``: Python needs no host for one, an HTTP tool does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from covalt_git.access.grants import granted
from covalt_git.hosts import origin_of
from covalt_git.toolsets.toolset import read_toolset
from tests import command

if TYPE_CHECKING:
    from pathlib import Path

PYTHON = '{id: look, entrypoint: "tools.look:look"}'
HTTP = '{id: %s, http: {url: "%s", headers: {X-Key: "${API_KEY}"}}}'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "toolsets/demo/tools").mkdir(parents=True)
    (tmp_path / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    source = (
        "from covalt_toolset import get_context\n\n\n"
        "def look() -> int:\n"
        '    return len(get_context().secrets["API_KEY"])\n'
    )
    (tmp_path / "toolsets/demo/tools/look.py").write_text(source, encoding="utf-8")
    return tmp_path


def declare(root: Path, *tools: str) -> None:
    lines = "".join(f"  - {tool}\n" for tool in tools)
    text = f'id: demo\nname: Demo\nversion: "1"\nsecrets: [API_KEY, BASE_URL]\ntools:\n{lines}'
    (root / "toolsets/demo/toolset.yaml").write_text(text, encoding="utf-8")


def covalt(root: Path, *args: str) -> tuple[int, str]:
    done = command.run("-C", str(root), *args, env={"API_KEY": "sk-canary"})
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def test_python_is_given_a_secret_that_was_granted_without_a_host(root: Path) -> None:
    declare(root, PYTHON)
    covalt(root, "chat", "new", "--id", "c1")
    code, said = covalt(root, "call", "c1", "demo:look")
    assert (code, "covalt-git grant add TOOLSET secret API_KEY" in said) == (1, True)

    assert covalt(root, "grant", "add", "demo", "secret", "API_KEY") == (
        0,
        "demo may use API_KEY, until a file of it changes\n",
    )
    _, called = covalt(root, "call", "c1", "demo:look", "--json")
    assert json.loads(called)["result"] == len("sk-canary")

    assert "secret-API_KEY  for its Python" in covalt(root, "grant", "list")[1]
    assert "its Python  the environment" in covalt(root, "secret", "list")[1]
    assert "secrets: API_KEY, for its Python\n" in covalt(root, "authority", "show", "demo")[1]
    assert covalt(root, "grant", "revoke", "demo", "secret", "API_KEY") == (
        0,
        "demo has lost secret-API_KEY\n",
    )


@pytest.mark.parametrize(
    ("tools", "who", "hosts"),
    [
        pytest.param(
            [PYTHON, HTTP % ("web", "https://example.com/")],
            "demo:web",
            "example.com",
            id="beside-python",
        ),
        pytest.param(
            [HTTP % ("web", "https://b.example/"), HTTP % ("other", "http://127.0.0.1:8077/{x}")],
            "demo:web, demo:other",
            "127.0.0.1:8077 b.example",
            id="several",
        ),
        pytest.param([HTTP % ("web", "${BASE_URL}/v1")], "demo:web", "HOST", id="told-elsewhere"),
    ],
)
def test_where_an_http_tool_sends_it_the_hosts_are_asked_for_by_name(
    root: Path, tools: list[str], who: str, hosts: str
) -> None:
    declare(root, *tools)

    code, said = covalt(root, "grant", "add", "demo", "secret", "API_KEY")

    assert code == 1
    assert said == (
        f"{who} would send the secret 'API_KEY' to a host, which has to be named\n"
        f"  hint: covalt-git grant add demo secret API_KEY {hosts}\n"
    )
    assert not (root / "toolsets/state").exists()


def test_a_grant_without_a_host_lets_no_http_tool_send_the_secret_anywhere(root: Path) -> None:
    declare(root, PYTHON)
    covalt(root, "grant", "add", "demo", "secret", "API_KEY")
    toolset = read_toolset(root, "demo")

    may = granted("demo", toolset.state, toolset.digest)

    assert not may.secrets["API_KEY"].covers(origin_of("https://example.com/")[0])
