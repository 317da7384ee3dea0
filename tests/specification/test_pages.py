"""The pages of the specification's section 8: toolsets, the tool picker, and the files of a workspace."""

import re
from pathlib import Path

import pytest

from tests.api_client import Api
from tests.server.visitor import Visitor

SERVER = """\
id: search
name: Search
version: "1"
mcp_servers: [{id: search-server, command: npx}]
"""


@pytest.fixture
def visitor(root: Path) -> Visitor:
    folder = root / "toolsets/search"
    folder.mkdir()
    (folder / "toolset.yaml").write_text(SERVER, encoding="utf-8")
    return Visitor.of(root)


def part(source: str, begin: str, end: str) -> str:
    """Return the text of a page between two texts."""
    return source.partition(begin)[2].partition(end)[0]


@pytest.mark.requirement(
    "covalt-7.2.list_tools", "covalt-8.2.groups", "covalt-8.2.renderer", "covalt-8.2.confirmation"
)
def test_the_picker_groups_tools_with_their_renderers_and_approvals(visitor: Visitor) -> None:
    source = visitor.open("/tools").source

    groups = re.findall(r"<h2>([^<]+)</h2>\s*<span class=\"badge\">([^<]+)</span>", source)
    assert ("App Builder", "toolset") in groups
    assert ("search-server", "MCP server") in groups
    for name, tool_id in (("App Builder", "app-builder"), ("Data Lab", "data-lab")):
        group = part(source, f"<h2>{name}</h2>", "</details>")
        assert {one.partition(":")[0] for one in re.findall(r"mono\">([^<]+)", group)} == {tool_id}
    write = part(source, ">Write File<", "</h3>")
    run = part(source, ">Run Command<", "</h3>")
    assert ">code</span>" in write
    assert "needs approval" not in write
    assert "needs approval" in run


@pytest.mark.requirement("covalt-8.1.list", "covalt-8.1.tools")
def test_toolsets_are_listed_with_a_switch_and_their_tools(visitor: Visitor) -> None:
    page = visitor.open("/toolsets")
    off = visitor.send(page.form("/toolsets/data-lab/enabled"))

    assert off.form("/enabled").fields["enabled"] == ["true"]
    assert "/toolsets/data-lab" in [one.href for one in page.links]
    assert "data-lab:summarize" in visitor.open("/toolsets/data-lab").text


@pytest.mark.requirement("covalt-8.4.tree", "covalt-8.4.view", "covalt-8.4.changed")
def test_files_are_a_tree_that_marks_the_last_changes(visitor: Visitor, api: Api) -> None:
    api.write("docs/old.md", "old")
    api.write("docs/new.md", "new")

    page = visitor.open("/chats/c1/files")

    folder = part(page.source, "docs/", "</ul>")
    assert "added" in part(folder, ">new.md</a>", "</li>")
    assert "added" not in part(folder, ">old.md</a>", "</li>")
    # Until the next call, whatever is committed in between.
    api.post("add_message", chat_id="c1", text="Thank you")
    api.upload(("mine.txt", b"mine"))
    page = visitor.open("/chats/c1/files")
    assert "added" in part(page.source, ">new.md</a>", "</li>")
    assert "added" in part(page.source, ">mine.txt</a>", "</li>")
    assert "added" not in part(page.source, ">old.md</a>", "</li>")
    commit = visitor.open(page.link("added by the last call"))
    assert "docs/new.md" in commit.text
    api.write("other.md", "other")
    assert "added" not in part(visitor.open("/chats/c1/files").source, ">new.md</a>", "</li>")
    shown = visitor.open(page.link("new.md"))
    assert "new" in shown.text
    assert "download=true" in shown.link("Download")
