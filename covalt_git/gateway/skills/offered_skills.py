"""Skills that a client may use, with all of their files.

A client gets a skill if its role may read each file: a list of files without those that it may not read would be false.
"""

from __future__ import annotations

import mimetypes
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import mcp_types as types

from covalt_git.calls.servers.skill_reading import read_skill_file
from covalt_git.catalog import toolset_cache
from covalt_git.gateway.offers import server_offers
from covalt_git.json_values import canonical_json
from covalt_git.manifests.skills import skill_ids
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.models.sources.skill_entry import (
    BadSkillError,
    SkillEntry,
    SkillFile,
    parsed_entry,
    served_uri,
)
from covalt_git.names import ToolId
from covalt_git.toolsets.permissions import check_offers_trusted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from covalt_git.gateway.offers.server_offers import Contents
    from covalt_git.project import Project
    from covalt_git.toolsets.offers import ServerOffer

MARKDOWN = "text/markdown"


class ServerSkill(NamedTuple):
    """An accepted skill of a server: its entry with the URIs of the server, and with ours."""

    offer: ServerOffer
    upstream: SkillEntry
    entry: SkillEntry


def visible(project: Project) -> dict[str, SkillEntry]:
    """Return the skills that the principal may use, by the sorted URIs of their ``SKILL.md``."""
    entries = {
        skill.entry.uri: skill.entry
        for skill in _of_servers(server_offers.visible(project, "skill"))
    }
    # A toolset's own skill comes first; `validate` reports a skill of a server with its URI.
    entries |= {entry.uri: entry for entry in _of_toolsets(project)}
    return dict(sorted(entries.items()))


def versions(project: Project) -> dict[str, str]:
    """Return the digest of each visible skill, by its URI; it changes with each of its files."""
    return {uri: canonical_json.digest(entry.as_json) for uri, entry in visible(project).items()}


def resources(project: Project) -> dict[str, Callable[[], types.Resource]]:
    """Return a function that describes the ``SKILL.md`` of each visible skill of a server, by its URI."""
    return {
        skill.entry.uri: partial(_described, skill.entry)
        for skill in _of_servers(server_offers.visible(project, "skill"))
    }


def read(project: Project, uri: str, chat_id: str | None) -> Contents | None:
    """Return a file of a server's skill, if it is the accepted one; None if the principal may read no such file.

    The URI is that of the skill, or the one that a resource of the server with the file's URI would have.

    Raises:
        CovaltError: if its server is not granted, does not return it, or returns another content.
    """
    requested, parts = uri, server_offers.upstream_uri(uri)
    if parts is not None:
        uri = served_uri(*parts)
    skill = _readable(project, uri)
    if skill is None:
        return None
    upstream = _upstream_uri(skill, uri)

    def find(current: Project) -> ServerOffer | None:
        now_readable = _readable(current, uri)
        return None if now_readable is None else now_readable.offer

    with server_offers.access(project, skill.offer, find, chat_id) as server:
        source = f"{skill.offer.toolset.id}/{skill.offer.namespace}"
        sent, _ = read_skill_file(server.read_resource, skill.upstream, upstream, source)
    # Its _meta is left out: the entry has no digest of it.
    kept = {key: value for key, value in sent.items() if key in {"text", "blob"}}
    media_type = MARKDOWN if uri == skill.entry.uri else media_type_of(uri)
    return server_offers.contents([{**kept, "mimeType": media_type}], requested)


def media_type_of(uri: str) -> str | None:
    """Return the media type that the name of a file says."""
    return mimetypes.guess_type(uri.rpartition("/")[2])[0]


def _of_toolsets(project: Project) -> Iterator[SkillEntry]:
    ids = toolset_ids(project.root / "toolsets")
    for toolset_id in ids:
        toolset = toolset_cache.toolset(project.root, toolset_id, ids)
        for skill in toolset.skills if toolset.enabled and toolset.sound else ():
            own, others = (str(ToolId(toolset_id, name)) for name in skill_ids(skill.name))
            needed = [own, others] if len(skill.files) > 1 else [own]
            if not skill.excess and all(map(project.catalog.sees, needed)):
                yield skill.entry(toolset_id)


def _of_servers(offers: Iterable[ServerOffer]) -> Iterator[ServerSkill]:
    for offer in offers:
        try:
            upstream = parsed_entry(offer.definition)
        except BadSkillError:  # a lock can come from a pull
            continue
        files = (
            SkillFile(served_uri(offer.namespace, file.uri), file.digest, file.size)
            for file in upstream.files
        )
        uri = served_uri(offer.namespace, upstream.uri)
        yield ServerSkill(offer, upstream, SkillEntry(uri, upstream.frontmatter, tuple(files)))


def _readable(project: Project, uri: str) -> ServerSkill | None:
    """Return the server's skill that has the file served at a URI, if the principal may read it.

    Raises:
        NotTrustedError: if the user has not trusted that it is read without approval.
    """
    for skill in _of_servers(server_offers.usable(project, "skill")):
        if skill.entry.file(uri) is not None:
            check_offers_trusted([skill.offer], project.config)
            return skill
    return None


def _upstream_uri(skill: ServerSkill, uri: str) -> str:
    return next(
        file.uri
        for file, own in zip(skill.upstream.files, skill.entry.files, strict=True)
        if own.uri == uri
    )


def _described(entry: SkillEntry) -> types.Resource:
    description = str(entry.frontmatter["description"])
    return types.Resource(
        uri=entry.uri,
        name=entry.name,
        title=entry.name,
        description=description,
        mime_type=MARKDOWN,
    )
