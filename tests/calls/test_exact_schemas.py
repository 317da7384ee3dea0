"""What a tool's own process says of its schema: asked once for the same files, and never believed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from covalt_git.calls.exact_schemas import ExactSchema, NotDescribedError, exact_schema
from covalt_git.catalog.catalog import DisabledToolError
from tests import command

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from tests.calls.conftest import World

MANIFEST = 'id: made\nname: Made\nversion: "1"\ntools:\n  - {id: it, entrypoint: tools:it}\n'
COMPUTED = """\
from pydantic import BaseModel, create_model

Made: type[BaseModel] = create_model("Made", size=(int, ...))


def it(made: Made, workspace_name: str = "w") -> dict[str, int]:
    raise RuntimeError("it was called")
"""


def wrote(world: World, python: str, manifest: str = MANIFEST) -> None:
    world.write("made/toolset.yaml", manifest)
    world.write("made/tools.py", python)


def said(world: World, tool_id: str = "made:it") -> ExactSchema:
    return exact_schema(world.project().engine(), tool_id)


def cache(world: World) -> Path:
    return world.root / "data/cache/schemas/made/it.json"


def test_a_computed_model_is_known_to_the_process_alone(world: World) -> None:
    wrote(world, COMPUTED)

    exact = said(world)

    assert exact.input_schema["required"] == ["made"]
    assert "size" in json.dumps(exact.input_schema)
    assert exact.output_schema is not None
    assert any("size" in str(one.now) for one in exact.differences)
    assert exact.cached is False


def test_the_same_files_are_asked_once_and_others_again(world: World) -> None:
    wrote(world, COMPUTED)
    first = said(world)

    again = said(world)
    wrote(world, COMPUTED.replace("size=", "width="))
    other = said(world)

    assert (again.cached, again.input_schema, again.differences) == (
        True,
        first.input_schema,
        first.differences,
    )
    assert other.cached is False
    assert "width" in json.dumps(other.input_schema)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"digest": 1}', "\0"])
def test_a_damaged_cache_is_asked_for_again(world: World, text: str) -> None:
    wrote(world, "def it(a: int) -> int:\n    return a\n")
    good = said(world)
    cache(world).write_text(text, encoding="utf-8")

    assert said(world) == good
    assert said(world).cached is True


def test_what_the_manifest_declares_is_compared_with_the_function(world: World) -> None:
    declared = "    input_schema: {type: object, properties: {a: {type: string}}}\n"
    manifest = MANIFEST.replace(
        "{id: it, entrypoint: tools:it}\n", "id: it\n    entrypoint: tools:it\n"
    )
    wrote(world, "def it(a: int) -> int:\n    return a\n", manifest + declared)

    exact = said(world)

    assert [(one.path, one.then, one.now) for one in exact.differences] == [
        ("$.additionalProperties", None, "false"),
        ("$.properties.a.type", '"string"', '"integer"'),
        ("$.required", None, '["a"]'),
    ]


def test_where_nothing_is_computed_both_say_the_same(world: World) -> None:
    wrote(world, "def it(a: int, b: list[str] | None = None) -> int:\n    return a\n")

    assert said(world).differences == ()


@pytest.mark.parametrize(
    ("python", "message"),
    [
        pytest.param(
            "import not_there\ndef it() -> int: ...\n",
            "made:it cannot say its schema: ModuleNotFoundError: No module named 'not_there' "
            "(tools.py:1 in <module>: import not_there)",
            id="cannot-be-imported",
        ),
        pytest.param(
            "from pydantic import BaseModel\n\n\nclass M(BaseModel):\n"
            "    @classmethod\n    def __get_pydantic_json_schema__(cls, core, handler):\n"
            "        return {'type': 'nonsense'}\n\n\ndef it(m: M) -> int: ...\n",
            "made:it says a schema that is none",
            id="no-schema",
        ),
    ],
)
def test_a_process_that_cannot_say_it_is_told_and_nothing_is_kept(
    world: World, python: str, message: str
) -> None:
    wrote(world, python)

    with pytest.raises(NotDescribedError) as refused:
        said(world)

    assert refused.value.message.startswith(message)
    assert not cache(world).exists()


def test_a_tool_that_may_not_be_called_is_not_asked(world: World) -> None:
    with pytest.raises(DisabledToolError):
        said(world, "demo:off")
    with pytest.raises(NotDescribedError, match="is no Python"):
        said(world, "demo:web")


def test_the_command_prints_the_schema_and_tells_the_differences_beside_it(world: World) -> None:
    wrote(world, COMPUTED)

    def covalt(*args: str) -> subprocess.CompletedProcess[str]:
        return command.run("-C", str(world.root), "tool", "schema", *args)

    static, exact = covalt("made:it"), covalt("made:it", "--exact")
    told = json.loads(covalt("made:it", "--exact", "--json").stdout)

    assert (static.returncode, static.stderr) == (0, "")
    assert "size" not in static.stdout
    assert exact.returncode == 0
    assert "size" in json.dumps(json.loads(exact.stdout))
    assert exact.stderr.startswith("its source, read without running it, says something else")
    assert (told["from"], told["cached"]) == ("process", True)
    assert {"path", "static", "exact"} == set(told["differences"][0])
