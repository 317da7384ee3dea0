"""Searching tools by words: which fields are searched, what ranks first, and which typos are corrected."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.index import database, search
from covalt_git.index.toolset_rows import put_rows, tool_rows
from covalt_git.models.tool import Tool
from tests.tables import tables

TABLES = tables(__file__)

UNITS = {"enum": ["metric", "imperial"], "description": "How to measure"}
PLACE = {"type": "object", "properties": {"postcode": {"type": "string"}}}
TOOLS: dict[str, dict[str, Any]] = {
    "weather:getForecast": {
        "name": "Forecast",
        "description": "Weather of the next days, at one place",
        "input_schema": {"type": "object", "properties": {"place": PLACE, "unitSystem": UNITS}},
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


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    with closing(filled(tmp_path_factory.mktemp("search") / "index.db", list(TOOLS))) as opened:
        yield opened


def filled(file: Path, ids: list[str]) -> sqlite3.Connection:
    connection = database.connect(file)
    for tool_id in ids:
        facts = {"tool_id": tool_id, "toolset_id": tool_id.partition(":")[0], "input_schema": {}}
        tool = Tool.model_validate(facts | TOOLS[tool_id])
        put_rows(connection, tool_rows(tool, "Green Thumb", toolset_id=None))
    return connection


def found(connection: sqlite3.Connection, query: str, limit: int = 10) -> list[str]:
    return search.find(connection, query, lambda _: True, limit)


@pytest.mark.parametrize(
    ("query", "tool_id"),
    TABLES["queries"],
)
def test_a_query_finds_its_tool_first(
    connection: sqlite3.Connection, query: str, tool_id: str
) -> None:
    assert found(connection, query)[0] == tool_id


def test_typos_are_corrected_for_words_of_at_least_four_letters(
    connection: sqlite3.Connection,
) -> None:
    assert "weather:list_stations" in found(connection, "rian")
    assert found(connection, "bde") == []


def test_tools_with_all_words_rank_before_tools_with_some(connection: sqlite3.Connection) -> None:
    ids = found(connection, "rain bed")

    assert ids[0] == "garden:water"
    assert sorted(ids[1:]) == ["garden:delete_bed", "garden:get_bed", "weather:list_stations"]


@given(
    st.sampled_from(["", "  ", "?!", "zeppelin", "zz", '"', "AND", "name:bed*"])
    | st.text(max_size=60)
)
def test_no_query_is_an_error(connection: sqlite3.Connection, query: str) -> None:
    assert set(found(connection, query)) <= set(TOOLS)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as scratch:
        database._create_schema(scratch)
        assert found(scratch, query) == []


def test_tools_that_are_filtered_out_do_not_count_against_the_limit(
    connection: sqlite3.Connection,
) -> None:
    wanted = search.find(connection, "bed", lambda name: name != "garden:get_bed", 2)

    assert wanted == ["garden:delete_bed", "garden:water"]
