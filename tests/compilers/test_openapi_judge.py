"""A judge that shares no code with the compiler: a local server checks and decodes each request by openapi-core."""

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, reject, settings
from openapi_core import Config, OpenAPI
from openapi_core.contrib.werkzeug import WerkzeugOpenAPIRequest
from werkzeug import Request, Response

from covalt_git import json_values
from covalt_git.compilers.compilation import Compilation
from covalt_git.compilers.openapi import compile_openapi
from covalt_git.hosts import HostRule, Reach
from covalt_git.http_client import Deadline, HttpClient
from covalt_git.http_tools.request import BadRequestError, RequestBuilder
from covalt_git.json_values import json_schema
from covalt_git.models.http_placement import placement
from covalt_git.models.tool_properties import HttpBody, HttpRequest
from covalt_git.templating.references import Reference
from tests.compilers.schema_values import plain, values
from tests.wsgi_server import listening

ROOT = Path(__file__).parents[2]
OWN = sorted(
    file
    for file in (ROOT / "fixtures" / "openapi").glob("*/shelter.*")
    if file.parent.name.startswith("shelter-3")
)
SHARED = sorted(
    file
    for file in (ROOT.parent / "shared" / "data" / "openapi").glob("*-3.*")
    # openapi-core reads neither labels and matrices nor styles of forms: test_openapi_styles.py has their bytes.
    if not file.name.startswith("parameters-style")
)
UNJUDGED = {
    # Its path has a label, or its security scheme is not described.
    "shelter-3.1": {"animals.get", "animals.delete", "animals.create", "owners.list"},
    # A parameter in querystring; a body of a DELETE.
    "shelter-3.2": {"animals.list"},
    # Contents of files whose schema is not binary, and a header with `_`, which WSGI drops.
    "petstore-3.0.yaml": {"pet.delete"},
    "petstore-3.1.yaml": {"pet.delete", "pet.upload_image.create"},
    "spotify-3.0.yaml": {"playlists.images.update"},
}
"""Tools whose requests openapi-core cannot read; the goldens have them."""

FILE = b"\x89PNG\0"


class Judge:
    """A server that knows one document, and what it decoded from the last request."""

    def __init__(self) -> None:
        self.document: OpenAPI | None = None
        self.errors: list[str] = []
        self.decoded: dict[str, Any] = {}
        self.base = ""

    def __call__(self, environ: Any, start_response: Any) -> Any:
        request = Request(environ)
        assert self.document is not None
        self.errors = ["the judge failed"]
        result = self.document.unmarshal_request(_Request(request))
        self.errors = [f"{error!r} {error.__cause__!r}" for error in result.errors]
        parameters = result.parameters
        self.decoded = {
            "path": _unquoted(plain(parameters.path)),
            "query": plain(parameters.query),
            "header": {name.lower(): plain(value) for name, value in parameters.header.items()},
            "cookie": plain(parameters.cookie),
            "body": plain(result.body),
        }
        return Response("{}", mimetype="application/json")(environ, start_response)


class _Request(WerkzeugOpenAPIRequest):
    @property
    def path(self) -> str:
        # As it was sent: the path of WSGI is decoded, so that an encoded slash would separate.
        return str(self.request.environ["RAW_URI"]).partition("?")[0]


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    judge = Judge()
    with listening(judge) as port:
        judge.base = f"http://127.0.0.1:{port}"
        yield judge


def _unquoted(value: Any) -> Any:
    """Return a value of a path, which openapi-core does not decode."""
    return json_values.with_texts(value, unquote, keys=True)


def lookup(_: Reference) -> str:
    return "c2VjcmV0OnM="


def expected(http: HttpRequest, args: dict[str, Any]) -> dict[str, Any]:
    """Return what the server should decode, by place."""
    places = placement(http)
    sent: dict[str, Any] = {name: {} for name in ("path", "query", "header", "cookie")}
    body: Any = {}
    for name, value in args.items():
        is_json = http.body == "json" and places.place_of(name) == "body"
        # A null, and a list or an object without items, are no value outside of JSON.
        if not is_json and not isinstance(http.body, HttpBody) and value in (None, [], {}):
            continue
        parameter = http.parameters.get(name)
        place = places.place_of(name)
        wire = (parameter.name if parameter else None) or name
        if parameter is not None and parameter.file:
            value = [FILE] * len(value) if isinstance(value, list) else FILE  # noqa: PLW2901
        if isinstance(http.body, HttpBody) and place == "body":
            body = FILE if http.body.file else value
        elif place == "body":
            body[wire] = value
        elif place is not None:
            sent[place][wire.lower() if place == "header" else wire] = value
    return sent | {"body": body}


