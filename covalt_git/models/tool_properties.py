"""Properties of tools in manifests, locks and ``covalt.yaml``."""

import re
from typing import Annotated, Any, Final, Literal, Self

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from covalt_git.json_values import JsonObject
from covalt_git.models.base import (
    ARGUMENT,
    HTTP_URL,
    Bool,
    Int,
    Number,
    StrictModel,
    WorkspacePath,
    refusal,
)
from covalt_git.models.renderers import RendererType

SHELL_SCHEMA: Final = "x-shell"
"""Key of the schema of an argument that a shell reads whatever its name is."""

UNREAD_SCHEMA: Final = "x-unread"
"""Key of the schema of a Python parameter whose type was not read, or whose values the function gets in another form.

At the schema of all arguments, it says that the signature was not read.

Only the schemas with which approval rules compare values have it.
"""

SAME_NAMES_SCHEMA: Final = "x-same-names"
"""Key of the schema of an object: lists of names under which a Python function takes the same value.

Pydantic takes one by its alias and, with ``populate_by_name``, by the name of the field.  Each name is in ``properties``;
a value under any of them can be that of the others.

Only the schemas with which approval rules compare values have it.
"""


_EFFECTS = {
    ("read_only", True): "changes nothing",
    ("read_only", False): "changes files or data",
    ("destructive", True): "can delete or overwrite",
    ("destructive", False): "deletes and overwrites nothing",
    ("open_world", True): "reaches beyond the workspace",
    ("open_world", False): "stays in the workspace",
}


class Annotations(StrictModel):
    """The effects of a tool, in MCP's terms.  They are hints, which never relax a check."""

    read_only: Bool | None = Field(None, description="Whether it changes nothing.")
    destructive: Bool | None = Field(None, description="Whether it can delete or overwrite data.")
    idempotent: Bool | None = Field(
        None, description="Whether a second equal call has no further effect."
    )
    open_world: Bool | None = Field(
        None, description="Whether it accesses anything outside of the workspace."
    )

    @property
    def effects(self) -> tuple[str, ...]:
        """The declared effects as phrases, for the user who decides whether a call runs."""
        declared = self.model_dump()
        return tuple(words for (name, value), words in _EFFECTS.items() if declared[name] is value)


class Limits(StrictModel):
    """Limits of one call; mb are MiB (1,048,576 bytes)."""

    timeout_s: Annotated[Number, Field(gt=0, le=86_400)] | None = Field(
        None, description="Run time in seconds, without the time that it waits for answers."
    )
    answer_s: Annotated[Number, Field(gt=0, le=86_400)] | None = Field(
        None, description="Time limit of an elicitation or another request, in seconds."
    )
    cpu_s: Annotated[Number, Field(gt=0, le=86_400)] | None = Field(
        None, description="CPU time, in seconds."
    )
    memory_mb: Annotated[Int, Field(ge=16)] | None = Field(None, description="Memory, in MiB.")
    processes: Annotated[Int, Field(ge=1)] | None = Field(
        None, description="Number of processes at the same time."
    )
    output_mb: Annotated[Int, Field(ge=1, le=1024)] | None = Field(
        None, description="Size of the printed output, and of the result, in MiB."
    )
    written_mb: Annotated[Int, Field(ge=1)] | None = Field(
        None, description="Size of each file that it writes, in MiB; 1,024 by default."
    )
    files: Annotated[Int, Field(ge=1)] | None = Field(
        None, description="Number of files in the workspace after a call; 200,000 by default."
    )
    workspace_mb: Annotated[Int, Field(ge=1)] | None = Field(
        None, description="Size of the workspace after a call, in MiB; 4,096 by default."
    )

    @property
    def file_mb(self) -> int | None:
        """The maximum size of a file, in MiB."""
        values = (self.written_mb, self.workspace_mb)
        return min((value for value in values if value is not None), default=None)


Caller = Literal["direct", "script"]
"""Who calls a tool: a user or an agent, or a script that runs in the sandbox."""

EVERY_CALLER: tuple[Caller, ...] = ("direct", "script")

TaskSupport = Literal["optional", "required"]
"""Whether an MCP client can wait for a call of a tool, or has to hold it as a task."""


