"""MCP resources: workspace files, commits, and resources of toolsets (MCP specification, "Resources").

Lists contain the files and commits of the client's chat.  A client can also read files and commits of its other
chats, if its role may call the built-in tool that returns the same content.
"""

from __future__ import annotations

import json
import mimetypes
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import mcp_types as types

from covalt_git.calls.servers.mcp_calls import read_linked
from covalt_git.catalog.prompt_content import Content
from covalt_git.errors import CovaltError, StaleError
from covalt_git.gateway import large_results
from covalt_git.gateway.large_results import NoSuchPageError
from covalt_git.gateway.offers import server_offers
from covalt_git.gateway.offers.server_links import server_links
from covalt_git.gateway.resources import resource_uris, toolset_resources
from covalt_git.gateway.skills import offered_skills
from covalt_git.models.sources.skill_entry import served_uri
from covalt_git.names import BUILTIN_NAMESPACE, ToolId
from covalt_git.operations.calls.builtin_tools import manifest_facts
from covalt_git.operations.chats.manifests import get_workspace_manifest
from covalt_git.operations.context import Context
from covalt_git.scripts import guide
from covalt_git.toolsets.builtin_tools import BUILTINS, RUN_SCRIPT
from covalt_git.workspaces import trees

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from covalt_git.catalog.catalog import Found
    from covalt_git.gateway.client_chats import Client, ClientChats
    from covalt_git.gateway.mcp_apps import AppPages
    from covalt_git.gateway.resources.resource_uris import ResourceUri
    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import ToolCall
    from covalt_git.project import Project
    from covalt_git.workspaces.chat import ChatStore

PAGE, PAGES, NEXT = "covalt-git/page", "covalt-git/pages", "covalt-git/next"
"""Keys of ``_meta`` of a page of a result: its number, the number of pages, and the URI of the next one."""

_GUIDE = "covalt://guide/scripts"
"""What an agent has to know to write scripts, which the description of the tool names."""

_MARKDOWN = "text/markdown"
_TEXT = "text/plain"
_JSON = "application/json"


class NoSuchResourceError(CovaltError):
    """No resource with the URI of a request exists for the client."""

    code = "unknown_resource"
    http_status = 404

    def __init__(self, uri: str) -> None:
        super().__init__(f"unknown resource {uri!r}")
        self.uri = uri


