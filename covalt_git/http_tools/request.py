"""The request that a call of an HTTP tool sends: its manifest's ``http`` with arguments and secrets in.

Pure, but for the workspace files that a body takes, which are read by whoever asks for the request.
Everything is encoded for the place where it stands; what a place cannot hold is refused.
"""

from __future__ import annotations

import json
import mimetypes
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from covalt_git.errors import CovaltError
from covalt_git.http_client import Part, Request
from covalt_git.http_tools.templates import HEADER_VALUE, LEFT_OUT, Texts
from covalt_git.models.http_placement import FILE_BEGINS, placement
from covalt_git.models.toolset_manifest import HttpBody, HttpParameter
from covalt_git.templating.url_templates import BadValueError, UrlTemplate, as_text, encoded_list

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from covalt_git.json_values import JsonObject
    from covalt_git.models.toolset_manifest import HttpRequest
    from covalt_git.templating.references import Reference

Pair = tuple[str, list[str]]
"""A name and its value, in the pieces that commas stand between."""

_COOKIE_SAFE = "!#$&'()*+-./:<=>?@[]^_`{|}~"
"""What a cookie's value may hold as it is (RFC 6265, section 4.1.1); quote() keeps letters and digits."""

_UNKNOWN_TYPE = "application/octet-stream"


class BadRequestError(CovaltError):
    """Arguments that no request can carry where the manifest puts them; ``argument`` may be unknown."""

    code = "invalid_arguments"

    def __init__(self, why: str, *, argument: str = "") -> None:
        super().__init__(f"the argument {argument!r} {why}" if argument else why)
        self.place = f"$.{argument}" if argument else "$"


@dataclass(slots=True)
class _Body:
    """What the body is made of, as arguments and the manifest fill it."""

    values: JsonObject = field(default_factory=dict)
    pairs: list[Pair] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    content: bytes = b""
    media_type: str = ""


def build(
    http: HttpRequest,
    args: JsonObject,
    *,
    look_up: Callable[[Reference], str | None],
    in_header: Callable[[Reference], str | None],
    read_file: Callable[[str], bytes],
) -> Request:
    """Return the request of one call.

    ``look_up`` returns what a reference stands for, or None where it has nothing to say, and
    ``in_header`` the same of one in a header; ``read_file`` the bytes of a workspace file.

    Raises:
        BadRequestError: when an argument has no place where it should go.
        BadTemplateError: when what the address begins with, a reference, stands for none.
        CovaltError: what ``look_up``, ``in_header`` and ``read_file`` raise.
    """
    texts = Texts(args, look_up)
    placed = placement(http)
    # The address first: its refusals are about where this leads, and come before any file is read.
    template = UrlTemplate.parse(http.url)
    url = _url(template, http, args, look_up)
    query = list(_written_pairs(texts.value(http.query)))
    headers = _texts_of(Texts(args, in_header).value(http.headers))
    cookies = _texts_of(texts.value(http.cookies))
    body = _Body()
    for name, value in args.items():
        if name in placed.named and name not in http.parameters:
            continue
        parameter = http.parameters.get(name)
        where = placed.place_of(name)
        if where is None or where == "path" or value is None:
            if where == "body" and value is None and http.body == "json":
                body.values[_wire_name(name, parameter)] = None
            continue
        wire = _wire_name(name, parameter)
        style = parameter.style if parameter else None
        if where == "query":
            query += _pairs(wire, value, style)
        elif where == "header":
            headers[wire] = _joined(value, style)
        elif where == "cookie":
            cookies[wire] = _joined(value, style)
        elif parameter is not None and parameter.file:
            body.parts += [_file_part(wire, path, read_file) for path in _paths(name, value)]
        else:
            _take(body, http, wire, value, style)
    _fill(body, http, texts, read_file)
    if query:
        url += ("&" if "?" in url else "?") + _encoded(query)
    return Request(
        http.method,
        url,
        tuple(_headers(headers, cookies, body)),
        body.content,
        tuple(body.parts),
        within=template.folder(look_up),
    )


def _url(
    template: UrlTemplate,
    http: HttpRequest,
    args: JsonObject,
    look_up: Callable[[Reference], str | None],
) -> str:
    values, given_as = dict(args), dict[str, str]()
    for name, parameter in http.parameters.items():
        if parameter.location == "path" and parameter.name is not None:
            values[parameter.name] = args.get(name)
            given_as[parameter.name] = name
    try:
        return template.expand(values, look_up)
    except BadValueError as error:
        argument = given_as.get(error.name, error.name)
        raise BadRequestError(error.why, argument=argument) from None


def _take(body: _Body, http: HttpRequest, wire: str, value: Any, style: str | None) -> None:
    """Put an argument that the manifest says nothing else about into the body."""
    if http.body == "json":
        body.values[wire] = value
    elif http.body == "form":
        body.pairs += _pairs(wire, value, style)
    elif http.body == "multipart":
        body.parts += [_part(pair) for pair in _pairs(wire, value, style)]
    elif http.body == "text" and not body.content:
        body.content = as_text(value).encode()
        body.media_type = "text/plain; charset=utf-8"
    else:
        raise BadRequestError("has no place in a body that is one text", argument=wire)


