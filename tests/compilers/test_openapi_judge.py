"""A judge that shares no code with the compiler: a local server checks and decodes each request by openapi-core."""

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, reject, settings
from openapi_core import Config, OpenAPI
from openapi_core.contrib.werkzeug import WerkzeugOpenAPIRequest
from werkzeug import Request, Response
from werkzeug.datastructures import Headers

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
from tests.compilers import openapi_2
from tests.compilers.schema_values import plain, values
from tests.wsgi_server import listening

ROOT = Path(__file__).parents[2]
OWN = sorted(file for file in (ROOT / "fixtures" / "openapi").glob("*/shelter.*"))
SHARED = sorted(
    file
    for file in (ROOT.parent / "shared" / "data" / "openapi").glob("*-[23].*")
    # openapi-core reads neither labels and matrices nor styles of forms: test_openapi_shared.py has their bytes.
    if not file.name.startswith("parameters-style")
)
LARGE_SHARED = {
    *("netlify-2.0", "petstore-3.0", "slack-web-2.0", "spotify-3.0", "train-travel-3.1"),
    *("twilio-verify-v2-3.0", "uber-2.0", "xero-files-3.0"),
}
QUERIES = {"all"}
"""Arguments whose keys are the whole query."""

UNSENT = {
    "shelter-2.0": {
        "colors": "openapi-core separates a list with spaces at a literal %20",
        "areas": "3.0 has no list with tabs",
    },
    "shelter-3.1": {"area": "openapi-core reads no object that is one parameter for each key"},
}
"""Arguments, all optional, that openapi-core cannot read, with the reason; the goldens have their styles.

No operation is left out.
"""

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
            "path": {
                # A name with other characters is written with `_` in a URL.
                re.sub(r"\W", "_", name): value
                for name, value in _unquoted(plain(parameters.path)).items()
            },
            "query": plain(parameters.query),
            "header": {name.lower(): plain(value) for name, value in parameters.header.items()},
            "cookie": plain(parameters.cookie),
            "body": plain(result.body),
        }
        return Response("{}", mimetype="application/json")(environ, start_response)


class _Request(WerkzeugOpenAPIRequest):
    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.parameters.header = Headers(request.environ["RAW_HEADERS"])

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
        elif place == "query" and wire in QUERIES:
            sent[place] |= value
        elif place is not None:
            sent[place][wire.lower() if place == "header" else wire] = value
    return sent | {"body": body}


LARGE = 40
"""Tools of a document that says the same in most of its operations."""


