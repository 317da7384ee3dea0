"""Time between two requests about a task of a server."""

import pytest

from covalt_git.connections.server_tasks import interval_s


@pytest.mark.parametrize(
    ("suggested_ms", "seconds"),
    [(None, 1), (500, 0.5), (-1, 0.05), (1e300, 60), (float("nan"), 1), (float("inf"), 60)],
)
def test_what_a_server_suggests_is_bounded(suggested_ms: float | None, seconds: float) -> None:
    assert interval_s(suggested_ms) == seconds
