"""Facts of a toolset's tools: the permissions and properties that ``authority diff`` compares."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from covalt_git.authority.approval_rules import rules_for
from covalt_git.authority.facts import Fact, Loc, Place
from covalt_git.models.http_placement import FILE_PREFIX, secrets_of
from covalt_git.models.project_config import effective_limits
from covalt_git.models.tool_properties import HttpBody, Limits
from covalt_git.templating.references import references, split, texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.models.tool import Tool
    from covalt_git.models.tool_properties import HttpRequest, Security


class ToolPlaces(NamedTuple):
    """Places that define the parts of one tool: its declaration, its schema and its approval setting."""

    declared: Callable[[Loc], Place]
    schema: Callable[[Loc], Place]
    confirmation: Place


def tool_facts(
    tool: Tool, config: ProjectConfig, places: ToolPlaces, unread: Mapping[str, str] | None
) -> Iterator[Fact]:
    """Yield the facts of a tool that can be called.

    ``unread`` are the digests of what its schema does not say; None if its function cannot be read because of an error.
    """
    at = places.declared
    subject = tool.tool_id
    yield Fact(subject, "tool", "", None, at(("id",)))
    if tool.entrypoint is not None:
        yield Fact(subject, "entrypoint", "", tool.entrypoint, at(("entrypoint",)))
    if tool.http is not None:
        yield from http_facts(subject, tool.http, at)
    if tool.alias_of is not None:
        yield Fact(subject, "forwards", "", tool.alias_of, at(("alias_of",)))
    writes = not tool.annotations.read_only
    yield Fact(subject, "writes", "", writes, at(("annotations", "read_only")))
    yield confirmation_fact(tool, config, places.confirmation)
    yield schema_fact(tool, places.schema, unread)
    limits = effective_limits(tool.limits, config.limits)
    for name in Limits.model_fields:
        own, effective = getattr(tool.limits, name), getattr(limits, name)
        yield Fact(
            subject,
            "limit",
            name,
            {"own": own, "effective": effective},
            at(("limits", name)),
            implied=own is None,
        )
    if tool.security is not None:
        yield from _token_facts(f"{subject}, its token", tool.security, at)


def schema_fact(
    tool: Tool, place: Callable[[Loc], Place], unread: Mapping[str, str] | None
) -> Fact:
    """Return the fact of the arguments that calls accept."""
    value = {"schema": tool.input_schema, "unread": None if unread is None else dict(unread)}
    return Fact(tool.tool_id, "schema", "", value, place(()), locate=place)


def confirmation_fact(tool: Tool, config: ProjectConfig, place: Place) -> Fact:
    """Return the fact whether a tool requires approval: its own setting, and the project's rules."""
    own = {
        "asks": list(tool.confirmation),
        "annotations": tool.annotations.model_dump(exclude_none=True),
    }
    rules = rules_for(config.rules, tool)
    return Fact(tool.tool_id, "confirmation", "", {"own": own, "rules": rules}, place)


def http_facts(subject: str, http: HttpRequest, at: Callable[[Loc], Place]) -> Iterator[Fact]:
    """Yield the facts of a request; ``at`` returns the place of a part of its tool."""
    # A URL that begins with a reference has its host from there, so the name of the reference decides.
    base = split(http.url)[0] if http.url else ""
    by = "" if isinstance(base, str) else base.name
    request = {"method": http.method, "url": http.url, "by": by}
    yield Fact(subject, "request", "", request, at(("http", "url")))
    for name in sorted({reference.name for reference in secrets_of(http)}):
        yield Fact(subject, "uses", name, None, at(("http", *_place_of(http, name))))
    for part in ("query", "headers", "cookies"):
        for name, value in getattr(http, part).items():
            if any(references(value)):
                continue  # reported as `uses`, and its hosts as `secret_to`
            item = f"{part} {name}"
            yield Fact(subject, "sent", item, str(value), at(("http", part, name)))
    for name, parameter in http.parameters.items():
        place = at(("http", "parameters", name))
        yield Fact(
            subject,
            "sent",
            f"argument {name}",
            parameter.model_dump(mode="json", by_alias=True, exclude_none=True),
            place,
        )
        if parameter.file:
            yield Fact(subject, "reads_file", f"the argument {name}", None, place)
    if isinstance(http.body, HttpBody):
        body = http.body.model_dump(mode="json", by_alias=True, exclude_none=True)
        yield Fact(subject, "sent", "body", body, at(("http", "body")))
        files = {text for _, text in texts(body) if text.startswith(FILE_PREFIX)}
        for file in sorted(files):
            yield Fact(subject, "reads_file", file, None, at(("http", "body")))
    elif "body" in http.model_fields_set:
        yield Fact(subject, "sent", "body", http.body, at(("http", "body")))
    retries = {"own": http.retries, "effective": http.retries}
    is_default = "retries" not in http.model_fields_set
    place = at(("http", "retries"))
    yield Fact(subject, "limit", "retries", retries, place, implied=is_default)


def _place_of(http: HttpRequest, secret: str) -> Loc:
    request = http.model_dump(mode="json", by_alias=True)
    return next((loc for loc, reference in references(request) if reference.name == secret), ())


def _token_facts(subject: str, security: Security, at: Callable[[Loc], Place]) -> Iterator[Fact]:
    yield Fact(subject, "token", "", None, at(("security",)))
    for kind, key in (
        ("audience", "resource_uri"),
        ("blast_radius", "max_blast_radius"),
        ("execution", "requires_execution"),
    ):
        if (value := getattr(security, key)) is not None:
            yield Fact(subject, kind, "", value, at(("security", key)))
    for kind, key in (
        ("capability", "required_capabilities"),
        ("operation", "allowed_operations"),
        ("target", "allowed_targets"),
        ("protocol", "protocols"),
    ):
        for position, item in enumerate(getattr(security, key)):
            yield Fact(subject, kind, item, None, at(("security", key, position)))
