"""Skills of toolsets, as resources with the scheme ``skill:`` and by the MCP extension for skills (SEP-2640)."""

import hashlib
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from tests.command import run_here as run
from tests.mcp_client import make_project, read, refused, resource_uris, talk, versions
from tests.skill_requests import get_skill, list_skills, read_directory, request

URI = "skill://handbook/review-code/SKILL.md"
ROOT = "skill://handbook/review-code"
ROLES = """\
  guest: {allow: ['handbook.skill.*']}
  skilled: {allow: ['handbook.skill.*', 'handbook.skill-files.*']}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project", "handbook", roles=ROLES)


def test_a_skill_is_listed_and_its_files_are_read_but_no_file_outside(root: Path) -> None:
    async def say(client: Client) -> None:
        listed = {str(one.uri): one for one in (await client.list_resources()).resources}
        skill = listed[URI]
        assert (skill.name, skill.title) == ("review-code", "review-code")
        assert skill.mime_type == "text/markdown"
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


@versions
def test_a_client_gets_each_skill_with_its_front_matter_and_all_of_its_files(
    root: Path, version: str
) -> None:
    folder = root / "toolsets/handbook/skills/review-code"
    (folder / "references/my notes é.md").write_text("notes")
    (folder / "SKILL.md").write_text(
        "---\nname: review-code\ndescription: |\n  Two\n  lines\n"
        "metadata: {count: 1, on: yes, day: 2026-01-02}\nallowed-tools: [a, b]\n---\r\nText\r\n"
    )

    async def say(client: Client) -> None:
        answer = await request(client, "skills/list")
        assert ("ttlMs" in answer) == (version != "legacy")
        (entry,) = answer["skills"]
        assert entry["uri"] == URI
        assert entry["frontmatter"] == {
            "name": "review-code",
            "description": "Two\nlines\n",
            "metadata": {"count": 1, "on": "yes", "day": "2026-01-02"},
            "allowed-tools": ["a", "b"],
        }
        files = {file["uri"]: file for file in entry["resources"]}
        notes = f"{ROOT}/references/my%20notes%20%C3%A9.md"
        assert [*files] == [URI, notes, f"{ROOT}/references/rules.md"]
        for uri, file in files.items():
            content = (await read(client, uri)).text.encode()
            assert file["size"] == len(content)
            assert file["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
        assert await get_skill(client, URI) == entry

    talk(root, say, version=version)


def test_the_server_declares_the_extension_with_directories(root: Path) -> None:
    async def say(client: Client) -> None:
        extensions = client.server_capabilities.extensions or {}
        assert extensions["io.modelcontextprotocol/skills"] == {"directoryRead": True}

    talk(root, say, version="auto")


def test_a_client_lists_the_folders_of_skills(root: Path) -> None:
    async def say(client: Client) -> None:
        children = await read_directory(client, ROOT)
        assert [(child["name"], child["mimeType"]) for child in children] == [
            ("review-code", "text/markdown"),
            ("references", "inode/directory"),
        ]
        (rules,) = await read_directory(client, f"{ROOT}/references")
        assert rules["uri"] == f"{ROOT}/references/rules.md"
        (folder,) = await read_directory(client, "skill://handbook")
        assert folder["uri"] == ROOT
        for other in (URI, f"{ROOT}/", f"{ROOT}/..", f"{ROOT}/referen", "skill://", "skill:/", ""):
            error = await refused(read_directory(client, other))
            assert (error.code, "is not a directory" in error.message) == (-32602, True), other
        for other in (ROOT, f"{ROOT}/references/rules.md", "skill://handbook/other/SKILL.md"):
            assert (await refused(get_skill(client, other))).code == -32602

    talk(root, say)


def test_a_role_that_may_not_read_each_file_gets_no_skill(root: Path) -> None:
    async def count(client: Client) -> int:
        return len(await list_skills(client))

    async def hidden(client: Client) -> None:
        unknown = await refused(get_skill(client, "skill://handbook/no/SKILL.md"))
        denied = await refused(get_skill(client, URI))
        assert denied.message.replace("review-code", "no") == unknown.message
        assert (await refused(read_directory(client, ROOT))).code == -32602

    counts = {role: talk(root, count, role=role) for role in ("skilled", "guest", "reader")}
    assert counts == {"skilled": 1, "guest": 0, "reader": 0}
    for role in ("guest", "reader"):
        talk(root, hidden, role=role)
    run("toolset", "disable", "handbook", cwd=root)
    assert talk(root, count) == 0


def test_a_skill_above_the_limits_is_a_warning_and_not_listed(root: Path) -> None:
    folder = root / "toolsets/handbook/skills/review-code"
    for number in range(511):
        (folder / f"{number}.md").touch()
    reported = run("validate", cwd=root)
    assert "SKILL.md: CG107 warning: it has 513 files, and hosts accept 512" in reported.stdout

    async def say(client: Client) -> None:
        assert await list_skills(client) == []
        assert URI in await resource_uris(client)

    talk(root, say)


def test_skills_are_listed_by_pages(root: Path) -> None:
    for number in range(101):
        folder = root / f"toolsets/handbook/skills/a{number}"
        folder.mkdir()
        (folder / "SKILL.md").write_text(f"---\nname: a{number}\ndescription: x\n---\n")

    async def say(client: Client) -> None:
        assert len((await request(client, "skills/list"))["skills"]) == 100
        uris = [entry["uri"] for entry in await list_skills(client)]
        assert len({*uris}) == 102
        assert (await refused(request(client, "skills/list", cursor="?"))).code == -32602

    talk(root, say)


def test_a_client_is_notified_of_a_changed_skill(root: Path) -> None:
    rules = root / "toolsets/handbook/skills/review-code/references/rules.md"
    expected = {("ResourcesListChanged", None), ("ResourceUpdated", URI)}
    received: set[tuple[str, str | None]] = set()

    async def say(client: Client) -> None:
        await client.list_tools()  # from now on the server watches
        asked: dict[str, Any] = {"resource_subscriptions": [URI]}
        with anyio.fail_after(20):
            async with client.listen(resources_list_changed=True, **asked) as events:
                rules.write_text("# Other rules\n")
                async for event in events:
                    received.add((type(event).__name__, getattr(event, "uri", None)))
                    if expected <= received:
                        return

    talk(root, say)
