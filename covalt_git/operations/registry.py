"""Operations: a typed request, a typed result, and one function that all interfaces call.

::

    class SwitchBranch(Request):
        chat_id: str
        branch: str

    @operation(changes=True, errors=(404, 409))
    def switch_branch(context: Context, request: SwitchBranch) -> BranchSwitched:
        \"\"\"Check out a branch in a chat's workspace.\"\"\"

A command imports the modules of its own operations; :func:`every_operation` imports all of them, for the server.
"""

from __future__ import annotations

import inspect
import io
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pkgutil import walk_packages
from typing import (
    IO,
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    NamedTuple,
    Self,
    TypeVar,
    get_args,
    get_type_hints,
)

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    JsonValue,
    ValidationError,
    WithJsonSchema,
)

from covalt_git.errors import CovaltError, Problem, nearest_name
from covalt_git.manifests.toolset_files import readable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from covalt_git.json_values import JsonObject
    from covalt_git.operations.context import Context


TRUSTING = "permissions are granted and trusted"
"""What users decide by most requests that need them."""

MANAGE_CHATS = "chats: manage"
"""The need of operations that change chats and that no built-in tool does."""


class Request(BaseModel):
    """Base class of requests; unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def any_of(*texts: str, **constants: bool) -> ConfigDict:
    """Return the configuration of a request that needs one of these texts, or one of these values.

    The schema of the request has the rule that its operation checks.
    """
    rules: list[JsonValue] = [
        {"required": [name], "properties": {name: {"type": "string"}}} for name in texts
    ]
    for name, value in constants.items():
        rules.append({"required": [name], "properties": {name: {"const": value}}})
    return ConfigDict(json_schema_extra={"anyOf": rules})


class EmptyRequest(Request):
    """A request without fields."""


class ChatRequest(Request):
    """A request about one chat."""

    chat_id: str = Field(max_length=200)


class ToolsetRequest(Request):
    """A request about one toolset."""

    toolset_id: str = Field(max_length=200)


class ToolRequest(Request):
    """A request about one tool."""

    tool_id: str = Field(max_length=200, description="Such as app-builder:write_file.")


class Result(BaseModel):
    """Base class of results; fields accept other models and dataclasses, by their attributes."""

    model_config = ConfigDict(
        frozen=True,
        defer_build=True,
        from_attributes=True,
        json_schema_serialization_defaults_required=True,  # a result always has all its fields
    )

    @classmethod
    def of(cls, source: object, /, **fields: object) -> Self:
        """Return a result with some fields, and the others from the attributes of ``source``."""
        names = cls.model_fields.keys() - fields.keys()
        attributes = {name: getattr(source, name) for name in names if hasattr(source, name)}
        return cls(**attributes, **fields)


class ResultFile(NamedTuple):
    """A file as the result of an operation; the caller reads ``stream`` and closes it.

    ``stream`` is at its first byte and can seek; ``size`` is in bytes; ``etag`` is an id that changes
    with the content, if there is one; an ``attachment`` is saved, not shown.
    """

    name: str
    media_type: str
    stream: IO[bytes]
    size: int
    etag: str | None = None
    attachment: bool = True

    @classmethod
    def of_bytes(
        cls,
        content: bytes,
        name: str,
        media_type: str,
        *,
        etag: str | None = None,
        attachment: bool = True,
    ) -> ResultFile:
        """Return a file that is in memory."""
        return cls(name, media_type, io.BytesIO(content), len(content), etag, attachment)


class Events(NamedTuple):
    """Server-sent events of a call, as bytes; the last one has the call's result.

    ``parts`` is None if all events were received before.  ``close`` is called after the last read.
    """

    parts: Iterator[bytes] | None
    close: Callable[[], None] = lambda: None


class RequestFile(NamedTuple):
    """A file in a request; its name is empty if the client sent none."""

    name: str
    stream: IO[bytes]
    executable: bool = False


UploadField = Annotated[
    InstanceOf[RequestFile], WithJsonSchema({"type": "string", "format": "binary"})
]
"""A file in a request."""

PathText = Annotated[str, BeforeValidator(readable)]
"""The path of a file in a result; bytes that are not UTF-8 are escaped."""


class InvalidRequestError(CovaltError):
    """A request that does not match its operation; ``problems`` has all invalid fields."""

    exit_code = 2


class EquivalentCall(NamedTuple):
    """A call of a built-in tool that does the same as an operation; ``args`` is None if the request does not show them."""

    tool_id: str
    args: JsonObject | None


RequestT = TypeVar("RequestT", bound=Request)
ResultT = TypeVar("ResultT", bound="BaseModel | ResultFile | Events")


@dataclass(frozen=True, slots=True)
class Operation(Generic[RequestT, ResultT]):
    """One use case.

    Attributes:
        run: The function that performs it.
        request: The type of its request.
        alternative: Another type of its request, if any.
        result: The type of its result.
        changes: Whether it may change anything.
        errors: The HTTP statuses of its own errors.
        admin: Description of an action that requires a role with ``admin: true``, such as "grant
            anything"; empty if access is decided for each object.
        needs: What the role needs in a chat: the ids of the built-in tools that together do the same, such as
            "workspace:write_file", or :data:`MANAGE_CHATS`; empty if the operation only reads, or decides about
            each object itself.
        calls: Returns the calls of built-in tools that do the same as a request, also of other tools than ``needs`` if
            the request does more.  A needed tool without such a call counts as any call of it.
        reads: Returns the call of a built-in tool that gets the same files of a workspace.  It is refused if a ``deny`` of
            a role or a rule is about that call; it needs no ``allow`` and no approval.
        upload_limit: For a request with uploads, its maximum size in bytes.
        local: Whether only the local user may perform it, so that the HTTP API does not have it.
        decides: Returns what only a user may decide, such as :data:`TRUSTING`, if a request gives a consent or adds a
            signer, and otherwise ""; None if no request does.  The context checks that there is a user.
        repeats: Whether it only writes to one chat, so that it is repeated if another node of the project was faster.
        repairs: Whether an admin performs it also while ``covalt.yaml`` has errors; see :meth:`.Context.repairing`.
    """

    run: Callable[[Context, RequestT], ResultT]
    request: type[RequestT]
    alternative: type[RequestT] | None
    result: type[ResultT]
    changes: bool
    errors: tuple[int, ...]
    admin: str
    needs: tuple[str, ...]
    calls: Callable[[Any], Iterable[EquivalentCall]] | None
    reads: Callable[[Any], EquivalentCall] | None
    upload_limit: Callable[[Context], int] | None
    local: bool
    decides: Callable[[Context, Any], str] | None
    repeats: bool
    repairs: bool

    def __call__(self, context: Context, /, **fields: object) -> ResultT:
        """Validate a request and perform it.

        Raises:
            InvalidRequestError: if a field is missing, unknown or invalid.
            ForbiddenError: if the role may not perform it.
            CovaltError: as :attr:`run`.
        """
        request = self.request
        if self.alternative is not None and not fields.keys() <= request.model_fields.keys():
            request = self.alternative
        return self.perform(context, parse(request, fields))

    def perform(self, context: Context, request: RequestT) -> ResultT:
        """Perform a valid request.

        Raises:
            ForbiddenError: if the role may not perform it.
            CovaltError: ``terminal_needed``, when a user has to decide and may not be there.
            CovaltError: as :attr:`run`.
        """
        if self.repairs:
            with context.repairing():
                return self._perform(context, request)
        return self._perform(context, request)

    def _perform(self, context: Context, request: RequestT) -> ResultT:
        if self.admin:
            context.require_admin(self.admin)
        if MANAGE_CHATS in self.needs:
            context.require_chat_management()
        calls = [] if self.calls is None else list(self.calls(request))
        same = {call.tool_id for call in calls}
        calls += [
            EquivalentCall(need, None)
            for need in self.needs
            if need != MANAGE_CHATS and need not in same
        ]
        for call in calls:
            context.require_tool(call.tool_id, call.args)
        if self.reads is not None:
            context.require_reading(*self.reads(request))
        # Again under the lock: what a request decides can depend on files that change during the wait.
        context.require(partial(self._check_decision, context, request))
        if not self.changes:
            return self.run(context, request)
        from covalt_git.toolsets.update_lock import checked_after_wait  # noqa: PLC0415 - lists read only

        # The role may lose the right while a change waits for the lock of the toolsets
        # (test_a_change_of_a_toolset_by_a_role_that_loses_the_right_meanwhile_is_not_made).
        with checked_after_wait(context.require_again):
            if self.repeats:
                from covalt_git.workspaces.writing import REPEATS, repeatable  # noqa: PLC0415 - as above

                for _ in range(REPEATS):
                    with repeatable(), context.repeating():
                        return self.run(context, request)
            return self.run(context, request)

    def _check_decision(self, context: Context, request: RequestT) -> None:
        decision = self.decides(context, request) if self.decides is not None else ""
        if decision:
            context.check_user(getattr(request, "reason", None), decision)

    @property
    def name(self) -> str:
        """The operation's name; if the specification defines the operation, the name is from there."""
        return self.run.__name__

    @property
    def summary(self) -> str:
        """The first line of its description."""
        return (inspect.getdoc(self.run) or "").partition("\n")[0]

    @property
    def description(self) -> str:
        """The description for its callers."""
        return (inspect.getdoc(self.run) or "").partition("\n\nRaises:")[0]