def _fill(
    body: _Body,
    http: HttpRequest,
    texts: Texts,
    read_file: Callable[[str], bytes],
) -> None:
    """Give the body its bytes: of the collected arguments, or as the manifest writes it out."""
    written = http.body
    if isinstance(written, HttpBody):
        _write(body, written, texts, read_file)
        return
    if body.values:
        body.content = _as_json(body.values)
        body.media_type = "application/json"
    elif body.pairs:
        body.content = _encoded(body.pairs).encode()
        body.media_type = "application/x-www-form-urlencoded"


def _write(body: _Body, written: HttpBody, texts: Texts, read_file: Callable[[str], bytes]) -> None:
    if written.form is not None:
        body.content = _encoded(_written_pairs(texts.value(written.form))).encode()
        body.media_type = "application/x-www-form-urlencoded"
    elif written.multipart is not None:
        for name, template in written.multipart.items():
            if isinstance(template, str) and template.startswith(FILE_BEGINS):
                value = texts.value(template.removeprefix(FILE_BEGINS))
                paths = [] if value is LEFT_OUT else _paths(name, value)
                body.parts += [_file_part(name, path, read_file) for path in paths]
            else:
                filled = texts.value({name: template})
                body.parts += [_part(pair) for pair in _written_pairs(filled)]
    elif written.text is not None:
        value = texts.value(written.text)
        body.content = b"" if value is LEFT_OUT else as_text(value).encode()
        body.media_type = "text/plain; charset=utf-8"
    elif written.file is not None:
        value = texts.value(written.file.removeprefix(FILE_BEGINS))
        for path in [] if value is LEFT_OUT else _paths("file", value):
            body.content = read_file(path)
            body.media_type = mimetypes.guess_type(path)[0] or _UNKNOWN_TYPE
    else:
        value = texts.value(written.json_value)
        if value is not LEFT_OUT:
            body.content = _as_json(value)
            body.media_type = "application/json"


def _headers(
    headers: dict[str, str], cookies: dict[str, str], body: _Body
) -> Iterator[tuple[str, str]]:
    names = {name.lower() for name in headers}
    if body.media_type and "content-type" not in names:
        yield "Content-Type", body.media_type
    for name, value in headers.items():
        if body.parts and name.lower() == "content-type":
            continue  # it tells where the parts begin, which only they know
        if not HEADER_VALUE.fullmatch(value.strip(" \t")):
            raise BadRequestError(
                f"the header {name!r} would hold a line break or a letter that headers cannot carry"
            )
        yield name, value.strip(" \t")
    if cookies:
        pairs = (f"{name}={quote(value, safe=_COOKIE_SAFE)}" for name, value in cookies.items())
        yield "Cookie", "; ".join(pairs)


def _pairs(name: str, value: Any, style: str | None) -> Iterator[Pair]:
    """Yield a value of a query or form: a list repeated, an object as JSON, unless ``style`` says else."""
    if value is None:
        return
    if isinstance(value, dict) and style == "deep":
        for key, inner in value.items():
            yield from _pairs(f"{name}[{key}]", inner, style)
    elif isinstance(value, list) and style not in {"comma", "json"}:
        for item in value:
            yield from _pairs(name, item, style)
    else:
        yield name, _pieces(value, style)


def _pieces(value: Any, style: str | None) -> list[str]:
    """Return the items of a list; any other value is one piece, and so is a list as JSON."""
    if isinstance(value, list) and style != "json":
        return [as_text(item) for item in value]
    return [as_text(value)]


def _joined(value: Any, style: str | None) -> str:
    """Return a value where there is room for one text."""
    return ",".join(_pieces(value, style))


def _encoded(pairs: Iterable[Pair]) -> str:
    """Return a query or form; its commas stand between items, one within an item is encoded."""
    return "&".join(f"{quote(name, safe='')}={encoded_list(value)}" for name, value in pairs)


def _part(pair: Pair) -> Part:
    name, value = pair
    return Part(name, ",".join(value).encode())


def _written_pairs(values: JsonObject) -> Iterator[Pair]:
    for name, value in values.items():
        yield from _pairs(name, value, None)


def _texts_of(values: JsonObject) -> dict[str, str]:
    return {name: _joined(value, None) for name, value in values.items() if value is not None}


def _wire_name(name: str, parameter: HttpParameter | None) -> str:
    return name if parameter is None or parameter.name is None else parameter.name


def _paths(name: str, value: Any) -> Iterable[str]:
    paths = value if isinstance(value, list) else [value]
    if not all(isinstance(path, str) for path in paths):
        raise BadRequestError("is not the path of a file", argument=name)
    return [path.removeprefix("workspace:") for path in paths]


def _file_part(name: str, path: str, read_file: Callable[[str], bytes]) -> Part:
    media_type = mimetypes.guess_type(path)[0] or _UNKNOWN_TYPE
    return Part(name, read_file(path), path.rpartition("/")[2], media_type)


def _as_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
