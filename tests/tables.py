"""Tables of examples: a test module has them in a YAML file of its name, one row a line."""

from pathlib import Path
from typing import Any

import yaml


def tables(module: str) -> dict[str, Any]:
    """Return the tables of the test module with the path ``module``, by name.

    A table is a list of rows. Where it is a mapping in the file, a row is a key and its value.
    """
    text = Path(module).with_suffix(".yaml").read_text(encoding="utf-8")
    found = yaml.load(text, yaml.CSafeLoader)
    return {
        name: [list(row) for row in table.items()] if isinstance(table, dict) else table
        for name, table in found.items()
    }