def operation(
    *,
    changes: bool = False,
    errors: tuple[int, ...] = (),
    admin: str = "",
    needs: tuple[str, ...] = (),
    calls: Callable[[Any], Iterable[EquivalentCall]] | None = None,
    reads: Callable[[Any], EquivalentCall] | None = None,
    upload_limit: Callable[[Context], int] | None = None,
    local: bool = False,
    decides: str | Callable[[Context, Any], str] | None = None,
    repeats: bool = False,
    repairs: bool = False,
) -> Callable[[Callable[[Context, RequestT], ResultT]], Operation[RequestT, ResultT]]:
    """Turn a function into an operation; its second parameter has one request type, or a union of two."""

    def decorate(run: Callable[[Context, RequestT], ResultT]) -> Operation[RequestT, ResultT]:
        hints = get_type_hints(run)
        result = hints.pop("return")
        _, hint = hints.values()
        request, alternative = get_args(hint) or (hint, None)
        return Operation(
            run,
            request,
            alternative,
            result,
            changes,
            errors,
            admin,
            needs,
            calls,
            reads,
            upload_limit,
            local,
            (lambda _context, _request: decides) if isinstance(decides, str) else decides,
            repeats,
            repairs,
        )

    return decorate


@cache
def every_operation() -> dict[str, Operation[Any, Any]]:
    """Return all operations by name; this imports all modules of this package."""
    package = import_module("covalt_git.operations")
    modules = (
        import_module(module.name)
        for module in walk_packages(package.__path__, f"{package.__name__}.")
    )
    values = (value for module in modules for value in vars(module).values())
    return {value.name: value for value in values if isinstance(value, Operation)}


