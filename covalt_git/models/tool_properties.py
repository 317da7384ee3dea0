"""Properties of a tool, which its manifest, a lock or the project's settings declare."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from covalt_git.json_values import JsonObject
from covalt_git.models.base import (
    ADDRESS,
    Bool,
    Int,
    Number,
    StrictModel,
    WorkspacePath,
)
from covalt_git.models.renderers import RendererType


class Annotations(StrictModel):
    """What a tool does to the world, in MCP's terms; they inform, and never lower, a decision."""

    read_only: Bool | None = Field(None, description="Changes nothing.")
    destructive: Bool | None = Field(None, description="May destroy or overwrite something.")
    idempotent: Bool | None = Field(None, description="A second equal call changes nothing more.")
    open_world: Bool | None = Field(None, description="Reaches things outside the workspace.")


class Limits(StrictModel):
    """The most that one call may take."""

    timeout_s: Annotated[Number, Field(gt=0, le=86_400)] | None = Field(
        None,
        description="Time from start to end, in seconds, without the time that it waits for answers.",
    )
    answer_s: Annotated[Number, Field(gt=0, le=86_400)] | None = Field(
        None, description="How long what it asks waits for an answer, in seconds, beside timeout_s."
    )
    cpu_s: Annotated[Number, Field(gt=0, le=86_400)] | None = Field(
        None, description="Processor time, in seconds."
    )
    memory_mb: Annotated[Int, Field(ge=16)] | None = Field(
        None, description="Memory, in units of 1,048,576 bytes."
    )
    processes: Annotated[Int, Field(ge=1)] | None = Field(None, description="Processes at once.")
    output_mb: Annotated[Int, Field(ge=1, le=1024)] | None = Field(
        None, description="Printed text and result, each, in units of 1,048,576 bytes."
    )
    written_mb: Annotated[Int, Field(ge=1)] | None = Field(
        None, description="Size of any file written, in units of 1,048,576 bytes; 1,024 by default."
    )
    files: Annotated[Int, Field(ge=1)] | None = Field(
        None,
        description="Files in the workspace, once a call has written to it; 200,000 by default.",
    )
    workspace_mb: Annotated[Int, Field(ge=1)] | None = Field(
        None,
        description="Size of the workspace then, in units of 1,048,576 bytes; 4,096 by default.",
    )

    @property
    def file_mb(self) -> int | None:
        """The most that one file may hold, in units of 1,048,576 bytes."""
        said = (self.written_mb, self.workspace_mb)
        return min((one for one in said if one is not None), default=None)


class Example(StrictModel):
    """A call that shows how the tool is used; with ``expected`` it is a test as well."""

    description: str = Field("", description="What the call shows.")
    files: dict[WorkspacePath, str] = Field(
        default_factory=dict, description="Text files that the workspace holds before the call."
    )
    args: JsonObject = Field(default_factory=dict, description="Arguments of the call.")
    expected: Any = Field(None, description="What the call returns.")


class Security(StrictModel):
    """What a caller's token must carry (the tool registry's terms)."""

    resource_uri: str | None = Field(None, description="RFC 8707 resource; the token's audience.")
    required_capabilities: tuple[str, ...] = Field((), description="Capabilities of the token.")
    max_blast_radius: str | None = Field(None, description="Largest scope, as namespace:analytics.")
    requires_execution: Bool = Field(
        default=False, description="Whether a token binds one execution."
    )
    allowed_operations: tuple[str, ...] = Field(
        (), description="Values of exec_act; none: no call."
    )
    allowed_targets: tuple[str, ...] = Field((), description="Target URIs; none: no call.")
    protocols: tuple[Literal["mcp", "http", "a2a/2025-draft-01"], ...] = Field(
        ("mcp",), description="Protocols that the tool may be called over."
    )