@pytest.mark.parametrize(
    "every",
    [pytest.param(10, id="some"), pytest.param(1, marks=pytest.mark.rest, id="all")],
)
@pytest.mark.parametrize(
    "file",
    [
        *(pytest.param(file, id=file.parent.name) for file in OWN),
        *(
            pytest.param(
                file, id=file.name, marks=pytest.mark.rest if file.stem in LARGE_SHARED else ()
            )
            for file in SHARED
        ),
    ],
)
def test_each_request_is_valid_and_decoded_as_the_arguments_that_were_sent(
    file: Path, judge: Judge, every: int
) -> None:
    text = file.read_text(encoding="utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    document = json.loads(text) if file.suffix == ".json" else yaml.load(text, loader)
    document = json.loads(json.dumps(document, default=str))
    _remove_servers(document)
    compilation = compile_openapi(
        json.dumps(document), namespace="judged", path="judged.json", base_url=judge.base
    )
    if "swagger" in document:
        document = _in_3_0(file, document)
        for path, item in document["paths"].items():
            if path.endswith("{animal id}") and "put" in item:
                # Any text can be the argument, and openapi-core reads XML.
                item["put"]["requestBody"]["content"]["application/xml"] = {}
        _remove_servers(document)
    document["servers"] = [{"url": judge.base}]
    _simplify(document, has_security=file in OWN)
    judge.document = OpenAPI.from_dict(
        _readable(document),
        config=Config(spec_validator_cls=None, extra_media_type_deserializers=_BODIES),
    )

    unsent = UNSENT.get(file.parent.name, {}).keys()
    names = sorted(compilation.tools)
    problems = [
        problem
        for name in names[:: every if len(names) > LARGE else 1]
        for problem in _judged(compilation, name, judge, unsent)
    ]

    assert problems == [], "\n".join(problem[:600] for problem in problems)


def _in_3_0(file: Path, document: Any) -> Any:
    if file == openapi_2.OWN:
        return json.loads(openapi_2.CONVERTED.read_text(encoding="utf-8"))
    if not openapi_2.CONVERTER.exists():
        pytest.skip("make servers installs the converter")
    return openapi_2.converted(document)


def _remove_servers(document: dict[str, Any]) -> None:
    for item in document["paths"].values():
        item.pop("servers", None)
        for operation in item.values():
            if isinstance(operation, dict):
                operation.pop("servers", None)


def _simplify(document: dict[str, Any], *, has_security: bool) -> None:
    """Remove what openapi-core does not know from a document, or write it in another way that means the same."""
    schemes = document.get("components", {}).get("securitySchemes", {})
    readable = {name for name, scheme in schemes.items() if scheme["type"] in {"apiKey", "http"}}
    if not has_security:
        document.pop("security", None)
    items = document.get("components", {}).get("pathItems", {})
    for path, item in list(document["paths"].items()):
        whole = document["paths"][path] = items.get(item.get("$ref", "").rpartition("/")[2], item)
        for operation in (part for part in whole.values() if isinstance(part, dict)):
            if has_security and "security" in operation:
                parts = [part for part in operation["security"] if part.keys() <= readable]
                operation["security"] = parts
            else:
                operation.pop("security", None)
            parameters = operation.get("parameters", [])
            for query in [part for part in parameters if part.get("in") == "querystring"]:
                # Its value is in the query as a whole, as are parameters of their own.
                [content] = query["content"].values()
                parameters.remove(query)
                parameters += [
                    {"name": name, "in": "query", "schema": schema}
                    for name, schema in content["schema"]["properties"].items()
                ]
        for parameter in whole.get("parameters", ()):
            if parameter.get("style") == "label":  # of one value: it begins with a dot
                del document["paths"][path], parameter["style"]
                parameter[
                    "schema"
                ] = {}  # instead of a list of types, which openapi-core does not read
                name = f"{{{parameter['name']}}}"
                document["paths"][path.replace(name, f".{name}")] = whole


_FORMATS = {"date", "date-time", "uuid", "byte", "binary", "int32", "int64", "float", "double"}


_PLACES = {
    "https://shelter.example/tail": "#/components/schemas/Dog/properties/tail",
    "#person": "#/components/schemas/Person",
    "Dog": "#/components/schemas/Dog",
}


def _readable(value: Any) -> Any:
    """Return a document without formats that openapi-core does not know, and without defaults, which it adds.

    Schemas are referred to by their places: openapi-core would fetch those with a URL.
    """
    if isinstance(value, str):
        return _PLACES.get(value, value)
    if isinstance(value, dict):
        return {
            key: _readable(inner)
            for key, inner in value.items()
            if not (key == "format" and isinstance(inner, str) and inner not in _FORMATS)
            and not (key == "default" and not isinstance(inner, dict))
        }
    return [_readable(inner) for inner in value] if isinstance(value, list) else value


def _text(content: bytes, **_: Any) -> str:
    return content.decode("utf-8", "surrogateescape")


_BODIES: dict[str, Any] = {
    "application/merge-patch+json": lambda content, **_: json.loads(content),
    "application/xml": _text,
    "image/jpeg": _text,
}
"""How bodies are read whose media types openapi-core does not know, or that need not be XML."""


def _judged(
    compilation: Compilation, name: str, judge: Judge, unsent: AbstractSet[str]
) -> list[str]:
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
        args = {key: value for key, value in args.items() if key not in unsent}
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
