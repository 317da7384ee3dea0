"""Model of ``toolsets/locks/<ns>.yaml``: the tools that an MCP server or a source had at the last refresh.

covalt-git writes the file, and it is checked in: tools can be listed offline, and git shows changes.
It contains no timestamps, so that a refresh without changes leaves it as it is.

An entry contains the complete definition, so that its digest, which users accept, can be verified.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError

from covalt_git.errors import CovaltError
from covalt_git.json_values import JsonObject, canonical_json
from covalt_git.json_values.canonical_json import MAX_EXACT_INTEGER, NotJsonError
from covalt_git.json_values.levels import has_more_levels
from covalt_git.models.base import Bool, Digest, Id, Int, One, StrictModel, ToolName
from covalt_git.models.tool_properties import Annotations
from covalt_git.names import ToolId, is_tool_name, local_names

_HINTS = {
    "readOnlyHint": "read_only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open_world",
}
"""MCP's names of annotations, and ours (Model Context Protocol 2026-07-28, server/tools)."""

_FIELDS = {
    "title": "title",
    "description": "description",
    "inputSchema": "input_schema",
    "outputSchema": "output_schema",
    "icons": "icons",
    "_meta": "meta",
}


MOST_LEVELS = 60
"""The most lists and objects inside each other in a definition; with those around it, a lock has at most 64, as all YAML."""


class BadDefinitionError(CovaltError):
    """An MCP server returned an invalid definition of a tool."""

    code = "bad_definition"
    http_status = 502


class LockedTool(StrictModel):
    """The definition of a tool; ``more`` has the keys that this model does not have."""

    upstream: str = Field(description="Name of the tool on the server.")
    digest: Digest = Field(description="Digest of the definition.")
    title: str | None = None
    description: str = ""
    input_schema: JsonObject
    output_schema: JsonObject | None = None
    annotations: Annotations = Annotations()
    icons: tuple[JsonObject, ...] = ()
    meta: JsonObject = Field(default_factory=dict, description="The definition's _meta.")
    more: JsonObject = Field(default_factory=dict, description="Other keys of the definition.")
    request: JsonObject = Field(default_factory=dict, description="Request of a source's tool.")
    fields: tuple[str, ...] = Field((), description="The parts of an answer that callers get.")
    definitions: Digest | None = Field(
        None, description="Digest of the lock's definitions that its schemas refer to."
    )

    @property
    def definition(self) -> JsonObject:
        """The definition in MCP's form, without empty fields."""
        hints = {name: getattr(self.annotations, ours) for name, ours in _HINTS.items()}
        fields = {name: getattr(self, ours) for name, ours in _FIELDS.items()}
        definition: JsonObject = {"name": self.upstream}
        definition |= {name: value for name, value in fields.items() if value}
        definition["inputSchema"] = self.input_schema
        if self.icons:
            definition["icons"] = list(self.icons)
        if self.output_schema is not None:
            definition["outputSchema"] = self.output_schema
        annotations = {name: value for name, value in hints.items() if value is not None}
        rest = dict(self.more)
        others = rest.pop("annotations", {})
        if isinstance(others, dict):
            annotations |= {key: value for key, value in others.items() if not _is_hint(key, value)}
        if annotations:
            definition["annotations"] = annotations
        # A field of the model in "more" would be what users accept, while calls use the field itself
        # (test_known_keys_cannot_be_hidden_among_unknown_ones).
        definition |= {key: value for key, value in rest.items() if key not in {"name", *_FIELDS}}
        of_source = {
            "request": self.request,
            "fields": list(self.fields),
            "definitions": self.definitions,
        }
        return definition | {key: value for key, value in of_source.items() if value}

    @property
    def is_task(self) -> bool:
        """Whether it can be called only as a task (MCP specification 2025-11-25, "Tasks")."""
        execution = self.more.get("execution")
        return isinstance(execution, dict) and execution.get("taskSupport") == "required"

    @property
    def digest_matches(self) -> bool:
        """Whether ``digest`` is the digest of the definition in this entry."""
        return self.digest == self.computed_digest

    @property
    def computed_digest(self) -> str:
        """The digest of the definition, with the request of a source's tool."""
        return canonical_json.digest(self.definition)


OfferKind = Literal["resource", "template", "prompt", "skill"]

_OFFER_NAMES: dict[OfferKind, str] = {
    "resource": "uri",
    "template": "uriTemplate",
    "prompt": "name",
    "skill": "uri",
}
"""The key of a definition that identifies it at the server, by its kind."""

