"""Skills of MCP servers (SEP-2640): listed, accepted by their content, and served on to agents."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from covalt_git.calls.servers.mcp_calls import list_tools
from covalt_git.connections import skill_listing
from covalt_git.connections.pool import CONNECTIONS
from covalt_git.errors import CovaltError
from covalt_git.grants.grants import add_grant
from covalt_git.manifests.state_files import lock_file, write_lock
from covalt_git.sources.refresh import ToolDifference, find_source, refresh
from tests.api_client import BEARER, HOME, Api
from tests.command import run_here as run
from tests.examples import rest
from tests.mcp_client import make_project, read, refused, talk
from tests.operations_client import Operations
from tests.skill_requests import get_skill, list_skills, read_directory
from tests.taking_servers import add_skills_server, take
from tests.trusting import use_config

ROLES = """\
  near: {allow: ["near.*"]}
  other: {allow: ["demo.read"]}
"""
PDF = "skill://near/docs/pdf/SKILL.md"
FORMS = "skill://near/docs/pdf/references/FORMS.md"
SKILL = "---\nname: pdf\ndescription: Fill forms.\nlicense: MIT\n---\nBody\n"


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """Return the folder of the server's skills."""
    folder = tmp_path / "served"
    (folder / "docs/pdf/references").mkdir(parents=True)
    (folder / "docs/pdf/SKILL.md").write_text(SKILL)
    (folder / "docs/pdf/references/FORMS.md").write_text("# Forms\n")
    (folder / "mail").mkdir()
    (folder / "mail/SKILL.md").write_text("---\nname: mail\ndescription: Write mail.\n---\n")
    return folder


@pytest.fixture
def root(tmp_path: Path, served: Path) -> Iterator[Path]:
    root = make_project(tmp_path / "project", roles=ROLES)
    add_skills_server(root, served)
    yield root
    CONNECTIONS.close()


def reads(served: Path) -> list[str]:
    """Return the URIs that the server was asked to read."""
    log = served / "reads"
    return log.read_text().split() if log.exists() else []


def to_accept(root: Path) -> tuple[ToolDifference, ...]:
    """Return what is to accept."""
    return find_source(root, "near", "near").to_accept


def refreshed(root: Path, notes: list[str] | None = None) -> list[tuple[str, str]]:
    """List the server again, and return what is to accept, as kind and name."""
    report = (notes if notes is not None else []).append
    asked = partial(list_tools, root=root, report=report)
    refresh(root, find_source(root, "near", "near"), asked)
    return [(one.kind, one.name) for one in find_source(root, "near", "near").to_accept]


def test_accepted_skills_are_served_on_below_the_namespace(root: Path, served: Path) -> None:
    take(root, "near", "near")
    assert reads(served) == []  # no file before it is needed

    async def say(client: Client) -> None:
        entries = {entry["uri"]: entry for entry in await list_skills(client)}
        assert [*entries] == [PDF, "skill://near/mail/SKILL.md"]
        assert entries[PDF]["frontmatter"] == {
            "name": "pdf",
            "description": "Fill forms.",
            "license": "MIT",
        }
        assert [file["uri"] for file in entries[PDF]["resources"]] == [PDF, FORMS]
        assert await get_skill(client, PDF) == entries[PDF]
        assert reads(served) == []
        content = await read(client, PDF)
        assert (content.text, content.mime_type, content.meta) == (SKILL, "text/markdown", None)
        assert (await read(client, FORMS)).text == "# Forms\n"
        children = await read_directory(client, "skill://near/docs/pdf")
        assert [child["name"] for child in children] == ["pdf", "references"]
        listed = {one.uri: one for one in (await client.list_resources()).resources}
        assert (listed[PDF].name, listed[PDF].description) == ("pdf", "Fill forms.")

    talk(root, say)
    assert reads(served) == ["skill://docs/pdf/SKILL.md", "skill://docs/pdf/references/FORMS.md"]