@pytest.mark.parametrize(
    "file",
    [*OWN, *SHARED],
    ids=lambda file: file.name if file in SHARED else file.parent.name,
)
def test_each_request_is_valid_and_decoded_as_the_arguments_that_were_sent(
    file: Path, judge: Judge
) -> None:
    text = file.read_text(encoding="utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    document = json.loads(text) if file.suffix == ".json" else yaml.load(text, loader)
    document = json.loads(json.dumps(document, default=str))
    document["servers"] = [{"url": judge.base}]
    for item in document["paths"].values():
        item.pop("servers", None)
        for operation in item.values():
            if isinstance(operation, dict):
                operation.pop("servers", None)
    compilation = compile_openapi(
        json.dumps(document), namespace="judged", path="judged.json", base_url=judge.base
    )
    _simplify(document, has_security=file in OWN)
    judge.document = OpenAPI.from_dict(
        _without_unknown_formats(document), config=Config(spec_validator_cls=None)
    )

    unjudged = UNJUDGED.get(file.parent.name) or UNJUDGED.get(file.name, set())
    assert unjudged <= compilation.tools.keys()
    names = sorted(compilation.tools.keys() - unjudged)
    problems = [problem for name in names for problem in _judged(compilation, name, judge)]

    assert problems == [], "\n".join(problem[:600] for problem in problems)


def _simplify(document: dict[str, Any], *, has_security: bool) -> None:
    """Remove what openapi-core does not know: client certificates, OAuth2, and headers with `_` over WSGI."""
    schemes = document.get("components", {}).get("securitySchemes", {})
    unknown = {name for name, scheme in schemes.items() if scheme.get("type") == "mutualTLS"}
    if not has_security:
        document.pop("security", None)
    for item in document["paths"].values():
        for operation in item.values():
            if not isinstance(operation, dict) or "security" not in operation:
                continue
            if has_security:
                parts = [part for part in operation["security"] if not unknown & part.keys()]
                operation["security"] = parts
            else:
                del operation["security"]


_FORMATS = {"date", "date-time", "uuid", "byte", "binary", "int32", "int64", "float", "double"}


def _without_unknown_formats(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_unknown_formats(inner)
            for key, inner in value.items()
            if not (key == "format" and isinstance(inner, str) and inner not in _FORMATS)
        }
    return (
        [_without_unknown_formats(inner) for inner in value] if isinstance(value, list) else value
    )


def _judged(compilation: Compilation, name: str, judge: Judge) -> list[str]:
    """Return the problems of three calls of a tool with arguments that its schema allows."""
    tool = compilation.tools[name]
    http = HttpRequest.model_validate(tool.request)
    schema = tool.input_schema | {"$defs": dict(compilation.definitions)}
    problems: list[str] = []
    calls = 0

    @settings(
        max_examples=3,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(values(tool.input_schema, compilation.definitions))
    def call(args: dict[str, Any]) -> None:
        nonlocal calls
        if json_schema.value_problems(schema, args):
            reject()
        args = json_schema.with_defaults(schema, args)
        try:
            request = RequestBuilder(http, args, lookup, lookup, lambda _: FILE).build()
        except BadRequestError:
            reject()
        client = HttpClient(Reach((HostRule.parse(judge.base.removeprefix("http://")),)))
        client.send(request, Deadline(20))
        calls += 1
        problems.extend(f"{name}: {args}: {error}" for error in judge.errors)
        sent = expected(http, args)
        for place, value in sent.items():
            decoded = judge.decoded[place]
            if not judge.errors and not _same(value, decoded):
                problems.append(f"{name}: {place}: sent {value!r}, decoded {decoded!r}")

    call()
    return problems if calls else [*problems, f"{name}: no arguments could be sent"]


def _same(sent: Any, decoded: Any) -> bool:
    """Return whether a decoded value is the one sent; defaults that the server adds do not count."""
    if isinstance(sent, dict):
        others = decoded if isinstance(decoded, dict) else {}
        return all(
            _same(value, others.get(key)) for key, value in sent.items() if value is not None
        )
    if isinstance(sent, list) and isinstance(decoded, list):
        return len(sent) == len(decoded) and all(map(_same, sent, decoded))
    if isinstance(sent, str) and isinstance(decoded, str) and re.fullmatch(r"\d{4}-.*Z", sent):
        return sent.rstrip("Z")[:19] == decoded[:19]
    if isinstance(sent, str) and sent in {"YWJj", "eA=="}:
        return decoded in (sent, b64decode(sent).decode())
    if isinstance(sent, bytes) and isinstance(decoded, str):
        return sent.decode("utf-8", "surrogateescape") == decoded
    if isinstance(decoded, str) and isinstance(sent, int | float):
        return json.dumps(sent) == decoded  # the document says nothing about the type
    return bool(sent == decoded)
