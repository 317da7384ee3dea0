"""Warnings that a tool ran with another schema than the listed one."""

import pytest

from covalt_git.calls import schema_warnings
from covalt_git.checks.stored_schemas import sources_digest
from covalt_git.json_values.json_schema import InvalidArgumentsError
from covalt_git.manifests.stored_schemas import write_stored_schemas
from covalt_git.models.outcomes import RunSchemas
from covalt_git.models.stored_schemas import StoredSchema
from covalt_git.models.tool import Tool
from covalt_git.toolsets.toolset import read_toolset
from tests.calls.conftest import World

MANIFEST = """\
id: shop
name: Shop
version: "1"
tools:
  - {id: pay, entrypoint: "tools.shop:pay"}
  - {id: find, entrypoint: "tools.shop:find"}
"""
SHOP = """\
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

EVEN = WithJsonSchema({"type": "integer", "multipleOf": 2})


def pay(count: Annotated[int, AfterValidator(abs), EVEN]) -> int:
    return count


def find(name: str) -> str:
    return name
"""


@pytest.fixture
def shop(world: World) -> World:
    world.write("shop/toolset.yaml", MANIFEST)
    world.write("shop/tools/shop.py", SHOP)
    return world


def test_a_call_reports_a_difference_once_for_each_version(shop: World) -> None:
    warnings: list[str] = []
    with schema_warnings.reported(warnings.append):
        first = shop.call("shop:pay", count=2)
        shop.call("shop:pay", count=2)

    assert first.call.result == 2
    (warning,) = warnings
    assert "shop:pay" in warning
    assert "multipleOf 2" in warning
    assert "covalt-git tool describe shop:pay" in warning

    with schema_warnings.reported(warnings.append):
        shop.call("shop:pay", count=2)
        shop.edit("shop/tools/shop.py", "return count", "return -count")
        shop.call("shop:pay", count=2)
    assert len(warnings) == 3


@pytest.mark.parametrize(
    ("tool", "value", "hint"),
    [
        ("pay", {"n": 5.0}, "the function also checks what its schema does not say: x (M.strict)"),
        (
            "check",
            "a",
            "the function also checks what its schema does not say: x (AfterValidator(int))",
        ),
        ("find", "c", "covalt-git tool describe shop:find"),
    ],
)
def test_the_hint_of_a_refusal_leads_to_the_rule_or_names_it(
    shop: World, tool: str, value: object, hint: str
) -> None:
    source = """
from enum import Enum
from typing import Annotated
from pydantic import AfterValidator, BaseModel
class M(BaseModel, strict=True):
    n: int
class E(Enum):
    A, B = "a", "b"
def pay(x: M) -> int: ...
def check(x: Annotated[str, AfterValidator(int)]) -> str: ...
def find(x: E) -> str: ...
"""
    check = '  - {id: check, entrypoint: "tools.shop:check"}\n'
    shop.write("shop/toolset.yaml", MANIFEST + check)
    shop.write("shop/tools/shop.py", source)

    with pytest.raises(InvalidArgumentsError) as caught:
        shop.call(f"shop:{tool}", x=value)

    assert caught.value.hint == hint


def test_a_refused_call_reports_it_too(shop: World) -> None:
    warnings: list[str] = []
    with (
        schema_warnings.reported(warnings.append),
        pytest.raises(InvalidArgumentsError),
    ):
        shop.call("shop:pay", count="many")

    assert len(warnings) == 1


def test_equal_schemas_are_not_reported(shop: World) -> None:
    warnings: list[str] = []
    with schema_warnings.reported(warnings.append):
        shop.call("shop:find", name="a")

    assert warnings == []


def test_a_stored_schema_is_not_compared(shop: World) -> None:
    schema = {"type": "object", "properties": {"count": {"type": "integer"}}}
    toolset = read_toolset(shop.root, "shop")
    digest = sources_digest(toolset.sources["pay"], toolset.files)
    entry = StoredSchema(sources_digest=digest, input_schema=schema)
    write_stored_schemas(shop.root / "toolsets/shop", {"pay": entry})
    warnings: list[str] = []
    with schema_warnings.reported(warnings.append):
        shop.call("shop:pay", count=3)

    assert warnings == []


def test_a_tool_sends_its_schema_only_if_that_is_asked_for(
    shop: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[RunSchemas] = []

    def report(_: Tool, ran: RunSchemas) -> None:
        compared.append(ran)

    monkeypatch.setattr(schema_warnings, "report", report)
    shop.call("shop:pay", count=2)
    assert compared == []

    with schema_warnings.reported(lambda _: None):
        shop.call("shop:pay", count=2)
    assert len(compared) == 1
