"""The toolset ``registered``: checks of the entries of registered tools, and their effective tools.

A registered tool is held back until it is granted.  Its grant is for exactly its current entry.
"""

from __future__ import annotations

import shlex
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.access.grants import is_of_tool
from covalt_git.checks.http_requests import check_http
from covalt_git.checks.text_files import check_hidden_escapes, check_text, without
from covalt_git.errors import few_suggestions
from covalt_git.json_values.json_schema import schema_problems
from covalt_git.manifests.reading import Reading, read_text
from covalt_git.manifests.tool_entries import ToolEntry, entry_file
from covalt_git.models.http_placement import secrets_of
from covalt_git.models.toolset_manifest import ToolDeclaration, ToolsetManifest
from covalt_git.models.toolset_state import ToolGrant
from covalt_git.names import REGISTRY_NAMESPACE
from covalt_git.problems import codes
from covalt_git.templating.url_templates import BadTemplateError, UrlTemplate
from covalt_git.toolsets.effective_tools import effective_tools

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from covalt_git.errors import Problem
    from covalt_git.manifests.toolset_files import BundleFiles, Contents
    from covalt_git.models.held_back import HeldBack
    from covalt_git.models.tool import Tool
    from covalt_git.models.tool_properties import HttpRequest
    from covalt_git.models.toolset_state import ToolsetState


_MOST_CACHED = 2048


class Registry(NamedTuple):
    """The registered tools of a project, as a toolset."""

    manifest: ToolsetManifest
    tools: tuple[Tool, ...]
    problems: tuple[Problem, ...]


def read_registry(
    files: BundleFiles, contents: Contents, display_path: str, state: ToolsetState
) -> Registry:
    """Read the registered tools from the files of the registry's folder; an entry with errors has no tool."""
    entries, problems = read_entries(files, contents, display_path)
    manifest = ToolsetManifest(
        id=REGISTRY_NAMESPACE,
        name="Registered tools",
        version="1",
        description="Tools that were added to the registry.",
        secrets=tuple(sorted({name for entry in entries for name in _secrets(entry.request)})),
    )
    return Registry(manifest, tuple(_tools(manifest, entries, state)), tuple(problems))


def read_entries(
    files: BundleFiles, contents: Contents, display_path: str
) -> tuple[list[ToolEntry], list[Problem]]:
    """Return the valid entries among the files of the registry's folder, and all problems."""
    entries: list[ToolEntry] = []
    names: dict[str, str] = {}
    problems: list[Problem] = []
    for file in files.files:
        if not file.path.endswith(".yaml"):
            continue
        path = f"{display_path}/{file.path}"
        reading, in_entry = check_entry(contents.read(file.path), path)
        of_entry = [*in_entry, *_check_name(reading, file.path, names)]
        problems += of_entry
        # Only a whole entry is a tool, so that an entry with an error disables itself and no other registered tool.
        if reading.value is not None and all(problem.severity != "error" for problem in of_entry):
            entries.append(reading.value)
    return entries, problems


@lru_cache(maxsize=_MOST_CACHED)
@few_suggestions()
def check_entry(content: bytes, path: str) -> tuple[Reading[ToolEntry], tuple[Problem, ...]]:
    """Read and check the content of an entry's file; return the entry and all problems.

    The result is cached, because each change of one entry reads all of them again.
    """
    reading = read_text(content, path, ToolEntry)
    problems = list(reading.problems)
    values: set[str] = set()
    if reading.document is not None:
        of_text, values = check_text(reading.document.text, path)
        problems += of_text
        problems += check_hidden_escapes(reading)
    if reading.value is not None:
        problems += [
            reading.problem(codes.BAD_SCHEMA, ("input_schema", *place), message)
            for place, message in schema_problems(reading.value.input_schema or {})
        ]
        problems += _check_request(reading, reading.value)
    return reading, tuple(without(values, problems))


def _check_name(
    reading: Reading[ToolEntry], file_name: str, names: dict[str, str]
) -> Iterator[Problem]:
    entry = reading.value
    if entry is None:
        return
    named = entry_file(entry.tool_id)
    if named != file_name:
        folder = shlex.quote(reading.path.rpartition("/")[0])
        message = f"the file of this entry must be {named}"
        hint = f"mv {shlex.quote(reading.path)} {folder}/{named}"
        yield reading.problem(codes.BAD_ID, ("tool_id",), message, hint=hint)
    other = names.setdefault(entry.tool_name, file_name)
    if other != file_name:
        message = f"{other} has the same name, {entry.tool_name!r}"
        yield reading.problem(codes.DUPLICATE_ID, ("tool_id",), message, hint="remove one of them")


def _check_request(reading: Reading[ToolEntry], entry: ToolEntry) -> list[Problem]:
    http = entry.request
    if http is None:
        return []
    at = ("protocol_meta",)
    manifest = ToolsetManifest(
        id=REGISTRY_NAMESPACE, name="-", version="1", secrets=tuple(_secrets(http))
    )
    places: Reading[ToolsetManifest] = Reading(reading.path, None, reading.document)
    problems = list(check_http(places, at, _declaration(entry), manifest))
    try:
        if UrlTemplate.parse(http.url).base is not None:
            message = "the URL of a registered tool must name its host"
            place = (*at, "http", "url")
            hint = "write https://api.example.com/..."
            problems.append(reading.problem(codes.BAD_REQUEST, place, message, hint=hint))
    except BadTemplateError:
        pass  # check_http reports it
    return problems


def _secrets(http: HttpRequest | None) -> list[str]:
    return sorted({secret.name for secret in secrets_of(http)}) if http else []


def _declaration(entry: ToolEntry) -> ToolDeclaration:
    # Not validated: an alias has neither a request nor a function.
    return ToolDeclaration.model_construct(
        id=entry.tool_name,
        name=entry.name,
        description=entry.description,
        http=entry.request,
        input_schema=entry.input_schema,
        security=entry.security,
    )


def _tools(
    manifest: ToolsetManifest, entries: Sequence[ToolEntry], state: ToolsetState
) -> Iterator[Tool]:
    declared = manifest.model_copy(update={"tools": tuple(map(_declaration, entries))})
    tools = effective_tools(declared, state, {}, "")
    for entry, effective in zip(entries, tools, strict=True):
        facts = {"alias_of": entry.alias_of, "toolset_digest": entry.digest}
        facts |= {"version": entry.version or "", "kind": "http" if effective.http else "alias"}
        tool = effective.model_copy(update=facts)
        reason = _held_back(tool, state)
        enabled = tool.enabled and reason is None
        yield tool.model_copy(update={"enabled": enabled, "held_back": reason})


def _held_back(tool: Tool, state: ToolsetState) -> HeldBack | None:
    if tool.kind == "alias" and tool.alias_of is None:
        return "no_request"
    grants = [grant for grant in state.grants.values() if isinstance(grant, ToolGrant)]
    grants = [grant for grant in grants if grant.tool == tool.id.name]
    if any(is_of_tool(grant, tool) for grant in grants):
        return None
    return "entry_changed" if grants else "not_granted"
