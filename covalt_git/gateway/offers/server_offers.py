"""Resources, resource templates and prompts of MCP servers, which agents get by the namespace of the server.

As with tools, the client's role must match their ids, and the user must have accepted their definitions.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import mcp_types as types

from covalt_git.calls.servers.mcp_calls import ServerAccess
from covalt_git.catalog import toolset_cache
from covalt_git.errors import StaleError
from covalt_git.gateway import icons
from covalt_git.gateway.offers.uri_matches import deciding_offers, is_of, is_skill_uri
from covalt_git.gateway.resources import resource_uris
from covalt_git.gateway.resources.resource_uris import SERVERS
from covalt_git.manifests.project_root import CONFIG
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.models.prompts import Prompt, PromptArgument, ToolsetItem
from covalt_git.system.file_cache import FileCache
from covalt_git.toolsets.offers import offers_of, skill_uris
from covalt_git.toolsets.permissions import check_offers_trusted, trusted_offers
from covalt_git.trust import Consents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from covalt_git.catalog.catalog import Found
    from covalt_git.json_values import JsonObject
    from covalt_git.models.sources.tool_lock import OfferKind
    from covalt_git.project import Project
    from covalt_git.toolsets.offers import ServerOffer
    from covalt_git.toolsets.toolset import Toolset

_VISIBLE = FileCache()

Contents = list[types.TextResourceContents | types.BlobResourceContents]


@dataclass(frozen=True, slots=True)
class ServerPrompt(ToolsetItem[Prompt]):
    """A prompt of a server, whose messages the server returns."""

    offer: ServerOffer


def visible(project: Project, kind: OfferKind) -> list[ServerOffer]:
    """Return the offers of a kind that the principal may use, sorted by their ids.

    One for which a rule or an override requires approval is left out, because nothing that is read can wait for it.  So
    is a resource or a template of a skill, whose files are read only as those of the skill, and an offer whose acceptance is
    not trusted on this machine.
    """
    # For each page of each list: a thousand skills are ten pages.
    principal = project.principal
    scope = None if principal.token is None else principal.token.scope
    key = (project.root, kind, principal.role, principal.protocol, scope)
    offers: tuple[ServerOffer, ...] = _VISIBLE.get(
        key,
        access_files(project.root),
        lambda: tuple(_trusted(project, usable(project, kind))),
    )
    return [*offers]


def access_files(root: Path) -> tuple[Path, ...]:
    """Return the files that determine what a principal may use of toolsets."""
    return root / CONFIG, root / "toolsets", *Consents.of(root).files


def _trusted(project: Project, offers: list[ServerOffer]) -> list[ServerOffer]:
    """Return the offers whose acceptance the user has trusted on this machine.

    A pull can accept an offer, and a model reads its description.
    """
    return trusted_offers(offers, project.config)


def usable(project: Project, kind: OfferKind) -> list[ServerOffer]:
    """Return the offers of a kind as :func:`visible`, also those whose acceptance is not trusted on this machine."""
    offers = [
        offer for offer in _all(project) if offer.locked.kind == kind and _may_open(project, offer)
    ]
    if kind in {"resource", "template"}:
        skills = {offer.namespace: skill_uris(offer.toolset, offer.namespace) for offer in offers}
        offers = [
            offer
            for offer in offers
            if not is_skill_uri(offer.locked.upstream, skills[offer.namespace])
        ]
    return sorted(offers, key=lambda offer: offer.id)


def is_of_skill(project: Project, namespace: str, uri: str) -> bool:
    """Return whether a server's URI is one of a skill, which is read only as a file of an accepted skill."""
    return is_skill_uri(
        uri,
        [skill for toolset in _toolsets(project) for skill in skill_uris(toolset, namespace)],
    )


def _toolsets(project: Project) -> Iterator[Toolset]:
    ids = toolset_ids(project.root / "toolsets")
    for toolset_id in ids:
        toolset = toolset_cache.toolset(project.root, toolset_id, ids)
        if toolset.enabled and toolset.sound:
            yield toolset


