"""Whether a document is fit for agents: what its operations do not say, and what their tools cost."""

from __future__ import annotations

import json
import posixpath
import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from covalt_git.compilers.schema_cut import MAX_INPUT, MAX_OUTPUT, cut_schema
from covalt_git.json_values.shared_definitions import Definitions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.compilers.compilation import CompiledTool, NameClash
    from covalt_git.sources.documents import CompiledSource

FindingKind = Literal[
    "no_description",
    "repeats_path",
    "argument_without_description",
    "name_clash",
    "no_answer_schema",
    "left_out",
    "fault",
]

_BYTES_OF_TOKEN = 4
_HITS = 10
_MOST_NAMED = 3
_WORDS = re.compile(r"[a-z0-9]+")


class Weakness(NamedTuple):
    """A weakness of a document, with the operation and its place."""

    kind: FindingKind
    upstream: str
    message: str
    path: str
    line: int
    column: int


class Diagnosis(NamedTuple):
    """The findings about a document, and the estimated tokens of its tools.

    Attributes:
        list_tokens: tokens of a list of all tools.
        search_tokens: tokens of a search with ten hits, and of the whole definition of one of them.
    """

    tools: int
    findings: tuple[Weakness, ...]
    list_tokens: int
    search_tokens: int


def diagnose(compiled: CompiledSource, path: str) -> Diagnosis:
    """Return what a compiled document lacks; ``path`` is that of the document."""
    findings = list(_findings(compiled, path))
    findings.sort(key=lambda finding: (finding.path, finding.line, finding.column, finding.kind))
    whole, listed, hits = _tokens(compiled)
    count = len(compiled.tools)
    search = (hits * min(_HITS, count) + whole) // count if count else 0
    return Diagnosis(count, tuple(findings), listed, search)


def _findings(compiled: CompiledSource, path: str) -> Iterator[Weakness]:
    compilation = compiled.compilation
    definitions = Definitions(compilation.definitions)
    for name, tool in compilation.tools.items():
        for kind, message in _of_tool(tool):
            yield Weakness(kind, tool.upstream, message, path, *tool.place)
        if clash := compilation.clashes.get(name):
            message = _clash_words(name, tool.upstream, clash)
            yield Weakness("name_clash", tool.upstream, message, path, *tool.place)
        places = compilation.argument_places.get(tool.upstream, {})
        for argument in _undescribed(tool, definitions):
            place = (path, *tool.place)
            if argument in places:
                document, line, column = places[argument]()
                # Compilers see the folder of the document only, and users the toolset.
                place = (posixpath.join(posixpath.dirname(path), document), line, column)
            message = f"the argument {argument!r} has no description"
            yield Weakness("argument_without_description", tool.upstream, message, *place)
    for part in compilation.left_out:
        yield Weakness("left_out", part.upstream, part.reason, path, *part.place)
    for problem in compilation.problems:
        place = (problem.path, problem.line, problem.col)
        yield Weakness("fault", "", problem.message, *place)


def _of_tool(tool: CompiledTool) -> Iterator[tuple[FindingKind, str]]:
    url = str(tool.request.get("url", ""))
    said = set(_WORDS.findall(tool.description.lower()))
    if not said:
        yield "no_description", "it has no description"
    elif said <= {*_WORDS.findall(url.lower()), str(tool.request.get("method", "GET")).lower()}:
        yield "repeats_path", "its description only repeats the path"
    if tool.output_schema is None:
        yield "no_answer_schema", "its answer has no schema"


def _undescribed(tool: CompiledTool, definitions: Definitions) -> Iterator[str]:
    """Yield the arguments without a description, also in the definition that they refer to."""
    for argument, schema in tool.input_schema.get("properties", {}).items():
        opened = definitions.opened(schema) if isinstance(schema, dict) else {}
        is_described = isinstance(schema, dict) and bool(schema.get("description"))
        if not (is_described or opened.get("description")):
            yield argument


def _clash_words(name: str, upstream: str, clash: NameClash) -> str:
    others = [other for other in clash.upstreams if other != upstream]
    more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
    return (
        f"its name is {name!r}, because {clash.name!r} would also be the name of "
        f"{', '.join(others[:_MOST_NAMED])}{more}"
    )


def _tokens(compiled: CompiledSource) -> tuple[int, int, int]:
    """Return the tokens of all whole definitions, of all listed ones, and of all hits of a search."""
    shared = compiled.compilation.definitions
    definitions = Definitions(shared)
    sizes = [0, 0, 0]
    for name, tool in compiled.compilation.tools.items():
        hit = {"name": name, "title": tool.title, "description": tool.description}
        output = tool.output_schema
        whole = hit | {"inputSchema": definitions.within(tool.input_schema)}
        listed = hit | {"inputSchema": cut_schema(tool.input_schema, shared, MAX_INPUT)}
        if output is not None:
            whole["outputSchema"] = definitions.within(output)
            listed["outputSchema"] = cut_schema(output, shared, MAX_OUTPUT)
        for at, value in enumerate((whole, listed, hit)):
            sizes[at] += len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    whole_size, listed_size, hit_size = (size // _BYTES_OF_TOKEN for size in sizes)
    return whole_size, listed_size, hit_size
