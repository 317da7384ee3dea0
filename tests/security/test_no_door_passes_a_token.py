"""No way into or out of a project writes or prints a token of a known format, wherever a document has it."""

import base64
import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from covalt_git.credentials.leaks import credentials, is_token
from covalt_git.credentials.named_values import announced_credentials
from covalt_git.errors import CovaltError
from covalt_git.formats.credentials.literal_credentials import replace_credentials
from covalt_git.problems import codes
from tests.api_client import BEARER, HOME, Api
from tests.credentials.test_leaks import LETTERS, made
from tests.examples import covering, examples, one_in
from tests.operations_client import Operations
from tests.security.test_tokens_in_every_position import AROUND, TOKENS

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "c", "default": "d", "enum": ["d"]}},
}
SERVERS: dict[str, Any] = {
    "mcpServers": {
        "local": {"command": "npx", "args": ["-y", "pack"], "env": {"REGION": "eu"}},
        "remote": {"type": "http", "url": "https://h.example/mcp", "headers": {"X-Of": "v"}},
    }
}
TOOLS = {"tools": [{"name": "w", "title": "W", "description": "d", "inputSchema": SCHEMA}]}
ENTRY: dict[str, Any] = {
    "tool_id": "w",
    "name": "W",
    "description": "d",
    "version": "1.0.0",
    "x-note": {"deep": ["n"]},
    "protocol_meta": {"mcp": {"tool": "data-lab:summarize"}},
}
MANIFEST: dict[str, Any] = {
    "manifest_version": "1",
    "id": "door",
    "name": "Door",
    "version": "1",
    "description": "d",
    "extensions": {"note": {"deep": ["n"]}},
    "mcp_servers": [{"id": "far", "command": "npx", "args": ["-y"], "env": {"REGION": "eu"}}],
    "tools": [
        {
            "id": "w",
            "name": "W",
            "description": "d",
            "input_schema": SCHEMA,
            "http": {"url": "https://h.example/w", "query": {"city": "$args.city", "of": "x"}},
        }
    ],
}
DOCUMENTS: dict[str, Any] = {
    "claude-code": SERVERS,
    "mcp-tools": TOOLS,
    "tool-entry": {"tools": [ENTRY]},
}
"""Documents by their formats."""

