"""Request of an HTTP tool: the ``http`` of its manifest with arguments and secrets inserted.

Each value is encoded for the part of the request that it is in.  A value that this part cannot carry is
rejected.
"""

from __future__ import annotations

import json
import mimetypes
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlsplit

from covalt_git.errors import CovaltError
from covalt_git.http_client import ClientRequest, FormPart
from covalt_git.http_tools.secret_lookup import HEADER_VALUE
from covalt_git.http_tools.selections import checked_selection
from covalt_git.http_tools.styles import (
    SEPARATORS,
    AmbiguousValueError,
    Pair,
    entries_of,
    in_path,
    items_of,
    pairs_of,
)
from covalt_git.models.http_placement import FILE_PREFIX, graphql_variables, placement
from covalt_git.models.tool_properties import HttpBody
from covalt_git.paths import WORKSPACE_PREFIX
from covalt_git.templating import expressions
from covalt_git.templating.expressions import Expression, Values
from covalt_git.templating.graphql_text import BadSelectionError
from covalt_git.templating.references import Reference, split
from covalt_git.templating.url_templates import BadValueError, UrlTemplate, as_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from covalt_git.json_values import JsonObject
    from covalt_git.models.http_placement import Placement
    from covalt_git.models.tool_properties import GraphQLBody, HttpParameter, HttpRequest

    ValueOf = Callable[[Reference], str | None]

_OMITTED = object()
"""Value of an entry that the request does not have."""

_COOKIE_SAFE = "!#$&'()*+-./:<=>?@[]^_`{|}~"
"""Characters of a cookie's value that need no encoding (RFC 6265, section 4.1.1), in addition to letters and digits."""

_TEXT = "text/plain; charset=utf-8"
_JSON = "application/json"
_FORM = "application/x-www-form-urlencoded"
_GRAPHQL_ANSWERS = "application/graphql-response+json, application/json;q=0.9"
_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class BadRequestError(CovaltError):
    """Arguments that the request cannot carry; ``argument`` is empty if it is not known which."""

    code = "invalid_arguments"

    def __init__(self, why: str, *, argument: str = "") -> None:
        super().__init__(f"the argument {argument!r} {why}" if argument else why)
        self.place = f"$.{argument}" if argument else "$"


