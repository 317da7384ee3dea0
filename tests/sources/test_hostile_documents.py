"""Hostile documents through `source add`: nothing is fetched or read elsewhere, and the rest of the document works."""

import builtins
import io
import json
import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.operations_client import Operations
from tests.sources.pets_api import document, write_document
from tests.wsgi_server import listening

URL = "https://api.example.com"
Cli = Callable[..., tuple[int, str]]


@pytest.fixture
def file(root: Path) -> Path:
    """A place for the document in a folder of its own, and an empty toolset ``shop``."""
    (root / "toolsets/shop").mkdir()
    manifest = 'id: shop\nname: Shop\nversion: "1"\n'
    (root / "toolsets/shop/toolset.yaml").write_text(manifest, encoding="utf-8")
    (root.parent / "documents").mkdir()
    return root.parent / "documents/shelter.json"


def add(cli: Cli, file: Path) -> tuple[int, str]:
    return cli("source", "add", "shop", str(file), "--no-terminal", "test")


def of_schema(schema: Any) -> dict[str, Any]:
    """Return the paths of an operation whose answer has a schema, and of a sound one."""
    ok = {"description": "-"}
    answer = ok | {"content": {"application/json": {"schema": schema}}}
    return {
        "/hostile": {"get": {"description": "-", "responses": {"200": answer}}},
        "/sound": {"get": {"description": "-", "responses": {"200": ok}}},
    }


def tools(cli: Cli) -> set[str]:
    code, text = cli("source", "show", "shop/shelter", "--json")
    assert code == 0, text
    return {tool["name"] for tool in json.loads(text)["tools"]}


@pytest.mark.parametrize(
    "reference",
    [
        "http://127.0.0.1:PORT/pet.json#/Pet",
        "//127.0.0.1:PORT/pet.json",
        "file:SECRET#/Pet",
        "file://SECRET",
        "SECRET",
        "../secret.json#/Pet",
        "parts/../../secret.json",
        "%2e%2e/secret.json",
        "..\\secret.json",
        "link.json#/Pet",
    ],
)
def test_a_reference_out_of_the_folder_gives_any_value_and_its_target_is_not_opened(
    root: Path, cli: Cli, file: Path, reference: str
) -> None:
    secret = root.parent / "secret.json"
    secret.write_text('{"Pet": {"type": "object", "title": "SECRET-CONTENT"}}', encoding="utf-8")
    file.with_name("link.json").symlink_to(secret)
    requests: list[str] = []

    def host(environ: Any, start: Any) -> list[bytes]:
        requests.append(environ["PATH_INFO"])
        start("200 OK", [("Content-Type", "application/json")])
        return [secret.read_bytes()]

    with listening(host) as port:
        target = reference.replace("PORT", str(port)).replace("SECRET", str(secret))
        write_document(file, URL, paths=of_schema({"$ref": target}))
        code, text = add(cli, file)
    assert code == 0, text
    assert tools(cli) == {"hostile.list", "sound.list"}
    assert requests == []
    stored = [path for path in (root / "toolsets").rglob("*") if path.is_file()]
    assert not [path for path in stored if b"SECRET-CONTENT" in path.read_bytes()]
    assert "shelter.json:" in cli("validate")[1]


@pytest.mark.rest
def test_deep_and_wide_documents_end_in_time_with_an_error_or_with_tools(
    root: Path, cli: Cli, file: Path
) -> None:
    deep = '{"allOf": [' * 20_000 + "{}" + "]}" * 20_000
    text = json.dumps(document(URL, paths=of_schema("DEEP"))).replace('"DEEP"', deep)
    file.write_text(text, encoding="utf-8")
    started = time.process_time()
    code, text = add(cli, file)
    assert code != 0
    assert "64" in text, text

    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]" for at in range(1, 12)]
    bomb = "\n".join(["openapi: 3.0.3", "info: {title: x, version: '1'}", "paths: {}", *levels])
    file.with_suffix(".yaml").write_text(bomb, encoding="utf-8")
    code, text = add(cli, file.with_suffix(".yaml"))
    assert code != 0
    assert "2000000" in text, text

    wide = {"allOf": [{"$ref": "#/components/schemas/Pet"}] * 20_000}
    write_document(file, URL, paths=of_schema(wide))
    code, text = add(cli, file)
    assert code == 0, text
    assert time.process_time() - started < 20
    assert not (root / "toolsets/shop/specs/shelter.yaml").exists()


