"""Operations, and the case of each: see tests/operations/test_contract.py."""

from pathlib import Path
from typing import Any

import yaml

from covalt_git.operations.registry import every_operation

OPERATIONS = every_operation()
CASES: dict[str, dict[str, Any]] = {
    name: case
    for file in sorted((Path(__file__).parent / "operations/cases").glob("*.yaml"))
    for name, case in yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader).items()
}