class Resources(NamedTuple):
    """The resources of one client; ``named`` is the chat that its request names, if any."""

    project: Project
    chats: ClientChats
    client: Client
    named: str | None
    pages: AppPages
    list_pages: bool = False

    def chat_id(self) -> str | None:
        """Return the chat of the client, if it has one."""
        return self.chats.find(self.project, self.client, self.named)

    def listed(self) -> dict[str, Callable[[], types.Resource]]:
        """Return a function that describes each resource, by the sorted URIs of the resources.

        They are the current files, the newest commit of each branch, the resources of toolsets, the guide for scripts, and
        with ``list_pages`` the pages of tools.
        """
        listed = {
            **server_offers.listed(self.project),
            **offered_skills.resources(self.project),
            **toolset_resources.listed(self.project),
        }
        if self.project.catalog.sees(RUN_SCRIPT):
            listed[_GUIDE] = _guide
        if self.list_pages:
            listed |= self.pages.listed()
        # Only found, not created: a list or a read leaves no empty chat behind.
        chat_id = self.chat_id()
        if chat_id is None:
            return dict(sorted(listed.items()))
        with self.project.chats.open(chat_id) as chat:
            if self._may("list_files"):
                with chat.scan_in_memory() as state:
                    for path in trees.files(chat.store, state.tree):
                        if resource_uris.has_uri(path) and self._may("read_file", path=path):
                            uri = resource_uris.file(chat.id, path)
                            listed[uri] = partial(_file, uri, path)
            for branch in chat.branches() if self._may("log") else ():
                if branch.manifest_id is not None:
                    uri = resource_uris.manifest(chat.id, branch.manifest_id)
                    listed[uri] = partial(_manifest, uri, branch.name)
        return dict(sorted(listed.items()))

    def read_all(self, uri: str) -> list[types.TextResourceContents | types.BlobResourceContents]:
        """Return the contents of the resource with a URI; only one of another server may have several.

        Raises:
            CovaltError: as :meth:`read`.
        """
        parsed = resource_uris.parse(uri)
        if parsed is not None and parsed.link is not None:
            return self._linked(uri, parsed)
        chat_id = self.chat_id()
        return server_offers.read(self.project, uri, chat_id) or [self.read(uri)]

    def read(self, uri: str) -> types.TextResourceContents | types.BlobResourceContents:
        """Return the content of the resource with a URI.

        Raises:
            NoSuchResourceError: if it does not exist for the client.
            CovaltError: if its server does not return it.
        """
        page_content = self.pages.read(uri)
        if page_content is not None:
            return page_content
        if uri == _GUIDE and self.project.catalog.sees(RUN_SCRIPT):
            return types.TextResourceContents(uri=uri, mime_type=_MARKDOWN, text=guide.text())
        parsed = resource_uris.parse(uri)
        if parsed is None:
            chat_id = self.chat_id()
            of_server = server_offers.read(self.project, uri, chat_id)
            if of_server:
                return of_server[0]
            of_toolset = toolset_resources.read(self.project, uri)
            if of_toolset is not None:
                return of_toolset
            of_skill = offered_skills.read(self.project, uri, chat_id)
            if not of_skill:
                raise NoSuchResourceError(uri)
            return of_skill[0]
        if parsed.link is not None:
            return self._linked(uri, parsed)[0]
        if parsed.is_artifact:
            return self._artifact(uri, parsed)
        if parsed.result_page is not None:
            return self._result_page(uri, parsed)
        args: JsonObject = {} if parsed.path is None else {"path": parsed.path}
        if parsed.manifest_id is not None:
            args["manifest"] = parsed.manifest_id
        tool = "log" if parsed.path is None else "read_file"
        # One error for all: another one would say that the chat or the file exists.
        if not self.project.chats.has(parsed.chat_id) or not self._may(tool, **args):
            raise NoSuchResourceError(uri)
        with self.project.chats.open(parsed.chat_id) as chat:
            manifest_id = parsed.manifest_id
            # A deleted branch has no files any more, although its objects stay until they are collected.
            if manifest_id is not None and manifest_id not in chat.reachable():
                raise NoSuchResourceError(uri)
            if parsed.path is not None:
                content = _content(chat, uri, manifest_id, parsed.path)
                return toolset_resources.contents(uri, Content.of_file(parsed.path, content))
        with Context.of(self.project) as context:
            commit = get_workspace_manifest(
                context, chat_id=parsed.chat_id, manifest=parsed.manifest_id
            )
            facts = manifest_facts(commit)
        return types.TextResourceContents(
            uri=uri, mime_type=_JSON, text=json.dumps(facts, ensure_ascii=False)
        )

    def _artifact(
        self, uri: str, parsed: ResourceUri
    ) -> types.TextResourceContents | types.BlobResourceContents:
        """Return the toolset's page that showed a call's result, if the client may see the tool."""
        with self._call(uri, parsed) as (chat, call):
            plan = call.render_plan
            if plan is None or plan.artifact is None:
                raise NoSuchResourceError(uri)
            page = chat.records.content(plan.artifact)
            return toolset_resources.contents(uri, Content.of_file("artifact.html", page))

    def _linked(
        self, uri: str, parsed: ResourceUri
    ) -> list[types.TextResourceContents | types.BlobResourceContents]:
        """Return a resource of another server to which a call's result links, if the client may call the tool now.

        If the server has listed the resource, the client must be permitted to read it too.  A file of a skill is read as
        such, with its accepted digest.
        """
        with self._call(uri, parsed) as (chat, call):
            links = server_links(call)
            number = parsed.link or 1
            if number > len(links):
                raise NoSuchResourceError(uri)
            linked = links[number - 1]["uri"]
            skill_file = _linked_skill_file(self.project, call, linked)
        if skill_file is not None:
            of_skill = offered_skills.read(self.project, skill_file, parsed.chat_id)
            if not of_skill:
                raise NoSuchResourceError(uri)
            return [content.model_copy(update={"uri": uri}) for content in of_skill]
        with self._call(uri, parsed) as (chat, call):
            target = _linking(self.project, call, linked)
            if target is None:
                raise NoSuchResourceError(uri)

            def check_again() -> None:
                if _linking(self.project.as_of_now(), call, linked) is None:
                    raise StaleError(f"the resource {uri!r} may not be read any more")

            project = self.project
            contents = read_linked(project.root, project.config, target, chat, linked, check_again)
        if not contents:
            raise NoSuchResourceError(uri)
        return server_offers.contents(contents, uri)

    def _result_page(self, uri: str, parsed: ResourceUri) -> types.TextResourceContents:
        """Return a page of a call's result, if the client may see the tool."""
        page = parsed.result_page or 1
        with self._call(uri, parsed) as (_, call):
            text, pages = self._page_of(large_results.as_text(call.result), page)
            media = _TEXT if isinstance(call.result, str) else _JSON
        following = {NEXT: f"{uri.removesuffix(f'/{page}')}/{page + 1}"} if page < pages else {}
        meta = {PAGE: page, PAGES: pages, **following}
        return types.TextResourceContents(uri=uri, mime_type=media, text=text, _meta=meta)

    def read_page(self, uri: str, number: int) -> tuple[str, int]:
        """Return a page of the text of a resource, numbered from 1, and the number of pages.

        Raises:
            CovaltError: as :meth:`read`; if the page does not exist, or the resource is not text.
        """
        parsed = resource_uris.parse(uri)
        if parsed is not None and parsed.result_page is not None:
            with self._call(uri, parsed) as (_, call):
                return self._page_of(large_results.as_text(call.result), number)
        resource = self.read(uri)
        if not isinstance(resource, types.TextResourceContents):
            raise NoSuchPageError(f"{uri!r} is not text", hint="read it as a resource")
        return self._page_of(resource.text, number)

    def _page_of(self, text: str, number: int) -> tuple[str, int]:
        return large_results.page_of(text, number, self.project.config.limits.result_kb << 10)

    @contextmanager
    def _call(self, uri: str, parsed: ResourceUri) -> Iterator[tuple[ChatStore, ToolCall]]:
        """Yield the chat and the call of a commit, if the client may see the tool."""
        manifest_id = parsed.manifest_id
        if manifest_id is None or not self.project.chats.has(parsed.chat_id):
            raise NoSuchResourceError(uri)
        with self.project.chats.open(parsed.chat_id) as chat:
            exists = manifest_id in chat.reachable()
            call = chat.manifest(manifest_id).tool_call if exists else None
            # A record shows arguments and results, also of tools that the role has lost since.
            if call is None or not self.project.catalog.sees_call(call.tool_id, call.result):
                raise NoSuchResourceError(uri)
            yield chat, call

    def templates(self) -> list[types.ResourceTemplate]:
        """Return the URI templates, with the client's chat if it has one."""
        chat_id = self.chat_id()
        return [
            types.ResourceTemplate(
                name=name,
                uri_template=template.replace("{chat}", chat_id or "{chat}"),
                mime_type=_JSON if name == "manifest" else None,
            )
            for name, template in resource_uris.TEMPLATES.items()
        ] + [*toolset_resources.templates(self.project), *server_offers.templates(self.project)]

    def _may(self, name: str, **args: Any) -> bool:
        """Return whether the client may do what a built-in tool does, and without approval: a resource cannot wait for it."""
        tool = BUILTINS[f"{BUILTIN_NAMESPACE}:{name}"]
        project = self.project
        catalog = project.catalog
        return catalog.sees(tool.tool_id) and not catalog.decide_call([tool], args).reasons


