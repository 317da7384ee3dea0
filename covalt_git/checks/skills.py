"""Check of a toolset's skills: each folder of ``skills/`` has a ``SKILL.md`` with a name and a description."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.errors import Problem
from covalt_git.manifests.skills import names_of_skills, read_skill, skill_path
from covalt_git.problems import codes

if TYPE_CHECKING:
    from covalt_git.manifests.skills import SkillHeader
    from covalt_git.manifests.toolset_files import BundleFiles, Contents


def read_skills(
    display_path: str, files: BundleFiles, contents: Contents
) -> tuple[tuple[SkillHeader, ...], list[Problem]]:
    """Return the valid skills of a toolset, and the problems of the others."""
    skills: list[SkillHeader] = []
    problems: list[Problem] = []
    for name in names_of_skills(files.hashes):
        path = skill_path(name)
        shown = f"{display_path}/{path}"
        try:
            content = contents.read(path)
        except OSError:
            hint = f"write {shown}, or move the other files out of skills/"
            problems.append(Problem(shown, 0, 0, codes.NO_FILE, "a skill needs this file", hint))
            continue
        reading = read_skill(content, shown, name)
        problems += reading.problems
        skills += [reading.value] if reading.value is not None else []
    return tuple(skills), problems
