"""The page of a toolset calls no tool of another toolset or server, whatever its renderer names."""

import pytest

from covalt_git.manifests.page_calls import tools_of_page
from covalt_git.models.renderers import Renderer
from covalt_git.models.tool import Tool


def tool(tool_id: str, toolset_id: str, *calls: str, server: str | None = None) -> Tool:
    renderer = Renderer(type="html", config={"content": "$data.html", "calls": [*calls]})
    return Tool(
        tool_id=tool_id,
        toolset_id=toolset_id,
        name=tool_id,
        input_schema={},
        server=server,
        renderer=renderer if calls else None,
    )


OWN = tool("lab:save", "lab")
OF_OWN_SERVER = tool("gear:read", "lab", server="gear")
OTHERS = (
    tool("near:save", "near"),
    tool("near:read", "near", server="gear"),
    tool("labs:save", "labs"),
    tool("workspace:write_file", "workspace"),
)


@pytest.mark.parametrize(
    ("entry", "called"),
    [
        ("save", [OWN]),
        ("lab:save", [OWN]),
        ("gear:read", [OF_OWN_SERVER]),
        ("*", [OWN]),
        ("*:*", [OWN, OF_OWN_SERVER]),
        ("**", [OWN]),
        ("near:save", []),
        ("near:*", []),
        ("labs:*", []),
        ("workspace:write_file", []),
    ],
)
def test_a_page_calls_tools_of_its_own_toolset_only(entry: str, called: list[Tool]) -> None:
    page = tool("lab:page", "lab", entry)
    assert tools_of_page(page, [OWN, OF_OWN_SERVER, *OTHERS]) == called