_VARIABLE = ("size", "_meta")
"""Keys of a resource that change with its content."""


class LockedOffer(StrictModel):
    """The definition of a resource, a resource template, a prompt or a skill of a server, as MCP has it.

    That of a skill has the digest of each of its files, so that its acceptance is one of their content.
    """

    kind: OfferKind
    upstream: str = Field(description="Its URI, URI template or name at the server.")
    digest: Digest = Field(description="Digest of the kind and the definition.")
    listed: JsonObject = Field(description="The definition.")

    @property
    def definition(self) -> JsonObject:
        """The definition, with its kind."""
        return {"kind": self.kind, **self.listed}

    @property
    def computed_digest(self) -> str:
        """The digest of the definition in this entry."""
        return canonical_json.digest(self.definition)

    @property
    def digest_matches(self) -> bool:
        """Whether ``digest`` is the digest of the definition in this entry."""
        return self.digest == self.computed_digest

    @property
    def is_task(self) -> bool:
        """Whether it can be called only as a task, which only tools can."""
        return False

    @property
    def short_name(self) -> str:
        """Its name at the server."""
        if self.kind == "skill":
            frontmatter = self.listed.get("frontmatter")
            named = frontmatter.get("name") if isinstance(frontmatter, dict) else None
            return str(named or self.upstream)
        return str(self.listed.get("name") or self.upstream)


PROGRAM = local_names(["program/"])["program/"]
"""Name of the program among the entries of a lock; a tool with this name cannot be accepted."""


def shown_entry(entry_id: str) -> str:
    """Return how texts name an entry of a lock, such as ``disk:read`` or ``the program of disk``."""
    namespace, _, name = entry_id.partition(":")
    return f"the program of {namespace}" if name == PROGRAM else entry_id


class _LockedProgram(StrictModel):
    digest: Digest = Field(description="Digest of the other fields, without the number of files.")

    @property
    def computed_digest(self) -> str:
        """The digest of what this entry pins."""
        return canonical_json.digest(self.model_dump(mode="json", exclude={"digest", "files"}))

    @property
    def digest_matches(self) -> bool:
        """Whether ``digest`` is the digest of this entry."""
        return self.digest == self.computed_digest

    @property
    def is_task(self) -> bool:
        """Whether it can be called only as a task, which only tools can."""
        return False

    def pinned(self) -> Self:
        """Return this entry with its digest."""
        return self.model_copy(update={"digest": self.computed_digest})


_SHOWN_HASH = 23
"""Characters of a hash that a line has: more than 64 bits, and the digest of the entry covers all."""


class LockedPackage(StrictModel):
    """A package of the tree, by version and hashes; no address, as each machine has its own registry."""

    name: str = Field(description="Name of the package.")
    version: str = Field(description="Its version.")
    hashes: tuple[str, ...] = Field(
        (), description="Hashes of its archive; for PyPI, of the wheels of all platforms."
    )
    install_script: Bool = Field(
        default=False, description="Whether it has install scripts, which are never run."
    )
    npm: JsonObject = Field(
        default_factory=dict, description="Other keys of package-lock.json that npm needs."
    )

    def line(self, place: str) -> str:
        """Return the package on one line, with the beginning of its hash, or a hash of its hashes."""
        inside = place.removesuffix(f"node_modules/{self.name}").removeprefix("node_modules/")
        where = f" in {inside.rstrip('/')}" if inside and inside != self.name else ""
        shown = self.hashes[0] if len(self.hashes) == 1 else canonical_json.digest(self.hashes)
        count = f"{len(self.hashes)} files, " if len(self.hashes) > 1 else ""
        return f"{self.name} {self.version}{where} ({count}{shown[:_SHOWN_HASH]})"


class LockedPackages(_LockedProgram):
    """The packages that a server is started from."""

    kind: Literal["npm", "pypi"] = Field(description="Registry of the packages.")
    requirements: tuple[str, ...] = Field(description="What the declaration requires.")
    python: str | None = Field(None, description="Interpreter that the declaration names.")
    program: str = Field(description="File to start, relative to the installation.")
    packages: dict[str, LockedPackage] = Field(
        description="Packages by their place: a folder for npm, a name for PyPI."
    )
    files: int = Field(0, description="Number of installed files.")

    def same_packages(self, other: Self) -> bool:
        """Return whether an installation of the other one has the same files."""
        return all(
            getattr(self, field) == getattr(other, field)
            for field in ("kind", "requirements", "python", "packages")
        )

    @property
    def definition(self) -> JsonObject:
        """What a reviewer compares: a line for each package."""
        rows = [*self.packages.items()]
        scripts = [place for place, package in rows if package.install_script]
        return {
            "requirements": list(self.requirements),
            "program": self.program,
            **({"python": self.python} if self.python else {}),
            "packages": [package.line(place) for place, package in rows],
            **({"install scripts, which are not run": scripts} if scripts else {}),
            "files": self.files,
        }


