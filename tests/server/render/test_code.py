"""Listings and patches: their lines, colours and limits."""

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import escape

from covalt_git.text import display
from covalt_server.render import code, differences
from covalt_server.render.code import highlighted, language_of
from covalt_server.render.differences import diff
from covalt_server.render.patches import read_patch
from tests.examples import examples
from tests.server.fragments import Fragment
from tests.server.git.git_served import git
from tests.tables import tables

TABLES = tables(__file__)

# Texts without characters that a listing escapes.
SEEN = st.text(st.characters() | st.sampled_from("\n\t")).map(
    lambda text: "".join(one for one in text if display.running(one) == one)
)


def lines_of(html: str) -> list[str]:
    """Return the text of each line of a listing, without its number."""
    block = re.search(r"<code>(.*)</code>", html, re.DOTALL)
    assert block
    shown = re.sub(r'<(a|span) class="number"[^>]*>[^<]*</\1>', "", block[1])
    return Fragment(shown).text.removesuffix("\n").split("\n")


def test_a_language_is_known_by_its_names_by_files_and_by_texts() -> None:
    for name, language in TABLES["names"]:
        assert language_of("", language=name) == language, name
    for path, language in TABLES["files"]:
        assert language_of("", path=path) == language, path
    for text, language in TABLES["texts"]:
        assert language_of(text) == language, text
    assert language_of("[" * 100_000, language="x" * 100_000) == "text"
    assert language_of("{}", language="yaml", path="a.py") == "yaml"
    assert language_of("{}", language="auto", path="a.py") == "python"


def test_a_listing_has_numbered_lines_that_can_be_linked() -> None:
    html = highlighted("a = 1\n\nb = 2\n", language="python")

    found = Fragment(html)
    assert [line["id"] for line in found.of("span") if line.get("class") == "line"] == [
        "L1",
        "L2",
        "L3",
    ]
    assert [link["href"] for link in found.of("a")] == ["#L1", "#L2", "#L3"]
    assert {link["tabindex"] for link in found.of("a")} == {"-1"}
    assert found.of("pre") == [{"class": "code", "tabindex": "0"}]
    assert '<span class="mi">1</span>' in html
    assert "number" not in highlighted("x\n", language="text", numbered=False)


@given(SEEN, st.sampled_from(["python", "html", "yaml", "json", "markdown", "bash", "text"]))
@settings(max_examples=examples(60))
def test_a_listing_shows_its_text_and_nothing_else(text: str, language: str) -> None:
    html = highlighted(text, language=language)

    found = Fragment(html)
    assert lines_of(html) == text.removesuffix("\n").split("\n")
    assert found.others == []
    assert {name for name, _ in found.elements} <= {"pre", "code", "span", "a"}
    assert {key for _, held in found.elements for key in held} <= {
        "class",
        "id",
        "href",
        "tabindex",
    }


@pytest.mark.parametrize("language", ["python", "text"])
def test_hidden_characters_are_escaped(language: str) -> None:
    for character in "\u202e\x00\ud800\U000e0041":
        html = highlighted(f"a = 1 # {character}x", language=language)

        assert f'<span class="unseen-character">\\u{{{ord(character):x}}}</span>' in html
        assert character not in html


def test_a_text_too_large_for_a_page_is_cut_with_a_note() -> None:
    most = code.MOST_SHOWN_LINES
    assert "hint" not in highlighted("x\n" * most)

    lines = highlighted("x\n" * (most + 5))
    assert f"The first {most:,} of {most + 5:,} lines." in lines
    assert f'id="L{most}"' in lines
    assert f'id="L{most + 1}"' not in lines

    wide = highlighted("y" * (code.MOST_SHOWN + 1))
    assert f"The first {code.MOST_SHOWN:,} of {code.MOST_SHOWN + 1:,} characters." in wide


# Patches


