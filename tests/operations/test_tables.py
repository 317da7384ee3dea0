"""Pages and exports of tables: CSV files of a commit, and results of calls."""

from pathlib import Path

import pytest

from tests.api_client import Api

DAYS = b'day,celsius,note\n2026-01-03,10,=1+1\n2026-01-01,9,\n2026-01-02,-1,"a, b"\n2026-01-04\n'


@pytest.fixture
def api(root: Path) -> Api:
    """The API of a project whose chat has the file days.csv."""
    api = Api.of(root)
    api.upload(("days.csv", DAYS))
    return api


def read(api: Api, **query: object) -> dict[str, object]:
    page = api.get("read_table", chat_id="c1", **query)
    return {**page, "rows": [row["number"] for row in page["rows"]]}


def test_a_file_is_sorted_and_filtered_by_its_titles(api: Api) -> None:
    assert read(api, path="days.csv", sort="celsius")["rows"] == [3, 2, 1, 4]
    assert read(api, path="days.csv", sort="#2", descending=True)["rows"] == [1, 2, 3, 4]
    warm = read(api, path="days.csv", where="celsius>0\nday~2026-01", sort="day", limit=1, offset=1)
    assert (warm["rows"], warm["total"], warm["matching"]) == ([1], 4, 2)
    assert (warm["ragged"], warm["first_ragged"], warm["encoding"]) == (1, 4, "utf-8")
    exported = api.ask("export_table", chat_id="c1", path="days.csv", where="celsius>9").get_data()
    assert exported == b"day,celsius,note\r\n2026-01-03,10,=1+1\r\n"
    whole = api.ask(
        "export_table", chat_id="c1", path="days.csv", sort="celsius", descending="true"
    ).get_data(as_text=True)
    days = [line[:10] for line in whole.splitlines()[1:]]
    assert days == ["2026-01-03", "2026-01-01", "2026-01-02", "2026-01-04"]


@pytest.mark.parametrize(
    ("query", "status", "error"),
    [
        ({"where": "celsius"}, 400, "bad_condition"),
        ({"where": "kelvin>3"}, 404, "unknown_column"),
        ({"sort": "#0"}, 404, "unknown_column"),
        ({"call_id": "x"}, 400, "invalid_request"),
    ],
    ids=str,
)
def test_a_wrong_condition_is_refused(
    api: Api, query: dict[str, str], status: int, error: str
) -> None:
    answer = api.ask("read_table", chat_id="c1", path="days.csv", **query)  # type: ignore[arg-type]

    assert (answer.status_code, answer.get_json()["error"]) == (status, error)
