"""Fixes of ``validate --fix``, which changes nothing else."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git import yaml_text
from covalt_git.json_values import JsonObject
from covalt_git.manifests.fixes import fix_text, fixable_files
from covalt_git.models.toolset_manifest import ToolDeclaration
from covalt_git.toolsets.project_files import read_project
from tests.examples import examples
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


def data(text: str) -> JsonObject:
    found: JsonObject = yaml_text.load(text, PATH).data
    return found


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
TEXTS = st.sampled_from(["a", "$return.text", "two words", "yes", "x: y", "# no", "{", "ä\n b"])
CONFIGS = st.fixed_dictionaries(
    {"type": st.sampled_from(["code", "document"])},
    optional={"content": TEXTS | st.lists(TEXTS, max_size=2), "file": TEXTS},
)
RENAMED = st.sampled_from(["renderer", "Renderer", "rendrer"])
COMMENTS = st.sampled_from(["", "  # a comment", "  # with } and type: code"])


@st.composite
def manifests(draw: st.DrawFn) -> str:
    """Return a manifest with old renderers and misspelt keys, laid out in many ways."""
    lines = [draw(st.sampled_from(["# top", "", "descripton: x", "description: x"]))]
    step = draw(st.sampled_from(["", "  ", "    "]))
    lines.append(f"tools:{draw(COMMENTS)}")
    for number in range(draw(st.integers(1, 3))):
        keys = [f"id: t{number}", f"entrypoint: m:f{draw(COMMENTS)}"]
        if draw(st.booleans()):
            config = draw(CONFIGS)
            name = draw(RENAMED)
            if draw(st.booleans()):
                keys.append(f"{name}: {json.dumps(config)}{draw(COMMENTS)}")
            else:
                deep = draw(st.sampled_from(["  ", "   "]))
                inner = [
                    f"\n{step}  {deep}{key}: {json.dumps(value)}{draw(COMMENTS)}"
                    for key, value in draw(st.permutations(list(config.items())))
                ]
                keys.append(f"{name}:{draw(COMMENTS)}{''.join(inner)}")
        keys = draw(st.permutations(keys))
        lines.append(f"{step}- " + f"\n{step}  ".join(keys))
        lines += draw(st.sampled_from([[], [""], ["# between"]]))
    if draw(st.booleans()):
        override = draw(st.sampled_from(["t0", "hello:t1", "other"]))
        lines += ["tool_overrides:", f"{step}- tool_id: {override}{draw(COMMENTS)}"]
    end = draw(st.sampled_from(["", "\n", "\n\n# end\n"]))
    return HEAD + "\n".join(lines) + end


def with_right_names(found: JsonObject) -> JsonObject:
    """Return a manifest's data with keys as they should be."""
    right = {"descripton": "description", "Renderer": "renderer", "rendrer": "renderer"}
    found = {right.get(key, key): value for key, value in found.items()}
    tools = [{right.get(key, key): value for key, value in tool.items()} for tool in found["tools"]]
    return found | {"tools": tools}


@settings(max_examples=examples(60))
@given(manifests())
def test_fixing_changes_misspelt_keys_only(text: str) -> None:
    after = fix_text(text, PATH)

    assert data(after.text) == with_right_names(data(text))
    assert fix_text(after.text, PATH) == (after.text, ())
    for comment in ("# a comment", "# with } and type: code", "# top", "# between", "# end"):
        assert after.text.count(comment) == text.count(comment)


@settings(max_examples=examples(60))
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


@settings(max_examples=examples(100))
@given(st.text(alphabet="abid:{}[]-\n \"'#&*|>\r\t,?!é", max_size=80))
def test_fixing_twice_is_fixing_once(text: str) -> None:
    once = fix_text(text, PATH).text

    assert fix_text(once, PATH).text == once
