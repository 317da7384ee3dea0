"""That the published schemas are what the models say: for each file that we have, sound or broken."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from click.testing import CliRunner

from covalt_git import yaml_text
from covalt_git.cli import cli
from covalt_git.json_values import json_schema
from covalt_git.models.published_schemas import NAMES, file_name, published_schema, schema_text
from covalt_git.toolsets.new_project import CONFIG_TEXT
from tests import command
from tests.toolsets.projects import CASES, REPOSITORY

PUBLISHED = REPOSITORY / "schemas"
REWRITE = "python -m covalt_git schema --out schemas"

ACROSS = "a schema cannot compare values with each other"
OUTSIDE = "a schema knows nothing of files, folders and functions"
WITHIN = "a schema does not read what is written within a text"
WARNING = "it works: a warning is no refusal"
SCHEMAS = "whether a value is a JSON Schema, its meta-schema would say, which is not there offline"
BEYOND = {
    "artifact-absolute": OUTSIDE,
    "artifact-missing": OUTSIDE,
    "artifact-outside": OUTSIDE,
    "config-default-role": ACROSS,
    "config-secret-command-inside": WITHIN,
    "config-secret-command-one-value": WITHIN,
    "config-signers": WITHIN,
    "credential-in-the-settings": WITHIN,
    "duplicate-tool-ids": ACROSS,
    "example-not-matching": ACROSS,
    "example-result-not-matching": ACROSS,
    "expressions": ACROSS,
    "folder-name": OUTSIDE,
    "frame-without-an-address": WARNING,
    "hidden-characters": WITHIN,
    "html-without-a-page": WARNING,
    "http-host-from-an-argument": WITHIN,
    "http-places": ACROSS,
    "http-secret-in-the-path": WITHIN,
    "http-secret-not-declared": ACROSS,
    "http-unknown-argument": ACROSS,
    "id-is-locks": OUTSIDE,
    "id-is-not-the-folder": OUTSIDE,
    "namespace-of-the-built-in-tools": WITHIN,
    "id-is-state": OUTSIDE,
    "legacy-renderer": WARNING,
    "manifest-version-as-decimal": "to JSON, 1.0 is 1",
    "override-for-unknown-tool": ACROSS,
    "override-twice": ACROSS,
    "prompts": ACROSS,
    "reference-not-declared": ACROSS,
    "renderer-config-without-renderer": ACROSS,
    "schema-file-ref": SCHEMAS,
    "schema-of-a-list": SCHEMAS,
    "schema-pattern": SCHEMAS,
    "schema-pattern-looks-ahead": SCHEMAS,
    "schema-property-is-a-text": SCHEMAS,
    "schema-remote-ref": SCHEMAS,
    "schema-required-is-a-text": SCHEMAS,
    "schema-type-is-python": SCHEMAS,
    "schema-unknown-ref": SCHEMAS,
    "server-ids-differ-in-dash": ACROSS,
    "source-named-as-server": ACROSS,
}
"""Cases about values that no schema can refuse, and why."""


def follows(name: str, data: Any) -> bool:
    return not json_schema.value_problems(published_schema(name), data)


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


@pytest.mark.parametrize("name", NAMES)
def test_the_published_copy_is_what_the_models_say(name: str) -> None:
    text = (PUBLISHED / file_name(name)).read_text(encoding="utf-8")

    assert text == schema_text(name), f"the models have changed: run `{REWRITE}`"


def test_nothing_else_is_published() -> None:
    assert sorted(file.name for file in PUBLISHED.iterdir()) == sorted(map(file_name, NAMES))


@pytest.mark.parametrize("name", NAMES)
def test_a_published_schema_is_one_and_needs_no_network(name: str) -> None:
    schema = published_schema(name)
    jsonschema_rs.meta.validate(schema)

    assert json_schema.schema_problems(schema) == []
    assert schema["$id"] == f"urn:covalt-git:schema:{name}:1"
    for part in parts(schema):
        assert str(part.get("$ref", "#/")).startswith("#/$defs/") or "$ref" not in part


@pytest.mark.parametrize("name", NAMES)
def test_every_key_of_every_file_is_described(name: str) -> None:
    schema = published_schema(name)
    nameless = [
        f"{part.get('title')}.{key}"
        for part in parts(schema)
        if "title" in part
        for key, value in part.get("properties", {}).items()
        if "description" not in value and "$ref" not in value
    ]

    assert nameless == []
    assert all("description" in one and "title" in one for one in schema["$defs"].values())


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_of_a_schema_follow_it(name: str) -> None:
    schema = published_schema(name)

    for part in parts(schema):
        for example in part.get("examples", []):
            within = {**part, "$defs": schema["$defs"]}
            assert json_schema.value_problems(within, example) == [], (part, example)


def test_every_sound_file_that_we_have_follows_its_schema() -> None:
    manifests = sorted(REPOSITORY.glob("toolsets/*/toolset.yaml"))
    manifests += sorted(REPOSITORY.glob("fixtures/toolsets/*/toolset.yaml"))

    assert len(manifests) >= 5
    for file in manifests:
        assert follows("toolset", yaml_text.load_file(file, file.name).data), file
    config = REPOSITORY / "covalt.yaml"
    assert follows("covalt", yaml_text.load_file(config, config.name).data)
    assert follows("covalt", yaml_text.load(CONFIG_TEXT, "covalt.yaml").data)


def test_both_spellings_of_a_manifest_version_follow() -> None:
    manifest = {"id": "a", "name": "A", "version": "1"}

    assert follows("toolset", manifest | {"manifest_version": "1"})
    assert follows("toolset", manifest | {"manifest_version": 1})
    assert not follows("toolset", manifest | {"manifest_version": "2"})


def broken_files() -> Iterator[Any]:
    """Yield the files of the golden cases that are YAML and whose values are wrong."""
    for case in sorted(path for path in CASES.iterdir() if path.is_dir()):
        told = (case / "expected.txt").read_text(encoding="utf-8")
        for name, file, place in (
            ("toolset", "toolset.yaml", "toolsets/hello/toolset.yaml"),
            ("covalt", "covalt.yaml", "covalt.yaml"),
            ("state", "state.yaml", "toolsets/state/hello.yaml"),
        ):
            about = re.search(rf"(?m)^{re.escape(place)}\S* CG2\d\d", told)
            if about and (case / file).exists():
                yield pytest.param(case.name, name, case / file, id=f"{case.name}-{name}")


@pytest.mark.parametrize(("case", "name", "file"), list(broken_files()))
def test_a_broken_file_is_refused_by_its_schema_too_or_no_schema_can(
    case: str, name: str, file: Path
) -> None:
    data = yaml_text.load_file(file, file.name).data

    assert follows(name, data) == (case in BEYOND)


def test_the_command_prints_what_is_published() -> None:
    for name in NAMES:
        result = CliRunner().invoke(cli, ["schema", name])
        assert result.stdout == (PUBLISHED / file_name(name)).read_text(encoding="utf-8")
    assert CliRunner().invoke(cli, ["schema"]).stdout == schema_text("toolset")


def test_the_command_writes_one_file_or_all_of_them(tmp_path: Path) -> None:
    one = CliRunner().invoke(cli, ["schema", "covalt", "--out", str(tmp_path / "a" / "c.json")])
    every = CliRunner().invoke(cli, ["schema", "--out", str(tmp_path / "b")])

    assert one.stdout == f"wrote {tmp_path}/a/c.json\n"
    assert json.loads((tmp_path / "a" / "c.json").read_text(encoding="utf-8"))["properties"]
    assert every.stdout.count("wrote ") == 3
    assert {file.name for file in (tmp_path / "b").iterdir()} == set(map(file_name, NAMES))


def test_a_file_in_the_way_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    done = command.run("schema", "--out", str(tmp_path / "file"))

    assert done.returncode == 1
    assert "cannot be a file" in done.stderr
    assert "hint: covalt-git schema --out" in done.stderr
