"""Resources of toolsets in the form of MCP (MCP specification, "Resources")."""

from __future__ import annotations

import base64
from functools import partial
from typing import TYPE_CHECKING

import mcp_types as types

from covalt_git.catalog.prompt_content import content_of
from covalt_git.models.sources.skill_entry import SCHEME
from covalt_git.templating.uri_templates import UriTemplate

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.catalog.prompt_content import Content
    from covalt_git.models.prompts import Item, Resource, ToolsetItem
    from covalt_git.project import Project


def visible(project: Project) -> list[ToolsetItem[Resource]]:
    """Return the resources that are visible to the principal; of equal URIs the first."""
    with project.tool_index() as index:
        index.sync_toolsets()
        resources = project.catalog.resources(index)
    by_uri: dict[str, ToolsetItem[Resource]] = {}
    for item in resources:
        by_uri.setdefault(item.what.uri or item.what.uri_template or "", item)
    return [*by_uri.values()]


def listed(project: Project) -> dict[str, Callable[[], types.Resource]]:
    """Return a dict from each fixed URI to a function that describes its resource."""
    return {
        item.what.uri: partial(_described, item.what.uri, item)
        for item in visible(project)
        if item.what.uri is not None
    }


def templates(project: Project) -> list[types.ResourceTemplate]:
    """Return the resources with a URI template."""
    return [
        types.ResourceTemplate(
            uri_template=item.what.uri_template,
            name=item.what.id,
            title=title(item),
            description=item.what.description or None,
            mime_type=item.what.mime_type,
        )
        for item in visible(project)
        if item.what.uri_template is not None
    ]


def read(
    project: Project, uri: str
) -> types.TextResourceContents | types.BlobResourceContents | None:
    """Return the content of the resource with a URI; None if it does not exist."""
    for item, args in _matching(project, uri):
        with project.tool_index() as index:
            content = content_of(project.root, index, item, item.what, args)
        if content is not None:
            return contents(uri, content)
    return None


def _matching(project: Project, uri: str) -> list[tuple[ToolsetItem[Resource], dict[str, str]]]:
    """Return the resources that match a URI, with its variables; those with fixed URIs first."""
    exact = []
    from_templates = []
    for item in visible(project):
        if item.what.uri_template is None:
            exact += [(item, dict[str, str]())] if item.what.uri == uri else []
        elif (args := UriTemplate.parse(item.what.uri_template).match(uri)) is not None:
            from_templates.append((item, args))
    # A template may match a fixed URI too, and must not hide the resource that has it.
    return exact + from_templates


def contents(uri: str, content: Content) -> types.TextResourceContents | types.BlobResourceContents:
    """Return content in the form of MCP: as text, or bytes in base64."""
    if content.text is not None:
        return types.TextResourceContents(uri=uri, mime_type=content.mime_type, text=content.text)
    blob = base64.b64encode(content.blob).decode()
    return types.BlobResourceContents(uri=uri, mime_type=content.mime_type, blob=blob)


def title(item: ToolsetItem[Item]) -> str:
    """Return the title that hosts show."""
    return item.what.name or item.what.id.replace("_", " ").replace("-", " ").title()


def _described(uri: str, item: ToolsetItem[Resource]) -> types.Resource:
    return types.Resource(
        uri=uri,
        # The name of a skill is that of its front matter (SEP-2640, "Resource Metadata").
        name=title(item) if uri.startswith(f"{SCHEME}:") else item.what.id,
        title=title(item),
        description=item.what.description or None,
        mime_type=item.what.mime_type,
    )
