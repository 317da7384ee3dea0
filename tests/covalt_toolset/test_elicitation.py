"""Elicitation requests: as an author writes them, and as forms."""

from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from pydantic import BaseModel, Field

from covalt_git.elicitation.forms import form_fields
from covalt_toolset import Answering, CannotAsk, get_context, set_context
from covalt_toolset.elicitation import flat_schema


class Size(Enum):
    small = "s"
    large = "l"


class Order(BaseModel):
    name: Annotated[str, Field(min_length=1, description="Whose it is")]
    count: Annotated[int, Field(gt=0)] = 1
    size: Size = Size.small
    color: Literal["red", "blue"] | None = None
    extras: list[Literal["a", "b"]] = []
    note: str | None = None
    sure: bool


class Person(TypedDict):
    name: str
    age: NotRequired[int]


def test_model_becomes_the_flat_fields_of_a_form() -> None:
    schema = flat_schema(Order)

    assert schema == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "description": "Whose it is"},
            "count": {"type": "integer", "minimum": 1, "default": 1},
            "size": {"title": "Size", "type": "string", "enum": ["s", "l"], "default": "s"},
            "color": {"type": "string", "enum": ["red", "blue"]},
            "extras": {
                "type": "array",
                "items": {"type": "string", "enum": ["a", "b"]},
                "default": [],
            },
            "note": {"type": "string"},
            "sure": {"type": "boolean"},
        },
        "required": ["name", "sure"],
    }
    kinds = [field.kind for field in form_fields(schema)]
    assert kinds == ["string", "integer", "choice", "choice", "choices", "string", "boolean"]


def test_answers_of_a_test_reach_the_tool(tmp_path: Path) -> None:
    answers: dict[str, Any] = {
        "order": {"action": "accept", "content": {"name": "Ada", "sure": True}},
        "person": {"action": "accept", "content": {"name": "Ada"}},
        "page": {"action": "decline"},
        "sample": {
            "role": "assistant",
            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            "model": "m",
            "stopReason": "endTurn",
        },
        "roots": {"roots": [{"uri": "file:///a", "name": "A"}]},
    }
    with set_context(workspace=tmp_path, listener=Answering(answers)):
        context = get_context()
        order = context.elicit("?", Order, key="order")
        person = context.elicit("?", Person, key="person")
        page = context.elicit_url("Go", "https://a.example", key="page")
        sampled = context.sample("Hi", max_tokens=5)
        roots = context.roots()
        with pytest.raises(CannotAsk, match="no answer for 'other'"):
            context.elicit("?", Order, key="other")

    assert order.content == Order(name="Ada", sure=True)
    assert person.content == {"name": "Ada"}
    assert (page.accepted, page.content) == (False, None)
    assert (sampled.text, sampled.stop_reason) == ("a\nb", "endTurn")
    assert [(root.uri, root.name) for root in roots] == [("file:///a", "A")]
