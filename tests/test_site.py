"""The site of the documents: its navigation has every page, its search answers questions, and it loads nothing from elsewhere."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from covalt_git.manifests.published_schemas import schema_text
from docs.site import keys_page, pages
from docs.site.__main__ import OUTPUT, READY
from docs.site.redirects import REDIRECTS
from tests.browser import missing

ROOT = Path(__file__).parents[1]
SOURCES = ("docs", "covalt_git", "covalt_toolset", "server", "README.md", "CHANGELOG.md")
QUESTIONS = yaml.safe_load((ROOT / "tests/site_questions.yaml").read_text(encoding="utf-8"))
LOADED = re.compile(
    r"<(?:script|img|iframe)[^>]* src=\"([^\"]+)|<link[^>]* rel=\"(?:stylesheet|(?:shortcut )?icon|preload)\"[^>]* href=\"([^\"]+)"
)


def changed_at(path: Path) -> float:
    files = [path] if path.is_file() else [*path.rglob("*.py"), *path.rglob("*.[jm][sd]")]
    return max(file.stat().st_mtime for file in files)


@pytest.fixture(scope="module")
def site() -> Path:
    """Return the folder of the site, which ``make check`` has built just before."""
    ready = OUTPUT / READY
    if not ready.exists() or ready.stat().st_mtime < max(changed_at(ROOT / one) for one in SOURCES):
        # In a process of its own, as libraries of Sphinx warn, which is an error in tests.
        answer = subprocess.run(
            [sys.executable, "-m", "docs.site"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, answer.stdout + answer.stderr
    return OUTPUT


def reached(docs: Path, page: str = "index.md") -> Iterator[str]:
    """Yield the pages that the index pages list, from the first page down."""
    yield page
    if page.endswith("index.md"):
        for _, path in pages.listed((docs / page).read_text(encoding="utf-8")):
            yield from reached(docs, (Path(page).parent / path).as_posix())


def unlisted(docs: Path) -> set[str]:
    """Return the pages that no index page lists."""
    return {one.relative_to(docs).as_posix() for one in docs.rglob("*.md")} - {*reached(docs)}


def test_the_navigation_has_every_page_once() -> None:
    listed = [*reached(pages.DOCS)]

    assert unlisted(pages.DOCS) == set()
    assert len(listed) == len({*listed})


def test_the_navigation_has_the_title_of_each_page() -> None:
    differing = []
    for folder in ("start", "how-to", "reference"):
        index = pages.DOCS / folder / "index.md"
        for title, path in pages.listed(index.read_text(encoding="utf-8")):
            heading = re.search(r"(?m)^# (?:\d\. )?(.+)$", (index.parent / path).read_text("utf-8"))
            if heading is None or heading[1] != title:
                differing.append((path, title))

    assert differing == []


def test_a_page_that_no_index_page_lists_is_refused(tmp_path: Path) -> None:
    (tmp_path / "how-to").mkdir()
    (tmp_path / "index.md").write_text("# Site\n\n- [How to](how-to/index.md)\n")
    (tmp_path / "how-to/index.md").write_text("# How to\n\n- [Logs](logs.md): read them\n")
    (tmp_path / "how-to/logs.md").write_text("# Logs\n\nSee [another page](other.md).\n")
    (tmp_path / "how-to/other.md").write_text("# Other\n")

    assert unlisted(tmp_path) == {"how-to/other.md"}


def test_a_marker_in_code_is_not_replaced() -> None:
    in_code = (
        "# Page\n\nA comment `<!-- generated: sdk -->`.\n\n```\n<!-- generated: sdk -->\n```\n"
    )

    assert pages.generated(in_code) == in_code
    replaced = pages.generated(f"{in_code}\n<!-- generated: sdk -->\n\nThe rest.\n")
    assert replaced.startswith(f"{in_code}\n")
    assert not replaced.endswith("The rest.\n")


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    elsewhere = []
    for page in site.rglob("*.html"):
        for match in LOADED.finditer(page.read_text(encoding="utf-8")):
            address = match[1] or match[2]
            if re.match(r"(?:\w+:)?//", address):
                elsewhere.append((page.name, address))
    for style in site.rglob("*.css"):
        elsewhere += re.findall(r"(?:@import|url\()\s*['\"]?(?:https?:)?//[^)]*", style.read_text())

    assert elsewhere == []


def test_each_page_names_its_icon(site: Path) -> None:
    match = re.search(
        r'<link rel="(?:shortcut )?icon" href="([^"?]+)', (site / "index.html").read_text()
    )

    assert match
    assert (site / match[1]).is_file()


def test_an_old_address_leads_to_the_page_with_its_text(site: Path) -> None:
    for old, new in REDIRECTS.items():
        page = site / f"{old}.html"
        assert f'url={new}"' in page.read_text(encoding="utf-8"), old
        assert (page.parent / new).is_file(), new


def test_a_question_is_answered_by_one_of_the_first_three_results(site: Path) -> None:
    node = shutil.which("node")
    if node is None:
        missing("Node", "apt-get install nodejs")
    assert node is not None
    command = [node, str(ROOT / "tests/site_search.js"), str(site)]
    answer = subprocess.run(
        [*command, *(one["question"] for one in QUESTIONS)], capture_output=True, check=True
    )
    results = json.loads(answer.stdout)

    assert len(results) == len(QUESTIONS) >= 18
    assert [
        (one["question"], found[:3])
        for one, found in zip(QUESTIONS, results, strict=True)
        if not {*one.get("pages", ())} & {*found[:3]} and one.get("first") != (found or [""])[0]
    ] == []


def test_the_pages_that_are_generated_have_their_content(site: Path) -> None:
    texts = {
        name: re.sub(r"<[^>]+>", "", (site / f"reference/{name}.html").read_text(encoding="utf-8"))
        for name in ("commands", "toolset-yaml", "covalt-yaml", "http-api", "python-api", "sdk")
    }

    assert "covalt-git chat branch rename [OPTIONS] CHAT OLD NEW" in texts["commands"]
    assert "List of commands" in texts["commands"]
    assert "with --fix" in texts["commands"]  # two hyphens, not a dash
    assert "Keys of tools[].http" in texts["toolset-yaml"]
    assert "Keys of roles.NAME" in texts["covalt-yaml"]
    assert "POST /api/merge_branch" in texts["http-api"]
    assert "create_chat(" in texts["python-api"]
    assert "set_context(" in texts["sdk"]


@pytest.mark.parametrize("name", ["toolset", "covalt"])
def test_the_examples_of_keys_are_valid(name: str) -> None:
    schema = json.loads(schema_text(name))
    models = {schema["title"]: schema, **schema["$defs"]}
    for model, examples in keys_page.EXAMPLES.items():
        for key, value in examples.items() if model in models else ():
            part = {"$defs": schema["$defs"], **models[model]["properties"][key]}
            jsonschema_rs.validate(part, value)


def test_each_object_with_examples_exists() -> None:
    schemas = [json.loads(schema_text(name)) for name in ("toolset", "covalt")]
    models = {model for schema in schemas for model in (schema["title"], *schema["$defs"])}

    assert {*keys_page.EXAMPLES} - models == set()
