"""The how-to of docs/how-to/scripts.md, as it is written: an agent in search mode, and a reviewer with a command."""

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from mcp import Client

from covalt_git.cli import cli
from tests.mcp_client import talk
from tests.scripts.conftest import Scripts

PAGE = Path(__file__).parents[2] / "docs/how-to/scripts.md"
MANIFEST = """\
id: gmail
name: Gmail
version: "1"
tools:
  - {id: messages.list, entrypoint: "tools.mail:found", annotations: {read_only: true}}
  - {id: messages.send, entrypoint: "tools.mail:sent", annotations: {destructive: false}}
"""
CODE = """\
def found(query: str) -> dict:
    return {"messages": [{"from": f"a{number}"} for number in range(3)]}


def sent(to: str, text: str) -> None:
    with open("sent.txt", "a") as file:
        file.write(to + "\\n")
"""


def block(language: str) -> str:
    """Return the first code block of the page in a language, without its indentation."""
    text = PAGE.read_text(encoding="utf-8")
    match = re.search(rf"( *)```{language}\n(.*?)\n *```", text, re.DOTALL)
    assert match is not None
    return "\n".join(line.removeprefix(match[1]) for line in match[2].splitlines())


@pytest.mark.rest
def test_the_how_to_lets_an_agent_script_its_tools(scripts: Scripts) -> None:
    folder = scripts.root / "toolsets/gmail/tools"
    folder.mkdir(parents=True)
    (folder.parent / "toolset.yaml").write_text(MANIFEST)
    (folder / "mail.py").write_text(CODE)
    config = f"version: 1\ndefault_role: agent\n{block('yaml')}\n"
    (scripts.root / "covalt.yaml").write_text(config)
    (command,) = re.findall(r"covalt-git (--role reviewer .*)", PAGE.read_text(encoding="utf-8"))

    async def say(client: Client) -> tuple[Any, Any]:
        args = {"script": block("python")}
        paused = await client.call_tool("workspace.run_script", args)
        assert "paused" in paused.structured_content, paused.structured_content
        execution_id = paused.structured_content["paused"]["execution_id"]
        words = command.replace("9c11d0e2", execution_id).split()
        approve = ["-C", str(scripts.root), *words, "--no-terminal", "tested"]
        result = CliRunner().invoke(cli, approve)
        assert result.exit_code == 0, result.output
        return paused, await client.call_tool("resume", {"execution_id": execution_id})

    paused, ended = talk(scripts.root, say, role="agent", mode="search", chat="c1")
    assert paused.structured_content["paused"]["tool_path"] == "gmail.messages.send"
    assert ended.structured_content["success"] is True
    sent = (scripts.operate.workspace("c1") / "sent.txt").read_text().split()
    assert sent == ["a0", "a1", "a2"]
