"""The published schemas say what the models say: of each file that we have, sound or broken."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from click.testing import CliRunner

from covalt_git import yaml_text
from covalt_git.cli import cli
from covalt_git.json_values import json_schema
from covalt_git.manifests.published_schemas import NAMES, file_name, published_schema, schema_text
from covalt_git.toolsets.new_project import CONFIG_TEXT
from tests.tables import tables
from tests.toolsets.projects import CASES, REPOSITORY

PUBLISHED = REPOSITORY / "schemas"
BEYOND = {case: reason for reason, cases in tables(__file__)["beyond"] for case in cases}
each_schema = pytest.mark.parametrize("name", NAMES)


schema_of = cache(published_schema)


def follows(name: str, data: Any) -> bool:
    return not json_schema.value_problems(schema_of(name), data)


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield a schema and every schema within it."""
    if isinstance(schema, list):
        for one in schema:
            yield from parts(one)
    elif isinstance(schema, dict):
        yield schema
        for key, value in schema.items():
            named = key in {"properties", "patternProperties", "$defs"}
            for one in value.values() if named else [value]:
                yield from parts(one)


@each_schema
def test_published_copy_is_the_schema_of_the_models(name: str) -> None:
    text = (PUBLISHED / file_name(name)).read_text(encoding="utf-8")

    assert text == schema_text(name), "run `python -m covalt_git schema --out schemas`"
    assert CliRunner().invoke(cli, ["schema", name]).stdout == text
    assert {file.name for file in PUBLISHED.iterdir()} == {*map(file_name, NAMES)}


@each_schema
def test_published_schema_is_valid_and_needs_no_network(name: str) -> None:
    schema = schema_of(name)
    jsonschema_rs.meta.validate(schema)

    assert json_schema.schema_problems(schema) == []
    assert schema["$id"] == f"urn:covalt-git:schema:{name}:1"
    for part in parts(schema):
        assert str(part.get("$ref", "#/$defs/")).startswith("#/$defs/")


@each_schema
def test_every_key_is_described(name: str) -> None:
    schema = schema_of(name)
    without_description = [
        f"{part.get('title')}.{key}"
        for part in parts(schema)
        if "title" in part
        for key, value in part.get("properties", {}).items()
        if "description" not in value and "$ref" not in value
    ]

    assert without_description == []
    assert all("description" in one and "title" in one for one in schema["$defs"].values())


@each_schema
def test_examples_of_a_schema_follow_it(name: str) -> None:
    schema = schema_of(name)

    for part in parts(schema):
        for example in part.get("examples", []):
            within = {**part, "$defs": schema["$defs"]}
            assert json_schema.value_problems(within, example) == [], (part, example)


def test_every_sound_file_follows_its_schema() -> None:
    manifests = sorted(REPOSITORY.glob("toolsets/*/toolset.yaml"))
    manifests += sorted(REPOSITORY.glob("fixtures/toolsets/*/toolset.yaml"))

    assert len(manifests) >= 5
    for file in manifests:
        assert follows("toolset", yaml_text.load_file(file, file.name).data), file
    for text in ((REPOSITORY / "covalt.yaml").read_text(encoding="utf-8"), CONFIG_TEXT):
        assert follows("covalt", yaml_text.load(text, "covalt.yaml").data)


def broken_files() -> Iterator[tuple[str, str, Path]]:
    """Yield the files of fixtures/invalid that are YAML with wrong values, with their cases and schemas."""
    for case in sorted(path for path in CASES.iterdir() if path.is_dir()):
        expected = (case / "expected.txt").read_text(encoding="utf-8")
        for name, file, place in (
            ("toolset", "toolset.yaml", "toolsets/hello/toolset.yaml"),
            ("covalt", "covalt.yaml", "covalt.yaml"),
            ("state", "state.yaml", "toolsets/state/hello.yaml"),
        ):
            about = re.search(rf"(?m)^{re.escape(place)}\S* CG2\d\d", expected)
            if about and (case / file).exists():
                yield case.name, name, case / file


def test_schema_refuses_a_broken_file_unless_no_schema_can() -> None:
    files = [*broken_files()]
    followed = {
        case
        for case, name, file in files
        if follows(name, yaml_text.load_file(file, file.name).data)
    }

    assert len(files) > 90
    assert followed == BEYOND.keys() & {case for case, _, _ in files}
