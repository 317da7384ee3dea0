"""The requirements of the specification, the lines of its documents, and the tests with the mark ``requirement``."""

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
TESTS = FOLDER.parent
SEEDS = TESTS.parent.parent / "shared" / "seeds"
"""The five documents, which are not part of this repository."""

_MARK = re.compile(r"mark\.requirement\((.*?)\)", re.DOTALL)


def read(name: str) -> Any:
    """Return the content of a YAML file of this folder."""
    return yaml.load((FOLDER / name).read_text(encoding="utf-8"), yaml.CSafeLoader)


def marked() -> dict[str, list[str]]:
    """Return the files with a test of each requirement, by id.

    A requirement is an argument of the mark, or the first column of a table of this folder.
    """
    found = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        for arguments in _MARK.findall(path.read_text(encoding="utf-8")):
            for name in re.findall(r'"([^"]+)"', arguments):
                found[name].append(path.relative_to(TESTS).as_posix())
    for path in sorted(FOLDER.glob("test_*.yaml")):
        for table in read(path.name).values():
            for name in table:
                found[name].append(path.relative_to(TESTS).with_suffix(".py").as_posix())
    return dict(found)
