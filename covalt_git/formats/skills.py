"""The format of skills: folders with a ``SKILL.md``, as Claude Code and VS Code read them.

Skills become the folder ``skills/`` of a toolset.  Their files are copied unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.checks.text_files import check_text
from covalt_git.formats.documents import BadPartsError, FormatError, refuse
from covalt_git.formats.model import Imported, Part, is_short
from covalt_git.manifests.skills import SKILLS, read_skill, skill_path
from covalt_git.models.sources.skill_entry import SKILL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from covalt_git.errors import Problem
    from covalt_git.formats.documents import Document


class SkillFiles(NamedTuple):
    """The headers of skills, all files without those of wrong skills, and why these are left out, by path."""

    headers: dict[str, Any]
    files: Mapping[str, bytes]
    left_out: dict[str, str]


def headers(path: str, files: Mapping[str, bytes], *, skip_bad: bool = False) -> SkillFiles:
    """Return the YAML of each skill in a folder, by the path of its file; with ``skip_bad``, without wrong skills.

    Raises:
        BadPartsError: if some of several skills are wrong.
        FormatError: with all problems of the files.
    """
    below = sorted(item for item in files if item.count("/") == 1 and item.endswith(f"/{SKILL}"))
    result: dict[str, Any] = {}
    wrong: dict[str, list[Problem]] = {}
    for file in [SKILL] if SKILL in files else below:
        folder = file.removesuffix(SKILL)
        reading = read_skill(files[file], f"{path}/{file}", folder.rstrip("/"))
        problems = [*reading.problems]
        for name, content in files.items() if not problems else ():
            if name.startswith(folder):
                text = content.decode("utf-8", "replace") if b"\0" not in content else ""
                # Agents follow these texts, and hidden characters in them are instructions that a reviewer
                # does not see.
                problems += check_text(text, f"{path}/{name}")[0]
        errors = [item for item in problems if item.severity == "error"]
        if errors or reading.document is None:
            wrong[folder] = errors
        else:
            result[file] = reading.document.data
    problems = [item for errors in wrong.values() for item in errors]
    if wrong and not result:
        raise refuse(path, problems)
    if wrong and not skip_bad:
        raise BadPartsError(path, wrong, problems)
    rest = {name: item for name, item in files.items() if not name.startswith((*wrong,))}
    left_out: dict[str, str] = {}
    for folder, (first, *_) in wrong.items():
        reason = f"left out: {first.path}:{first.line}:{first.col} {first.message}"
        left_out[f"/{folder.rstrip('/')}"] = reason
    return SkillFiles(result, rest if wrong else files, left_out)


def recognize(document: Document) -> bool:
    """Return whether a document has this format."""
    values = document.value if isinstance(document.value, dict) else {}
    is_skill = bool(values) and all(path.endswith(SKILL) for path in values)
    return document.kind == "folder" and is_skill


def read(document: Document, imported: Imported) -> None:
    """Add the toolsets of a document."""
    source = Part(document.value)
    skills = [source[path] for path in source.value]
    only = skills[0] if len(skills) == 1 else None
    title = only.peek("name") if only is not None else document.stem
    toolset = imported.toolset(title, name=title)
    if only is not None and is_short(only.peek("description")):
        toolset.copy(only, {"description": "description"})
    folders = {str(item.loc[0]).removesuffix(SKILL): item.peek("name") for item in skills}
    for path, content in document.files.items():
        folder = next((item for item in folders if path.startswith(item)), None)
        if folder is None:
            imported.lost_files[path] = "the file is not in a folder with a SKILL.md"
        else:
            target = skill_path(folders[folder], path.removeprefix(folder))
            imported.files[0][target] = content
    for skill in skills:
        toolset.trace(("files", skill_path(skill.peek("name"))), skill.loc)


def write(toolsets: Sequence[Part], _imported: Imported) -> dict[str, bytes]:
    """Return the document of toolsets."""
    result: dict[str, bytes] = {}
    for manifest in toolsets:
        files = [
            (path, item) for path, item in manifest.entries("files") if path.startswith(SKILLS)
        ]
        for path, content in files:
            target = path.removeprefix(f"{SKILLS}/")
            if target in result:
                name = target.partition("/")[0]
                hint = "convert each toolset on its own"
                raise FormatError(f"two toolsets have the skill {name!r}", hint=hint)
            result[target] = content.use()
    if not result:
        raise FormatError("the input has no skills", hint=f"a skill is a file {skill_path('NAME')}")
    return result
