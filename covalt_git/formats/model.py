"""Model of a conversion: a document, the toolsets that it becomes, and the origin of each of their parts.

Toolsets have the form of ``toolset.yaml``, which is the common form of all formats.  A place in them
begins with the toolset's position: ``(0, "tools", 2, "description")``.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git.json_values.json_schema import schema_problems
from covalt_git.names import MAX_ID, RESERVED_TOOLSET_IDS, local_names, suggest_id
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from covalt_git.formats.documents import Document, Kind
    from covalt_git.json_values import JsonObject
    from covalt_git.json_values.pointer import Loc

MAX_TEXT: Final = 200
"""The longest name and version of ``toolset.yaml``."""

_SAME: Final = object()
_COMMON_PARTS: Final = frozenset({"MCP", "SERVER"})
"""Parts that names of many servers have, so that they do not distinguish their variables."""


class Note(NamedTuple):
    """A part of the input that the output has in another form, and why.

    ``secret`` is the name of the secret that replaces a literal credential.  ``is_lost`` is whether a user would miss the
    part's effect, although a toolset carries the part.
    """

    loc: Loc
    message: str
    secret: str = ""
    is_lost: bool = False

    @property
    def pointer(self) -> str:
        """The place of the part, as a JSON pointer."""
        return pointer_text(self.loc)


class Part:
    """A part of a JSON value with its place, which records the parts that a writer uses."""

    __slots__ = ("_used", "loc", "value")

    def __init__(self, value: Any, loc: Loc = (), used: dict[Loc, str] | None = None) -> None:
        self.value = value
        self.loc = loc
        self._used = {} if used is None else used

    def __contains__(self, key: str) -> bool:
        return isinstance(self.value, dict) and key in self.value

    def __getitem__(self, key: str | int) -> Part:
        return Part(self.value[key], (*self.loc, key), self._used)

    def get(self, key: str) -> Part | None:
        """Return the part at ``key``; None if it is absent."""
        return self[key] if key in self else None  # noqa: SIM401 - this is get itself

    def parts(self, key: str) -> list[Part]:
        """Return the items of the list at ``key``; an absent list is empty."""
        if key not in self:
            return []
        inner = self[key]
        return [inner[position] for position in range(len(inner.value))]

    def entries(self, key: str) -> list[tuple[str, Part]]:
        """Return the entries of the object at ``key``; an absent object is empty."""
        return [(name, self[key][name]) for name in self.value[key]] if key in self else []

    def peek(self, key: str, default: Any = None) -> Any:
        """Return the value at ``key`` without a record."""
        return self.value.get(key, default)

    def take(self, key: str, default: Any = None) -> Any:
        """Return the value at ``key``, and record that the output has it."""
        return self[key].use() if key in self else default

    def taken(self, names: Mapping[str, str]) -> JsonObject:
        """Return the values that are present, as :meth:`take` does; ``names`` are as for :meth:`Node.copy`."""
        return {theirs: self.take(ours) for theirs, ours in names.items() if ours in self}

    def mapped(self, change: Callable[[Part], Any]) -> Any:
        """Return the value with each of its scalars replaced by what ``change`` returns."""
        if not self.value and isinstance(self.value, dict | list):
            return self.use()
        if isinstance(self.value, dict):
            return {key: self[key].mapped(change) for key in self.value}
        if isinstance(self.value, list):
            return [self[at].mapped(change) for at in range(len(self.value))]
        return change(self)

    def use(self) -> Any:
        """Return the value, and record that the output has it."""
        self._used[self.loc] = ""
        return self.value

    def drop(self, reason: str) -> None:
        """Record why the output does not have this part."""
        self._used[self.loc] = reason

    def drop_keys(self, reason: str, *keys: str) -> None:
        """Record why the output does not have the values at these keys, if they are present."""
        for key in keys:
            if key in self:
                self[key].drop(reason)


class Node:
    """An object of a toolset that a reader builds, which records the origin of each value."""

    __slots__ = ("_places", "loc", "value")

    def __init__(self, value: JsonObject, loc: Loc, places: dict[Loc, list[Loc]]) -> None:
        self.value = value
        self.loc = loc
        self._places = places

    def set(self, key: str, origin: Part, value: Any = _SAME) -> None:
        """Set a value, by default that of its origin."""
        self.value[key] = origin.value if value is _SAME else value
        self.trace((key,), origin.loc)

    def copy(
        self, source: Part, names: Mapping[str, str], change: Callable[[str], str] | None = None
    ) -> None:
        """Set the values that the source has, with each text changed.

        ``names`` are the keys of the source, and those of this object.
        """
        for theirs, ours in names.items():
            if theirs in source:
                value = source.peek(theirs)
                self.set(ours, source[theirs], value if change is None else changed(value, change))

    def copy_texts(self, source: Part, names: Mapping[str, str]) -> None:
        """Set the values that are texts of 1 to 200 characters, as :meth:`copy` does."""
        self.copy(
            source,
            {theirs: ours for theirs, ours in names.items() if is_short(source.peek(theirs))},
        )

    def trace(self, path: Loc, origin: Loc) -> None:
        """Record that a part of this object has the value at ``origin``, or contains it."""
        self._places.setdefault(origin, []).append((*self.loc, *path))

    def node(self, key: str) -> Node:
        """Return the object at ``key``, which is created if it is absent."""
        inner = self.value.setdefault(key, {})
        return Node(inner, (*self.loc, key), self._places)

    def item(self, key: str, **values: Any) -> Node:
        """Append an object to the list at ``key``."""
        items = self.value.setdefault(key, [])
        items.append(values)
        return Node(values, (*self.loc, key, len(items) - 1), self._places)

    def at(self, key: str, position: int) -> Node:
        """Return the object at a position of the list at ``key``."""
        return Node(self.value[key][position], (*self.loc, key, position), self._places)

    def tools(self, sources: Sequence[Part], key: str = "name") -> Iterator[tuple[Part, Node]]:
        """Append a tool for each source, with an id similar to the source's text at ``key``; yield both."""
        names = local_names(source.peek(key) for source in sources)
        for source in sources:
            tool = self.item("tools")
            tool.set("id", source[key], names[source.peek(key)])
            yield source, tool


