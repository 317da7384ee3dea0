"""Resources, resource templates and prompts of MCP servers, which agents get by the namespace of the server.

As with tools, the client's role must match their ids, and the user must have accepted their definitions.
"""

from __future__ import annotations

import re
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import mcp_types as types

from covalt_git.access import confirmation
from covalt_git.calls.mcp_calls import ServerAccess
from covalt_git.catalog import toolset_cache
from covalt_git.gateway.resources.resource_uris import SCHEME
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.models.prompts import Prompt, PromptArgument, ToolsetItem
from covalt_git.models.tool import Tool
from covalt_git.names import ToolId, is_tool_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from covalt_git.json_values import JsonObject
    from covalt_git.models.tool_lock import LockedOffer, OfferKind
    from covalt_git.project import Project
    from covalt_git.toolsets.toolset import Toolset

_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_OPERATORS = tuple("+#./;?&")
"""Operators of RFC 6570, whose values can contain a ``/``."""

_MOST_URI = 2000
_PREFIX = f"{SCHEME}://servers/"
Contents = list[types.TextResourceContents | types.BlobResourceContents]


class ServerOffer(NamedTuple):
    """A resource, a template or a prompt of a server that is accepted and visible."""

    id: str
    toolset: Toolset
    server_id: str
    namespace: str
    locked: LockedOffer

    @property
    def uri(self) -> str:
        """The URI or URI template for our clients."""
        return f"{_PREFIX}{self.namespace}/{self.locked.upstream}"

    @property
    def definition(self) -> JsonObject:
        """The definition as the server listed it."""
        return self.locked.listed


@dataclass(frozen=True, slots=True)
class ServerPrompt(ToolsetItem[Prompt]):
    """A prompt of a server, whose messages the server returns."""

    offer: ServerOffer


def visible(project: Project, kind: OfferKind) -> list[ServerOffer]:
    """Return the offers of a kind that the principal may use, sorted by their ids.

    One for which a rule requires approval is left out, because nothing that is read can wait for it.
    """
    ids = toolset_ids(project.root / "toolsets")
    toolsets = (toolset_cache.toolset(project.root, name, ids) for name in ids)
    offers = [
        offer
        for toolset in toolsets
        if toolset.enabled and toolset.sound
        for offer in _accepted(toolset, kind)
        if project.catalog.sees(offer.id) and not _needs_approval(project, offer)
    ]
    return sorted(offers, key=lambda offer: offer.id)


def _needs_approval(project: Project, offer: ServerOffer) -> bool:
    """Return whether a rule of ``covalt.yaml`` requires approval, as of a call of a tool with this id."""
    tool = Tool(tool_id=offer.id, toolset_id=offer.toolset.id, name=offer.id, input_schema={})
    return bool(confirmation(project.config, tool, {}))


def _accepted(toolset: Toolset, kind: OfferKind) -> Iterator[ServerOffer]:
    manifest, accepted = toolset.manifest, toolset.state.accepted
    for server in manifest.mcp_servers if manifest is not None else ():
        reading = toolset.locks.get(server.id)
        lock = None if reading is None else reading.value
        if lock is None or not server.enabled:
            continue
        for name, locked in lock.offers.items():
            if locked.kind != kind:
                continue
            # Exactly what the user accepted: a server may describe the same resource anew, with instructions
            # for the agent.
            if accepted.get(f"{lock.namespace}:{name}") != locked.computed_digest:
                continue
            own = locked.short_name if is_tool_name(locked.short_name) else name
            yield ServerOffer(
                str(ToolId(lock.namespace, own)), toolset, server.id, lock.namespace, locked
            )


def listed(project: Project) -> dict[str, Callable[[], types.Resource]]:
    """Return a dict from the URI of each resource to a function that describes it."""
    return {offer.uri: partial(_resource, offer) for offer in visible(project, "resource")}


def templates(project: Project) -> list[types.ResourceTemplate]:
    """Return the resource templates."""
    return [
        types.ResourceTemplate.model_validate({**offer.definition, "uriTemplate": offer.uri})
        for offer in visible(project, "template")
    ]


def read(project: Project, uri: str, chat_id: str | None) -> Contents | None:
    """Return the contents of a server's resource, read in a chat if there is one; None if it does not exist.

    Raises:
        CovaltError: if its server is not granted or does not return it.
    """
    if not uri.startswith(_PREFIX):
        return None
    namespace, _, upstream = uri.removeprefix(_PREFIX).partition("/")
    for offer in (*visible(project, "resource"), *visible(project, "template")):
        if offer.namespace == namespace and _matches(offer, upstream):
            with _access(project, offer, chat_id) as server:
                return contents(server.read_resource(upstream), uri)
    return None


def contents(sent: list[JsonObject], uri: str) -> Contents:
    """Return the contents that a server sent, with our URI."""
    kinds = (types.TextResourceContents, types.BlobResourceContents)
    return [kinds["blob" in content].model_validate({**content, "uri": uri}) for content in sent]


def prompts(project: Project) -> dict[str, ServerPrompt]:
    """Return the prompts by their ids."""
    return {offer.id: _prompt(offer) for offer in visible(project, "prompt")}


def get_prompt(
    project: Project, prompt: ServerPrompt, args: Mapping[str, str]
) -> types.GetPromptResult:
    """Return the messages of a server's prompt.

    Raises:
        CovaltError: if its server is not granted or does not return it.
    """
    with _access(project, prompt.offer, None) as server:
        answer = server.get_prompt(prompt.offer.locked.upstream, args)
    return types.GetPromptResult.model_validate(answer)


@contextmanager
def _access(project: Project, offer: ServerOffer, chat_id: str | None) -> Iterator[ServerAccess]:
    """Yield the access to an offer's server, for a chat if there is one."""
    with nullcontext() if chat_id is None else project.chats.open(chat_id) as chat:
        yield ServerAccess(project.root, project.config, offer.toolset, offer.server_id, chat)


def _matches(offer: ServerOffer, upstream: str) -> bool:
    if offer.locked.kind == "resource":
        return offer.locked.upstream == upstream
    parts = _EXPRESSION.split(offer.locked.upstream)
    # The server decides about the values; only the texts between them are those of the accepted template.
    pattern = [
        re.escape(part) if position % 2 == 0 else ".*" if part[:1] in _OPERATORS else "[^/]*"
        for position, part in enumerate(parts)
    ]
    # The bound, because a pattern with several `.*` takes a time that grows with a power of the length.
    return len(upstream) <= _MOST_URI and re.fullmatch("".join(pattern), upstream) is not None


def _resource(offer: ServerOffer) -> types.Resource:
    return types.Resource.model_validate({**offer.definition, "uri": offer.uri})


def _prompt(offer: ServerOffer) -> ServerPrompt:
    listed = types.Prompt.model_validate(offer.definition)
    arguments = tuple(
        # The server may use names that a prompt of a toolset cannot have.
        PromptArgument.model_construct(
            name=argument.name,
            description=argument.description or "",
            required=bool(argument.required),
            values=(),
            ask=None,
        )
        for argument in listed.arguments or ()
    )
    prompt = Prompt.model_construct(
        id=listed.name,
        name=listed.title,
        description=listed.description or "",
        arguments=arguments,
        messages=(),
    )
    toolset = offer.toolset
    return ServerPrompt(offer.id, toolset.id, offer.locked.digest, prompt, offer)
