"""The HTTP API's contract: one typed function is a route, its validation and its documentation.

::

    class SwitchBranch(Asked):
        chat_id: str
        branch: str

    @operation("POST", errors=(404, 409))
    def switch_branch(asked: SwitchBranch) -> BranchSwitched:
        \"\"\"Bring a chat's folder to a branch.\"\"\"

is ``POST /api/switch_branch`` with a JSON object as its body (a ``GET`` reads the query), answers
with a JSON object, and stands so in ``/api/openapi.json``.  The pages call the same functions.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    TypeVar,
    get_args,
    get_type_hints,
)

from flask import g, make_response, request
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    InstanceOf,
    ValidationError,
    WithJsonSchema,
)
from werkzeug.datastructures import FileStorage
from werkzeug.wrappers import Response

from covalt_git.errors import CovaltError, Problem, nearest_name
from covalt_git.json_values import canonical_json
from covalt_git.manifests.toolset_files import readable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from flask import Flask
    from werkzeug.datastructures import MultiDict

Method = Literal["GET", "POST"]
Media = Literal["application/json", "application/octet-stream", "text/event-stream"]

REFUSALS = (400, 401, 403, 405, 421)
"""What any operation may answer, from the checks before it."""

BODY_REFUSALS = (413, 415)

TROUBLE = (500, 503)
"""What any operation may answer where a chat's store, the index or covalt-git itself is broken."""


class Asked(BaseModel):
    """What a request says; a name that nothing reads is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Nothing(Asked):
    """What a request says that has nothing to say."""


class Answer(BaseModel):
    """What an operation answers."""

    model_config = ConfigDict(
        frozen=True,
        defer_build=True,
        json_schema_serialization_defaults_required=True,  # an answer always has all its fields
    )


FormFile = Annotated[
    InstanceOf[FileStorage], WithJsonSchema({"type": "string", "format": "binary"})
]
"""A file of a form."""

PathText = Annotated[str, BeforeValidator(readable)]
"""A file's path as an answer tells it: what is not UTF-8 in it is written out."""


class InvalidRequestError(CovaltError):
    """The request is not as the operation's documentation says; with all that is wrong."""


class NotJsonBodyError(CovaltError):
    """The body is of another type than the operation reads."""

    code = "unsupported_media_type"
    http_status = 415


AskedT = TypeVar("AskedT", bound=Asked)
AnswerT = TypeVar("AnswerT", bound="BaseModel | Response")


@dataclass(frozen=True, slots=True)
class Operation(Generic[AskedT, AnswerT]):
    """One operation of the API; calling it does what it does, without a request.

    ``media`` is what it answers with; ``multipart``, where its body is a form with files, gives the
    most bytes that such a body may have, and ``asks_json`` what a JSON body may say in its place;
    ``errors`` are the statuses that it adds to :data:`REFUSALS`; ``tagged`` tells that it answers with an ETag; ``place`` is where it stands below
    ``/api/``, in which ``<name>`` is a value that it asks for.
    """

    method: Method
    run: Callable[[AskedT], AnswerT]
    asks: type[AskedT]
    asks_json: type[AskedT] | None
    answers: type[AnswerT]
    media: Media
    errors: tuple[int, ...]
    multipart: Callable[[], int] | None
    tagged: bool
    place: str

    def __call__(self, asked: AskedT) -> AnswerT:
        """Do it."""
        return self.run(asked)

    def ask(self, **values: object) -> AnswerT:
        """Do it with what a page was asked, held to the same rules as a request of the API.

        Raises:
            InvalidRequestError: when it does not say what it should; CovaltError as :attr:`run`.
        """
        return self.run(parsed(self.asks, values))

    @property
    def name(self) -> str:
        """The operation's name: the specification's, where it has one."""
        return self.run.__name__

    @property
    def summary(self) -> str:
        """What it does, in one line."""
        return (inspect.getdoc(self.run) or "").partition("\n")[0]

    @property
    def description(self) -> str:
        """All that is said about it, for people who call it."""
        return (inspect.getdoc(self.run) or "").partition("\n\nRaises:")[0]

    @property
    def path(self) -> str:
        """The path, in which values are written as OpenAPI writes them."""
        return f"/api/{self.place}".replace("<", "{").replace(">", "}")

    def respond(self, **place: str) -> Response:
        """Answer the current request; ``place`` has the values in its path.

        Raises:
            InvalidRequestError: when it does not say what it should; CovaltError as :attr:`run`.
        """
        given = self.run(self._asked(place))
        if isinstance(given, Response):
            return given
        answer = make_response(given.model_dump_json(by_alias=True))
        answer.mimetype = "application/json"
        if self.tagged:
            answer.set_etag(g.get("etag") or hashlib.sha256(answer.get_data()).hexdigest()[:40])
            return answer.make_conditional(request)
        return answer

    def _asked(self, place: dict[str, str]) -> AskedT:
        if self.method == "GET":
            return parsed(self.asks, {**from_query(request.args), **place})
        if self.multipart is None:
            return self._body(self.asks)
        if self.asks_json is not None and request.mimetype == "application/json":
            return self._body(self.asks_json)
        if request.mimetype != "multipart/form-data":
            raise NotJsonBodyError("the body must be a form with files: multipart/form-data")
        request.max_content_length = self.multipart()
        files = {name: tuple(given) for name, given in request.files.lists()}
        return parsed(self.asks, {**from_query(request.form), **files})

    def _body(self, asks: type[AskedT]) -> AskedT:
        if request.mimetype != "application/json":
            raise NotJsonBodyError(
                "the body must be JSON", hint="send Content-Type: application/json"
            )
        raw = request.get_data(cache=False)
        try:
            value = canonical_json.loads(raw.decode("utf-8"))
        except (UnicodeDecodeError, canonical_json.NotJsonError) as error:
            why = error.message if isinstance(error, canonical_json.NotJsonError) else "not UTF-8"
            raise InvalidRequestError(f"the body is not JSON: {why}") from None
        if not isinstance(value, dict):
            raise InvalidRequestError("the body must be a JSON object")
        # As JSON once more, so that types are held strictly and lists may fill tuples.
        return parsed(asks, json.dumps(value))