@dataclass(slots=True)
class RequestBuilder:
    """Request of one call while arguments and the manifest fill its parts.

    ``lookup`` and, for headers, ``in_header`` return the value of a reference, or None to omit its entry.
    ``types`` are those of the lock of a GraphQL source (:mod:`covalt_git.http_tools.selections`).
    """

    http: HttpRequest
    args: JsonObject
    lookup: ValueOf
    in_header: ValueOf
    read_file: Callable[[str], bytes]
    query: list[Pair] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)
    values: JsonObject = field(default_factory=dict)
    form: list[Pair] = field(default_factory=list)
    parts: list[FormPart] = field(default_factory=list)
    encoded_cookies: list[str] = field(default_factory=list)
    content: bytes = b""
    media_type: str = ""
    types: Mapping[str, Any] | None = None

    def build(self) -> ClientRequest:
        """Return the request.

        Raises:
            BadRequestError: if the request cannot carry an argument.
            BadTemplateError: if the reference at the beginning of the URL is not the base of a URL.
            CovaltError: errors of ``lookup``, ``in_header`` and ``read_file``.
        """
        http = self.http
        # The URL first: errors about the destination are reported before any file is read.
        template = UrlTemplate.parse(http.url)
        url = self._url(template)
        self.query += pairs_of(self._fill(http.query))
        self.headers |= _texts(self._fill(http.headers, self.in_header))
        self.cookies |= _texts(self._fill(http.cookies))
        placed = placement(http)
        self._check_names(url, placed)
        for name, value in self.args.items():
            if name in http.parameters or name not in placed.named:
                self._place(placed.place_of(name), name, value)
        if isinstance(http.body, HttpBody):
            self._write(http.body)
        elif self.values:
            self._set(_json(self.values), _JSON)
        elif self.form:
            self._set(_encoded(self.form), _FORM)
        elif http.body_required and http.body in {"json", "form"}:
            self._set("{}" if http.body == "json" else "", _JSON if http.body == "json" else _FORM)
        if self.query:
            url += ("&" if "?" in url else "?") + _encoded(self.query)
        headers, parts = tuple(self._headers()), tuple(self.parts)
        within = template.folder(self.lookup)
        return ClientRequest(http.method, url, headers, self.content, parts, within=within)

    def _check_names(self, url: str, placed: Placement) -> None:
        """Refuse an argument without a place of its own that the host could take for another one.

        The schema may permit further arguments, and hosts read names in their own ways: a later one replaces an
        earlier one, ``Env`` is ``env``, and ``filter[env]`` is a part of ``filter``.  An approval rule has compared
        the other one.
        """
        sent = _SentNames()
        for name, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True):
            sent.add("query", name)
        for pair in self.query:
            sent.add("query", pair.name)
        for name, parameter in self.http.parameters.items():
            sent.add(parameter.location, parameter.name or name)
        for name in self.args:
            has_place = name in self.http.parameters or name in placed.named
            where = None if has_place else placed.place_of(name)
            if where is not None and not sent.add(where, name):
                raise BadRequestError(
                    "is not sent: the host could take it for another argument", argument=name
                )
        for name, parameter in self.http.parameters.items():
            value = self.args.get(name)
            # In the request, each key of such an object is the name of an argument.
            if parameter.explode and isinstance(value, dict) and parameter.location != "path":
                for key in value:
                    if parameter.location != "header" and not sent.add(parameter.location, key):
                        raise BadRequestError(
                            f"has the key {key[:80]!r}, which the host could take for another argument",
                            argument=name,
                        )

    def _fill(self, template: Any, lookup: ValueOf | None = None) -> Any:
        """Return a template with its references and ``$args`` expressions replaced, or ``_OMITTED``.

        One pass: inserted values are never searched for references, so an argument cannot request a secret.
        An entry is omitted if it names an argument that is missing, or a reference with an empty default.
        A single expression keeps its type.
        """
        if isinstance(template, dict):
            filled = {key: self._fill(inner, lookup) for key, inner in template.items()}
            return {key: value for key, value in filled.items() if value is not _OMITTED}
        if isinstance(template, list | tuple):
            items = [self._fill(inner, lookup) for inner in template]
            return [value for value in items if value is not _OMITTED]
        if not isinstance(template, str):
            return template
        values = list[Any]()
        for piece in split(template):
            if isinstance(piece, Reference):
                secret = (lookup or self.lookup)(piece)
                values.append(_OMITTED if secret is None else secret)
            else:
                values += [self._value(part) for part in expressions.split(piece)]
        if any(value is _OMITTED for value in values):
            return _OMITTED
        return values[0] if len(values) == 1 else "".join(map(as_text, values))

    def _value(self, piece: str | Expression) -> Any:
        if isinstance(piece, str):
            return piece
        value, unresolved = expressions.interpolate(piece.text, Values(self.args, None, ""))
        return _OMITTED if unresolved else value

    def _url(self, template: UrlTemplate) -> str:
        renamed = {
            parameter.name: name
            for name, parameter in self.http.parameters.items()
            if parameter.location == "path" and parameter.name is not None
        }
        values = self.args | {wire: self.args.get(name) for wire, name in renamed.items()}
        for name, parameter in self.http.parameters.items():
            wire = parameter.name or name
            if parameter.location == "path" and values.get(wire) is not None:
                explode = bool(parameter.explode)
                try:
                    values[wire] = in_path(wire, values[wire], parameter.style, explode=explode)
                except AmbiguousValueError as error:
                    raise BadRequestError(str(error), argument=name) from None
        try:
            return template.expand(values, self.lookup)
        except BadValueError as error:
            raise BadRequestError(error.why, argument=renamed.get(error.name, error.name)) from None

    def _place(self, where: str | None, name: str, value: Any) -> None:
        try:
            self._put(where, name, value)
        except AmbiguousValueError as error:
            raise BadRequestError(str(error), argument=name) from None

    def _put(self, where: str | None, name: str, value: Any) -> None:
        """Put an argument into its part of the request; arguments of the path are in the URL already."""
        parameter = self.http.parameters.get(name)
        wire = (parameter.name if parameter else None) or name
        style = parameter.style if parameter else None
        if value is None:  # JSON has a null; the other parts have only texts, such as "None"
            if where == "body" and self._has_json_values:
                self.values[wire] = None
        elif where == "query":
            self.query += _checked(_styled(wire, value, parameter))
        elif where == "header":
            is_object = isinstance(value, dict) and style in SEPARATORS
            explode = parameter is not None and parameter.explode
            items = entries_of(value, ",") if is_object and explode else items_of(value, style)
            if items:
                self.headers[wire] = Pair(wire, items).joined
        elif where == "cookie":
            self._add_cookies(_styled(wire, value, parameter, repeats=False))
        elif where == "body" and parameter is not None and parameter.file:
            self._attach(wire, value, argument=name)
        elif where == "body":
            self._add_to_body(wire, value, parameter)

    def _add_cookies(self, pairs: Iterable[Pair]) -> None:
        """Add cookies; several values of an exploded one are joined as in the table of OpenAPI."""
        encoded = [
            f"{quote(pair.name, safe=_COOKIE_SAFE)}={self._cookie_text(pair)}" for pair in pairs
        ]
        if encoded:
            self.encoded_cookies.append("&".join(encoded))

    def _cookie_text(self, pair: Pair) -> str:
        _ = pair.joined  # refuses items that contain the separator
        return ",".join(quote(item, safe=_COOKIE_SAFE) for item in pair.items)

    def _add_to_body(self, wire: str, value: Any, parameter: HttpParameter | None) -> None:
        body = self.http.body
        if self._has_json_values:
            self.values[wire] = value
        elif body == "form":
            self.form += _checked(_styled(wire, value, parameter))
        elif body == "multipart":
            self._add_parts(_styled(wire, value, parameter))
        elif body == "text" and not self.content:
            self._set(as_text(value), _TEXT)
        else:
            raise BadRequestError(
                "cannot be sent, because the body is a single text", argument=wire
            )

    def _write(self, body: HttpBody) -> None:
        """Fill in the templates of the manifest's ``body``."""
        if body.form is not None:
            self._set(_encoded(pairs_of(self._fill(body.form))), _FORM)
        elif body.multipart is not None:
            for name, template in body.multipart.items():
                if isinstance(template, str) and template.startswith(FILE_PREFIX):
                    self._attach(name, self._fill(template.removeprefix(FILE_PREFIX)))
                else:
                    self._add_parts(pairs_of(self._fill({name: template})))
        elif body.text is not None:
            value = self._fill(body.text)
            self._set("" if value is _OMITTED else as_text(value), _TEXT)
        elif body.file is not None:
            for path in _paths("file", self._fill(body.file.removeprefix(FILE_PREFIX))):
                self.content, self.media_type = self.read_file(path), _media_type(path)
        elif body.graphql is not None:
            self._write_graphql(body.graphql)
        elif (value := self._fill(body.json_value)) is not _OMITTED:
            self._set(_json(value), _JSON)

    @property
    def _has_json_values(self) -> bool:
        """Whether arguments that are in the body are JSON values by name."""
        body = self.http.body
        return body == "json" or (isinstance(body, HttpBody) and body.graphql is not None)

    def _write_graphql(self, graphql: GraphQLBody) -> None:
        """Write the JSON that GraphQL servers accept (GraphQL over HTTP, section 5.4); absent arguments stay absent."""
        query, select = graphql.query, graphql.select
        if select is not None:
            fields = select.default
            if (text := self.args.get(select.argument)) is not None:
                try:
                    fields = checked_selection(as_text(text), select.type, self.types)
                except BadSelectionError as error:
                    raise BadRequestError(str(error), argument=select.argument) from None
            query = select.mark.sub(lambda _: fields, query)
        names = graphql_variables(self.http).keys() - ({select.argument} if select else set())
        values = {name: value for name, value in self.args.items() if name in names}
        renamed = {
            parameter.name
            for parameter in self.http.parameters.values()
            if parameter.name is not None
        }
        values = {name: value for name, value in values.items() if name not in renamed}
        request: JsonObject = {"query": query}
        if values | self.values:
            request["variables"] = values | self.values
        if graphql.operation is not None:
            request["operationName"] = graphql.operation
        self._set(_json(request), _JSON)
        if "accept" not in map(str.lower, self.headers):
            self.headers["Accept"] = _GRAPHQL_ANSWERS

    def _add_parts(self, pairs: Iterable[Pair]) -> None:
        self.parts += [
            FormPart(pair.name, pair.joined.encode(), None, _JSON if pair.is_json else None)
            for pair in pairs
        ]

    def _attach(self, wire: str, value: Any, *, argument: str = "") -> None:
        for path in _paths(argument or wire, value):
            name = path.rpartition("/")[2]
            self.parts.append(FormPart(wire, self.read_file(path), name, _media_type(path)))

    def _set(self, text: str, media_type: str) -> None:
        self.content, self.media_type = text.encode(), media_type

    def _headers(self) -> Iterator[tuple[str, str]]:
        if self.media_type and "content-type" not in map(str.lower, self.headers):
            yield "Content-Type", self.media_type
        for name, value in self.headers.items():
            if self.parts and name.lower() == "content-type":
                continue  # it has the boundary of the parts, which the client chooses
            # HTTP removes blanks around a value.  The approval rules have compared it with them.
            if not HEADER_VALUE.fullmatch(value) or value != value.strip(" \t"):
                raise BadRequestError(
                    f"the value of the header {name!r} contains a line break, or a character that HTTP"
                    " headers do not allow, or begins or ends with a blank"
                )
            yield name, value
        # Encoded: a semicolon in a value would begin another cookie.
        cookies = [
            f"{name}={quote(text, safe=_COOKIE_SAFE)}" for name, text in self.cookies.items()
        ]
        cookies += self.encoded_cookies
        if cookies:
            yield "Cookie", "; ".join(cookies)


