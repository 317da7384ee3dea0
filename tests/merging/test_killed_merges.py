"""A merge that is killed, wherever that is: the next writer finds it not begun, or complete."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.merging import killed_merges
from tests.workspaces.stores import scratch


@pytest.mark.parametrize(("action", "made"), [("merge", "merge"), ("resolve", "edit")])
def test_killed_before_any_change_of_the_disk_it_is_old_or_new(action: str, made: str) -> None:
    with scratch() as place:
        done = subprocess.run(
            [sys.executable, "-m", killed_merges.__name__, str(place), action],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        )
    ends = json.loads(done.stdout)

    assert len(ends) > 15
    assert (ends[0], ends[-1]) == ("old right", f"{made} right")
    assert set(ends) == {"old right", f"{made} right"}
    # A run may take a step less than the one before: ids are new in each, and their folder may be there.
    assert ends[ends.index(f"{made} right") :].count("old right") <= 1
