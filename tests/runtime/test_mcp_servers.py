from pathlib import Path

from covalt_git.access.grants import Granted
from covalt_git.credentials.values import SecretStore
from covalt_git.http_tools.secret_lookup import Lookup
from covalt_git.runtime import mcp_servers
from covalt_git.toolsets.toolset import read_toolset

MANIFEST = """
id: far
name: Far
version: "1"
secrets: [KEY]
mcp_servers:
  - {id: web, url: "https://far.example/mcp", headers: {X-Key: "${KEY:-}", X-Place: "${env:PLACE}"}}
  - {id: program, command: npx, env: {KEY: "${KEY:-}", MODE: "", LEVEL: "a${KEY:-}"}}
"""


def test_an_optional_variable_or_header_that_is_not_set_is_left_out(root: Path) -> None:
    (root / "toolsets/far").mkdir()
    (root / "toolsets/far/toolset.yaml").write_text(MANIFEST, encoding="utf-8")
    toolset = read_toolset(root, "far")
    assert toolset.manifest is not None
    web, program = (
        mcp_servers.definition(
            toolset,
            server,
            root=root,
            workspace=root / "workspace",
            chat_id="c1",
            may=Granted("far"),
            lookup=Lookup(frozenset({"KEY", "PLACE"}), SecretStore({"PLACE": "p"})),
        )
        for server in toolset.manifest.mcp_servers
    )

    assert web.headers == {"X-Place": "p"}
    assert program.env == {"MODE": "", "LEVEL": "a"}
    assert toolset.problems == ()