class _SentNames:
    """Names of values in the parts of a request, as hosts compare them."""

    def __init__(self) -> None:
        self._names: set[tuple[str, str]] = set()
        self._above: set[tuple[str, str]] = set()

    def add(self, where: str, name: str) -> bool:
        """Add a name; return whether it is neither another name there, nor a part of one, nor the whole of a part."""
        folded = name.casefold()
        above = {(where, folded[: mark.start()]) for mark in re.finditer(r"[.\[]", folded)}
        is_free = (where, folded) not in self._names | self._above and not above & self._names
        self._names.add((where, folded))
        self._above |= above
        return is_free


def _styled(
    wire: str, value: Any, parameter: HttpParameter | None, *, repeats: bool = True
) -> Iterator[Pair]:
    """Yield the pairs of an argument; without ``repeats``, a list is a single one by default."""
    style = parameter.style if parameter else None
    explode = parameter.explode if parameter else None
    if not repeats and style is None and isinstance(value, list):
        style = "comma"
    is_reserved_allowed = parameter is not None and parameter.allow_reserved
    return pairs_of({wire: value}, style, explode=explode, is_reserved_allowed=is_reserved_allowed)


def _checked(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """Yield pairs, each of which a query can contain."""
    for pair in pairs:
        _ = pair.encoded
        yield pair


def _encoded(pairs: Iterable[Pair]) -> str:
    return "&".join(pair.encoded for pair in pairs)


def _texts(values: JsonObject) -> dict[str, str]:
    try:
        return {pair.name: pair.joined for pair in pairs_of(values, "comma")}
    except AmbiguousValueError as error:
        raise BadRequestError(f"a list {error}") from None


def _paths(name: str, value: Any) -> Iterable[str]:
    paths = [] if value is _OMITTED else value if isinstance(value, list) else [value]
    if not all(isinstance(path, str) for path in paths):
        raise BadRequestError("is not the path of a file", argument=name)
    return [path.removeprefix(WORKSPACE_PREFIX) for path in paths]


def _media_type(path: str) -> str:
    return mimetypes.guess_type(path)[0] or "application/octet-stream"
