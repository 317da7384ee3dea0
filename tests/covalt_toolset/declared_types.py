"""Types as authors of tools declare them; the tables of annotations name them."""

# ruff: noqa: F401 - the tables of annotations name what is imported

import collections.abc
import dataclasses
import enum
import typing
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, Optional, Required, Union
from uuid import UUID

import typing_extensions
from pydantic import BaseModel, Field, field_validator, model_validator


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Priority(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Row:
    name: str
    size: int = 0


@dataclasses.dataclass
class Event:
    name: str
    when: date
    color: Color = Color.RED


class Tree(BaseModel):
    label: str = Field(description="What it says")
    children: list["Tree"] = []


class Closed(BaseModel, extra="forbid"):
    a: int


class Config(BaseModel):
    rows: list[Event] = []
    limit: Annotated[int, Field(gt=0)] = 10


class Range(BaseModel):
    """A model whose validators check more than types, some of them before pydantic does."""

    first: datetime
    last: datetime
    tags: set[str] = set()

    @model_validator(mode="before")
    @classmethod
    def check_all(cls, value: object) -> object:
        return value

    @field_validator("first", mode="before")
    @classmethod
    def check_first(cls, value: object) -> object:
        return value

    @model_validator(mode="after")
    def in_order(self) -> "Range":
        if self.last < self.first:
            raise ValueError("Last is before first")
        return self


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Options(typing.TypedDict):
    depth: int
    label: NotRequired[str]


class Folder(typing.TypedDict):
    name: str
    folders: "list[Folder]"


class Extended(typing_extensions.TypedDict):
    depth: int


class Unfinished(BaseModel):
    part: "Missing"  # type: ignore[name-defined]  # noqa: F821


class Opaque:
    pass


def evaluated(expression: str) -> Any:
    """Return the value of an expression of a table."""
    return eval(expression, globals())


def taking(annotation: str, default: object = ...) -> Callable[..., object]:
    """Return a function that returns its argument ``value`` of the annotation."""

    def function(value: object) -> object:
        return value

    function.__annotations__ = {"value": evaluated(annotation)}
    if default is not ...:
        function.__defaults__ = (default,)
    return function


def returning(annotation: str) -> Callable[..., None]:
    """Return a function whose result has the annotation."""

    def function() -> None: ...

    function.__annotations__["return"] = evaluated(annotation)
    return function