class LockedFile(_LockedProgram):
    """A program of the system that a server is started from."""

    kind: Literal["file"] = Field(description="A program of the system.")
    path: str = Field(description="Absolute path of the program.")
    sha256: Digest = Field(description="Digest of its file.")

    @property
    def definition(self) -> JsonObject:
        """What a reviewer compares."""
        return {"path": self.path, "sha256": self.sha256}


LockedProgram = Annotated[LockedPackages | LockedFile, Field(discriminator="kind")]

NO_DIGEST: Digest = canonical_json.digest({})
"""In place of the digest of an entry that is being made."""

Listed = LockedTool | LockedOffer
"""An entry of a lock that the server lists."""

Locked = Listed | LockedPackages | LockedFile
"""An entry of a lock, which the user accepts."""


class LeftOutPart(StrictModel):
    """A part of a document that is no tool."""

    upstream: str = Field(description="Name of the part in the document.")
    reason: str = Field(description="Why it is no tool.")
    line: Int = Field(0, description="Line in the document, from 1; 0: unknown.")


class DocumentFault(StrictModel):
    """A fault of a document, such as a reference that leads nowhere."""

    path: str = Field(description="File of the document, relative to the toolset.")
    line: Int = Field(0, description="Line in the file, from 1; 0: unknown.")
    column: Int = Field(0, description="Column in the line, from 1.")
    code: str = Field(description="Code of the problem.")
    message: str = Field(description="What is wrong.")
    hint: str = Field("", description="How to correct it.")


class ToolLock(StrictModel):
    """The content of a lock file."""

    version: One = 1
    namespace: Id
    toolset_id: Id
    kind: Literal["mcp", "openapi", "graphql", "plugin"]
    reference: str = Field("", description="Command, URL or file of the server or source.")
    digest: Digest | None = Field(
        None, description="Digest of the source's declaration and of its documents."
    )
    documents: dict[str, Digest] = Field(
        default_factory=dict,
        description="Files of a source and their digests; paths are relative to the toolset.",
    )
    title: str = Field("", description="Title of the document.")
    tools: dict[ToolName, LockedTool] = Field(default_factory=dict)
    definitions: dict[str, JsonObject] = Field(
        default_factory=dict,
        description='Schemas that the schemas of tools share, as "#/$defs/NAME".',
    )
    types: dict[str, JsonObject] = Field(
        default_factory=dict,
        description="Types of a GraphQL schema, with which the fields that callers select are checked.",
    )
    left_out: tuple[LeftOutPart, ...] = Field(
        (), description="Parts of the document that are no tools."
    )
    faults: tuple[DocumentFault, ...] = Field((), description="Faults of the document.")
    offers: dict[ToolName, LockedOffer] = Field(
        default_factory=dict, description="Resources, templates, prompts and skills of the server."
    )
    program: LockedProgram | None = Field(None, description="What the server is started from.")
    replaced_program: LockedProgram | None = Field(
        None, description="The accepted program, which is started until another is accepted."
    )
    replaced: dict[ToolName, LockedTool] = Field(
        default_factory=dict,
        description="Accepted definitions that the server has changed since, for comparison.",
    )
    replaced_skills: dict[ToolName, LockedOffer] = Field(
        default_factory=dict,
        description="Accepted skills that the server has changed since, for comparison.",
    )
    replaced_definitions: dict[str, JsonObject] = Field(
        default_factory=dict, description="Schemas that the schemas of replaced tools share."
    )

    @property
    def entries(self) -> dict[str, Locked]:
        """The tools, the offers and the program by their names."""
        program = {} if self.program is None else {PROGRAM: self.program}
        return {**self.tools, **self.offers, **program}

    @property
    def is_listed(self) -> bool:
        """Whether its source was asked for its tools; a server is first asked once its program is accepted."""
        return self.program is None or bool(self.tools or self.offers)

    def accepted_program(self, accepted: Mapping[str, str]) -> LockedPackages | LockedFile | None:
        """Return the program whose digest is in ``accepted`` of the toolset's state."""
        digest = accepted.get(f"{self.namespace}:{PROGRAM}")
        programs = (self.program, self.replaced_program)
        # Computed: if a user or a pull edits the hashes in the lock, the written digest may still be the accepted one.
        return next(
            (program for program in programs if program and program.computed_digest == digest), None
        )

    def offer_id(self, name: str) -> str:
        """Return the id of the offer with a name in this lock: its name at the server, if a tool can have this name."""
        own = self.offers[name].short_name
        return str(ToolId(self.namespace, own if is_tool_name(own) else name))


