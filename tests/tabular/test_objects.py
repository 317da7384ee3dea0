"""Columns of arrays of objects."""

from covalt_git.tabular.objects import column_names


def test_a_key_that_earlier_objects_lack_comes_before_the_key_after_it() -> None:
    rows: list[dict[str, object]] = [
        {"name": 1, "note": 1},
        {"name": 1, "date": 1, "note": 1},
        {"id": 1, "name": 1, "note": 1, "end": 1},
    ]

    assert column_names(rows) == ["id", "name", "date", "note", "end"]
    assert column_names([{}]) == []