def test_a_resource_of_the_server_has_only_icons_that_the_specification_permits(
    root: Path, served: Path
) -> None:
    sources = [
        "https://x.example/i.png",
        "javascript:alert(1)",
        "data:text/html,x",
        "http://10.0.0.1/i",
    ]
    icons = [{"src": source} for source in sources]
    resource = {"uri": "x:text", "name": "text", "icons": icons}
    (served / "resources.json").write_text(json.dumps([resource]))
    take(root, "near", "near")

    async def say(client: Client) -> list[str]:
        listed = {one.name: one for one in (await client.list_resources()).resources}
        return [icon.src for icon in listed["text"].icons or ()]

    assert talk(root, say) == ["https://x.example/i.png"]


@pytest.mark.parametrize("accepted", [False, True])
def test_a_skill_that_is_not_accepted_or_needs_approval_does_not_exist(
    root: Path, *, accepted: bool
) -> None:
    if accepted:
        take(root, "near", "near")
        text = (root / "covalt.yaml").read_text()
        rule = "approvals:\n  - {pattern: near.*, require: true}\n"
        (root / "covalt.yaml").write_text(text + rule)
    else:
        assert len(refreshed(root)) == 3  # and a template

    async def say(client: Client) -> None:
        assert await list_skills(client) == []
        assert (await refused(get_skill(client, PDF))).code == -32602
        assert (await refused(read(client, PDF))).code == -32602
        assert (await refused(read_directory(client, "skill://near/docs/pdf"))).code == -32602

    talk(root, say)


def test_a_role_gets_the_skills_that_match_its_patterns(root: Path) -> None:
    take(root, "near", "near")

    async def count(client: Client) -> int:
        return len(await list_skills(client))

    async def is_unknown(client: Client) -> None:
        assert (await refused(read(client, FORMS))).message == f"unknown resource {FORMS!r}"

    assert [talk(root, count, role=role) for role in ("near", "other")] == [2, 0]
    talk(root, is_unknown, role="other")


def test_a_template_of_the_server_reads_no_skill_that_is_not_accepted(
    root: Path, served: Path
) -> None:
    take(root, "near", "near")
    (served / "docs/pdf/SKILL.md").write_text(SKILL.replace("Body", "Evil"))
    assert [kind for kind, _ in refreshed(root)] == ["changed"]

    async def say(client: Client) -> None:
        for file in ("SKILL.md", "references/FORMS.md", "references/../SKILL.md"):
            uri = f"covalt-git://servers/near/skill://docs/pdf/{file}"
            assert (await refused(read(client, uri))).code == -32602, file
        assert (await read(client, "covalt-git://servers/near/skill://mail/SKILL.md")).text

    talk(root, say)


def _other_text(served: Path) -> None:
    (served / "docs/pdf/SKILL.md").write_text(SKILL.replace("Body", "Evil"))


def _longer(served: Path) -> None:
    (served / "docs/pdf/SKILL.md").write_text(f"{SKILL}more\n")


@pytest.mark.parametrize("change", [_other_text, rest(_longer)])
def test_a_file_that_is_not_the_accepted_one_is_not_passed_on(
    root: Path, served: Path, change: Callable[[Path], None]
) -> None:
    take(root, "near", "near")
    change(served)

    async def say(client: Client) -> None:
        error = await refused(read(client, PDF))
        assert error.data["error"] == "definition_changed"
        assert "source refresh near/near" in error.data["hint"]
        assert (await read(client, FORMS)).text == "# Forms\n"

    talk(root, say)


def test_front_matter_that_differs_from_the_entry_is_not_passed_on(
    root: Path, served: Path
) -> None:
    lied = entry_of(served) | {"frontmatter": {"name": "pdf", "description": "Harmless."}}
    (served / "entries.json").write_text(json.dumps([lied]))
    take(root, "near", "near")

    async def say(client: Client) -> None:
        assert "front matter" in (await refused(read(client, PDF))).message

    talk(root, say)


