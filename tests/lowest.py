"""Print each package that covalt-git needs, at the lowest version that ``pyproject.toml`` allows, for ``make test-lowest``."""

import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement


def lowest_versions() -> list[str]:
    """Return the requirements, such as ``pydantic==2.14``, without those of extras."""
    settings = tomllib.loads(
        Path(__file__).parents[1].joinpath("pyproject.toml").read_text(encoding="utf-8")
    )
    pins = []
    for text in settings["project"]["dependencies"]:
        requirement = Requirement(text)
        (bound,) = (clause.version for clause in requirement.specifier if clause.operator == ">=")
        extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
        pins.append(f"{requirement.name}{extras}=={bound}")
    return pins


if __name__ == "__main__":
    sys.stdout.write("".join(f"{pin}\n" for pin in lowest_versions()))