def operation(
    method: Method,
    *,
    errors: tuple[int, ...] = (),
    media: Media = "application/json",
    multipart: Callable[[], int] | None = None,
    tagged: bool = False,
    place: str = "",
) -> Callable[[Callable[[AskedT], AnswerT]], Operation[AskedT, AnswerT]]:
    """Make an operation of a function with one parameter, an :class:`Asked`.

    Of a ``multipart`` one it may be one of two: what a form says, and what JSON may say in its place.
    """

    def made(run: Callable[[AskedT], AnswerT]) -> Operation[AskedT, AnswerT]:
        hints = get_type_hints(run)
        answers = hints.pop("return")
        (hint,) = hints.values()
        asks, asks_json = get_args(hint) or (hint, None)
        name = place or run.__name__
        return Operation(
            method, run, asks, asks_json, answers, media, errors, multipart, tagged, name
        )

    return made


def install(app: Flask, operations: Iterable[Operation[Any, Any]]) -> None:
    """Give every operation its route."""
    for one in operations:
        app.add_url_rule(f"/api/{one.place}", one.name, one.respond, methods=[one.method])


def tag(etag: str) -> None:
    """Say which object's id names all that this request's answer tells; else its bytes do."""
    g.etag = etag


def from_query(values: MultiDict[str, str]) -> dict[str, str]:
    """Return the values of a query or form by name.

    Raises:
        InvalidRequestError: when one is given twice.
    """
    twice = sorted(name for name, given in values.lists() if len(given) > 1)
    if twice:
        raise InvalidRequestError(f"{twice[0]!r} is given more than once")
    return values.to_dict()


def parsed(asks: type[AskedT], values: Mapping[str, object] | str) -> AskedT:
    """Return what a request says, from texts by name, or strictly from JSON.

    Raises:
        InvalidRequestError: with every name and value that is wrong.
    """
    try:
        if isinstance(values, str):
            return asks.model_validate_json(values, strict=True)
        return asks.model_validate(values)
    except ValidationError as error:
        problems = [_problem(asks, one["loc"], one["type"], one["msg"]) for one in error.errors()]
        count = "a value" if len(problems) == 1 else f"{len(problems)} values"
        raise InvalidRequestError(
            f"the request has {count} that cannot be used", problems=problems
        ) from None


def _problem(asks: type[Asked], loc: tuple[int | str, ...], kind: str, message: str) -> Problem:
    name = ".".join(str(part) for part in loc)
    hint = ""
    if kind == "extra_forbidden":
        near = nearest_name(name, asks.model_fields)
        message = "nothing reads this name"
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(asks.model_fields)}"
    return Problem(name, 0, 0, "invalid_request", message[:1].lower() + message[1:], hint)