def locked_offer(kind: OfferKind, definition: JsonObject) -> LockedOffer:
    """Return the lock entry for a resource, a template, a prompt or a skill that a server listed.

    Raises:
        BadDefinitionError: when it has no name or URI, or contains values that JSON cannot represent.
    """
    upstream = definition.get(_OFFER_NAMES[kind])
    _check_levels(kind, upstream, definition)
    if kind == "skill":
        # Agents get these keys only, so only these are accepted.
        definition = {key: definition.get(key) for key in ("uri", "frontmatter", "resources")}
    listed = {key: _exact(value) for key, value in definition.items() if key not in _VARIABLE}
    # A new content of a resource must not end its acceptance.
    annotations = listed.pop("annotations", None)
    if isinstance(annotations, dict):
        others = {key: value for key, value in annotations.items() if key != "lastModified"}
        listed |= {"annotations": others} if others else {}
    try:
        offer = LockedOffer.model_validate(
            {
                "kind": kind,
                "upstream": upstream,
                "listed": listed,
                "digest": canonical_json.digest({}),  # of the model, which does not exist yet
            }
        )
        return offer.model_copy(update={"digest": offer.computed_digest})
    except (ValidationError, NotJsonError) as error:
        raise BadDefinitionError(f"the {kind} {upstream!r} is invalid: {error}") from None


def locked_tool(definition: JsonObject) -> LockedTool:
    """Return the lock entry for the definition of a tool by an MCP server.

    Integers beyond 2**53 become floats, as in most JSON parsers.

    Raises:
        BadDefinitionError: when it is not a valid tool, or contains values that JSON cannot represent.
    """
    name = definition.get("name")
    _check_levels("tool", name, definition)
    fields: JsonObject = {ours: definition.get(theirs) for theirs, ours in _FIELDS.items()}
    facts = {key: _exact(value) for key, value in fields.items() if value is not None}
    rest = {key: _exact(value) for key, value in definition.items() if value is not None}
    for key in ("name", *_FIELDS):
        rest.pop(key, None)
    annotations = rest.pop("annotations", None) or {}
    if not isinstance(annotations, dict):
        raise BadDefinitionError(f"the annotations of the tool {name!r} are not an object")
    hints = {_HINTS[key]: value for key, value in annotations.items() if _is_hint(key, value)}
    others = {key: value for key, value in annotations.items() if not _is_hint(key, value)}
    if others:
        rest["annotations"] = others
    entry = facts | {"upstream": name, "annotations": hints, "more": rest}
    try:
        tool = LockedTool.model_validate(entry | {"digest": canonical_json.digest({})})
        return tool.model_copy(update={"digest": tool.computed_digest})
    except ValidationError as error:
        wrong = error.errors()[0]
        place = ".".join(map(str, wrong["loc"])) or "it"
        message = f"the definition of the tool {name!r} is invalid: {place}: {wrong['msg']}"
        raise BadDefinitionError(message.lower()) from None
    except NotJsonError as error:
        raise BadDefinitionError(f"the definition of the tool {name!r}: {error.message}") from None


def _check_levels(kind: str, name: object, definition: JsonObject) -> None:
    if has_more_levels(definition, MOST_LEVELS):
        raise BadDefinitionError(
            f"the {kind} {name!r} has more than {MOST_LEVELS} lists and objects inside each other"
        )


def _is_hint(key: str, value: object) -> bool:
    return key in _HINTS and isinstance(value, bool)


def _exact(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _exact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_exact(item) for item in value]
    if type(value) is int and abs(value) > MAX_EXACT_INTEGER:
        try:
            return float(value)
        except OverflowError:
            return value  # canonical JSON refuses it
    return value
