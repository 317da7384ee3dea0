"""Compiler of an OpenAPI document: each operation becomes an HTTP tool, or is left out with a reason."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from covalt_git.compilers.compilation import Compilation, CompiledTool, LeftOut, name_clashes
from covalt_git.compilers.openapi import bodies
from covalt_git.compilers.openapi.arguments import OperationArguments
from covalt_git.compilers.openapi.documents import BadDocumentError, DocumentPart, Documents
from covalt_git.compilers.openapi.naming import NamedOperation, first_name, names_of
from covalt_git.compilers.openapi.parameters import (
    BadOperationError,
    add_parameters,
    merged_parameters,
    url_path,
)
from covalt_git.compilers.openapi.schemas import Schemas
from covalt_git.compilers.openapi.security import SecuritySchemes, UnsupportedSecurityError
from covalt_git.compilers.openapi.servers import (
    BadServerError,
    BaseUrl,
    fixed_server,
    server_of,
    swagger_server,
)
from covalt_git.errors import CovaltError, listed, nearest_name
from covalt_git.json_values.pointer import REF
from covalt_git.names import EVERYTHING, matches
from covalt_git.templating.url_templates import UrlTemplate, is_way_up

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from covalt_git.compilers.compilation import ArgumentPlace
    from covalt_git.compilers.openapi.documents import ReadFile
    from covalt_git.json_values import JsonObject

METHODS: Final = ("get", "head", "options", "post", "put", "patch", "delete")
"""The methods that ``http`` of a tool has."""

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_IDEMPOTENT = _SAFE | {"PUT", "DELETE"}
_NO_METHODS = frozenset({"parameters", "servers", "summary", "description", REF})
_SUCCESS = re.compile(r"2(?:[0-9]{2}|XX)", re.IGNORECASE)
_VERSION = re.compile(r"(2\.0|3\.[012])(?:\.[0-9]+(?:-\S+)?)?")


def compile_openapi(
    text: bytes | str,
    *,
    namespace: str,
    path: str = "openapi.yaml",
    read_file: ReadFile | None = None,
    held_names: Mapping[str, str] | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    base_url: str | None = None,
    address: str = "",
    sign_ins: Collection[str] = (),
) -> Compilation:
    """Return the tools of an OpenAPI document of version 2.0, 3.0, 3.1 or 3.2.

    ``path`` is the document's path in the folder of ``read_file``, which returns the content of another file there,
    or None.  ``held_names`` are the names of tools in the lock, by their ``upstream``.  ``include`` and ``exclude``
    are patterns of names.  ``base_url`` replaces all servers; relative ones begin at ``address``, the document's URL.
    ``sign_ins`` are the ids of entries of ``auth``: a scheme whose entry is not among them needs a secret.

    Raises:
        BadDocumentError: if the text is not such a document, or exceeds a limit.
    """
    documents = Documents(text, path, read_file)
    compiler = _Compiler(documents, namespace, base_url, address, sign_ins)
    return compiler.compile(held_names or {}, include, exclude)


class _Endpoint:
    """An operation with what its path has for it."""

    __slots__ = ("item", "method", "node", "path", "upstream")

    def __init__(self, path: str, method: str, item: DocumentPart, node: DocumentPart) -> None:
        self.path = path
        self.method = method
        self.item = item
        self.node = node
        self.upstream = f"{method} {path}"


class _Compiler:
    def __init__(
        self,
        documents: Documents,
        namespace: str,
        base_url: str | None,
        address: str,
        sign_ins: Collection[str],
    ) -> None:
        self._documents = documents
        self._faults = documents.faults
        self._root = documents.root
        self._namespace = namespace
        self._version = _version_of(self._root, documents.main.path)
        self._is_swagger = self._version == "2.0"
        self._base = fixed_server(base_url) if base_url else None
        self._address = address
        self._schemas = Schemas(documents, self._version)
        schemes = self._root.at("securityDefinitions")
        if not self._is_swagger:
            schemes = self._root.at("components", "securitySchemes")
        self._security = SecuritySchemes(documents, schemes, namespace, sign_ins)
        self._left_out: list[LeftOut] = []
        self._secrets: dict[str, set[str]] = {}
        self._argument_places: dict[str, dict[str, ArgumentPlace]] = {}

    def compile(
        self, held_names: Mapping[str, str], include: Sequence[str], exclude: Sequence[str]
    ) -> Compilation:
        endpoints = list(self._endpoints())
        _use_operation_ids(endpoints)
        operations = [
            NamedOperation(
                endpoint.method,
                endpoint.path,
                endpoint.node.text("operationId"),
                endpoint.upstream,
            )
            for endpoint in endpoints
        ]
        names = names_of(operations, held_names)
        tools: dict[str, CompiledTool] = {}
        included = set[str]()
        for name, endpoint in zip(names, endpoints, strict=True):
            patterns = [pattern for pattern in include if self._selects(pattern, name)]
            included.update(patterns)
            reason = self._why_excluded(endpoint, name, include, patterns, exclude)
            if not reason:
                try:
                    tools[name] = self._tool(endpoint)
                except (BadOperationError, BadServerError, UnsupportedSecurityError) as error:
                    reason = str(getattr(error, "message", error))
            if reason:
                self._leave_out(endpoint.upstream, reason, endpoint.node)
        for pattern in include:
            if pattern not in included:
                message = f"include: {pattern!r} matches no operation{_nearest(pattern, names)}"
                self._faults.add(self._root, message)
        self._leave_out_webhooks()
        title = self._root.at("info").text("title") or self._documents.main.path
        return Compilation(
            title=title,
            tools=dict(sorted(tools.items())),
            definitions=dict(sorted(self._schemas.definitions.items())),
            left_out=tuple(self._left_out),
            problems=self._faults.in_order(),
            secrets={name: tuple(sorted(hosts)) for name, hosts in sorted(self._secrets.items())},
            clashes=name_clashes(
                [first_name(operation) for operation in operations],
                names,
                [operation.upstream for operation in operations],
            ),
            argument_places=self._argument_places,
            sign_ins=self._security.entries,
        )

    def _endpoints(self) -> Iterator[_Endpoint]:
        """Yield the operations whose method ``http`` has, and report the others."""
        for path, written in self._root.at("paths").entries():
            item = self._documents.follow(written)
            if not isinstance(item.value, dict):
                if written.reference is None:
                    self._faults.add(written, "this is not a path item")
                continue
            for key, node in item.entries():
                if key in METHODS and isinstance(node.value, dict):
                    yield _Endpoint(path, key.upper(), item, node)
                elif key == "additionalOperations":
                    for method, other in node.all_entries():
                        self._leave_out_method(method, path, other)
                elif key not in _NO_METHODS and isinstance(node.value, dict):
                    self._leave_out_method(key.upper(), path, node)

    def _leave_out_method(self, method: str, path: str, node: DocumentPart) -> None:
        reason = f"requests have no method {method[:40]!r}"
        self._leave_out(f"{method} {path}", reason, node)

    def _leave_out(self, upstream: str, reason: str, node: DocumentPart) -> None:
        self._left_out.append(LeftOut(upstream, reason, node.place))

    def _leave_out_webhooks(self) -> None:
        for key in ("webhooks", "x-webhooks"):
            for name, node in self._root.at(key).all_entries():
                reason = "it is a webhook: the API sends the request"
                self._leave_out(f"webhook {name}", reason, node)

    def _selects(self, pattern: str, name: str) -> bool:
        return matches(pattern, name) or matches(pattern, f"{self._namespace}.{name}")

    def _why_excluded(
        self,
        endpoint: _Endpoint,
        name: str,
        include: Sequence[str],
        patterns: Sequence[str],
        exclude: Sequence[str],
    ) -> str:
        """Return why an operation is not wanted; empty if it is."""
        if include and not patterns:
            return "include does not select it"
        if any(self._selects(pattern, name) for pattern in exclude):
            return "exclude selects it"
        is_internal = endpoint.node.flag("x-internal") or endpoint.item.flag("x-internal")
        if is_internal and not set(patterns) - EVERYTHING:
            return "it is internal (x-internal); include can name it"
        return ""

    def _tool(self, endpoint: _Endpoint) -> CompiledTool:
        node, item = endpoint.node, endpoint.item
        _check_path(endpoint.path)
        server = self._server(endpoint)
        requirements = node.at("security")
        if requirements.value is None:
            requirements = self._root.at("security")
        credentials = self._security.of(requirements)
        arguments = OperationArguments()
        parameters = merged_parameters(
            self._documents, item.at("parameters"), node.at("parameters")
        )
        for parameter in parameters:
            if parameter.place == "header" and parameter.name.lower() == "authorization":
                is_required = parameter.node.flag("required")
                credentials = self._security.with_header(credentials, is_required=is_required)
        dropped = add_parameters(
            parameters, arguments, self._schemas, self._documents, credentials.places()
        )
        path = url_path(endpoint.path, arguments, self._documents, node)
        base = _add_variables(server, path, arguments)
        if self._is_swagger:
            consumes = _texts(node.at("consumes")) or _texts(self._root.at("consumes"))
            body = bodies.add_swagger_body(
                parameters, consumes, endpoint.method, arguments, self._schemas
            )
        else:
            body = bodies.add_body(
                node.at("requestBody"), endpoint.method, arguments, self._schemas, self._documents
            )
        request: JsonObject = {"method": endpoint.method, "url": base + path}
        request |= body.request
        for part, values in credentials.request().items():
            request[part] = request.get(part, {}) | values
        if arguments.places:
            request["parameters"] = arguments.places
        _check_request(request)
        for parameter, reason in dropped:
            self._leave_out(
                f"{endpoint.upstream}: the {parameter.place} parameter {parameter.name}",
                reason,
                parameter.node,
            )
        self._leave_out_parts(endpoint, body)
        self._argument_places[endpoint.upstream] = arguments.described_at
        for credential in credentials.values:
            if credential.sign_in:
                continue
            self._secrets.setdefault(credential.secret, set()).update(server.hosts)
        return CompiledTool(
            upstream=endpoint.upstream,
            title=node.text("summary").strip() or None,
            description=_description(node, item),
            input_schema=arguments.schema(),
            output_schema=self._output_schema(node),
            read_only=endpoint.method in _SAFE,
            idempotent=endpoint.method in _IDEMPOTENT,
            request=request,
            hosts=server.hosts,
            place=node.place,
        )

    def _server(self, endpoint: _Endpoint) -> BaseUrl:
        if self._base is not None:
            return self._base
        node, item, root = endpoint.node, endpoint.item, self._root
        if self._is_swagger:
            schemes = node.at("schemes") if node.at("schemes").value else root.at("schemes")
            server = swagger_server(root, schemes, self._address)
        else:
            lists = [part.at("servers") for part in (node, item, root)]
            server = server_of(lists, self._address)
        if server is None:
            name = self._security.secret_name("base_url")
            message = "the document does not state the host of the API"
            hint = f"set base_url of the source, or the value of {name}"
            self._faults.add(root, message, hint)
            return fixed_server(f"${{{name}}}")
        for variable in server.fixed:
            message = (
                f"the variable {variable[:80]!r} of the server has its default, as a host is fixed"
            )
            self._faults.add(
                root.at("servers"), message, "set base_url of the source for another host"
            )
        return server

    def _output_schema(self, operation: DocumentPart) -> JsonObject | None:
        """Return the schema of the answer with the lowest status of success."""
        responses = sorted(
            (code.upper(), node)
            for code, node in operation.at("responses").entries()
            if _SUCCESS.fullmatch(code)
        )
        for _, written in responses[:1]:
            response = self._documents.follow(written)
            schema = response.at("schema")
            contents = dict(response.at("content").all_entries())
            if contents:
                media = bodies.preferred(contents)
                if not bodies.is_json(media):
                    return None
                schema = self._documents.follow(contents[media]).at("schema")
            if schema.value is None or schema.at("type").value == "file":
                return None
            converted: Any = self._schemas.convert(schema, "response")
            return converted if isinstance(converted, dict) and converted else None
        return None

    def _leave_out_parts(self, endpoint: _Endpoint, body: bodies.Body) -> None:
        """Report the parts of an operation that no tool has."""
        for name, node in endpoint.node.at("callbacks").all_entries():
            reason = "it is a callback: the API sends the request"
            self._leave_out(f"{endpoint.upstream}: the callback {name}", reason, node)
        for _, written in endpoint.node.at("responses").entries():
            response = self._documents.follow(written)
            for name, node in response.at("links").all_entries():
                reason = "it is a link, and the operation that it names is a tool"
                self._leave_out(f"{endpoint.upstream}: the link {name}", reason, node)
        if body.is_xml:
            reason = "the body is a text, whose XML is not checked"
            self._leave_out(f"{endpoint.upstream}: the XML schema", reason, endpoint.node)


def _add_variables(server: BaseUrl, path: str, arguments: OperationArguments) -> str:
    """Add the variables of a server as arguments, and return the base of its URLs."""
    base = server.url
    for name, schema in server.variables.items():
        wire = name
        if f"{{{name}}}" in path:  # the argument of the path would also fill the variable
            wire = f"{name}_server"
            base = re.sub(rf"\{{(\+?){re.escape(name)}\}}", rf"{{\1{wire}}}", base)
        argument = arguments.free_name(name, "server")
        place = {"in": "path"} | ({"name": wire} if wire != argument else {})
        arguments.add(argument, schema, place)
    return base


def _version_of(root: DocumentPart, path: str) -> str:
    stated = (
        root.at("swagger").value if root.at("openapi").value is None else root.at("openapi").value
    )
    match = _VERSION.fullmatch(str(stated))
    if match is None:
        message = f"{path!r} is not an OpenAPI document of version 2.0, 3.0, 3.1 or 3.2"
        raise BadDocumentError(message, hint="it begins with swagger: '2.0' or openapi: 3.1.0")
    return match[1]


def _use_operation_ids(endpoints: Iterable[_Endpoint]) -> None:
    """Name each operation by its operationId, if no earlier operation has the same."""
    ids = set[str]()
    for endpoint in endpoints:
        operation_id = endpoint.node.text("operationId")
        if operation_id and operation_id not in ids:
            ids.add(operation_id)
            endpoint.upstream = operation_id


def _check_path(path: str) -> None:
    if not path.startswith("/"):
        raise BadOperationError("its path does not begin with /")
    if is_way_up(path):
        raise BadOperationError("its path has a . or .. segment")


def _check_request(request: JsonObject) -> None:
    try:
        UrlTemplate.parse(request["url"])
    except CovaltError as error:
        raise BadOperationError(f"its path is invalid: {error.message}") from None


def _description(node: DocumentPart, item: DocumentPart) -> str:
    """Return what an operation does; a deprecated one says so first."""
    summary, text = node.text("summary").strip(), node.text("description").strip()
    if not summary and not text:
        summary, text = item.text("summary").strip(), item.text("description").strip()
    if summary and text and not text.startswith(summary.rstrip(".")):
        text = f"{summary.rstrip('.')}.\n\n{text}"
    text = text or summary
    return f"Deprecated. {text}".strip() if node.flag("deprecated") else text


def _texts(node: DocumentPart) -> list[str]:
    return [element.value for element in node.elements() if isinstance(element.value, str)]


def _nearest(pattern: str, names: Iterable[str]) -> str:
    """Return the end of a message with the tools that a misspelt pattern may mean; empty if none is similar."""
    start = pattern.partition("*")[0].rstrip(".")
    groups = {name.partition(".")[0] for name in names}
    near = nearest_name(start, [*groups, *names])
    nearest = sorted(name for name in names if near in {name, name.partition(".")[0]})
    return f"; the nearest: {listed(nearest)}" if nearest else ""