def test_a_changed_skill_is_a_difference_and_not_accepted_any_more(
    root: Path, served: Path
) -> None:
    take(root, "near", "near")
    (served / "docs/pdf/SKILL.md").write_text(SKILL.replace("Fill forms.", "Fill\u200b all."))
    (served / "docs/pdf/references/MORE.md").write_text("more")
    ((kind, name),) = refreshed(root)
    assert (kind, name.partition("-")[0]) == ("changed", "skill_docs_pdf")
    printed = run("source", "diff", "near", cwd=root).stdout
    assert "- description: Fill forms.\n" in printed
    (added,) = [line for line in printed.splitlines() if "+ description:" in line]
    assert "\u200b" not in added  # a character that is not shown is escaped
    assert "\\u{200b} all." in added
    assert "references/MORE.md" in printed

    async def say(client: Client) -> None:
        assert [one["frontmatter"]["name"] for one in await list_skills(client)] == ["mail"]

    talk(root, say)
    script = ("source", "accept", "near", "--no-terminal", "test")
    unread = run(*script, cwd=root)
    assert (unread.returncode, "only with the digest of the text" in unread.stderr) == (1, True)
    (changed,) = find_source(root, "near", "near").to_accept
    other = run(*script, f"{changed.name}@sha256:{'0' * 64}", cwd=root)
    assert (other.returncode, "has changed since it was shown" in other.stderr) == (1, True)
    assert len(refreshed(root)) == 1
    assert run(*script, f"{changed.name}@{changed.digest}", cwd=root).returncode == 0
    assert refreshed(root) == []