class Example(StrictModel):
    """A call that shows how to use the tool.  With ``expected``, it is also a test."""

    description: str = Field("", description="What the call shows.")
    files: dict[WorkspacePath, str] = Field(
        default_factory=dict, description="Text files in the workspace before the call."
    )
    args: JsonObject = Field(default_factory=dict, description="Arguments of the call.")
    expected: Any = Field(None, description="Expected result of the call.")


def _is_call(value: object) -> str:
    if not isinstance(value, dict):
        return "call"  # an Example, or an error
    is_free = value.keys() - {"description"} and not value.keys() & {"args", "files", "expected"}
    return "free" if is_free else "call"


_FREE: JsonObject = {
    "description": "An example in another form, which is carried unchanged and not called.",
    "not": {
        "anyOf": [
            {"required": ["args"]},
            {"required": ["files"]},
            {"required": ["expected"]},
            {"propertyNames": {"const": "description"}},
        ]
    },
}

AnyExample = Annotated[
    Annotated[Example, Tag("call")]
    | Annotated[JsonObject, Field(json_schema_extra=_FREE), Tag("free")],
    Discriminator(_is_call),
]
"""A call, or any object without the keys ``args``, ``files`` and ``expected``."""


class Security(StrictModel):
    """Requirements on the caller's access token: its audience, and the values of its claims."""

    resource_uri: str | None = Field(None, description="RFC 8707 resource; the token's audience.")
    required_capabilities: tuple[str, ...] = Field((), description="Capabilities of the token.")
    max_blast_radius: str | None = Field(
        None, description="Largest scope, such as namespace:analytics."
    )
    requires_execution: Bool = Field(
        default=False, description="Whether a token must be for a single execution."
    )
    allowed_operations: tuple[str, ...] = Field(
        (), description="Values of exec_act; empty: no calls."
    )
    allowed_targets: tuple[str, ...] = Field((), description="Target URIs; empty: no calls.")
    protocols: tuple[Literal["mcp", "http", "a2a/2025-draft-01"], ...] = Field(
        ("mcp",), description="Protocols for calls of the tool."
    )


class LegacyRenderer(StrictModel):
    """``tools[].renderer``: the type and its configuration in one mapping.  Use ``tool_overrides``."""

    model_config = ConfigDict(extra="allow")

    type: RendererType = Field(description="Name of the renderer.")

    @property
    def config(self) -> JsonObject:
        """The keys other than ``type``."""
        return dict(self.model_extra or {})


class HttpParameter(StrictModel):
    """The place of an argument in an HTTP request, and the encoding of lists and objects.

    ``repeat`` encodes a list as ``a=1&a=2``.  ``comma`` encodes it as ``a=1,2``, with ``%2C`` for a comma in an
    item, and an object as ``a=b,1``; ``space``, ``pipe`` and ``tab`` have another separator.  ``label`` (``.1,2``)
    and ``matrix`` (``;a=1,2``) are for paths.  With ``explode``, the items or keys are separate, as in RFC 6570:
    ``a=1&a=2``, ``b=1``, ``.1.2``, ``;a=1;a=2``.  ``deep`` encodes an object as ``a[b]=1``.  ``json`` encodes both
    as JSON.  The default for objects is ``json``, and for lists ``repeat`` in queries and forms, ``comma`` elsewhere.
    """

    location: Literal["path", "query", "header", "cookie", "body"] = Field(
        alias="in", description="Place of the argument."
    )
    name: str | None = Field(None, description="Name in the request, if it differs.")
    style: (
        Literal["repeat", "comma", "space", "pipe", "tab", "label", "matrix", "deep", "json"] | None
    ) = Field(None, description="Encoding of lists and objects.")
    explode: Bool | None = Field(
        None, description="Whether the items of a list or the keys of an object are separate."
    )
    allow_reserved: Bool = Field(
        default=False,
        description="Whether a query has characters such as / and : unencoded; & and # never.",
    )
    file: Bool = Field(
        default=False,
        description="Whether the argument is the path of a workspace file to send.",
    )


