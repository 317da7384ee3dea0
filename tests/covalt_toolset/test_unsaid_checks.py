"""Which parameters are checked for more than their schema says."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import pytest
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    HttpUrl,
    PastDate,
    StringConstraints,
    Tag,
    WithJsonSchema,
    field_validator,
)

from covalt_toolset import describe
from covalt_toolset.unsaid_checks import unsaid_parameters


class Colour(Enum):
    RED = "red"


class AnyCase(Enum):
    RED = "red"

    @classmethod
    def _missing_(cls, value: object) -> "AnyCase | None":
        return cls.RED if str(value).lower() == "red" else None


class Plain(BaseModel):
    name: str = Field(min_length=1)
    parts: list["Plain"] = []
    colour: Colour = Colour.RED
    _private: int = 1


class Checked(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def check(cls, name: str) -> str:
        return name


class Holder(BaseModel):
    inner: dict[str, list[Checked]]


class Short(BaseModel):
    model_config = ConfigDict(str_max_length=3)
    name: str


class ByName(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    name: str = Field(alias="NAME")


class Choices(BaseModel):
    name: str = Field(validation_alias=AliasChoices("one", "other"))


class PathTo(BaseModel):
    name: str = Field(validation_alias=AliasPath("one", "other"))


class ValidatedDefault(BaseModel):
    size: int = Field(0, gt=3, validate_default=True)


@dataclass
class Initialized:
    name: str

    def __post_init__(self) -> None: ...


def taking(kind: Any) -> Callable[..., object]:
    def function(value: Any) -> None: ...

    function.__annotations__["value"] = kind
    return function


@pytest.mark.parametrize(
    "kind",
    [
        int,
        Annotated[int, Field(ge=1, le=5)],
        Annotated[str, Field(pattern="^a")] | None,
        dict[str, list[Plain]],
        dict[int, str],
        Literal["a", "b"],
        Path,
        date,
        Colour,
        Any,
        str | int | None,
    ],
)
def test_what_the_schema_says_is_not_listed(kind: Any) -> None:
    assert unsaid_parameters(taking(kind)) == []


@pytest.mark.parametrize(
    "kind",
    [
        Annotated[int, AfterValidator(abs)],
        list[Annotated[str, BeforeValidator(str)]],
        Decimal,
        PastDate,
        HttpUrl,
        Annotated[date, Field(ge=date(2026, 1, 1))],
        Annotated[int, Field(strict=True)],
        Annotated[str, StringConstraints(strip_whitespace=True)],
        Annotated[int, WithJsonSchema({"type": "string"})],
        Annotated[Annotated[Plain, Tag("a")] | Annotated[Short, Tag("b")], Discriminator(str)],
        dict[float, int],
        set[Any],
        AnyCase,
        Checked,
        Holder,
        Short,
        Initialized,
        ByName,
        Choices,
        PathTo,
        ValidatedDefault,
        Annotated[str, Field(min_length=3)] | int,
    ],
)
def test_what_no_schema_says_is_listed(kind: Any) -> None:
    assert unsaid_parameters(taking(kind)) == ["value"]


def test_a_parameter_is_listed_by_its_public_name() -> None:
    def function(
        one: int, other: Annotated[Decimal, Field(alias="another")], third: Checked | None = None
    ) -> None: ...

    assert unsaid_parameters(function) == ["another", "third"]


@pytest.mark.filterwarnings("ignore:Annotation")  # pydantic 3 takes it for a field
def test_a_final_parameter_with_a_default_is_not_listed() -> None:
    def function(one: Decimal, size: Final[int] = 3) -> None: ...  # type: ignore[valid-type]

    assert unsaid_parameters(function) == ["one"]


def test_a_value_from_a_path_does_not_need_the_listed_name() -> None:
    definitions = describe(taking(PathTo)).input_schema["$defs"]

    assert "required" not in definitions["PathTo"]
