"""Moments as files have them."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from covalt_git import timestamps
from covalt_git.models.base import Time

MOMENTS = st.datetimes(timezones=st.just(UTC))


def test_timestamp_has_milliseconds() -> None:
    moment = datetime(2026, 11, 20, 17, 24, 0, 123_456, UTC)

    assert timestamps.written(moment) == "2026-11-20T17:24:00.123Z"


@given(MOMENTS, MOMENTS)
def test_later_timestamp_is_the_greater_text(one: datetime, other: datetime) -> None:
    earlier, later = sorted((one, other))

    assert timestamps.written(earlier) <= timestamps.written(later)
    assert TypeAdapter(Time).validate_python(timestamps.written(one)) == timestamps.written(one)
