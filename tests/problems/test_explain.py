"""Every code is explained, and its examples are what they say."""

import re
import subprocess
from pathlib import Path, PurePosixPath
from typing import NamedTuple, get_args

import pytest

from covalt_git.authority.policy_problems import policy_problems
from covalt_git.errors import UnknownNameError
from covalt_git.http_client.errors import Reason
from covalt_git.models import outcomes
from covalt_git.problems import codes
from covalt_git.problems.explain import (
    SECTIONS,
    call_code,
    call_codes,
    explanation,
    problems_page,
    titles,
)
from covalt_git.toolsets.project_files import read_project
from tests.examples import named
from tests.toolsets.projects import REPOSITORY, put_hello

FOLDER = REPOSITORY / "covalt_git" / "problems" / "explanations"
HEAD = 'id: hello\nname: Hello\nversion: "1.0.0"\n'
USUAL_PLACES = {"yaml": "toolset.yaml", "python": "tools/hello.py", "html": "artifacts/page.html"}

each_code = pytest.mark.parametrize("code", [*titles()])


class Example(NamedTuple):
    """A fenced text: its language, whether it is bad or good, and its file."""

    language: str
    kind: str
    place: str
    text: str


def examples(code: str) -> list[Example]:
    """Return the examples of a code; of two without a word the first is the bad one."""
    found = re.findall(
        r"^```([^\n]*)\n(.*?)^```$",
        explanation(code).sections["How to fix"],
        re.MULTILINE | re.DOTALL,
    )
    read = []
    for position, (info, text) in enumerate(found):
        language, *words = info.split()
        kind = next((one for one in words if one in {"bad", "good"}), ["bad", "good"][position > 0])
        place = next((one for one in words if one not in {"bad", "good"}), "")
        read.append(Example(language, kind, place or USUAL_PLACES.get(language, ""), text))
    return read


def codes_of(kind: str, code: str, root: Path) -> set[str]:
    """Put the examples of one kind into a project with the toolset ``hello``; return what it finds."""
    put_hello(root)
    for example in examples(code):
        if example.kind != kind:
            continue
        if example.language == "sh":
            subprocess.run(["sh", "-euc", example.text], cwd=root, check=True)
            continue
        place = PurePosixPath(example.place)
        whole = place.parts[0] == "toolsets" or example.place in {
            "covalt.yaml",
            "policy_tests.yaml",
        }
        file = root / place if whole else root / "toolsets/hello" / place
        text = example.text
        if example.place == "toolset.yaml" and not re.search(r"^id:", text, re.MULTILINE):
            text = HEAD + text
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    problems = [*read_project(root).problems]
    if code in {
        codes.FAILED_CASE,
        codes.DEAD_RULE,
        codes.COVERED_RULE,
        codes.WRONG_ARGUMENT_OF_RULE,
    }:
        problems += policy_problems(root)
    return {problem.code for problem in problems}


def test_every_explanation_is_plain_text_with_a_title_and_all_sections() -> None:
    assert {file.stem for file in FOLDER.glob("*.md")} == set(titles())
    for code in titles():
        explained = explanation(code)

        assert explained.markdown.startswith(f"# {code}: {explained.title}\n\n## What\n")
        assert explained.markdown.endswith("\n")
        assert not re.search(r"[ \t]$|\t", explained.markdown, re.MULTILINE)
        assert tuple(explained.sections) == SECTIONS
        assert all(explained.sections.values())
        assert {one.kind for one in examples(code)} == {"bad", "good"}


@pytest.mark.parametrize("code", named(titles(), *(titles().keys() - {"CG107"})))
def test_bad_example_has_the_problem_and_good_example_none(code: str, tmp_path: Path) -> None:
    assert codes_of("bad", code, tmp_path / "bad") == {code}
    assert codes_of("good", code, tmp_path / "good") == set()


def test_code_in_lower_case_is_found_and_unknown_code_names_the_nearest() -> None:
    assert explanation("cg101").code == "CG101"
    with pytest.raises(UnknownNameError) as caught:
        explanation("CG4O2")
    assert "did you mean 'CG402'?" in caught.value.hint


def test_docs_problems_is_up_to_date() -> None:
    """Make it anew with ``covalt-git explain --markdown > docs/reference/problems.md``."""
    assert (REPOSITORY / "docs/reference/problems.md").read_text(
        encoding="utf-8"
    ) == problems_page()


def test_every_code_of_a_failed_call_is_explained() -> None:
    sources = [path.read_text() for path in (REPOSITORY / "covalt_git").rglob("*.py")]
    written = r'(?:CallError\(\s*|failure\(|unfinished\(call, )(?:code=)?"(\w+)"|"code": "(\w+)"'
    found = {one or other for text in sources for one, other in re.findall(written, text)}
    found |= {*outcomes._EXCEEDED, *get_args(Reason)} - {"output_too_large"}

    assert {"tool_died", "cannot_load", "interrupted", "limit_time", "tls_failed"} <= found
    assert found - {*call_codes()} == set()


def test_the_codes_of_calls_are_sorted_and_exist() -> None:
    names = (REPOSITORY / "tests/contract/names/codes.txt").read_text().split()

    assert [*call_codes()] == sorted(call_codes())
    assert {*call_codes()} - {*names} == set()
    assert all(one.what.endswith(".") and one.how_to_fix for one in call_codes().values())


def test_every_code_that_the_documents_name_is_explained() -> None:
    names = {*(REPOSITORY / "tests/contract/names/codes.txt").read_text().split()}
    pages = [REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")]
    named = {name for page in pages for name in re.findall(r"`([a-z_]+)`", page.read_text())}

    assert {"ambiguous", "moved", "tool_exists"} <= named & names
    assert (named & names) - {*call_codes()} == set()


def test_a_status_of_http_is_a_code_of_calls() -> None:
    explained = call_code("HTTP_404")

    assert explained is not None
    assert explained.code == "http_404"
    assert "status" in explained.what
    assert call_code("http_4") is None
