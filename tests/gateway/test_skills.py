"""Skills of toolsets as resources with the scheme ``skill:``."""

from pathlib import Path

import pytest
from mcp import Client

from tests.mcp_client import make_project, read, refused, resource_uris, talk

URI = "skill://handbook/review-code/SKILL.md"
ROLES = "  guest: {allow: ['handbook.skill.*']}\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project", "handbook", roles=ROLES)


def test_a_skill_is_listed_and_its_files_are_read_but_no_file_outside(root: Path) -> None:
    async def say(client: Client) -> None:
        listed = {str(one.uri): one for one in (await client.list_resources()).resources}
        skill = listed[URI]
        assert (skill.title, skill.mime_type) == ("review-code", "text/markdown")
        assert skill.description == "Review a change of the code. Use it before a merge."
        assert (await read(client, URI)).text.endswith("then the change.\n")
        base = URI.removesuffix("SKILL.md")
        assert (await read(client, f"{base}references/rules.md")).text == "# Rules\n"
        for path in ("../../toolset.yaml", "%2e%2e/%2e%2e/toolset.yaml", "missing.md"):
            assert (await refused(client.read_resource(f"{base}{path}"))).code == -32602

    talk(root, say)


def test_a_role_reads_the_skills_that_its_patterns_permit(root: Path) -> None:
    async def permitted(client: Client) -> None:
        assert URI in await resource_uris(client)
        rules = URI.replace("SKILL.md", "references/rules.md")
        assert (await refused(client.read_resource(rules))).code == -32602

    async def denied(client: Client) -> None:
        assert URI not in await resource_uris(client)
        assert (await refused(client.read_resource(URI))).code == -32602

    talk(root, permitted, role="guest")
    talk(root, denied, role="reader")
