"""Base URL of operations: the first server of an operation, its path or the document, as a URL template."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urljoin

from covalt_git.errors import CovaltError
from covalt_git.hosts import origin_of

if TYPE_CHECKING:
    from covalt_git.compilers.openapi.documents import DocumentPart
    from covalt_git.json_values import JsonObject

_VARIABLE = re.compile(r"\{([^{}]+)\}")
_STRAY = re.compile(r"[^A-Za-z0-9\-._~:/@!&'()*+,;=%?]")
_SAFE_NAME = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)


class BaseUrl(NamedTuple):
    """The base of URLs.

    Attributes:
        url: the beginning of a URL template, without ``/`` at its end.
        hosts: hosts to which its requests go; empty if a reference determines it.
        variables: schemas of the arguments in ``url``, by name, each with its default.
        fixed: names of variables of the host, which have their defaults.
    """

    url: str
    hosts: tuple[str, ...]
    variables: dict[str, JsonObject]
    fixed: tuple[str, ...] = ()


class BadServerError(CovaltError):
    """A server whose URL no request can have."""

    code = "bad_server"


def server_of(nodes: list[DocumentPart], address: str) -> BaseUrl | None:
    """Return the first server of the first list of servers; None if its URL is not absolute.

    ``address`` is the URL of the document, at which relative URLs begin; it may be empty.

    Raises:
        BadServerError: if its URL is invalid.
    """
    for servers in nodes:
        for server in servers.elements():
            return _from_template(server.text("url"), server.at("variables"), address)
    return _from_template("/", None, address)


def swagger_server(root: DocumentPart, schemes: DocumentPart, address: str) -> BaseUrl | None:
    """Return the server of a document of version 2.0."""
    host, base = root.text("host"), root.text("basePath")
    names = [scheme.value for scheme in schemes.elements()]
    scheme = "https" if "https" in names or not names else names[0]
    if scheme not in {"http", "https"}:
        raise BadServerError(f"its scheme {scheme!r} is not http or https")
    base = "/" + base.lstrip("/")
    return _from_template(f"{scheme}://{host}{base}" if host else base, None, address)


def fixed_server(url: str) -> BaseUrl:
    """Return the server of a URL that the user has stated, which may begin with ``${NAME}``."""
    base = url.rstrip("/")
    if base.startswith("${"):
        return BaseUrl(base, (), {})
    return BaseUrl(base, (_host(base),), {})


def literal(text: str) -> str:
    """Return text of a document as text of a URL template, which is sent as it is."""
    return _STRAY.sub(lambda stray: "$$" if stray[0] == "$" else quote(stray[0], safe=""), text)


def _from_template(url: str, variables: DocumentPart | None, address: str) -> BaseUrl | None:
    if address:
        url = urljoin(address, url)
    scheme, separator, rest = url.partition("://")
    if not separator:
        return None
    authority, slash, path = rest.partition("/")
    # A host cannot depend on an argument, as users grant hosts.
    origin = _VARIABLE.sub(lambda name: _default(variables, name[1]), f"{scheme}://{authority}")
    host = _host(origin)
    pieces, position = list[str](), 0
    schemas: dict[str, JsonObject] = {}
    for match in _VARIABLE.finditer(path):
        pieces.append(_literal_path(path[position : match.start()]))
        position = match.end()
        name, default = match[1], _default(variables, match[1])
        if not default or not _SAFE_NAME.fullmatch(name):
            pieces.append(_literal_path(default))
            continue
        pieces.append(f"{{+{name}}}" if "/" in default else f"{{{name}}}")
        schemas[name] = _schema(variables, name, default)
    pieces.append(_literal_path(path[position:]))
    base = (origin + slash + "".join(pieces)).rstrip("/")
    return BaseUrl(base, (host,), schemas, tuple(_VARIABLE.findall(f"{scheme}://{authority}")))


def _literal_path(text: str) -> str:
    return literal(text).replace("?", "%3F")


def _host(url: str) -> str:
    try:
        origin, rest = origin_of(url)
    except CovaltError as error:
        raise BadServerError(f"the URL of its server is invalid: {error.message}") from None
    if rest.strip("/").startswith(("?", "#")):
        raise BadServerError("the URL of its server has a query or a fragment after the host")
    return origin.shown_host if origin.scheme == "https" else str(origin)


def _default(variables: DocumentPart | None, name: str) -> str:
    value: Any = variables.at(name, "default").value if variables else None
    return str(value) if isinstance(value, str | int | float) else ""


def _schema(variables: DocumentPart | None, name: str, default: str) -> JsonObject:
    schema: JsonObject = {"type": "string", "default": default}
    variable = variables.at(name) if variables else None
    if variable is None:
        return schema
    if variable.text("description"):
        schema["description"] = variable.text("description")
    values = [str(value.value) for value in variable.at("enum").elements()]
    if values:
        schema["enum"] = values if default in values else [default, *values]
    return schema