def test_control_characters_of_names_are_in_no_name_file_or_line_of_the_terminal(
    cli: Cli, file: Path
) -> None:
    evil = "a\x1b[2J\u202e\r\n\0b"
    operation = {"operationId": evil, "summary": evil, "responses": {"200": {"description": "-"}}}
    paths = {f"/{evil}": {"get": operation}, **of_schema({})}
    write_document(file, URL, info={"title": evil, "version": "1"}, paths=paths)

    code, text = add(cli, file)

    assert code == 0, text
    for output in (text, cli("source", "show", "shop/shelter", "--all")[1], cli("tool", "list")[1]):
        assert not set("\x1b\u202e\r\0") & set(output), output
    assert all(name.isascii() and name.isprintable() for name in tools(cli))
    assert "CG" not in cli("validate", "toolsets/shop/toolset.yaml")[1]


@pytest.mark.parametrize(
    "server", ["http://169.254.169.254/latest", "http://10.0.0.5", "http://localhost:1", "/v1"]
)
def test_a_server_on_a_private_address_gets_no_request_without_a_grant(
    cli: Cli, file: Path, server: str
) -> None:
    write_document(file, URL, servers=[{"url": server}], security=[], paths=of_schema({}))
    code, text = add(cli, file)
    assert code == 0, text
    cli("chat", "new", "--id", "c1")

    code, text = cli("call", "c1", "shelter:sound.list")

    assert code != 0
    assert "may not reach" in text or "SHELTER_BASE_URL" in text


def test_validate_of_an_unchanged_lock_parses_no_specification(
    cli: Cli, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_document(file, URL)
    assert add(cli, file)[0] == 0
    opened: list[tuple[str, set[str]]] = []

    def counted(opener: Callable[..., Any]) -> Callable[..., Any]:
        def opens(name: Any, *args: Any, **how: Any) -> Any:
            stack = traceback.extract_stack(limit=12)
            opened.append((str(name), {frame.name for frame in stack}))
            return opener(name, *args, **how)

        return opens

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a specification is compiled")

    monkeypatch.setattr(io, "open", counted(io.open))
    monkeypatch.setattr(builtins, "open", counted(builtins.open))
    monkeypatch.setattr(os, "open", counted(os.open))
    monkeypatch.setattr("covalt_git.sources.documents.compile_document", refused)
    assert cli("validate")[0] == 0
    assert [name for name, _ in opened if name.endswith("locks/shelter.yaml")]
    readers = [stack for name, stack in opened if name.endswith("specs/shelter.json")]
    # The digest of a toolset hashes all of its files, this one too.
    assert readers
    assert all("read_bundle" in stack for stack in readers), readers


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize(
    ("url", "fields", "place"),
    [
        (f"https://a.example/{'x' * 2001}", {}, "document.url"),
        ("ftp://a.example/", {}, "url"),
        ("https://a.example/a b", {}, "url"),
        (None, {"a b": ["id"]}, "fields"),
    ],
)
def test_values_that_no_source_can_have_are_refused_with_their_field(
    root: Path, url: str | None, fields: dict[str, list[str]], place: str
) -> None:
    opened = {"name": "a.json", "files": {"a.json": json.dumps(document(URL))}, "url": url}
    ask = Operations(root)
    requests = [("add_source", {"toolset_id": "shop", "document": opened, "fields": fields})]
    requests += [("check_document", {"document": opened})] if not fields else []

    for name, request in requests:
        error = ask.error(name, **request)
        assert error.http_status in {400, 422}
        assert [problem.path.startswith(place) for problem in error.problems] == [True]
