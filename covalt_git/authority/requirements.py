"""Python requirements by what they allow: which package, and which of its versions."""

from __future__ import annotations

import re

from covalt_git.authority.facts import Judged, unclear

_REQUIREMENT = re.compile(
    r"\s*(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?P<versions>[^;\[@(]*?)\s*"
)
"""A name and clauses of versions; with extras, a marker or an address it is not compared (PEP 508)."""


def package_of(requirement: str) -> str:
    """Return the package's name as PyPI compares it (PEP 503); the whole text where it has none."""
    found = re.match(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)", requirement)
    return re.sub(r"[-_.]+", "-", found[1]).lower() if found else requirement


def judge_requirements(old: str, new: str) -> Judged:
    """Return whether other versions of a package may be installed than before."""
    words = f"may install {new.strip()} (was {old.strip()})"
    one, other = _REQUIREMENT.fullmatch(old), _REQUIREMENT.fullmatch(new)
    if old.strip() == new.strip():
        return Judged("neutral", words)
    if one is None or other is None:
        return unclear(words)
    before, now = _clauses(one["versions"]), _clauses(other["versions"])
    if before == now:
        return Judged("neutral", words)
    if before < now:
        return Judged("narrowing", words)
    return Judged("widening", words) if now < before else unclear(words)


def _clauses(versions: str) -> frozenset[str]:
    return frozenset("".join(one.split()) for one in versions.split(",") if one.strip())