NAMED: dict[str, Any] = {
    "key": {"api_key": "CANARY"},
    "key with dots": {"openai.api.key": "CANARY"},
    "argument with dots": {"args": ["-Dopenai.api.key=CANARY"]},
    "sibling name": {"headers": [{"name": "X-Api-Key", "value": "CANARY"}]},
    "sibling name after": {"list": [{"value": "CANARY", "name": "password"}]},
    "sibling key": {"list": [{"key": "Authorization", "value": "Bearer CANARY"}]},
    "sibling id": {"list": [{"id": "client_secret", "default": "CANARY"}]},
    "label": {"list": [{"label": "API key", "value": "CANARY"}]},
    "values": {"list": [{"name": "token", "values": ["CANARY"]}]},
    "around": {"variables": {"api_key": {"value": "CANARY"}}},
    "password input": {"inputs": [{"id": "k", "password": True, "default": "CANARY"}]},
    "secret variable": {"variables": {"k": {"isSecret": True, "value": "CANARY"}}},
    "sensitive setting": {"user_config": {"k": {"sensitive": True, "default": "CANARY"}}},
    "default": {"properties": {"api_key": {"type": "string", "default": "CANARY"}}},
    "const": {"properties": {"password": {"type": "string", "const": "CANARY"}}},
    "examples": {"properties": {"token": {"type": "string", "examples": ["a", "CANARY"]}}},
    "enum": {"properties": {"secret": {"type": "string", "enum": ["CANARY", "b"]}}},
    "flag": {"args": ["--api-key", "CANARY"]},
    "pair": {"list": [["X-Api-Key", "CANARY"]]},
    "one of many flags": {"args": ["-c", "x --verbose --api-key CANARY --b --c d"]},
    "last of many flags": {"args": ["-c", "x --verbose --a b --password 'CANARY'"]},
    "flags of an argument": {"args": ["--options=--a 1 --token=CANARY --b"]},
    "user of a URL": {"url": "https://CANARY@a.example/mcp"},
    "user of a URL in a command": {"args": ["git+https://CANARY@a.example/r.git"]},
    "user with a plain password": {"url": "https://CANARY:x-oauth-basic@a.example/r"},
    "document in a text": {"note": '{"name": "X-Api-Key", "value": "CANARY"}'},
    "words of camel case": {"headers": {"subscriptionKey": "CANARY"}},
    "key of a service": {"env": {"OPENWEATHER_KEY": "CANARY"}},
    "number after the word": {"env": {"SERVICE_KEY1": "CANARY"}},
    "flag of camel case": {"args": ["--encryptionKey", "CANARY"]},
    "name of a header": {"env": {"AUTH_HEADER": "ApiKey CANARY"}},
    "name of a file": {"passwordFile": "CANARY"},
    "user and value": {"basicAuth": "ann:CANARY"},
    "document in a document": {"args": [json.dumps(json.dumps({"exaApiKey": "CANARY"}))]},
    "list in an argument": {"args": ["--h", '[{"name": "Authorization", "value": "CANARY"}]']},
    "default without a colon": {"env": {"API_KEY": "${API_KEY-CANARY}"}},
    "default in a default": {"env": {"CONF": "${API_KEY:-${B:-CANARY}}"}},
    "joined words": {"env": {"SMTPPASS": "CANARY"}},
    "keys of a service": {"env": {"OPENWEATHER_KEYS": "CANARY"}},
    "cookie": {"cookies": {"session": "CANARY"}},
    "document in an argument": {"args": ["--json", '[{"value": "CANARY", "key": "api_key"}]']},
}
"""Documents with a value whose name says that it is a credential, by the place of this name."""

