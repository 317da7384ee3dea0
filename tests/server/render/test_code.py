"""Listings and patches: their lines, colours and limits."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import escape
from pygments.lexers import get_lexer_by_name
from pygments.styles import get_style_by_name
from pygments.token import Error, Whitespace

from covalt_git.text import display
from covalt_server.render import code
from covalt_server.render.code import diff, highlighted, language_of
from covalt_server.render.patches import read_patch
from tests.api_client import BEARER, HOME, Api
from tests.examples import examples
from tests.server.fragments import Fragment
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


def test_every_coloured_language_has_a_lexer_of_that_name() -> None:
    assert all(get_lexer_by_name(name).aliases[0] == name for name in code._COLOURED)


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
    assert 'id="result-1"' in highlighted("x", anchor="result-")
    assert 'id="&#34;&gt;1"' in highlighted("x", anchor='">')
    assert "number" not in highlighted("x\n", language="text", anchor=None)


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
@pytest.mark.parametrize(
    ("character", "told"),
    [
        ("\u202e", "\\u{202e}"),
        ("\u2066", "\\u{2066}"),
        ("\u200b", "\\u{200b}"),
        ("\x00", "\\u{0}"),
        ("\x1b", "\\u{1b}"),
        ("\ud800", "\\u{d800}"),
        ("\U000e0041", "\\u{e0041}"),
    ],
)
def test_hidden_characters_are_escaped(language: str, character: str, told: str) -> None:
    html = highlighted(f"a = 1 # {character}x", language=language)

    assert f'<span class="unseen-character">{told}</span>' in html
    assert character not in html


def test_joiners_and_line_breaks_keep_their_meaning() -> None:
    assert "👩\u200d💻" in highlighted("👩\u200d💻")
    assert lines_of(highlighted("a\r\nb\rc\n")) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "text",
    [
        "x = 1\n" * (code.MOST_COLOURED_LINES + 1),
        ("x" * 1000 + "\n") * 600,
        "x = 1\n" + "y" * 3000,
    ],
    ids=["lines", "characters", "a long line"],
)
def test_a_long_text_has_numbers_and_no_colours(text: str) -> None:
    html = highlighted(text, language="python")

    assert 'id="L2"' in html
    assert '<span class="n">' not in html
    assert "hint" not in html


@pytest.mark.parametrize(
    ("language", "text"),
    [
        pytest.param("markdown", "\n" * 9_000, id="empty-lines"),
        pytest.param("python", " \n" * 9_000, id="spaces"),
        pytest.param("ini", ("=" * 1900 + "\n") * 200, id="equals-signs"),
    ],
)
def test_a_text_that_takes_too_long_has_no_colours(language: str, text: str) -> None:
    html = highlighted(text, language=language, until=0)

    assert lines_of(html) == text.removesuffix("\n").split("\n")
    assert {span["class"] for span in Fragment(html).of("span")} == {"line"}


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

PATCH = """\
diff --git a/notes.md b/notes.md
index 1111111..2222222 100644
--- a/notes.md
+++ b/notes.md
@@ -1,3 +1,3 @@ # Notes
 # Notes
--- a/this was a rule
+<b>new</b>
 last
\\ No newline at end of file
"""


def test_a_patch_is_read_by_the_counts_of_its_hunks() -> None:
    (file,) = read_patch(PATCH)
    html = diff(PATCH)

    assert file.path == "notes.md"
    assert [(line.kind, line.old, line.new) for line in file.lines] == [
        ("hunk", None, None),
        ("same", 1, 1),
        ("del", 2, None),
        ("add", None, 2),
        ("same", 3, 3),
        ("note", None, None),
    ]

    assert lines_of(html)[1:4] == [" # Notes", "--- a/this was a rule", "+<b>new</b>"]
    assert '<span class="line add"><span class="number">  2</span>+&lt;b&gt;new' in html
    assert '<span class="line del"><span class="number">2  </span>--- a/this' in html
    assert (
        '<span class="count-add">+1</span> <span class="count-del">\N{MINUS SIGN}1</span>' in html
    )
    assert Fragment(html).others == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    named = ("-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "core.quotePath=true")
    done = subprocess.run(
        ["git", "-C", str(folder), *named, *arguments], capture_output=True, check=True
    )
    return done.stdout.decode("utf-8", "replace")


def test_patches_of_git_name_every_kind_of_change(folder: Path) -> None:
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
    most = code.MOST_PATCH_LINES
    many = "".join(f"+{number}\n" for number in range(most + 10))
    html = diff(
        f"diff --git a/x b/x\n@@ -0,0 +1,{most + 10} @@\n{many}"
        "diff --git a/y b/y\n@@ -0,0 +1 @@\n+hidden\n"
    )

    assert html.count('class="line') == most
    assert "11 more lines" in html
    assert '<span class="mono">y</span> <span class="count-add">+1</span>' in html
    assert "hidden" not in html
    line = "x" * code.LONGEST_PATCH_LINE
    assert "… 1 more" in diff(f"diff --git a/x b/x\n@@ -0,0 +1 @@\n+{line}\n")


@given(st.text())
@settings(max_examples=examples(50))
def test_any_text_is_shown_as_far_as_it_is_a_patch(text: str) -> None:
    assert Fragment(diff("diff --git a/x b/x\n@@ -1 +1 @@\n" + text)).others == []
    assert diff("no patch at all") == ""


# Colours


def luminance(colour: str) -> float:
    red, green, blue = (
        one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4
        for one in (int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4))
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(("scheme", "style"), code.STYLES.items())
def test_every_colour_has_enough_contrast(scheme: str, style: str) -> None:
    sheet = (Path(code.__file__).parents[1] / "static/style.css").read_text("utf-8")
    paper = re.findall(r"--code-paper: #([0-9a-f]{6});", sheet)[scheme == "dark"]
    # Spaces have no ink, and text.css takes the colour from what a lexer calls an error.
    looks = {token: look for token, look in get_style_by_name(style) if look["color"]}
    looks = {token: look for token, look in looks.items() if token not in {Error, Whitespace}}

    assert len(looks) > 40
    for token, look in looks.items():
        ratio = contrast(str(look["color"]), str(look["bgcolor"] or paper))
        assert ratio >= 4.5, (token, look["color"])


def test_colours_are_served_by_scheme_and_cached(api: Api) -> None:
    answer = api.client().get("/static/code.css", base_url=HOME, headers=BEARER)

    assert answer.mimetype == "text/css"
    assert re.findall(r"@media \(prefers-color-scheme: (\w+)\)", answer.text) == ["light", "dark"]
    same = {**BEARER, "If-None-Match": answer.headers["ETag"]}
    assert api.client().get("/static/code.css", base_url=HOME, headers=same).status_code == 304
