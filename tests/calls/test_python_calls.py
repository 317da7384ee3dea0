"""Calls of Python tools: imports, results, cancellation, and dependencies."""

from typing import Any

import pytest

from covalt_git.runtime.environments import CannotInstallError
from tests.calls.conftest import World
from tests.examples import rest
from tests.runtime.test_environments import empty

__all__ = ["empty"]


@pytest.fixture
def own(world: World) -> World:
    world.add("own")
    return world


def counted(world: World) -> Any:
    return world.call("own:counted").call.result


@pytest.mark.requirement("covalt-4.3.6")
def test_modules_are_imported_once_until_a_file_changes_and_calls_share_no_state(
    own: World,
) -> None:
    first, second = counted(own), counted(own)
    own.edit("own/tools/it.py", "CALLS = []", "CALLS = [0]")
    third = counted(own)

    assert first["imported"] == second["imported"] != third["imported"]
    assert [one["calls"] for one in (first, second, third)] == [1, 1, 2]


def test_a_result_of_another_type_than_the_annotation_fails_and_files_are_kept(own: World) -> None:
    outcome = own.call("own:wrong")

    assert outcome.call.error is not None
    assert outcome.call.error.startswith("bad_result: $[0]: ")
    assert outcome.call.result is None
    assert own.files()["kept.txt"] == "kept"


@pytest.mark.parametrize(
    ("body", "limits", "expected"),
    [
        ("import time; time.sleep(60)", "timeout_s: 0.5", "limit_time"),
        ("import os; os._exit(3)", "timeout_s: 20", "tool_died"),
        ("return object()", "timeout_s: 20", "bad_result"),
        ("return 'x' * 3_000_000", "output_mb: 1", "limit_output"),
    ],
)
def test_an_error_whose_tool_may_have_run_to_its_end_says_so(
    own: World, body: str, limits: str, expected: str
) -> None:
    own.configure(f"limits: {{{limits}}}\n")
    own.edit(
        "own/tools/it.py", "def wrong(workspace: Path) -> list[int]:", f"def wrong():\n    {body}\n"
    )

    error = own.call("own:wrong").error

    assert error is not None
    assert error.code == expected
    assert error.message.endswith("; the tool may have had its effect")


@pytest.mark.rest
@pytest.mark.usefixtures("empty")
def test_a_dependency_that_cannot_be_installed_stops_a_call_before_it_is_recorded(
    own: World,
) -> None:
    needs = 'python: {dependencies: ["nowhere-to-be-found"]}\ntools:'
    own.edit("own/toolset.yaml", "tools:", needs)

    with pytest.raises(CannotInstallError, match="nowhere-to-be-found"):
        own.call("own:counted")

    assert own.log() == []


SHAPES = """\
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, Field


class Model(BaseModel):
    n: int = Field(ge=1)


class Larger(Model):
    more: str = "x"


@dataclass
class Data:
    n: Annotated[int, Field(ge=1)]
    twice: int = field(init=False)

    def __post_init__(self) -> None:
        self.twice = 2 * self.n


def as_dict(n: int) -> Model:
    return {"n": n}


def as_model(n: int) -> Model:
    return Model.model_construct(n=n)


def as_subclass(n: int) -> Model:
    return Larger.model_construct(n=n, more="y")


def as_list(n: int) -> list[Model]:
    return [{"n": n}]


def as_data(n: int) -> Data:
    return Data(n)
"""


@pytest.mark.parametrize(
    "name", ["as_dict", "as_model", rest("as_subclass"), "as_list", rest("as_data")]
)
def test_a_result_with_a_value_that_its_listed_schema_refuses_fails(
    world: World, name: str
) -> None:
    world.write("own/tools/shapes.py", SHAPES)
    manifest = 'id: own\nname: Own\nversion: "1"\ntools:\n'
    world.write(
        "own/toolset.yaml", f'{manifest}  - {{id: run, entrypoint: "tools.shapes:{name}"}}\n'
    )

    right, wrong = world.call("own:run", n=1), world.call("own:run", n=0)

    assert right.call.error is None
    assert wrong.call.error is not None
    assert wrong.call.error.startswith("bad_result: $")
    assert wrong.call.result is not None