def test_a_reviewer_reads_a_skill_and_then_what_has_changed_in_it(
    root: Path, served: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    run(
        "toolset", "disable", "near", cwd=root
    )  # an imported toolset is reviewed before it is enabled
    refreshed(root)
    listed = run("source", "skills", "near", cwd=root).stdout
    states = [" ".join(line.split()[1:4]) for line in listed.splitlines()[1:]]
    assert states == ["to accept 2", "to accept 1"]
    printed = run("source", "skills", "near", "pdf", cwd=root)
    assert printed.stdout == SKILL
    assert "also: references/FORMS.md" in printed.stderr
    assert run("source", "skills", "near", "pdf", "no.md", cwd=root).returncode == 1
    assert "hint: covalt-git source accept near/near skill_docs_pdf-" in printed.stderr
    accepting = printed.stderr.split("hint: covalt-git ")[1].split()
    # The output of a script has the text that it accepts, and why no user was asked.
    accepted = run(*accepting, "--no-terminal", "in a test", cwd=root)
    assert accepted.stdout.startswith(SKILL)
    assert "without a question to a user: in a test" in accepted.stderr

    (served / "docs/pdf/SKILL.md").write_text(SKILL.replace("Body", "Bo\u200bdy"))
    refused_file = run("source", "skills", "near", "pdf", cwd=root)
    assert "has another content" in refused_file.stderr or "bytes" in refused_file.stderr
    refreshed(root)
    assert "- Body\n+ Bo\\u{200b}dy\n" in run("source", "skills", "near", "pdf", cwd=root).stdout


def test_a_skill_is_accepted_only_with_the_digest_of_its_text(root: Path) -> None:
    operate = Operations(root)
    source = {"toolset_id": "near", "namespace": "near"}

    def left() -> list[str]:
        to_accept = find_source(root, "near", "near").to_accept
        return [one.name.partition("-")[0] for one in to_accept]

    for row in operate("refresh_sources", sources=["near"], accept=True)["sources"]:
        assert row["failed"]
    assert left() == ["skill_docs_pdf", "skill_mail"]
    file = operate("read_source_skill", **source, name="mail")
    name, more = file["skill"]["name"], file["skill"]["text_digest"]
    assert more == file["digest"]
    tools = {name: file["skill"]["digest"]}
    for texts in ({}, {name: file["skill"]["digest"]}, {"other": more}):
        with pytest.raises(CovaltError) as refusal:
            operate("accept_tools", **source, tools=tools, skill_texts=texts)
        assert refusal.value.code == "skill_not_read"
    operate("accept_tools", **source, tools=tools, skill_texts={name: more})
    assert left() == ["skill_docs_pdf"]


@pytest.mark.rest
def test_refresh_accept_leaves_skills_and_names_the_command_that_shows_them(root: Path) -> None:
    printed = run("source", "refresh", "near", "--accept", "--no-terminal", "test", cwd=root)
    assert printed.returncode == 1
    assert "hint: covalt-git source skills near/near skill_mail-" in printed.stderr
    assert len(find_source(root, "near", "near").to_accept) == 2


def test_trust_names_an_accepted_skill_with_its_digest_and_how_to_read_it(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    take(root, "near", "near")
    use_config(monkeypatch, tmp_path / "config", trusts=False)
    (row,) = [
        row
        for row in Operations(root)("list_permissions")["permissions"]
        if "the skill near:skill_docs_pdf" in row["permits"]
    ]
    lock = find_source(root, "near", "near").lock
    assert lock is not None
    (name,) = [name for name in lock.offers if name.startswith("skill_docs_pdf")]
    assert lock.offers[name].computed_digest in row["permits"]
    assert f"covalt-git source skills near/near {name}" in row["permits"]
    assert not row["trusted"]


def test_a_pull_chooses_no_text_that_a_change_is_compared_with(
    root: Path, served: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    take(root, "near", "near")
    (served / "docs/pdf/SKILL.md").write_text(f"{SKILL}Evil\n")
    refreshed(root)
    skill = {"toolset_id": "near", "namespace": "near", "name": "pdf"}
    Operations(root)("read_source_skill", **skill)  # the reviewer reads it, and does not accept it
    lock = find_source(root, "near", "near").lock
    assert lock is not None
    (name,) = lock.replaced_skills
    evil = lock.offers[name]
    (served / "docs/pdf/SKILL.md").write_text(f"{SKILL}Evil\nMore\n")
    refreshed(root)
    lock = find_source(root, "near", "near").lock
    assert lock is not None
    write_lock(lock_file(root, "near"), lock.model_copy(update={"replaced_skills": {name: evil}}))

    assert Operations(root)("read_source_skill", **skill)["accepted_text"] is None


def test_the_pages_show_a_skill_of_a_server_and_accept_it_as_it_was_shown(
    root: Path, served: Path
) -> None:
    (served / "docs/pdf/SKILL.md").write_text(SKILL.replace("Body", "Bo\u200bdy <b>"))
    refreshed(root)
    ask = partial(Api.of(root).client().open, base_url=HOME, headers=BEARER)
    refused_form = {"namespace": "near", "tool": [f"{o.name} {o.digest}" for o in to_accept(root)]}
    ask("/toolsets/near/accept", method="POST", data=refused_form)
    assert len(to_accept(root)) == 3
    boxes = re.findall(r'name="tool" value="([^ "]*)', ask("/toolsets/near").text)
    assert [name for name in boxes if name.startswith("skill")] == []
    page = ask("/toolsets/near/sources/near").text
    assert "Fill forms." in page
    (name,) = re.findall(r'name="name" value="(skill_docs_pdf[^"]*)"', page)
    form = {"name": name, "path": "SKILL.md"}
    shown = ask("/toolsets/near/sources/near/skill", method="POST", data=form).text
    assert "Bo\\u{200b}dy &lt;b&gt;" in shown
    other = form | {"path": "references/FORMS.md"}
    other_file = ask("/toolsets/near/sources/near/skill", method="POST", data=other).text
    assert "Accept this skill" not in other_file
    (accepted,) = re.findall(r'name="tool" value="([^"]*)"', shown)
    (text,) = re.findall(r'name="skill_text" value="([^"]*)"', shown)
    form = {"namespace": "near", "tool": accepted, "skill_text": text}
    ask("/toolsets/near/accept", method="POST", data=form)

    async def say(client: Client) -> None:
        assert [entry["uri"] for entry in await list_skills(client)] == [PDF]

    talk(root, say)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"resources": "dynamic"}, "its files are dynamic"),
        ({"uri": "skill://docs/../pdf/SKILL.md"}, "its URI must have the form"),
        rest({"uri": "skill://docs/other/SKILL.md"}, "must be its name"),
        rest({"frontmatter": {"name": "Pdf", "description": "x"}}, "its name must be"),
        rest({"frontmatter": {"name": "pdf"}}, "it must have a description"),
        ({"resources": []}, "it must list SKILL.md"),
        (
            {"resources": [{"uri": "skill://a/b", "digest": "sha256:1", "size": 1}]},
            "the digest of",
        ),
    ],
)
def test_an_entry_without_the_form_of_the_specification_is_left_out_with_a_reason(
    root: Path, served: Path, change: dict[str, Any], reason: str
) -> None:
    (served / "entries.json").write_text(json.dumps([entry_of(served) | change]))
    notes: list[str] = []
    assert [name for _, name in refreshed(root, notes) if name.startswith("skill")] == []
    assert [note for note in notes if reason in note], notes