def parse(request: type[RequestT], fields: Mapping[str, object] | str) -> RequestT:
    """Return a request from its fields, with texts converted, or from JSON, with strict types.

    Raises:
        InvalidRequestError: with all invalid fields.
    """
    try:
        if isinstance(fields, str):
            return request.model_validate_json(fields, strict=True)
        return request.model_validate(fields)
    except ValidationError as error:
        problems = [
            _problem(request, detail["loc"], detail["type"], detail["msg"])
            for detail in error.errors()
        ]
        raise invalid(*problems) from None


def invalid(*problems: Problem) -> InvalidRequestError:
    """Return the error of a request whose fields have these problems."""
    count = "an invalid value" if len(problems) == 1 else f"{len(problems)} invalid values"
    return InvalidRequestError(f"the request has {count}", problems=list(problems))


def invalid_field(name: str, message: str) -> InvalidRequestError:
    """Return the error of a request with one invalid field."""
    return invalid(Problem(name, 0, 0, "invalid_request", message))


def _problem(
    request: type[Request], loc: tuple[int | str, ...], kind: str, message: str
) -> Problem:
    name = ".".join(str(part) for part in loc)
    hint = ""
    if kind == "extra_forbidden":
        near = nearest_name(name, request.model_fields)
        message = "unknown field"
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(request.model_fields)}"
    return Problem(name, 0, 0, "invalid_request", message[:1].lower() + message[1:], hint)
