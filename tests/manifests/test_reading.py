"""Reading YAML as a model: never a crash, every problem at its place, in plain words."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git import yaml_text
from covalt_git.errors import Problem
from covalt_git.json_values import canonical_json
from covalt_git.manifests.reading import check, read_yaml
from covalt_git.models.base import StrictModel
from covalt_git.models.project_config import ProjectConfig
from covalt_git.models.toolset_manifest import ToolsetManifest
from covalt_git.toolsets.toolset import read_toolset
from tests.tables import tables
from tests.toolsets.projects import HEAD, MANIFEST, put_hello

TABLES = tables(__file__)


def problems_of(text: str, model: type[StrictModel] = ToolsetManifest) -> list[str]:
    """Return the problems of a text as people read them, without its path."""
    problems = check(yaml_text.load(text, "f"), model).problems
    return [str(problem).removeprefix("f:") for problem in problems]


def words(text: str, model: type[StrictModel] = ToolsetManifest) -> str:
    """Return the one problem of a text, without place and code."""
    (problem,) = check(yaml_text.load(text, "f"), model).problems
    return f"{problem.message} | {problem.hint}"


def test_sound_file_gives_its_model_and_places(tmp_path: Path) -> None:
    (tmp_path / "toolset.yaml").write_text(MANIFEST)

    reading = read_yaml(tmp_path / "toolset.yaml", "toolset.yaml", ToolsetManifest)

    assert reading.value is not None
    assert reading.value.tools[0].entrypoint == "tools.hello:greet"
    assert reading.problems == ()
    problem = reading.problem("CG999", ("tools", 0, "entrypoint"), "so so", hint="do")
    assert str(problem) == ("toolset.yaml:10:17: CG999 tools[greet].entrypoint: so so\n  hint: do")


@pytest.mark.requirement("covalt-4.1.format")
@pytest.mark.parametrize(("text", "expected"), TABLES["words_of_a_manifest"])
def test_message_of_a_manifest(text: str, expected: str) -> None:
    assert words(text) == expected


@pytest.mark.parametrize("version", ["true", "1.0", '"1"', "2", "null", "[1]"])
def test_version_of_covalt_yaml_is_the_integer_one(version: str) -> None:
    (problem,) = problems_of(f"version: {version}\n", ProjectConfig)

    assert problem.startswith("1:10: CG203 version: ")
    assert problems_of("version: 1\n", ProjectConfig) == []


@pytest.mark.parametrize("version", ['"2"', "2", "1.0", "true", "null", '""', "[1]"])
def test_no_other_manifest_version_is_read(version: str) -> None:
    text = MANIFEST.replace('manifest_version: "1"', f"manifest_version: {version}")

    assert [line[:12] for line in problems_of(text)] == ["2:19: CG203 "]


@pytest.mark.parametrize("number", TABLES["integers_beyond_2_53_are_refused_everywhere"])
def test_integers_beyond_2_53_are_refused_everywhere(number: str) -> None:
    (problem,) = problems_of(f"{HEAD}\nextensions:\n  deep: [{{x: {number}}}]\n")

    assert problem.startswith("9:14: CG108 extensions.deep[0].x: ")
    assert problems_of(f"{HEAD}\nextensions: {{a: 9007199254740991, b: -9007199254740991}}\n") == []


# --- laws ----------------------------------------------------------------------------------------

KEYS = sorted(
    {
        name
        for schema in [ToolsetManifest.model_json_schema()]
        for one in [schema, *schema["$defs"].values()]
        for name in one.get("properties", {})
    }
    | {"type", "file", "artifact", "port", "properties", "$ref", "required", "pattern", "enum"}
)
TEXTS = st.sampled_from(
    [
        *("", "hello", "greet", "code", "html", "tools.hello:greet", "..", "/etc/passwd"),
        *("$args.x", "string", "object", "https://a.b/{c}", "#/$defs/a", "(a", "a" * 200),
        *("hello:x", "\n"),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 2**60) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS) | TEXTS, inner, max_size=5)
    ),
    max_leaves=25,
)
SOUND: dict[str, Any] = {"id": "hello", "name": "Hello", "version": "1"}
GREET = {"id": "greet", "entrypoint": "tools.hello:greet"}


@st.composite
def manifests(draw: st.DrawFn) -> Any:
    """Something like a manifest: a sound one with parts of it replaced."""
    data = SOUND | draw(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4))
    tool = GREET | draw(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=3))
    override = {"tool_id": "greet"} | draw(
        st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=3)
    )
    whole = st.sampled_from(
        [
            data,
            data | {"tools": [tool, GREET]},
            SOUND | {"tools": [tool]},
            SOUND | {"tools": [GREET], "tool_overrides": [override]},
        ]
    )
    return draw(whole | VALUES)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("any")
    put_hello(folder)
    return folder


@given(data=manifests())
def test_reading_never_raises_and_every_problem_has_a_place(data: Any, root: Path) -> None:
    text = json.dumps(data, indent=1)
    (root / "toolsets" / "hello" / "toolset.yaml").write_text(text)

    toolset = read_toolset(root, "hello")

    for problem in toolset.problems:
        _check_place(problem, text)
    # What the index stores of it is JSON in any case.
    canonical_json.dumps([problem.as_json() for problem in toolset.problems])
    canonical_json.dumps([tool.model_dump(mode="json", by_alias=True) for tool in toolset.tools])


def _check_place(problem: Problem, text: str) -> None:
    assert problem.message
    assert len(problem.message) < 1_000
    if problem.path.endswith("toolset.yaml"):
        lines = text.splitlines()
        assert 1 <= problem.line <= len(lines)
        assert 1 <= problem.col <= len(lines[problem.line - 1]) + 1