@dataclass
class Imported:
    """What a reader makes of a document.

    Attributes:
        toolsets: manifests, in the form of ``toolset.yaml``; a tool without a request or a function is
            only a definition.
        places: the parts of the toolsets that have the value at a place of the document, or contain it.
        files: other files of each toolset, by path.
        known: values of tools for writers, which the manifests do not have, by the place of the tool.
        settings: limits and choices of tools of MCP servers, which only clients have, by the place of the server.
        implied: the places of values that mean the same as their absence, so that no output needs them.
        notes: corrected values, and literal credentials that became references.
        without_effect: settings that only the input's program obeys, and that a toolset carries at most.
        doubts: schemas of Python that may not be what calls check.
        lost: the places that cannot be imported, and the reason of each.
        lost_files: the same for files of a folder.
        executable: files that can be executed: the position of the toolset, and the path.
        output: the name of the output file without its extension, if it has one.
    """

    toolsets: list[JsonObject] = field(default_factory=list)
    places: dict[Loc, list[Loc]] = field(default_factory=dict)
    files: list[dict[str, bytes]] = field(default_factory=list)
    known: dict[Loc, JsonObject] = field(default_factory=dict)
    settings: dict[Loc, JsonObject] = field(default_factory=dict)
    implied: set[Loc] = field(default_factory=set)
    notes: list[Note] = field(default_factory=list)
    without_effect: list[Note] = field(default_factory=list)
    doubts: list[Note] = field(default_factory=list)
    lost: dict[Loc, str] = field(default_factory=dict)
    lost_files: dict[str, str] = field(default_factory=dict)
    executable: set[tuple[int, str]] = field(default_factory=set)
    output: str = ""

    def toolset(self, wanted: str, *, name: str = "") -> Node:
        """Add a toolset whose id is similar to ``wanted`` and unique."""
        existing = {toolset["id"] for toolset in self.toolsets} | RESERVED_TOOLSET_IDS
        toolset_id = unused(suggest_id(wanted) or "tools", existing)
        title = (name.strip() or wanted.strip() or toolset_id)[:MAX_TEXT]
        manifest = {"manifest_version": "1", "id": toolset_id, "name": title, "version": "0"}
        self.toolsets.append(manifest)
        self.files.append({})
        return Node(manifest, (len(self.toolsets) - 1,), self.places)

    def set_schema(self, tool: Node, source: Part | None, schema: JsonObject | None = None) -> bool:
        """Set a tool's ``input_schema``, by default the source; disable the tool if that is not a JSON Schema."""
        if source is None:
            return False
        schema = source.value if schema is None else schema
        problems = schema_problems(schema)
        if not problems:
            tool.set("input_schema", source, schema)
            return True
        # Kept, because its request may be right; called, it would get unchecked arguments.
        tool.value["enabled"] = False
        reason = shorten(problems[0][1], MAX_TEXT)
        message = f"not a JSON Schema ({reason}): the tool is disabled"
        self.notes.append(Note(source.loc, message))
        return False

    def parts(self, used: dict[Loc, str], *, with_settings: bool = False) -> list[Part]:
        """Return the toolsets for a writer; ``used`` records the values that it reads.

        Tools also have their ``known`` values, and toolsets their other files as ``files``; ``with_settings``, MCP servers
        have theirs.
        """
        parts_of_toolsets = []
        for position, manifest in enumerate(self.toolsets):
            part = {**manifest, "files": self.files[position]}
            if self.known and "tools" in manifest:
                part["tools"] = [
                    {**self.known.get((position, "tools", at), {}), **tool}
                    for at, tool in enumerate(manifest["tools"])
                ]
            if with_settings and self.settings:
                part["mcp_servers"] = [
                    {**server, **self.settings.get((position, "mcp_servers", at), {})}
                    for at, server in enumerate(manifest.get("mcp_servers", ()))
                ]
            used[position, "manifest_version"] = ""
            parts_of_toolsets.append(Part(part, (position,), used))
        return parts_of_toolsets