def _all(project: Project) -> Iterator[ServerOffer]:
    """Yield what the servers of enabled toolsets have listed, also to other principals."""
    for toolset in _toolsets(project):
        yield from offers_of(toolset)


def _may_open(project: Project, offer: ServerOffer) -> bool:
    """Return whether the user has accepted an offer, and the principal may use it without approval."""
    return (
        offer.is_accepted
        and project.catalog.sees(offer.id)
        and not offer.needs_approval(project.catalog.rules)
    )


def uri_of(offer: ServerOffer) -> str:
    """Return the URI or URI template for our clients."""
    return resource_uris.of_server(offer.namespace, offer.locked.upstream)


def listed(project: Project) -> dict[str, Callable[[], types.Resource]]:
    """Return a dict from the URI of each resource to a function that describes it."""
    return {uri_of(offer): partial(_resource, offer) for offer in visible(project, "resource")}


def templates(project: Project) -> list[types.ResourceTemplate]:
    """Return the resource templates."""
    return [
        types.ResourceTemplate.model_validate(
            {**_with_permitted_icons(offer), "uriTemplate": uri_of(offer)}
        )
        for offer in visible(project, "template")
    ]


def upstream_uri(uri: str) -> tuple[str, str] | None:
    """Return the namespace and the server's URI in a URI for our clients; None if it is not of a server."""
    if not uri.startswith(SERVERS):
        return None
    namespace, _, upstream = uri.removeprefix(SERVERS).partition("/")
    return namespace, upstream


def read(project: Project, uri: str, chat_id: str | None) -> Contents | None:
    """Return the contents of a server's resource, read in a chat if there is one; None if it does not exist.

    Raises:
        CovaltError: if its server is not granted or does not return it.
    """
    parts = upstream_uri(uri)
    if parts is None:
        return None
    namespace, upstream = parts
    find = partial(_readable, namespace=namespace, upstream=upstream)
    offer = find(project)
    if offer is None:
        return None
    with access(project, offer, find, chat_id) as server:
        return contents(server.read_resource(upstream), uri)


def _readable(project: Project, namespace: str, upstream: str) -> ServerOffer | None:
    """Return the resource or template by which the principal may read a URI of a server; None if it may not.

    Raises:
        NotTrustedError: if the user has not trusted that it is read without approval.
    """
    if is_of_skill(project, namespace, upstream):
        return None
    known = [offer for offer in _all(project) if offer.namespace == namespace]
    deciding = deciding_offers(known, upstream)
    if not _may_open_all(project, deciding):
        return None
    return next((offer for offer in deciding if is_of(offer, upstream)), None)


def _may_open_all(project: Project, offers: Sequence[ServerOffer]) -> bool:
    """Return whether the principal may open each of the offers.

    Raises:
        NotTrustedError: if the user has not trusted that one is read without approval.
    """
    if not all(_may_open(project, offer) for offer in offers):
        return False
    check_offers_trusted(offers, project.config)
    return True


def may_follow(project: Project, linking: Found, uri: str) -> bool:
    """Return whether the principal may follow a link to a URI in a result of a server's tool.

    If the server has listed a resource with this URI, it decides as if it were read itself.  Templates do not decide: the
    server chose the URI for this result, and the principal may call the tool.

    Raises:
        NotTrustedError: as :func:`_readable`.
    """
    tool = linking.tool
    if is_skill_uri(uri, skill_uris(linking.toolset, tool.id.namespace)):
        return False
    listed = [
        offer
        for offer in offers_of(linking.toolset)
        if offer.server_id == tool.server and offer.locked.kind == "resource"
    ]
    return _may_open_all(project, deciding_offers(listed, uri))


def contents(sent: list[JsonObject], uri: str) -> Contents:
    """Return the contents that a server sent, with our URI."""
    kinds = (types.TextResourceContents, types.BlobResourceContents)
    return [kinds["blob" in content].model_validate({**content, "uri": uri}) for content in sent]


