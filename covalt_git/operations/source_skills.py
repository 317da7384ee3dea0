"""Operations on the skills of MCP servers: listing them, and reading their files before they are accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from covalt_git.calls.servers import skill_cache
from covalt_git.calls.servers.skill_reading import read_skill_file, server_reader
from covalt_git.errors import UnknownNameError
from covalt_git.models.sources.skill_entry import SKILL, BadSkillError, parsed_entry, served_uri
from covalt_git.models.toolset_manifest import Source
from covalt_git.operations.context import Context
from covalt_git.operations.registry import Result, ToolsetRequest, operation
from covalt_git.sources import refresh
from covalt_git.text import display
from covalt_git.toolsets.offers import offers_in
from covalt_git.toolsets.permissions import is_accepted_here

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.models.sources.skill_entry import SkillEntry, SkillFile
    from covalt_git.toolsets.offers import ServerOffer


class ListSourceSkills(ToolsetRequest):
    """Request: an MCP server, by the namespace of its tools."""

    namespace: str = Field(max_length=200)


class ReadSourceSkill(ToolsetRequest):
    """Request: a file of a skill of an MCP server, by the namespace of its tools."""

    namespace: str = Field(max_length=200)
    name: str = Field(max_length=300, description="Name of the skill, or its name in the lock.")
    path: str = Field(SKILL, max_length=2000, description="A file of the skill.")


class SourceSkill(Result):
    """A skill that an MCP server listed last."""

    name: str = Field(description="Its name in the lock, by which it is accepted.")
    digest: str = Field(description="Digest of its definition, which is accepted.")
    text_digest: str = Field(
        description="Digest of its SKILL.md, without which it is not accepted."
    )
    title: str = Field(description="Its name in its front matter.")
    description: str
    uri: str = Field(description="URI of its SKILL.md at the server.")
    served_uri: str = Field(description="URI of its SKILL.md for agents.")
    files: dict[str, int] = Field(description="Its files and their sizes in bytes.")
    accepted: bool = Field(description="Whether its files, with these digests, are accepted.")
    withheld: str = Field(description="Why agents do not get it once it is accepted, if so.")


class SourceSkills(Result):
    """The skills that an MCP server listed last."""

    toolset_id: str
    namespace: str
    skills: tuple[SourceSkill, ...]


class SkillFileText(Result):
    """A file of a skill, as its server returned it now; it has the listed digest."""

    toolset_id: str
    namespace: str
    skill: SourceSkill
    path: str
    digest: str
    size: int
    text: str | None = Field(description="Its text; null if it is not UTF-8.")
    accepted_text: str | None = Field(
        description="The text of the accepted file, if it is another one that was read on this machine."
    )


class _Listed(NamedTuple):
    offer: ServerOffer
    entry: SkillEntry
    key: str

    def files(self) -> dict[str, SkillFile]:
        """Return the files by their paths below the folder of the skill."""
        return self.entry.paths


@operation(errors=(404,), admin="see sources")
def list_source_skills(context: Context, request: ListSourceSkills) -> SourceSkills:
    """List the skills that an MCP server listed last, and whether they are accepted."""
    source = refresh.find_source(context.project.root, request.toolset_id, request.namespace)
    return SourceSkills(
        toolset_id=source.toolset.id,
        namespace=source.namespace,
        skills=tuple(_row(context, listed) for listed in _skills(source)),
    )


@operation(changes=True, errors=(404, 409, 502), admin="read skills of servers")
def read_source_skill(context: Context, request: ReadSourceSkill) -> SkillFileText:
    """Read a file of a skill from its MCP server, to review it; the file must have the listed digest."""
    project = context.project
    source = refresh.find_source(project.root, request.toolset_id, request.namespace)
    listed = _find(source, request.name)
    files = listed.files()
    # A reviewer sees, and can type, only the escapes of characters that are not visible.
    paths = {display.in_line(path): path for path in files}
    path = paths.get(request.path, request.path)
    if path not in files or isinstance(source.declared, Source):
        raise UnknownNameError("file", request.path, files, list_with=_list_with(source))
    file = files[path]
    read = server_reader(
        source.toolset,
        source.declared,
        root=project.root,
        config=project.config,
        report=context.report,
    )
    _, content = read_skill_file(read, listed.entry, file.uri, source.shown_id)
    return SkillFileText(
        toolset_id=source.toolset.id,
        namespace=source.namespace,
        skill=_row(context, listed),
        path=path,
        digest=file.digest,
        size=file.size,
        text=_text(content),
        accepted_text=_accepted_text(source, listed.key, path, file.digest),
    )


def _skills(source: refresh.ToolSource) -> Iterator[_Listed]:
    """Yield the skills in the lock of a source, sorted by their names."""
    if source.lock is None:
        return
    offers = offers_in(source.toolset, source.declared.id, source.lock)
    for offer in sorted(offers, key=lambda offer: offer.key):
        if offer.locked.kind == "skill":
            try:
                entry = parsed_entry(offer.definition)
            except BadSkillError:  # a lock can come from a pull
                continue
            yield _Listed(offer, entry, offer.key.partition(":")[2])


def _find(source: refresh.ToolSource, name: str) -> _Listed:
    listed = {skill.key: skill for skill in _skills(source)}
    if name in listed:
        return listed[name]
    # Skills of different folders can have one name.
    named = [skill for skill in listed.values() if skill.entry.name == name]
    if len(named) != 1:
        raise UnknownNameError("skill", name, listed, list_with=_list_with(source))
    return named[0]


def _row(context: Context, listed: _Listed) -> SourceSkill:
    reasons = listed.offer.approval_reasons(context.visibility.rules)
    return SourceSkill(
        name=listed.key,
        digest=listed.offer.locked.computed_digest,
        text_digest=listed.entry.paths[SKILL].digest,
        title=listed.entry.name,
        description=str(listed.entry.frontmatter["description"]),
        uri=listed.entry.uri,
        served_uri=served_uri(listed.offer.namespace, listed.entry.uri),
        files={path: file.size for path, file in listed.files().items()},
        accepted=listed.offer.is_accepted,
        withheld="; ".join(reasons),
    )


def _accepted_text(source: refresh.ToolSource, key: str, path: str, digest: str) -> str | None:
    """Return the text of the accepted file with a path, if it is another one that the cache has."""
    replaced = source.lock.replaced_skills.get(key) if source.lock is not None else None
    # A pull can write any entry into the lock.  If it were compared without this check, its lines would be shown as
    # unchanged, as if the user had accepted them.
    accepted_key = f"{source.namespace}:{key}"
    if replaced is None or not is_accepted_here(
        source.toolset, accepted_key, replaced.computed_digest
    ):
        return None
    try:
        file = parsed_entry(replaced.listed).paths.get(path)
    except BadSkillError:
        return None
    content = None if file is None or file.digest == digest else skill_cache.stored(file.digest)
    return None if content is None else _text(content)


def _text(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _list_with(source: refresh.ToolSource) -> str:
    return f"covalt-git source skills {source.shown_id}"
