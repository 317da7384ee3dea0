"""Fixes of ``validate --fix``, which changes nothing else."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.manifests.fixes import fix_text, fixable_files
from covalt_git.models.toolset_manifest import ToolDeclaration
from covalt_git.toolsets.project_files import read_project
from tests.counted_work import work_of
from tests.examples import named
from tests.tables import tables
from tests.toolsets.projects import CASES, put_case

TABLES = tables(__file__)


PATH = "toolsets/hello/toolset.yaml"
HEAD = 'id: hello\nname: Hello\nversion: "1.0.0"\n'


def fixed(more: str) -> str:
    """Return the added lines of a manifest after the fix."""
    text = fix_text(HEAD + more, PATH).text
    assert text.startswith(HEAD)
    return text.removeprefix(HEAD)


# Keys


@pytest.mark.parametrize(("wrong", "right"), TABLES["misspelt_key_with_one_meaning_is_fixed"])
def test_misspelt_key_with_one_meaning_is_fixed(wrong: str, right: str) -> None:
    assert fixed(wrong) == right


@pytest.mark.parametrize("more", TABLES["uncertain_key_is_not_changed"])
def test_uncertain_key_is_not_changed(more: str) -> None:
    assert fix_text(HEAD + more, PATH) == (HEAD + more, ())


def test_covalt_yaml_is_fixed_and_a_state_file_is_not(tmp_path: Path) -> None:
    put_case(CASES / "config-approval-keys", tmp_path / "a")
    put_case(CASES / "state-values", tmp_path / "b")

    assert fixable_files(read_project(tmp_path / "a").problems) == ["covalt.yaml"]
    assert fixable_files(read_project(tmp_path / "b").problems) == []
    assert fix_text("version: 1\nroels: {}\n", "covalt.yaml").text == "version: 1\nroles: {}\n"


# Laws

TOOL_KEYS = sorted(set(ToolDeclaration.model_fields) - {"id", "entrypoint", "http", "renderer"})
NAMES = {
    "description": ["descripton", "Description"],
    "entrypoint": ["entrypont", "entry-point"],
    "renderer": ["rendrer", "Renderer"],
    "renderer_config": ["rendererConfig", "renderer_confg"],
    "tool_overrides": ["toolOverrides", "tool_override"],
}
LAYOUT = """\
# top
{description}: x

tools:  # a comment
    - id: t0
      {entrypoint}: m:f  # with }} and type: code
      "{renderer}":
         content: "# no"   # a comment
         type: code
    # between
    - {{'{entrypoint}': "m:f", id: t1, {renderer}: {{type: document, file: "ä\\n b"}}}}
{tool_overrides}:
- tool_id: t0
  {renderer_config}: {{content: "x: y"}}
# end"""


@given(st.fixed_dictionaries({one: st.sampled_from([one, *NAMES[one]]) for one in NAMES}))
def test_fixing_changes_misspelt_keys_only(names: dict[str, str]) -> None:
    right = HEAD + LAYOUT.format(**{one: one for one in NAMES})

    assert fix_text(HEAD + LAYOUT.format(**names), PATH).text == right


@given(st.sampled_from(TOOL_KEYS), st.data())
def test_fixing_a_key_changes_one_line(key: str, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, len(key) - 1))
    wrong = draw.draw(
        st.sampled_from([key[:at] + key[at + 1 :], key[: at + 1] + key[at:], key.upper()])
    )
    before = f"{HEAD}tools:\n- id: a\n  entrypoint: m:f\n  {wrong}: x\n"

    after = fix_text(before, PATH).text

    if after != before:
        changed = [
            (old, new)
            for old, new in zip(before.splitlines(), after.splitlines(), strict=True)
            if old != new
        ]
        assert changed == [(f"  {wrong}: x", f"  {key}: x")]


@given(st.text(alphabet="abid:{}[]-\n \"'#&*|>\r\t,?!é", max_size=80))
def test_fixing_twice_is_fixing_once(text: str) -> None:
    once = fix_text(text, PATH).text

    assert fix_text(once, PATH).text == once


MANY: dict[str, Callable[[int], str]] = {
    "unknown keys": lambda count: "".join(f"k{number}: 0\n" for number in range(count)),
    "rivals": lambda count: "".join(f"descriptio{number}: 0\n" for number in range(count)),
    "misspelt keys": lambda count: (
        "tools:\n" + "".join(f"  - {{id: t{number}, entrypont: a:b}}\n" for number in range(count))
    ),
}


@pytest.mark.parametrize("count", [50, pytest.param(600, marks=pytest.mark.rest)])
@pytest.mark.parametrize("name", named(MANY, "misspelt keys", "unknown keys"))
def test_twice_as_many_keys_take_twice_the_work(name: str, count: int) -> None:
    make = MANY[name]
    fix_text(make(10), PATH)  # what is cached for all files
    small, large = (work_of(partial(fix_text, make(size), PATH)) for size in (count, 2 * count))

    assert large < 2.6 * small
