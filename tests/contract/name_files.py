"""The files of ``names/``: one name a line, sorted, so that a diff shows what was added or removed."""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.contract.source_names import REPOSITORY

FOLDER = Path(__file__).with_name("names")
UPDATE = "UPDATE_NAMES"


def check_names(name: str, found: Iterable[str]) -> None:
    """Compare names with those in a file of ``names/``; with ``UPDATE_NAMES=1``, write the file."""
    file = FOLDER / f"{name}.txt"
    now = sorted(set(found))
    assert now
    if os.environ.get(UPDATE):
        file.write_text("".join(f"{line}\n" for line in now), encoding="utf-8")
        return
    before = file.read_text(encoding="utf-8").splitlines()
    differences = [
        *(f"- {line}" for line in before if line not in set(now)),
        *(f"+ {line}" for line in now if line not in set(before)),
    ]
    if differences or before != now:
        lines = "\n".join(differences) or "its lines are not sorted"
        pytest.fail(
            f"names in {file.relative_to(REPOSITORY)} have changed:\n{lines}\n"
            f"hint: if that is intended: {UPDATE}=1 pytest tests/contract",
            pytrace=False,
        )