class GraphQLSelect(StrictModel):
    """The fields of a GraphQL answer, which callers can choose by an argument.

    They are inserted for ``$select`` in the query: ``{ film(id: $id) { $select } }``.
    """

    default: str = Field(description="Fields without the argument: title director { name }.")
    argument: str = Field(
        "select", pattern=ARGUMENT, description="Argument with the fields; $NAME in the query."
    )
    type: str | None = Field(
        None, pattern=ARGUMENT, description="Their type in the schema of a source's lock."
    )

    @property
    def mark(self) -> re.Pattern[str]:
        """The place of the fields in the query."""
        return re.compile(rf"\${self.argument}\b(?!\s*:)")


class GraphQLBody(StrictModel):
    """A GraphQL operation.  The arguments with the names of its variables are their values.

    The query is sent as it is written: it has no expressions and no references.
    """

    query: str = Field(min_length=1, description="Text of the operation.")
    operation: str | None = Field(
        None, pattern=ARGUMENT, description="Name of the operation, if the query has several."
    )
    select: GraphQLSelect | None = Field(None, description="Fields that callers can choose.")

    @model_validator(mode="after")
    def _has_mark(self) -> Self:
        marks = self.select.mark.findall(self.query) if self.select else ["one"]
        if len(marks) == 1:
            return self
        name = f"${self.select.argument if self.select else ''}"
        message = f"with 'select', the query has {name} once, in the braces of a field"
        raise refusal(message, f"write {{ film(id: $id) {{ {name} }} }}", at=("query",))


class HttpBody(StrictModel):
    """The template of a request body, with ``$args.name`` for arguments; exactly one kind.

    ``file``, and values of ``multipart`` that begin with ``$workspace/``, are paths of workspace files,
    which are sent.
    """

    json_value: Any = Field(None, alias="json", description="A JSON value.")
    form: JsonObject | None = Field(None, description="Fields of a form.")
    multipart: JsonObject | None = Field(None, description="Fields and files of a form.")
    text: str | None = Field(None, description="Plain text.")
    file: str | None = Field(None, description="A file: $workspace/$args.path.")
    graphql: GraphQLBody | None = Field(None, description="A GraphQL operation.")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = (self.json_value, self.form, self.multipart, self.text, self.file, self.graphql)
        if sum(kind is not None for kind in kinds) == 1:
            return self
        message = (
            "a body has exactly one of 'json', 'form', 'multipart', 'text', 'file' and 'graphql'"
        )
        raise refusal(message, "write {json: {name: $args.name}}, or json for all arguments")


def _body_kind(value: object) -> str:
    return "written" if isinstance(value, dict | HttpBody) else "kind"


Scalar = str | Int | Number | Bool
"""A value in a query, a header or a cookie; a text can contain expressions."""


class HttpRequest(StrictModel):
    """The request of an HTTP tool.

    ``{name}`` in ``url`` is an encoded argument; ``{+name}`` does not encode ``/``.  Texts in ``query``,
    ``headers``, ``cookies`` and a ``body`` template can contain ``$args.name``; entries with a missing
    argument are left out.  ``parameters`` are the places of other arguments.  Arguments without a place
    are sent in the query if the method is GET, HEAD, DELETE or OPTIONS or if ``body`` is a template, else in
    the body.
    """

    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] = Field(
        "GET", description="Method of the request."
    )
    url: str = Field(pattern=HTTP_URL, description="URL, with {name} for arguments.")
    query: dict[str, Scalar] = Field(
        default_factory=dict, description="Query parameters; texts can contain $args.name."
    )
    headers: dict[str, str] = Field(
        default_factory=dict, description="Headers; texts can contain $args.name and ${SECRET}."
    )
    cookies: dict[str, Scalar] = Field(
        default_factory=dict, description="Cookies; texts can contain $args.name and ${SECRET}."
    )
    parameters: dict[str, HttpParameter] = Field(
        default_factory=dict, description="Places of arguments, by name."
    )
    body: Annotated[
        Annotated[Literal["json", "form", "multipart", "text"], Tag("kind")]
        | Annotated[HttpBody, Tag("written")],
        Discriminator(_body_kind),
    ] = Field("json", description="Format of the arguments in the body, or a body template.")
    body_required: Bool = Field(
        default=False,
        description="Whether a body without arguments is sent, as {} or an empty form.",
    )
    retries: Annotated[Int, Field(ge=0, le=5)] = Field(
        2, description="Number of retries of a failed request that is safe to repeat."
    )
