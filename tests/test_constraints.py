"""The pinned packages: each can be installed on the oldest Python that covalt-git is for."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]


def pinned(file: str) -> dict[str, str]:
    """Return the versions of packages in a file of requirements, by their names."""
    text = (ROOT / file).read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE))


def test_each_pinned_package_is_for_the_oldest_python_too() -> None:
    """Python 3.11.2 of Debian 12 got no development tools when one of them needed 3.11.5."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    oldest = settings["project"]["requires-python"].removeprefix(">=") + ".0"
    versions = pinned("constraints.txt")
    needs: dict[str, str] = {}
    for name, version in versions.items():
        try:
            package = distribution(name)
        except PackageNotFoundError:  # of another platform, or of a test's environment
            continue
        if package.version == version:
            needs[name] = package.metadata["Requires-Python"] or ""

    assert len(needs) > len(versions) * 0.8
    assert {name: text for name, text in needs.items() if oldest not in SpecifierSet(text)} == {}