@pytest.mark.parametrize("entry", [5, None, "twice", {"frontmatter": {"x": 10**400}}])
def test_one_malformed_entry_hides_no_other_skill(root: Path, served: Path, entry: Any) -> None:
    own = entry_of(served)
    changed = own | {"frontmatter": own["frontmatter"] | {"x": 1}} if entry == "twice" else entry
    if isinstance(entry, dict):
        front = own["frontmatter"] | {"name": "big"} | entry["frontmatter"]
        uri = "skill://big/SKILL.md"
        files = [own["resources"][0] | {"uri": uri}]
        changed = {"uri": uri, "frontmatter": front, "resources": files}
    (served / "entries.json").write_text(json.dumps([own, changed]))
    notes: list[str] = []
    listed = [name for _, name in refreshed(root, notes) if name.startswith("skill")]
    assert listed == ["skill_docs_pdf-825550d6"]
    assert [note for note in notes if "is not listed" in note], notes


def test_a_server_lists_at_most_so_many_skills(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skill_listing, "MOST_SKILLS", 1)
    notes: list[str] = []
    names = [name for _, name in refreshed(root, notes) if name.startswith("skill")]
    assert [name.partition("-")[0] for name in names] == ["skill_docs_pdf"]
    assert [note for note in notes if "other skills are not listed" in note], notes


@pytest.mark.parametrize(("files", "size"), [(513, 1), (2, 9 << 20)])
def test_a_skill_above_the_limits_is_left_out(
    root: Path, served: Path, files: int, size: int
) -> None:
    own = entry_of(served)
    listed = [
        {"uri": f"skill://docs/pdf/{number}", "digest": f"sha256:{'0' * 64}", "size": size}
        for number in range(files - 1)
    ]
    own["resources"] = [own["resources"][0] | {"size": size}, *listed]
    (served / "entries.json").write_text(json.dumps([own]))
    notes: list[str] = []
    assert [name for _, name in refreshed(root, notes) if name.startswith("skill")] == []
    assert [note for note in notes if "hosts accept" in note], notes


def entry_of(served: Path) -> dict[str, Any]:
    """Return the entry of the skill as the server lists it."""
    files = [served / "docs/pdf/SKILL.md", served / "docs/pdf/references/FORMS.md"]
    return {
        "uri": "skill://docs/pdf/SKILL.md",
        "frontmatter": {"name": "pdf", "description": "Fill forms.", "license": "MIT"},
        "resources": [
            {
                "uri": f"skill://{file.relative_to(served).as_posix()}",
                "digest": f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}",
                "size": file.stat().st_size,
            }
            for file in files
        ],
    }


def test_a_skill_of_the_toolset_itself_comes_first_and_validate_reports_it(
    root: Path, served: Path
) -> None:
    take(root, "near", "near")
    own = root / "toolsets/near/skills/mail"
    own.mkdir(parents=True)
    (own / "SKILL.md").write_text("---\nname: mail\ndescription: Our own.\n---\n")
    add_grant(root, "near", "process", "near", by="me")

    async def say(client: Client) -> None:
        entries = {entry["uri"]: entry["frontmatter"] for entry in await list_skills(client)}
        assert entries["skill://near/mail/SKILL.md"]["description"] == "Our own."
        assert len(entries) == 2
        assert "Our own." in (await read(client, "skill://near/mail/SKILL.md")).text

    talk(root, say)
    assert "has a skill 'mail' itself" in run("validate", cwd=root).stdout
    assert reads(served) == []