def prompts(offers: Iterable[ServerOffer]) -> dict[str, ServerPrompt]:
    """Return prompts by their ids."""
    return {offer.id: _prompt(offer) for offer in offers}


def get_prompt(
    project: Project, prompt: ServerPrompt, args: Mapping[str, str]
) -> types.GetPromptResult:
    """Return the messages of a server's prompt, which gets only the arguments that it declares.

    Raises:
        CovaltError: if its server is not granted or does not return it.
    """
    find = partial(_offer, kind="prompt", offer_id=prompt.id)
    if find(project) is None:  # before a server is started for it
        raise _moved(prompt.offer)
    with access(project, prompt.offer, find) as server:
        # Approval rules were asked about the declared arguments only.
        names = {argument.name for argument in prompt.what.arguments}
        declared = {name: value for name, value in args.items() if name in names}
        answer = server.get_prompt(prompt.offer.locked.upstream, declared)
    result = types.GetPromptResult.model_validate(answer)
    for message in result.messages:
        # Under the URI of a skill, its text would look like the accepted one.
        if isinstance(message.content, types.EmbeddedResource):
            resource = message.content.resource
            resource.uri = resource_uris.of_server(prompt.offer.namespace, resource.uri)
        elif isinstance(message.content, types.ResourceLink):
            message.content.uri = resource_uris.of_server(
                prompt.offer.namespace, message.content.uri
            )
            message.content.icons = icons.permitted(message.content.icons or ())
    return result


def complete(
    project: Project, offer: ServerOffer, params: types.CompleteRequestParams, chat_id: str | None
) -> types.Completion:
    """Return the values of an argument of a server's prompt or resource template, which the server proposes.

    Raises:
        CovaltError: if its server is not granted or does not return them.
    """
    kind = offer.locked.kind
    find = partial(_offer, kind=kind, offer_id=offer.id)
    if find(project) is None:  # before a server is started for it
        raise _moved(offer)
    name, upstream = ("name" if kind == "prompt" else "uri"), offer.locked.upstream
    request = params.model_dump(
        mode="json", by_alias=True, exclude_none=True, include={"argument", "context"}
    )
    request["ref"] = {"type": params.ref.type, name: upstream}
    with access(project, offer, find, chat_id) as server:
        return types.Completion.model_validate(server.complete(request))


def _offer(project: Project, kind: OfferKind, offer_id: str) -> ServerOffer | None:
    """Return the offer of a kind with an id that the principal may use; None if it may not.

    Raises:
        NotTrustedError: as :func:`_readable`.
    """
    for offer in usable(project, kind):
        if offer.id == offer_id:
            check_offers_trusted([offer], project.config)
            return offer
    return None


def _moved(offer: ServerOffer) -> StaleError:
    return StaleError(f"{offer.id} of an MCP server may not be opened any more")


@contextmanager
def access(
    project: Project,
    offer: ServerOffer,
    find: Callable[[Project], ServerOffer | None],
    chat_id: str | None = None,
) -> Iterator[ServerAccess]:
    """Yield the access to an offer's server, for a chat if there is one.

    ``find`` returns the offer that a principal may open; it is asked again after each wait for the server.
    """

    def check_again() -> None:
        current = find(project.as_of_now())
        if current is None or (current.key, current.locked) != (offer.key, offer.locked):
            raise _moved(offer)

    with nullcontext() if chat_id is None else project.chats.open(chat_id) as chat:
        yield ServerAccess(
            project.root, project.config, offer.toolset, offer.server_id, check_again, chat
        )


def _resource(offer: ServerOffer) -> types.Resource:
    return types.Resource.model_validate({**_with_permitted_icons(offer), "uri": uri_of(offer)})


def _with_permitted_icons(offer: ServerOffer) -> JsonObject:
    """Return the definition of a resource or a template for clients."""
    listed = offer.definition.get("icons")
    permitted = icons.permitted(listed if isinstance(listed, list) else ())
    return {**offer.definition, "icons": permitted}


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