@dataclass(frozen=True)
class Format:
    """One format.

    Attributes:
        name: its name in commands.
        title: its name in sentences.
        kind: the syntax of its documents.
        file_name: the usual name of a file.
        recognize: whether a document of this syntax has this format; for folders, of any syntax.
        read: adds a document to an ``Imported``; None for a format that is only written.
        write: returns the document of toolsets; None for a format that is only read.
        schema: the JSON Schema of documents that can be read.
        unique: the paths of names that must be unique, as :func:`~covalt_git.formats.shapes.duplicates` has them.
        correct: returns a document with corrected values that other programs write wrongly.
        experimental: whether its output can change.
        is_host_config: whether its files also have other settings of a program.
        has_bare_references: whether its program replaces ``$NAME`` at a place of a document.
        other_form: the path of the object that a document of this name can have instead, and the format with it.
        complete: returns a document with restored values and what the writer's document defines for some secrets; the
            same object if it has that.
        secret_text: how a text refers to the secret of a name; as ``toolset.yaml`` does, if the format has no form for it.
        replaces_carried: whether its program replaces the references in carried values, which a toolset has no field for.
        other_source: what to convert in place of a document that cannot be read.
        parts: the place of the object whose values are independent of each other, so that wrong ones can be left out.
        check: returns the problems of a value that its schema does not find.
        elsewhere: returns the keys of the parts that only the format's own program can have, and why.
    """

    name: str
    title: str
    kind: Kind
    file_name: str
    recognize: Callable[[Document], bool] = lambda _: False
    read: Callable[[Document, Imported], None] | None = None
    write: Callable[[Sequence[Part], Imported], Any] | None = None
    schema: JsonObject = field(default_factory=dict)
    unique: tuple[tuple[str, ...], ...] = ()
    correct: Callable[[Any], tuple[Any, list[Note]]] = lambda value: (value, [])
    experimental: bool = False
    is_host_config: bool = False
    has_bare_references: Callable[[Loc], bool] = lambda _: False
    parts: tuple[str, ...] | None = None
    complete: Callable[[Any, Any, Collection[str]], Any] = lambda value, *_: value
    secret_text: Callable[[str], str] = lambda name: f"${{{name}}}"
    replaces_carried: bool = True
    other_source: str = ""
    check: Callable[[Any], list[tuple[Loc, str]]] = lambda _: []
    elsewhere: Callable[[Any], Mapping[str | int, str]] = lambda _: {}
    other_form: tuple[tuple[str, ...], str] | None = None


def is_short(value: Any) -> bool:
    """Return whether a value is a text of 1 to 200 characters."""
    return isinstance(value, str) and 0 < len(value) <= MAX_TEXT


def changed(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value with each of its texts changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: changed(item, change) for key, item in value.items()}
    return [changed(item, change) for item in value] if isinstance(value, list) else value


def with_values(value: Any, others: Mapping[Loc, Any]) -> Any:
    """Return a JSON value with other values at some places; unchanged parts are not copied."""
    for loc, other in others.items():
        value = _with_value(value, loc, other)
    return value


def _with_value(value: Any, loc: Loc, other: Any) -> Any:
    if not loc:
        return other
    copied = copy.copy(value)
    copied[loc[0]] = _with_value(value[loc[0]], loc[1:], other)
    return copied


def variable_name(*texts: str) -> str:
    """Return a name for a secret or variable, made of the words of texts."""
    words = re.findall(r"[A-Za-z0-9]+", " ".join(texts))
    name = "_".join(words).upper()[:60].strip("_") or "SECRET"
    return f"_{name}" if name[0].isdigit() else name


def owned_variable(owner: str, name: str) -> str:
    """Return a name for a variable of a server, which begins with the server's unless it already has a word of it."""
    parts = re.findall(r"[A-Z0-9]+", owner.upper())
    parts = [part for part in parts if part not in _COMMON_PARTS] or parts
    variable = variable_name(name)
    is_apart = {*variable.split("_")}.isdisjoint(parts)
    return variable_name(*parts, variable) if is_apart else variable


def unused(name: str, existing: Collection[str], separator: str = "-") -> str:
    """Return the name, with a number if it already exists."""
    numbered = (f"{name[: MAX_ID - 8]}{separator}{at}" for at in range(2, len(existing) + 3))
    return next(candidate for candidate in (name, *numbered) if candidate not in existing)


def leaves(value: Any) -> list[Loc]:
    """Return the places of all scalars and of all empty objects and lists."""
    places: list[Loc] = []
    # Not recursive: values of others can be deeper than the stack.
    waiting: list[tuple[Loc, Any]] = [((), value)]
    while waiting:
        at, inner_value = waiting.pop()
        if isinstance(inner_value, dict) and inner_value:
            waiting += [((*at, key), inner) for key, inner in inner_value.items()]
        elif isinstance(inner_value, list) and inner_value:
            waiting += [((*at, position), inner) for position, inner in enumerate(inner_value)]
        else:
            places.append(at)
    return places


def pointer_text(loc: Loc) -> str:
    """Return a place as a JSON pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in loc)
