"""Which tests are recorded for a fault."""

from __future__ import annotations

from pathlib import Path

from tests.faults.__main__ import nearest

MODULE = Path("covalt_git/access/grants.py")
FAR = [f"tests/zoo/test_zoo.py::test_{number:02}" for number in range(40)]


def test_the_finder_and_the_20_nearest_tests_are_kept() -> None:
    finder = "tests/cli/test_grant.py::test_found"
    beside = "tests/cli/test_grant.py::test_beside"
    mirror = "tests/access/test_grants.py::test_mirror"
    package = "tests/access/test_decisions.py::test_package"

    kept = nearest([*FAR, package, mirror, beside], MODULE, f"{finder}[a-1]")

    assert kept == sorted([finder, beside, mirror, package, *FAR[:17]])


def test_a_fault_that_no_test_found_keeps_the_nearest_tests() -> None:
    assert nearest(FAR, MODULE, None) == FAR[:20]
    assert nearest(FAR[:3], MODULE, "no end within 1800 s") == FAR[:3]