class LegacyRenderer(StrictModel):
    """``tools[].renderer``: the type and its configuration in one mapping (see tool_overrides)."""

    model_config = ConfigDict(extra="allow")

    type: RendererType = Field(description="Name of the renderer.")

    @property
    def config(self) -> JsonObject:
        """The keys beside ``type``."""
        return dict(self.model_extra or {})


class HttpParameter(StrictModel):
    """Where one argument of an HTTP tool goes, and how a list or an object of it is written there.

    ``repeat`` writes a list as ``a=1&a=2``, ``comma`` as ``a=1,2``, a comma within an item as ``%2C``;
    ``deep`` writes an object as ``a[b]=1``, and ``json`` either as JSON.  Without a style a list is repeated in the query and in forms and
    joined by commas elsewhere, and an object is JSON.
    """

    location: Literal["path", "query", "header", "cookie", "body"] = Field(
        alias="in", description="Where the argument goes."
    )
    name: str | None = Field(None, description="Its name there, when it differs.")
    style: Literal["repeat", "comma", "deep", "json"] | None = Field(
        None, description="How lists and objects are written."
    )
    file: Bool = Field(
        default=False,
        description="Whether it is the path of a workspace file, whose bytes are sent.",
    )


class HttpBody(StrictModel):
    """A body written out, with ``$args.name`` for arguments: of one kind.

    ``file``, and each value of ``multipart`` that begins with ``$workspace/``, names a file of the
    workspace, whose bytes are sent.
    """

    json_value: Any = Field(None, alias="json", description="A JSON value.")
    form: JsonObject | None = Field(None, description="Fields of a form.")
    multipart: JsonObject | None = Field(None, description="Fields and files of a form.")
    text: str | None = Field(None, description="Plain text.")
    file: str | None = Field(None, description="A file: $workspace/$args.path.")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = (self.json_value, self.form, self.multipart, self.text, self.file)
        if sum(kind is not None for kind in kinds) == 1:
            return self
        raise PydanticCustomError(
            "one_of",
            "a body has exactly one of 'json', 'form', 'multipart', 'text' and 'file'",
            {"hint": "write {json: {name: $args.name}}, or json for all arguments"},
        )


def _body_kind(value: object) -> str:
    return "written" if isinstance(value, dict | HttpBody) else "kind"


Scalar = str | Int | Number | Bool
"""A value in a query, a header or a cookie; a text may hold expressions."""


class HttpRequest(StrictModel):
    """The request that an HTTP tool sends.

    ``{name}`` in ``url`` is an argument, encoded; ``{+name}`` one whose ``/`` stay.  The texts of
    ``query``, ``headers``, ``cookies`` and a written ``body`` may hold ``$args.name``; an entry that
    names an argument that was not passed is left out.  ``parameters`` says where other arguments go.
    All arguments that none of these name go to the query if the method is GET, HEAD, DELETE or OPTIONS
    or the body is written out, and to the body if not.
    """

    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] = Field(
        "GET", description="Method of the request."
    )
    url: str = Field(pattern=ADDRESS, description="Address, with {name} for arguments.")
    query: dict[str, Scalar] = Field(
        default_factory=dict, description="Parameters of the query; texts may hold $args.name."
    )
    headers: dict[str, str] = Field(
        default_factory=dict, description="Headers; texts may hold $args.name and ${SECRET}."
    )
    cookies: dict[str, Scalar] = Field(
        default_factory=dict, description="Cookies; texts may hold $args.name and ${SECRET}."
    )
    parameters: dict[str, HttpParameter] = Field(
        default_factory=dict, description="Where single arguments go, by their names."
    )
    body: Annotated[
        Annotated[Literal["json", "form", "multipart", "text"], Tag("kind")]
        | Annotated[HttpBody, Tag("written")],
        Discriminator(_body_kind),
    ] = Field("json", description="Format of the arguments in the body, or the body written out.")
    retries: Annotated[Int, Field(ge=0, le=5)] = Field(
        2, description="How often a request that may be repeated is tried again."
    )