FILES = ["README.md", "tools/more.py", "artifacts/page.html", "assets/data.json"]
DOORS = settings(
    max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
tokens = st.sampled_from(sorted(TOKENS.values()))
around = st.sampled_from(AROUND)
random_values = (
    st.lists(st.sampled_from(LETTERS), min_size=20, max_size=40).map("".join).filter(is_token)
)


def planted(document: Any, text: str, choose: random.Random) -> Any:
    """Return a document with a text added to one of its texts."""
    places = list(texts(document))
    place = choose.choice(places)

    def copy(value: Any, path: tuple[Any, ...]) -> Any:
        match value:
            case dict():
                return {key: copy(inner, (*path, key)) for key, inner in value.items()}
            case list():
                return [copy(inner, (*path, position)) for position, inner in enumerate(value)]
        return choose.choice([text, f"{value} {text}"]) if path == place else value

    return copy(document, ())


def texts(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    match value:
        case dict():
            for key, inner in value.items():
                yield from texts(inner, (*path, key))
        case list():
            for position, inner in enumerate(value):
                yield from texts(inner, (*path, position))
        case str():
            yield path


def outcome(perform: Callable[..., Any], *args: Any, **request: Any) -> str:
    """Return the result or the error of an operation as its caller gets it."""
    try:
        result = perform(*args, **request)
    except CovaltError as error:
        return json.dumps([error.as_json(), str(error)], ensure_ascii=False)
    return json.dumps(result, ensure_ascii=False)


def decoded(answer: str) -> str:
    """Return a result with the contents of its files in it."""
    result = json.loads(answer)
    files = result.get("files", []) if isinstance(result, dict) else []
    contents = [
        base64.b64decode(one["content"]).decode("utf-8", "replace")
        if one.get("encoding") == "base64"
        else str(one)
        for one in files
    ]
    return answer + "".join(contents)


def written(root: Path, token: str) -> list[str]:
    """Return the files of the project that contain a token."""
    return [
        file.relative_to(root).as_posix()
        for file in root.rglob("*")
        if file.is_file() and token.encode() in file.read_bytes()
    ]


def make_toolset(root: Path, manifest: Any, file: str | None = None, text: str = "") -> Path:
    """Write a toolset outside of ``toolsets/``, with a text in one of its files."""
    folder = root / "door"
    (folder / "tools").mkdir(parents=True, exist_ok=True)
    for name in FILES:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        content = f"{text}\n" if name == file else "x\n"
        path.write_text(f"# {content!r}\n" if name.endswith(".py") else content, encoding="utf-8")
    manifest_text = json.dumps(manifest, ensure_ascii=False)
    (folder / "toolset.yaml").write_text(manifest_text, encoding="utf-8")
    return folder


def make_leaky_toolset(root: Path, text: str, file: str | None, choose: random.Random) -> Path:
    """Write a toolset with a text in a file, or at a random place of its manifest."""
    manifest = MANIFEST if file else planted(MANIFEST, text, choose)
    return make_toolset(root, manifest, file, text)


@given(st.sampled_from(sorted(DOCUMENTS)), tokens, around, st.randoms())
@DOORS
def test_convert_writes_and_prints_none(
    operate: Operations,
    tmp_path_factory: pytest.TempPathFactory,
    source_format: str,
    token: str,
    around: str,
    choose: random.Random,
) -> None:
    folder = tmp_path_factory.mktemp("converted")
    source = folder / "tools.json"
    source.write_text(json.dumps(planted(DOCUMENTS[source_format], around.format(token), choose)))

    for target in ("toolset", "claude-code", "mcp-tools", "tool-entry"):
        output = folder / f"to-{target}"
        answer = outcome(
            operate,
            "convert_file",
            path=source,
            source_format=source_format,
            target_format=target,
            output=output,
        )
        shown = outcome(
            operate, "convert_file", path=source, source_format=source_format, target_format=target
        )
        assert token.lower() not in (answer + decoded(shown)).lower()
    source.unlink()
    assert written(folder, token) == []


def test_without_a_token_the_same_documents_pass_every_door(
    operate: Operations, api: Api, tmp_path: Path
) -> None:
    """Otherwise the tests of this module would pass for another reason."""
    for source_format, document in DOCUMENTS.items():
        source, output = tmp_path / "tools.json", tmp_path / source_format
        source.write_text(json.dumps(document))
        # A list of definitions has no way to call its tools, so it makes no toolset.
        target = "tool-entry" if source_format == "mcp-tools" else "toolset"
        request = {"path": source, "source_format": source_format, "target_format": target}
        operate("convert_file", **request, output=output)
        assert output.exists()
    folder = make_toolset(tmp_path, MANIFEST)
    operate("import_toolset_from", source=str(folder))
    problems = operate("validate")["problems"]
    assert [problem for problem in problems if problem["severity"] == "error"] == []
    zipped = tmp_path / "door.zip"
    operate("write_bundle", toolset_id="door", path=zipped)
    assert "id" in unpacked(zipped)
    answer = api.client().post("/v1/tools", json=ENTRY, base_url=HOME, headers=BEARER)
    assert answer.status_code == 201


@given(tokens, around, st.sampled_from([None, *FILES]), st.randoms())
@DOORS
def test_validate_reports_each_and_prints_none(
    operate: Operations, token: str, around: str, file: str | None, choose: random.Random
) -> None:
    folder = make_leaky_toolset(operate.root / "toolsets", around.format(token), file, choose)
    answer = operate("validate", paths=[folder])

    assert codes.CREDENTIAL in {problem["code"] for problem in answer["problems"]}
    assert token.lower() not in json.dumps(answer, ensure_ascii=False).lower()


@given(tokens, around, st.sampled_from([None, *FILES]), st.randoms())
@DOORS
def test_no_bundle_with_one_is_imported(
    operate: Operations,
    tmp_path_factory: pytest.TempPathFactory,
    token: str,
    around: str,
    file: str | None,
    choose: random.Random,
) -> None:
    elsewhere = tmp_path_factory.mktemp("bundle")
    folder = make_leaky_toolset(elsewhere, around.format(token), file, choose)

    answer = outcome(operate, "import_toolset_from", source=str(folder))

    assert token.lower() not in answer.lower()
    assert written(operate.root, token) == []


@given(tokens, around, st.sampled_from([None, *FILES]), st.randoms())
@DOORS
def test_no_bundle_with_one_is_exported(
    operate: Operations,
    tmp_path_factory: pytest.TempPathFactory,
    token: str,
    around: str,
    file: str | None,
    choose: random.Random,
) -> None:
    make_leaky_toolset(operate.root / "toolsets", around.format(token), file, choose)
    zipped = tmp_path_factory.mktemp("bundle") / "door.zip"

    for request in ({}, {"placeholders": True}, {"allow_guesses": True}):
        answer = outcome(operate, "write_bundle", toolset_id="door", path=zipped, **request)
        assert token.lower() not in answer.lower()
        assert not zipped.exists() or token not in unpacked(zipped)
        zipped.unlink(missing_ok=True)


def unpacked(file: Path) -> str:
    with ZipFile(file) as archive:
        return "".join(archive.read(name).decode("utf-8", "replace") for name in archive.namelist())


@given(tokens, around, st.randoms())
@DOORS
def test_no_entry_with_one_is_registered(
    operate: Operations, api: Api, token: str, around: str, choose: random.Random
) -> None:
    entry = planted(ENTRY, around.format(token), choose)

    answer = api.client().post("/v1/tools", json=entry, base_url=HOME, headers=BEARER)

    assert answer.status_code in {400, 422}
    assert token not in answer.get_data(as_text=True)
    assert written(operate.root, token) == []


@pytest.mark.parametrize(
    "change",
    [
        {"description": f"password: {made(24)}"},
        {"description": f"see postgres://u:{made(12)}@db.internal/x"},
        {"x-note": {"headers": {"Authorization": f"Bearer {made(32)}"}}},
        {"x-note": {"url": f"https://h.example/?api_key={made(32)}"}},
    ],
    ids=str,
)
def test_no_entry_with_what_looks_like_a_credential_is_registered(
    operate: Operations, api: Api, change: dict[str, Any]
) -> None:
    answer = api.client().post("/v1/tools", json=ENTRY | change, base_url=HOME, headers=BEARER)

    assert answer.status_code == 400, answer.get_json()
    assert [*(operate.root / "toolsets/state").glob("registered/*")] == []


def named(place: str, value: str) -> Any:
    """Return a document with a value whose name has that place."""
    return json.loads(json.dumps(NAMED[place]).replace("CANARY", value))


@pytest.mark.parametrize("place", one_in(10, NAMED))
@given(random_values)
@settings(max_examples=examples(3), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_door_passes_a_value_whose_name_says_that_it_is_a_credential(
    operate: Operations,
    api: Api,
    tmp_path_factory: pytest.TempPathFactory,
    place: str,
    value: str,
) -> None:
    folder = tmp_path_factory.mktemp("doors")
    fragment = named(place, value)
    answers = []

    # conversion, of the formats that have such places
    schema = SCHEMA | {"properties": {"a": {"default": fragment}, **fragment.get("properties", {})}}
    server = {"command": "npx", "args": ["-y"], **fragment}
    documents = {
        "claude-code": {"mcpServers": {"local": server}, **fragment},
        "vscode": {"servers": {"local": server}, **fragment},
        "mcp-tools": {"tools": [{**TOOLS["tools"][0], "inputSchema": schema, "_meta": fragment}]},
        "tool-entry": {"tools": [{**ENTRY, **fragment}]},
        "mcp-server-json": {
            "name": "io.example/s",
            "description": "d",
            "version": "1.0.0",
            "remotes": [{"type": "streamable-http", "url": "https://a.example/mcp", **fragment}],
        },
    }
    for source_format, document in documents.items():
        source = folder / "tools.json"
        source.write_text(json.dumps(document))
        for target in ("toolset", "cursor", "openai", "tool-entry", source_format):
            request = {"source_format": source_format, "target_format": target}
            answer = outcome(operate, "convert_file", path=source, **request)
            answers.append(answer + decoded(answer))
        source.unlink()

    # checks, export and import of a toolset
    manifest = MANIFEST | {"extensions": {"note": fragment}}
    make_toolset(operate.root / "toolsets", manifest)
    found = operate("validate")
    answers.append(json.dumps(found))
    assert codes.CREDENTIAL in {problem["code"] for problem in found["problems"]}
    zipped = folder / "door.zip"
    answers.append(outcome(operate, "write_bundle", toolset_id="door", path=zipped))
    assert not zipped.exists()
    elsewhere = make_toolset(folder, manifest)
    answers.append(outcome(operate, "import_toolset_from", source=str(elsewhere)))

    # registration
    entry = ENTRY | {"x-note": fragment}
    response = api.client().post("/v1/tools", json=entry, base_url=HOME, headers=BEARER)
    answers.append(response.get_data(as_text=True))
    assert response.status_code == 400

    assert [answer for answer in answers if value in answer] == []


@pytest.mark.parametrize(
    ("place", "value"),
    covering([*NAMED], ["q7ZxKp$2Lw4Vb8Nd3Rt6q7", "q7ZxKp$Lw4Vb8Nd3", "q7ZxKp!Lw4Vb8Nd3"]),
)
def test_a_value_with_a_mark_is_seen_at_each_place(place: str, value: str) -> None:
    fragment = named(place, value)

    assert credentials(json.dumps(fragment)) or any(announced_credentials(fragment))
    for document in ({"mcpServers": {"a": {"command": "npx", **fragment}}}, {"x-note": fragment}):
        assert value not in json.dumps(replace_credentials(document)[0])


@pytest.mark.parametrize(
    "args",
    [
        ["-c", "x --v --api-key CANARY --b"],
        ["https://CANARY@a.ex/r"],
        ["-Dopenai.api.key=CANARY"],
    ],
)
def test_no_text_about_a_missing_grant_has_a_credential(
    operate: Operations, args: list[str]
) -> None:
    value = made(24)
    filled = [text.replace("CANARY", value) for text in args]
    servers = [{"id": "far", "command": "sh", "args": filled}]
    make_toolset(operate.root / "toolsets", MANIFEST | {"mcp_servers": servers})

    found = operate("validate")

    assert "may not start sh" in json.dumps(found["lacking"])
    assert value not in json.dumps(found)


REFERENCES = [
    *("${X}", "$X", "$${X}", "${X:-app}", "${X:-${Y}}", "${env:X}", "${{ secrets.X }}", "{env:X}"),
    *("{{x}}", "{x}", "<X>", "%X%", "%(x)s", "$(X)"),
]
LOGIN_PREFIXES = ["", "--db=", "DATABASE_URI=", "jdbc:", "psql ", '{"db":"']
PASSWORD = "J1q7ZxKp2Lw4Vb8Nd3Rt6"


@pytest.mark.parametrize(
    ("prefix", "place", "reference"),
    covering(LOGIN_PREFIXES, ["app", "db.example", "5432", "/x"], REFERENCES),
)
def test_the_password_of_a_url_with_a_reference_in_it_is_found(
    prefix: str, place: str, reference: str
) -> None:
    url = "postgresql://app:PASSWORD@db.example:5432/x"
    new = f"/{reference}" if place == "/x" else reference
    end = '"}' if prefix.startswith("{") else ""
    text = prefix + url.replace(place, new).replace("PASSWORD", PASSWORD) + end
    server = {"command": "x", "args": ["-e", text], "env": {"V": text}, "url": text}

    changed, notes = replace_credentials({"mcpServers": {"a": server}})

    assert [one.value for one in credentials(text)] == [PASSWORD]
    assert PASSWORD not in json.dumps(changed)
    assert notes


URLS_OF_REFERENCES = [
    *(f"postgres://{one}:{one}@{one}:{one}/{one}" for one in REFERENCES if "-" not in one),
    *(f"postgres://app:{one}@db.example/x" for one in REFERENCES if "-" not in one),
    *(
        "https://${HOST}:8080/a@b",
        "https://${HOST}:8080?mail=a@b.example",
        "https://${H}/a:b@c",
    ),
    *(
        "https://h.example:${PORT}?mail=a@b.example",
        "https://${U}@h.example/x",
        "ssh://git@${H}/x",
    ),
    *("https://ann@corp.example:8080/x@y", "postgres://app:${P:-${Q}}@db.example/x"),
]


@pytest.mark.parametrize(("prefix", "url"), covering(LOGIN_PREFIXES, URLS_OF_REFERENCES))
def test_a_url_of_references_has_no_password(prefix: str, url: str) -> None:
    text = prefix + url + ('"}' if prefix.startswith("{") else "")
    server = {"command": "x", "args": ["-e", text], "env": {"V": text}}
    document = {"mcpServers": {"a": server}}

    assert credentials(text) == []
    if "%" in url or "$(" in url:  # no host of MCP servers replaces these
        return
    assert replace_credentials(document) == (document, [])


@pytest.mark.parametrize(
    "text",
    [
        *("redis://:{}@${{HOST}}/0", "amqp://a.example,amqp://${{U}}:{}@b.example"),
        *("postgres://${{U}}:{}@/x?host=/socket", "--repo=https://{}@${{HOST}}/x"),
        *("https://ann@corp.example:{}@h.example/x", "postgres://app:${{P:-{}}}@db.example/x"),
        *("DSN=postgres://${{U}}:$${{P:-{}}}@${{H}}/x", "postgres://a@b:${{P-{}}}@db.example/x"),
        *("--repo=https://{}:${{NOTHING}}@${{HOST}}/x", "jdbc:mysql://svc$:{}@h.example/x"),
    ],
)
def test_other_forms_of_a_login_are_found(text: str) -> None:
    text = text.format(PASSWORD)

    changed, _ = replace_credentials({"mcpServers": {"a": {"command": "x", "args": [text]}}})

    assert [one.value for one in credentials(text)] == [PASSWORD]
    assert PASSWORD not in json.dumps(changed)


@pytest.mark.parametrize("value", ["short", "pass@w0rd", "admin", "1@2pass", "pre-${X}"])
def test_convert_replaces_a_password_that_does_not_look_random(value: str) -> None:
    document = {"command": "x", "args": [f"--dsn=postgres://${{U}}:{value}@${{HOST}}/x"]}

    changed, _ = replace_credentials({"mcpServers": {"a": document}})

    assert changed["mcpServers"]["a"]["args"] == ["--dsn=postgres://${U}:${A_PASSWORD}@${HOST}/x"]


UNITS = [
    *("://{", "://a:", "://${a", "://{a}{", "://{{x}{", "://<", "://a:@", "://a:b@", "://$a"),
    *("://%(a", "://{a:{b", "{{x}", "@a", "://a:{{x}{", "a@:{", "://a@b:", "://a:${P:-b}"),
]


@pytest.mark.rest
@pytest.mark.parametrize(("start", "unit"), covering(["", "://", "://a:", "://a:{"], UNITS))
def test_a_text_of_logins_is_searched_fast(start: str, unit: str) -> None:
    text = start + unit * 20_000
    began = time.process_time()

    credentials(text)
    replace_credentials({"mcpServers": {"a": {"command": "x", "args": [text]}}})

    assert time.process_time() - began < 3
