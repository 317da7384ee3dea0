"""Finding tools by words: what is looked at, what comes first, and what a slip of the finger finds."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.index import database, search
from covalt_git.index.search_text import query_words
from covalt_git.index.toolset_rows import put_rows, tool_rows
from covalt_git.models.tool import Tool
from tests.index.rows import open_index

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOOLS: dict[str, dict[str, Any]] = {
    "weather:getForecast": {
        "name": "Forecast",
        "description": "Weather of the next days, at one place",
        "input_schema": {
            "type": "object",
            "properties": {
                "place": {"type": "object", "properties": {"postcode": {"type": "string"}}},
                "unitSystem": {"enum": ["metric", "imperial"], "description": "How to measure"},
            },
        },
    },
    "weather:list_stations": {"name": "Stations", "description": "Stations that measure rain"},
    "garden:water": {
        "name": "Water",
        "description": "Watering of a bed when there is no rain",
        "tags": ["irrigation"],
    },
    "garden:delete_bed": {"name": "Delete Bed", "description": "Take a bed out of the plan"},
    "garden:get_bed": {"name": "Get Bed", "description": "Tell what grows in a bed"},
    "kitchen:menu": {"name": "今日の献立", "description": "レシピを検索する"},
}
"""Tools by their id."""


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    with closing(filled(tmp_path_factory.mktemp("search") / "index.db", list(TOOLS))) as opened:
        yield opened


def filled(file: Path, ids: list[str]) -> sqlite3.Connection:
    connection = database.connect(file)
    for tool_id in ids:
        facts: dict[str, Any] = {"input_schema": {}} | TOOLS[tool_id]
        tool = Tool.model_validate(
            {"tool_id": tool_id, "toolset_id": tool_id.partition(":")[0], **facts}
        )
        put_rows(connection, tool_rows(tool, "Green Thumb", toolset_id=None))
    return connection


def found(connection: sqlite3.Connection, query: str, limit: int = 10) -> list[str]:
    return search.find(connection, query, lambda _: True, limit)


@pytest.mark.parametrize(
    ("query", "tool_id"),
    [
        pytest.param("forecast", "weather:getForecast", id="name"),
        pytest.param("getForecast", "weather:getForecast", id="camel-case-as-written"),
        pytest.param("forecast get", "weather:getForecast", id="camel-case-in-words"),
        pytest.param("list stations", "weather:list_stations", id="snake-case-in-words"),
        pytest.param("delete_bed", "garden:delete_bed", id="snake-case-as-written"),
        pytest.param("garden.delete_bed", "garden:delete_bed", id="path"),
        pytest.param("imperial", "weather:getForecast", id="value-of-a-parameter"),
        pytest.param("unit system", "weather:getForecast", id="parameter"),
        pytest.param("postcodes", "weather:getForecast", id="parameter-within-another"),
        pytest.param("irrigation", "garden:water", id="tag"),
        pytest.param("measured", "weather:list_stations", id="another-form-of-the-word"),
        pytest.param("FORECAST", "weather:getForecast", id="capitals"),
        pytest.param("forecást", "weather:getForecast", id="accents"),
        pytest.param("irrig", "garden:water", id="beginning"),
        pytest.param("fore get", "weather:getForecast", id="a-beginning-and-a-word"),
        pytest.param("forcast", "weather:getForecast", id="a-letter-too-few"),
        pytest.param("foreccast", "weather:getForecast", id="a-letter-too-many"),
        pytest.param("foreczst", "weather:getForecast", id="a-wrong-letter"),
        pytest.param("foercast", "weather:getForecast", id="two-letters-swapped"),
        pytest.param("献立", "kitchen:menu", id="words-without-spaces"),
        pytest.param("レシピ検索", "kitchen:menu", id="several-of-them"),
    ],
)
def test_a_tool_is_found_by(connection: sqlite3.Connection, query: str, tool_id: str) -> None:
    assert found(connection, query)[0] == tool_id


def test_a_misspelt_word_is_corrected_from_four_letters_on(connection: sqlite3.Connection) -> None:
    assert "weather:list_stations" in found(connection, "rian")
    assert found(connection, "bde") == []


def test_those_with_all_words_come_before_those_with_some(connection: sqlite3.Connection) -> None:
    ids = found(connection, "rain bed")

    assert ids[0] == "garden:water"
    assert set(ids) == {
        "garden:water",
        "garden:delete_bed",
        "garden:get_bed",
        "weather:list_stations",
    }


def test_a_short_query_keeps_its_verb_and_a_long_question_loses_it() -> None:
    assert query_words("get bed") == ["get", "bed"]
    assert query_words("Could you please get me all that grows in the bed?") == ["grows", "bed"]


def test_a_query_of_filler_is_looked_for_as_it_is() -> None:
    assert query_words("what is it") == ["what", "is", "it"]


@pytest.mark.parametrize("query", ["", "  ", "?!", "zeppelin", "zz", '"', "AND", "name:bed*"])
def test_no_query_is_an_error(connection: sqlite3.Connection, query: str) -> None:
    assert set(found(connection, query)) <= set(TOOLS)


@given(st.text(max_size=60))
def test_whatever_is_asked_is_answered_the_same_twice(query: str) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as scratch:
        database._make(scratch)

        assert found(scratch, query) == []
    assert query_words(query) == query_words(query)


@given(st.text(max_size=60))
def test_no_text_reaches_the_query_language(connection: sqlite3.Connection, query: str) -> None:
    assert set(found(connection, query)) <= set(TOOLS)


def test_what_is_not_wanted_takes_nobodys_place(connection: sqlite3.Connection) -> None:
    wanted = search.find(connection, "bed", lambda name: name != "garden:get_bed", 2)

    assert wanted == ["garden:delete_bed", "garden:water"]


def test_the_order_of_writing_does_not_matter(
    connection: sqlite3.Connection, tmp_path: Path
) -> None:
    ids = list(TOOLS)
    random.Random(3).shuffle(ids)
    with closing(filled(tmp_path / "index.db", ids)) as other:
        for query in ("bed", "rain", "get the weather", "garden", "green"):
            assert found(other, query) == found(connection, query)


def test_a_tool_that_is_gone_is_not_found(root: Path) -> None:
    with open_index(root) as index:
        index.sync_toolsets()
        assert index.search("run a command", lambda _: True, 1) == ["app-builder:run_command"]
        manifest = root / "toolsets/app-builder/toolset.yaml"
        manifest.write_text(manifest.read_text().replace("id: run_command", "id: start_program"))
        index.sync_toolsets()

        ids = index.search("run a command", lambda _: True, 100)
        assert "app-builder:run_command" not in ids
        assert "app-builder:start_program" in ids