def _linking(project: Project, call: ToolCall, uri: str) -> Found | None:
    """Return the tool of an MCP server whose call has linked to a URI, if the principal may follow the link now.

    Raises:
        NotTrustedError: if the user has not trusted that the listed resource is read without approval.
    """
    try:
        found = project.catalog.find_callable(call.tool_id)
    except CovaltError:
        return None
    is_of_server = found.tool.kind == "mcp"
    return found if is_of_server and server_offers.may_follow(project, found, uri) else None


def _linked_skill_file(project: Project, call: ToolCall, uri: str) -> str | None:
    """Return the URI at which covalt-git serves a file of a skill, from the server's URI in a result; None for other URIs."""
    namespace = ToolId.parse(call.tool_id).namespace
    return (
        served_uri(namespace, uri) if server_offers.is_of_skill(project, namespace, uri) else None
    )


def _content(chat: ChatStore, uri: str, manifest_id: str | None, path: str) -> bytes:
    scan = chat.scan_in_memory() if manifest_id is None else nullcontext(chat.state(manifest_id))
    with scan as state:
        file = trees.find(chat.store, state.tree, path)
        if file is None:
            raise NoSuchResourceError(uri)
        return chat.store.read_blob(file.oid)


def _file(uri: str, path: str) -> types.Resource:
    return types.Resource(uri=uri, name=path, mime_type=mimetypes.guess_type(path)[0])


def _guide() -> types.Resource:
    return types.Resource(
        uri=_GUIDE,
        name="scripts",
        description="How scripts call tools.",
        mime_type=_MARKDOWN,
    )


def _manifest(uri: str, branch: str) -> types.Resource:
    return types.Resource(
        uri=uri,
        name=f"branch {branch}",
        description="The newest commit of the branch.",
        mime_type=_JSON,
    )
