"""The resources of toolsets as MCP clients have them (MCP specification, "Resources")."""

from __future__ import annotations

import base64
from functools import partial
from typing import TYPE_CHECKING

import mcp_types as types

from covalt_git.catalog.prompt_content import read_resource
from covalt_git.templating.uri_templates import UriTemplate

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.catalog.prompt_content import Content
    from covalt_git.models.prompts import Item, Resource, ToolsetItem
    from covalt_git.project import Project


def known(project: Project) -> list[ToolsetItem[Resource]]:
    """Return the resources that exist for the principal; of one address the first."""
    with project.index() as index:
        index.sync_toolsets()
        found = project.catalog.resources(index)
    by_address: dict[str, ToolsetItem[Resource]] = {}
    for given in found:
        by_address.setdefault(given.what.uri or given.what.uri_template or "", given)
    return [*by_address.values()]


def listed(project: Project) -> dict[str, Callable[[], types.Resource]]:
    """Return those of one address, by it, each as what describes it."""
    return {
        given.what.uri: partial(_described, given.what.uri, given)
        for given in known(project)
        if given.what.uri is not None
    }


def templates(project: Project) -> list[types.ResourceTemplate]:
    """Return those of many addresses."""
    return [
        types.ResourceTemplate(
            uri_template=given.what.uri_template,
            name=given.what.id,
            title=title(given),
            description=given.what.description or None,
            mime_type=given.what.mime_type,
        )
        for given in known(project)
        if given.what.uri_template is not None
    ]


def read(
    project: Project, uri: str
) -> types.TextResourceContents | types.BlobResourceContents | None:
    """Return what is at an address, or None where nothing is."""
    for given, args in _at(project, uri):
        with project.index() as index:
            found = read_resource(project.root, index, given, args)
        if found is not None:
            return contents(uri, found)
    return None


def _at(project: Project, uri: str) -> list[tuple[ToolsetItem[Resource], dict[str, str]]]:
    """Return the resources whose address it is: the one itself, then those of many addresses."""
    exact = []
    formed = []
    for given in known(project):
        if given.what.uri_template is None:
            exact += [(given, dict[str, str]())] if given.what.uri == uri else []
        elif (args := UriTemplate.parse(given.what.uri_template).match(uri)) is not None:
            formed.append((given, args))
    return exact + formed


def contents(uri: str, content: Content) -> types.TextResourceContents | types.BlobResourceContents:
    """Return content as the protocol has it: text where it is text, else base64."""
    if content.text is not None:
        return types.TextResourceContents(uri=uri, mime_type=content.mime_type, text=content.text)
    blob = base64.b64encode(content.blob).decode()
    return types.BlobResourceContents(uri=uri, mime_type=content.mime_type, blob=blob)


def title(given: ToolsetItem[Item]) -> str:
    """Return what people are shown."""
    return given.what.name or given.what.id.replace("_", " ").replace("-", " ").title()


def _described(uri: str, given: ToolsetItem[Resource]) -> types.Resource:
    return types.Resource(
        uri=uri,
        name=given.what.id,
        title=title(given),
        description=given.what.description or None,
        mime_type=given.what.mime_type,
    )