def test_patches_of_git_name_every_kind_of_change(tmp_path: Path) -> None:
    folder = tmp_path
    git(folder, "init", "--quiet")
    (folder / "old name.txt").write_text("one\ntwo\nthree\nfour\n" * 5, "utf-8")
    (folder / "gone b/").mkdir()
    (folder / "gone b" / "x.txt").write_text("x\n", "utf-8")
    (folder / "run.sh").write_text("ls\n", "utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "one")
    (folder / "old name.txt").rename(folder / "grüße.txt")
    (folder / "gone b" / "x.txt").unlink()
    (folder / "run.sh").chmod(0o755)
    (folder / "picture.png").write_bytes(b"\x89PNG\x00\x00")
    (folder / "empty").touch()
    git(folder, "add", "--all")

    files = read_patch(git(folder, "diff", "--cached", "--find-renames"))

    assert {file.path: file.what for file in files} == {
        "empty": ["added"],
        "gone b/x.txt": ["deleted"],
        "grüße.txt": ["renamed from old name.txt"],
        "picture.png": ["added", "binary"],
        "run.sh": ["mode 100644 → 100755"],
    }


LINES = st.lists(st.sampled_from(["a", "b", "-- a/x", "++ b/x", "@@ -1 +1 @@", "diff --git", ""]))


@given(before=LINES, after=LINES)
@settings(max_examples=examples(25))
def test_the_lines_of_a_patch_are_both_versions(
    tmp_path_factory: pytest.TempPathFactory, before: list[str], after: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("sides")
    for name, lines in (("old", before), ("new", after)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    found = subprocess.run(
        ["git", "diff", "--no-index", "--unified=100", "old", "new"],
        cwd=folder,
        capture_output=True,
        check=False,
        text=True,
    )

    files = read_patch(found.stdout)

    numbered = [line for file in files for line in file.lines]
    if before == after:
        assert files == []
    else:
        assert [line.text[1:] for line in numbered if line.old] == before
        assert [line.text[1:] for line in numbered if line.new] == after
        assert [line.old for line in numbered if line.old] == [*range(1, len(before) + 1)]


def test_hostile_names_and_lines_of_a_patch_are_text() -> None:
    html = diff(
        "diff --git a/<img src=x> b/<img src=x>\n--- a/<img src=x>\n+++ b/<img src=x>\n"
        "@@ -0,0 +1 @@ <script>\n+\u202e<script>\n"
    )

    assert {name for name, _ in Fragment(html).elements} == {
        *("details", "summary", "span", "pre", "code"),
    }
    assert str(escape("<img src=x>")) in html
    assert "\\u{202e}" in html


def test_a_long_patch_is_cut_with_a_note() -> None:
    most = differences.MOST_PATCH_LINES
    many = "".join(f"+{number}\n" for number in range(most + 10))
    html = diff(
        f"diff --git a/x b/x\n@@ -0,0 +1,{most + 10} @@\n{many}"
        "diff --git a/y b/y\n@@ -0,0 +1 @@\n+hidden\n"
    )

    assert html.count('class="line') == most
    assert "11 more lines" in html
    assert '<span class="mono">y</span> <span class="count-add">+1</span>' in html
    assert "hidden" not in html
    line = "x" * differences.LONGEST_PATCH_LINE
    assert "… 1 more" in diff(f"diff --git a/x b/x\n@@ -0,0 +1 @@\n+{line}\n")


@given(st.text())
@settings(max_examples=examples(50))
def test_any_text_is_shown_as_far_as_it_is_a_patch(text: str) -> None:
    assert Fragment(diff("diff --git a/x b/x\n@@ -1 +1 @@\n" + text)).others == []
    assert diff("no patch at all") == ""


def test_the_word_at_the_column_of_a_problem_is_marked() -> None:
    text = "if a < b & c:\n\U0001f600 x = café-1\nend"
    columns = [(1, 8), (2, 7), (3, 4), (1, 4), (9, 1)]
    listing = code.highlighted(text, path="a.py", columns=columns)

    marked = re.findall(r"<mark>(.*?)</mark>", listing)
    assert marked == ["a", "b", "café", " "]
    assert re.sub("<.*?>", "", listing.replace("<mark> </mark>", "")) == re.sub(
        "<.*?>", "", code.highlighted(text, path="a.py")
    )
