"""``covalt-git authority`` in the formats of other programs, and as the docs show it."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from covalt_git.json_values.json_schema import value_problems
from tests.authority.corpus import sample
from tests.operations.test_authority import change, commit, committed, put, root
from tests.toolsets.projects import REPOSITORY

__all__ = ["committed", "root"]
Cli = Callable[..., tuple[int, str]]


def documented() -> str:
    return (REPOSITORY / "docs/how-to/authority.md").read_text(encoding="utf-8")


def test_the_docs_show_what_it_prints(root: Path, cli: Cli) -> None:
    shown = cli("--role", "owner", "authority", "guest")[1]
    change(
        root,
        "a role may call another toolset",
        "an override asks no longer",
        "another host",
        "an argument may be longer",
        "a file changes, and all grants end",
        "a role may approve less",
    )
    commit(root, "wider")
    code, compared = cli("authority", "diff", "main..wider")

    assert code == 3
    assert f"$ covalt-git authority show guest\n{shown}" in documented()
    assert f"$ covalt-git authority diff main..wider\n{compared}" in documented()


def test_no_format_shows_a_credential(root: Path, cli: Cli) -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    gear = "toolsets/gear/toolset.yaml"
    put(root, {gear: sample()[gear].replace("DISK_MODE: quiet", f"DISK_MODE: {token}")})
    shown = [cli("--role", "owner", "authority", "gear")[1]]
    shown += [
        cli("authority", "diff", "HEAD", "--format", form)[1]
        for form in ("text", "json", "sarif", "markdown")
    ]

    assert all("MODE" in one for one in shown)
    assert not any(token[:12] in one for one in shown)


def test_sarif_fits_its_schema_and_names_files_from_the_repository(root: Path, cli: Cli) -> None:
    change(root, "a toolset goes", "a role becomes admin")
    log = json.loads(cli("authority", "diff", "HEAD", "--format", "sarif")[1])
    schema = json.loads((REPOSITORY / "fixtures/sarif/sarif-2.1.0.json").read_text("utf-8"))

    assert value_problems(schema, log) == []
    results = log["runs"][0]["results"]
    assert results[0]["ruleId"] == "authority/admin"
    assert {one["level"] for one in results} == {"warning", "note"}
    places = [one["locations"][0]["physicalLocation"] for one in results]
    assert all(one["artifactLocation"]["uri"].startswith("demo/") for one in places)
    assert places[0]["region"] == {"startLine": 7, "startColumn": 12}


def test_markdown_escapes_the_text_of_files(root: Path, cli: Cli) -> None:
    evil = "x](https://evil.example) <img src=x> **bold** @team `code`"
    put(root, {"covalt.yaml": sample()["covalt.yaml"].replace("node_modules/", json.dumps(evil))})
    shown = cli("authority", "diff", "HEAD", "--format", "markdown")[1]

    escaped = "x\\]\\(https://evil.example\\) \\<img src=x\\> \\*\\*bold\\*\\* \\@team \\`code\\`"
    assert escaped in shown


def test_changed_code_of_a_granted_program_is_wider_and_a_comment_is_one_line(
    tmp_path: Path, cli: Cli
) -> None:
    root = tmp_path / "served"
    (root / "toolsets/t/server").mkdir(parents=True)
    manifest = root / "toolsets/t/toolset.yaml"
    manifest.write_text(
        "manifest_version: '1'\nid: t\nname: T\nversion: '1'\n"
        "mcp_servers: [{id: s, command: python3, args: [server/main.py]}]\n"
    )
    program = root / "toolsets/t/server/main.py"
    program.write_text("print(1)\n")
    (root / "covalt.yaml").write_text("version: 1\n")
    (root / ".gitignore").write_text("data/\n")
    at = ("-C", str(root))
    for words in (("process", "s"), ("network", "a.example.com"), ("network", "b.example.com")):
        cli(*at, "grant", "add", "t", *words, "--no-terminal", "a test")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    commit(root, "base")

    program.write_text("print(2)\n")
    code, shown = cli(*at, "authority", "diff", "HEAD")
    message = "server t:s has a grant for all files of t: some have changed, so it ends"
    assert (code, message in shown) == (3, True)

    program.write_text("print(1)\n")
    manifest.write_text("# a comment\n" + manifest.read_text())
    code, shown = cli(*at, "authority", "diff", "HEAD")
    assert (code, len(shown.splitlines())) == (0, 2), shown
