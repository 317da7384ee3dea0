"""An OpenAPI document becomes tools: added, accepted, granted and called through each interface."""

import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from mcp import Client

import covalt_git
from covalt_git.sources.adding import kind_of
from tests.sources.pets_api import KEY, document, served, write_document
from tests.wsgi_server import listening

MANIFEST = 'id: shop\nname: Shop\nversion: "1"\n\n# The end.\n'
Cli = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served() as address:
        yield address


@pytest.fixture
def file(root: Path, url: str) -> Path:
    """The document of the API, and an empty toolset ``shop``."""
    (root / "toolsets/shop").mkdir()
    (root / "toolsets/shop/toolset.yaml").write_text(MANIFEST, encoding="utf-8")
    return write_document(root.parent / "shelter.json", url)


def add(cli: Cli, file: Path | str, *more: str) -> str:
    code, text = cli("source", "add", "shop", str(file), *more, "--no-terminal", "test")
    assert code == 0, text
    return text


def granted(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELTER_APIKEY", KEY)
    code, text = cli("grant", "add", "shop", "--requested", "--no-terminal", "test")
    assert code == 0, text


def snapshot(root: Path) -> dict[str, bytes]:
    files = (root / "toolsets").rglob("*")
    return {str(path.relative_to(root)): path.read_bytes() for path in files if path.is_file()}


class DocumentHost:
    """A WSGI app that serves a document, and counts its requests."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.requests = 0

    def __call__(self, _: Any, start: Any) -> list[bytes]:
        self.requests += 1
        start("200 OK", [("Content-Type", "application/json")])
        return [self._content]


def call(cli: Cli, tool: str, *more: str, **args: Any) -> Any:
    code, text = cli("call", "c1", f"shelter:{tool}", json.dumps(args), *more, "--json")
    assert code == 0, text
    return json.loads(text)["result"]


@pytest.mark.requirement("toolshed-sources")
@pytest.mark.requirement("toolshed-sources.openapi")
def test_pets_are_created_read_updated_and_deleted_by_commands_an_agent_and_python(
    root: Path,
    cli: Cli,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    mcp: Callable[..., Any],
) -> None:
    text = add(cli, file)
    assert "5 tools, 3 of them writing" in text
    assert "SHELTER_APIKEY" in text
    granted(cli, monkeypatch)
    cli("chat", "new", "--id", "c1")
    assert cli("validate")[0] == 0
    for tool in ("create", "update", "delete"):
        # A writing call needs approval until the project says otherwise.
        code, answer = cli("call", "c1", f"shelter:pets.{tool}", '{"petId": 1, "name": "x"}')
        assert code != 0, answer
        command = ("tool", "override", f"shelter:pets.{tool}", "--no-confirm")
        assert cli(*command, "--no-terminal", "test")[0] == 0

    assert call(cli, "pets.create", name="Ada", tag="cat") == {"id": 1, "name": "Ada", "tag": "cat"}
    assert call(cli, "pets.get", petId=1)["name"] == "Ada"
    assert [pet["id"] for pet in call(cli, "pets.list", tag="cat")] == [1]

    async def say(client: Client) -> list[Any]:
        answers = []
        for name, args in (
            ("update", {"petId": 1, "name": "Bob"}),
            ("get", {"petId": 1}),
        ):
            result = await client.call_tool(f"shelter.pets.{name}", args)
            assert not result.is_error, result
            answers.append(result.structured_content)
        return answers

    assert [answer["name"] for answer in mcp(say)] == ["Bob", "Bob"]

    with covalt_git.open_project(root) as project:
        chat = project.chat("c1")
        created: Any = chat.call("shelter:pets.create", {"name": "Cid"})
        assert created.value["id"] == 2
        assert chat.call("shelter:pets.delete", {"petId": 2}).status == "success"
        listed: Any = chat.call("shelter:pets.list", {})
        assert len(listed.value) == 1


def test_a_document_is_copied_and_declared_and_the_rest_of_the_manifest_stays(
    root: Path, cli: Cli, file: Path
) -> None:
    add(cli, file, "--id", "pets", "--include", "pets.*", "--exclude", "*.delete")

    manifest = (root / "toolsets/shop/toolset.yaml").read_text(encoding="utf-8")
    assert manifest.startswith(MANIFEST)
    assert (root / "toolsets/shop/specs/shelter.json").read_bytes() == file.read_bytes()
    _, text = cli("source", "show", "shop/pets", "--json")
    detail = json.loads(text)
    assert [tool["name"] for tool in detail["tools"]] == [
        "pets.create",
        "pets.get",
        "pets.list",
        "pets.update",
    ]
    assert {tool["state"] for tool in detail["tools"]} == {"accepted"}


def test_a_credential_in_a_document_is_a_warning_of_its_lock(
    root: Path, cli: Cli, file: Path
) -> None:
    text = json.loads(file.read_text(encoding="utf-8"))
    text["info"]["x-login"] = {"password": {"shown": False, "value": "Zk3qv9XwT7uLr2Yb8Nc1"}}
    file.write_text(json.dumps(text), encoding="utf-8")

    add(cli, file)

    faults = yaml.safe_load((root / "toolsets/locks/shelter.yaml").read_text())["faults"]
    assert [(fault["code"], fault["path"]) for fault in faults] == [("CG212", "specs/shelter.json")]
    assert "Zk3qv9XwT7uLr2Yb8Nc1" not in json.dumps(faults)
    code, text = cli("validate")
    assert (code, text.count("CG212")) == (0, 1)


def test_files_beside_the_document_are_copied_and_files_elsewhere_are_not(
    root: Path, cli: Cli, file: Path, url: str
) -> None:
    file.unlink()
    schema = {"$ref": "parts/pet.json#/Pet"}
    broken = {"$ref": "../outside.json#/Pet"}
    paths = {
        f"/{name}": {
            "get": {
                "operationId": name,
                "description": name,
                "responses": {
                    "200": {
                        "description": "-",
                        "content": {"application/json": {"schema": reference}},
                    }
                },
            }
        }
        for name, reference in (("inside", schema), ("outside", broken))
    }
    folder = root.parent / "documents"
    (folder / "parts").mkdir(parents=True)
    (folder / "parts/pet.json").write_text('{"Pet": {"type": "object"}}', encoding="utf-8")
    (root.parent / "outside.json").write_text('{"Pet": {"type": "object"}}', encoding="utf-8")
    write_document(folder / "api.json", url, paths=paths)

    text = add(cli, folder / "api.json")

    specs = root / "toolsets/shop/specs"
    assert sorted(str(path.relative_to(specs)) for path in specs.rglob("*") if path.is_file()) == [
        "api.json",
        "parts/pet.json",
    ]
    assert "specs/api.json" in text
    problems = [line for line in cli("validate")[1].splitlines() if "api.json:" in line]
    assert len(problems) == 1
    assert "outside" in problems[0]


@pytest.mark.parametrize(
    "fault", ["not a document", "no operation", "manifest", "namespace", "fields", "lock"]
)
def test_a_source_that_cannot_be_added_changes_no_file(
    root: Path, cli: Cli, file: Path, url: str, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    more: tuple[str, ...] = ()
    match fault:
        case "not a document":
            file.write_text("[1, 2", encoding="utf-8")
        case "no operation":
            write_document(file, url, paths={})
        case "manifest":
            text = 'id: shop\nname: Shop\nversion: "1"\nsources: []\n'
            (root / "toolsets/shop/toolset.yaml").write_text(text, encoding="utf-8")
        case "namespace":
            more = ("--id", "app-builder")
        case "fields":
            more = ("--fields", "pets.list=[].nmae")
        case "lock":

            def fails(*_: object) -> None:
                raise OSError(28, "No space left on device")

            monkeypatch.setattr("covalt_git.sources.adding.find_source", fails)
    before = snapshot(root)

    code, _ = cli("source", "add", "shop", str(file), *more, "--no-terminal", "test")

    assert code != 0
    assert snapshot(root) == before


def test_a_changed_document_is_reviewed_as_a_diff_and_marks_what_breaks_callers(
    cli: Cli, file: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(cli, file)
    granted(cli, monkeypatch)
    cli("chat", "new", "--id", "c1")
    call(cli, "pets.list")
    changed = document(url)
    del changed["paths"]["/pets/{petId}"]["delete"]
    (parameter,) = changed["paths"]["/pets"]["get"]["parameters"]
    parameter["required"] = True
    changed["paths"]["/toys"] = {"get": {"description": "Toys.", "responses": {}}}
    file.write_text(json.dumps(changed), encoding="utf-8")

    code, _ = cli("source", "refresh", "shop", "--from", str(file), "--no-terminal", "test")

    assert code == 1
    code, text = cli("source", "diff", "shop", "--fail-on-breaking", "--json")
    assert code == 1
    (source,) = json.loads(text)["sources"]
    tools = {tool["name"]: tool for tool in source["to_accept"]}
    assert {name: tool["kind"] for name, tool in tools.items()} == {
        "pets.delete": "gone",
        "pets.list": "changed",
        "toys.list": "new",
    }
    assert tools["pets.delete"]["breaking"]
    assert tools["pets.list"]["breaking"]
    assert (tools["pets.list"]["recorded_calls"], tools["pets.list"]["refused_calls"]) == (1, 1)
    assert tools["toys.list"]["breaking"] == []
    assert cli("call", "c1", "shelter:pets.list", '{"tag": "cat"}')[0] != 0
    text = cli("call", "c1", "shelter:pets.delete", '{"petId": 1}')[1]
    assert "did you mean" not in text
    assert "covalt-git source diff shop/shelter" in text
    again = "covalt-git grant add shop --again"
    code, text = cli("source", "accept", "shop", "--no-terminal", "test")
    assert code == 0
    # What the acceptance ended, and the same command wherever the grant is missed.
    assert "shop network has ended" in text
    assert "shop secret-SHELTER_APIKEY has ended" in text
    assert text.count(again) == 1
    for command in (["source", "refresh", "shop"], ["validate"], ["grant", "list"]):
        assert again in cli(*command)[1]
    assert again in cli("call", "c1", "shelter:pets.list", '{"tag": "cat"}')[1]
    listed = json.loads(cli("grant", "list", "shop", "--json")[1])["lacking"]
    assert json.loads(cli("validate", "--json")[1])["lacking"] == listed
    assert cli("grant", "add", "shop", "--again", "--no-terminal", "test")[0] == 0
    assert call(cli, "pets.list", tag="cat") == []


def test_a_new_version_of_a_document_is_reported_with_its_faults(
    cli: Cli, file: Path, url: str
) -> None:
    add(cli, file)
    changed = document(url)
    changed["paths"]["/toys"] = {
        "get": {"description": "Toys.", "responses": {"200": {"$ref": "#/no/toy"}}}
    }
    file.write_text(json.dumps(changed), encoding="utf-8")

    for more in (["--check"], []):
        text = cli("source", "refresh", "shop", "--from", str(file), *more, "--no-terminal", "t")[1]
        assert text.count("$ref '#/no/toy'") == 1


def test_a_toolset_whose_tools_wait_for_acceptance_does_not_have_every_grant(
    cli: Cli, file: Path
) -> None:
    code, text = cli("source", "add", "shop", str(file))
    assert code == 0
    steps = ["source accept shop/shelter", "then covalt-git grant add shop --requested"]
    assert [text.index(step) for step in steps] == sorted(text.index(step) for step in steps)

    for more in ([], ["--dry-run"]):
        code, text = cli("grant", "add", "shop", "--requested", *more)
        assert code == 0
        assert "5 tools are not accepted yet" in text
        assert "every grant that it requests" not in text
        assert "hint: covalt-git source accept shop/shelter" in text


def test_a_new_optional_argument_does_not_break_callers(cli: Cli, file: Path, url: str) -> None:
    add(cli, file)

    def marks(**parameter: Any) -> list[str]:
        changed = document(url)
        changed["paths"]["/pets"]["get"]["parameters"].append(
            {"name": "breed", "in": "query", "schema": {"type": "string"}} | parameter
        )
        changed["paths"]["/toys"] = {"get": {"description": "Toys.", "responses": {}}}
        file.write_text(json.dumps(changed), encoding="utf-8")
        cli("source", "refresh", "shop", "--from", str(file), "--no-terminal", "test")
        lines = [line.strip() for line in cli("source", "diff", "shop")[1].splitlines()]
        return [
            line.partition(": ")[0]
            for line in lines
            if line.endswith((" is changed", " is new")) or "callers" in line
        ]

    listed = ["~ shelter:pets.list is changed", "does not break callers"]
    toys = ["+ shelter:toys.list is new", "does not break callers"]
    assert marks() == [*listed, *toys]
    changed = marks(required=True)
    assert set(changed[1 : -len(toys)]) == {"breaks callers"}


def test_errors_name_the_document_that_was_given_and_what_was_expected(
    root: Path, cli: Cli, file: Path
) -> None:
    script = root.parent / "srv.py"
    script.write_text('"""A server.\n\nIt says: hello."""\nimport json\n', encoding="utf-8")

    text = cli("source", "add", "shop", str(script), "--no-terminal", "test")[1]
    assert "'srv.py' cannot be read as an API document" in text
    assert text.count("more text after the quoted text") == 1

    add(cli, file)
    text = cli("source", "add", "shop", str(file), "--no-terminal", "test")[1]
    assert "covalt-git source refresh shop/shelter --from FILE" in text
    assert "covalt-git source accept shop/shelter" in text

    for content in ("[1, 2", "openapi: 3.0.3\n"):
        bad = root.parent / "bad.yaml"
        bad.write_text(content, encoding="utf-8")
        text = cli("source", "refresh", "shop", "--from", str(bad), "--no-terminal", "test")[1]
        assert "bad.yaml" in text
        assert "shelter.json" not in text


def test_validate_reports_an_include_that_matches_nothing(cli: Cli, file: Path) -> None:
    add(cli, file, "--include", "pets.*", "--include", "store.*")

    (line,) = [line for line in cli("validate")[1].splitlines() if "store.*" in line]
    assert "toolsets/shop/specs/shelter.json:1:1: CG222 warning" in line


def test_an_unchanged_document_gives_an_equal_lock(root: Path, cli: Cli, file: Path) -> None:
    add(cli, file)
    before = snapshot(root)

    assert cli("source", "refresh", "shop", "--check")[0] == 0
    assert cli("source", "refresh", "shop")[0] == 0
    assert snapshot(root) == before


def test_a_removed_source_leaves_nothing(root: Path, cli: Cli, file: Path) -> None:
    before = snapshot(root)
    add(cli, file)

    assert cli("source", "remove", "shop/shelter")[0] == 0

    after = snapshot(root)
    # The empty line before the list stays, as the rest of a hand-written file.
    manifest = after.pop("toolsets/shop/toolset.yaml")
    assert manifest.split() == before.pop("toolsets/shop/toolset.yaml").split()
    assert after == before


def test_new_and_changed_tools_of_a_document_need_a_grant_and_the_others_keep_theirs(
    root: Path, cli: Cli, file: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def error_of(tool: str, args: str = "{}") -> str:
        code, text = cli("call", "c1", tool, args, "--json")
        return "grant_needed" if '"grant_needed"' in text else "" if code == 0 else text

    def listing() -> dict[str, list[str]]:
        _, text = cli("grant", "list", "shop", "--json")
        return {row["key"]: row["changed"] for row in json.loads(text)["grants"]}

    add(cli, file, "--include", "pets.list", "--include", "pets.get")
    granted(cli, monkeypatch)
    cli("chat", "new", "--id", "c1")
    assert error_of("shelter:pets.list") == ""

    # A second source sends the secret of the first to the same host.
    manifest = root / "toolsets/shop/toolset.yaml"
    films = document(url, security=[])
    films["paths"] = {"/pets": {"get": {**films["paths"]["/pets"]["get"], "operationId": "films"}}}
    (root / "toolsets/shop/specs/films.json").write_text(json.dumps(films), encoding="utf-8")
    declared = (
        "  - id: films\n    type: openapi\n    spec: specs/films.json\n"
        '    headers: {X-Key: "${SHELTER_APIKEY}"}\n'
    )
    text = manifest.read_text(encoding="utf-8").replace("sources:\n", f"sources:\n{declared}")
    manifest.write_text(text, encoding="utf-8")
    code, text = cli("source", "refresh", "shop/films", "--accept", "--no-terminal", "test")
    assert code == 0, text
    (film,) = {
        word.rstrip(",:") for word in cli("tool", "list")[1].split() if word.startswith("films:")
    }

    assert error_of(film) == "grant_needed"
    assert error_of("shelter:pets.list") == ""
    # All commands agree: the grant is for the tools of the first source only.
    assert all("shelter:pets.list" in change for (change,) in listing().values())
    commands = json.loads(cli("toolset", "show", "shop", "--json")[1])["lacking"]
    assert {row["command"] for row in commands} == {"covalt-git grant add shop --again"}
    shown = cli("authority", "show", "shop")[1]
    for key, (change,) in listing().items():
        assert f"ended grants: {key}: {change}" in shown
    (row,) = [line for line in shown.splitlines() if film in line]
    assert row.endswith("which is not granted")
    granted(cli, monkeypatch)
    assert error_of(film) == ""
    assert set(map(tuple, listing().values())) == {()}

    # An operation that changes needs a grant again; the others keep theirs.
    changed = document(url)
    (parameter,) = changed["paths"]["/pets"]["get"]["parameters"]
    parameter["name"] = "kind"
    file.write_text(json.dumps(changed), encoding="utf-8")
    cli("source", "refresh", "shop/shelter", "--from", str(file), "--no-terminal", "test")
    assert cli("source", "accept", "shop/shelter", "--no-terminal", "test")[0] == 0
    assert error_of("shelter:pets.list") == "grant_needed"
    assert error_of("shelter:pets.get", '{"petId": 1}') != "grant_needed"
    assert error_of(film) == ""
    code, text = cli("grant", "add", "shop", "--again", "--no-terminal", "test")
    assert (code, error_of("shelter:pets.list")) == (0, ""), text


def test_a_removed_source_names_the_grants_that_it_leaves(
    cli: Cli, file: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(cli, file)
    granted(cli, monkeypatch)

    _, text = cli("source", "remove", "shop/shelter")

    commands = [line.partition("covalt-git ")[2] for line in text.splitlines() if "revoke" in line]
    host = url.removeprefix("http://")
    assert [command.split()[3:] for command in commands] == [
        ["network", host],
        ["secret", "SHELTER_APIKEY", host],
    ]
    for command in commands:
        assert cli(*command.split())[0] == 0
    assert json.loads(cli("grant", "list", "shop", "--json")[1])["grants"] == []


def test_a_document_without_a_server_asks_for_the_url_of_the_api(
    cli: Cli, url: str, file: Path
) -> None:
    other = file.parent / "nosrv.json"
    other.write_text(json.dumps(document(url, servers=[])), encoding="utf-8")

    text = add(cli, other)

    assert "names no server" in text
    assert "NOSRV_BASE_URL, the URL of the API" in text
    assert "grant add" not in text
    assert "source accept" not in text
    assert cli("source", "remove", "shop/nosrv")[0] == 0
    options = ("--id", "pets", "--include", "pets.**", "--fields", "pets.list=[].name")
    text = add(cli, other, *options)
    again = f"source add shop {other} {shlex.join(options)} --base-url URL"
    assert f"covalt-git source remove shop/pets\n        covalt-git {again}" in text
    assert cli("source", "remove", "shop/pets")[0] == 0
    assert "names no server" in add(cli, other)
    assert cli("source", "remove", "shop/nosrv")[0] == 0
    assert "names no server" not in add(cli, other, "--base-url", url)


def test_fields_are_what_callers_get_and_the_record_has_the_whole_answer(
    cli: Cli,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    mcp: Callable[..., Any],
) -> None:
    add(cli, file, "--fields", "pets.get=id,owner.city")
    granted(cli, monkeypatch)
    cli("chat", "new", "--id", "c1")
    cli("tool", "override", "shelter:pets.create", "--no-confirm", "--no-terminal", "test")
    pet = call(cli, "pets.create", name="Eve", owner={"city": "Oslo", "zip": "1"})

    assert call(cli, "pets.get", petId=pet["id"]) == {"id": pet["id"], "owner": {"city": "Oslo"}}

    async def say(client: Client) -> Any:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        answer = (tools["shelter.pets.get"].output_schema or {})["anyOf"][0]
        assert answer["properties"].keys() == {"id", "owner"}
        result = await client.call_tool("shelter.pets.get", {"petId": pet["id"]})
        texts: list[str] = [getattr(part, "text", "") for part in result.content]
        (link,) = [text for text in texts if "read_result" in text]
        arguments = json.loads(link.partition("read_result ")[2])
        whole = await client.call_tool("read_result", arguments)
        return result.structured_content, getattr(whole.content[0], "text", "")

    short, whole = mcp(say)
    assert short == {"id": pet["id"], "owner": {"city": "Oslo"}}
    assert json.loads(whole)["owner"] == {"city": "Oslo", "zip": "1"}


def test_an_answer_that_does_not_fit_its_schema_is_returned_whole_with_a_note(
    cli: Cli, file: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = document(url)
    other["components"]["schemas"]["Pet"]["properties"]["id"] = {"type": "string", "readOnly": True}
    file.write_text(json.dumps(other), encoding="utf-8")
    add(cli, file)
    granted(cli, monkeypatch)
    cli("chat", "new", "--id", "c1")
    cli("tool", "override", "shelter:pets.create", "--no-confirm", "--no-terminal", "test")

    code, text = cli("call", "c1", "shelter:pets.create", '{"name": "Fay"}', "--json")

    answer = json.loads(text)
    assert (code, answer["status"], answer["result"]["name"]) == (0, "success", "Fay")
    assert "does not match output_schema" in answer["output"]


def test_the_doctor_reports_what_agents_miss_with_its_place(cli: Cli, file: Path) -> None:
    code, text = cli("source", "doctor", str(file), "--strict", "--json")

    assert code == 1
    result = json.loads(text)
    kinds = {(finding["upstream"], finding["kind"]) for finding in result["findings"]}
    assert ("getPet", "no_description") in kinds
    assert ("listPets", "argument_without_description") in kinds
    assert all(finding["line"] > 0 for finding in result["findings"])
    assert result["list_tokens"] > result["search_tokens"] // 2 > 0


def test_mistakes_about_a_document_name_what_it_has(cli: Cli, file: Path, url: str) -> None:
    code, text = cli("source", "add", "shop", str(file), "--include", "pest.**")
    assert code == 1
    assert "'pest.**' matches no operation; the nearest: pets.create, pets.delete" in text

    empty = file.parent / "empty.json"
    empty.write_text(json.dumps(document(url, paths={})), encoding="utf-8")
    assert cli("source", "doctor", str(empty))[0] == 1

    with listening(DocumentHost(file.read_bytes())) as port:
        location = f"http://127.0.0.1:{port}/shelter"
        assert cli("source", "doctor", location, "--no-terminal", "test")[0] == 0


def test_a_secret_that_a_toolset_lacks_is_named_with_the_file(cli: Cli, file: Path) -> None:
    add(cli, file)
    text = cli("grant", "add", "shop", "secret", "NOPE", "--no-terminal", "test")[1]
    assert "add NOPE to secrets of toolsets/shop/toolset.yaml" in text


def test_the_doctor_names_every_argument_without_description_at_its_place(
    cli: Cli, file: Path, url: str
) -> None:
    changed = document(url)
    silent = [f"q{number}" for number in range(9)]
    changed["paths"]["/pets"]["get"]["parameters"] = [
        {"name": name, "in": "query", "schema": {"type": "string"}} for name in silent
    ]
    content = json.dumps(changed, indent=2)
    file.write_text(content, encoding="utf-8")

    findings = json.loads(cli("source", "doctor", str(file), "--json")[1])["findings"]

    lines = content.splitlines()
    of_list = [
        finding
        for finding in findings
        if (finding["upstream"], finding["kind"]) == ("listPets", "argument_without_description")
    ]
    assert [finding["message"].split("'")[1] for finding in of_list] == silent
    # A place is that of the parameter, whose first line is a brace.
    named = [lines[finding["line"]].strip() for finding in of_list]
    assert named == [f'"name": "{name}",' for name in silent]
    # A field of the body has the place of its own schema.
    of_body = {
        lines[finding["line"] - 1].split('"')[1]
        for finding in findings
        if finding["upstream"] == "addPet"
    }
    assert of_body >= {"owner", "tag"}
    text = cli("source", "doctor", str(file))[1]
    assert sum("listPets: the argument" in line for line in text.splitlines()) == 5
    assert "'q4' has no description, and 4 more have none" in text


def test_the_doctor_reports_names_that_clash_however_they_were_solved(
    cli: Cli, file: Path, url: str
) -> None:
    changed = document(url)
    answer = {"responses": {"200": {"description": "-"}}}
    changed["paths"] = {
        "/pets": {"get": answer | {"operationId": "listPets"}},
        "/v2/pets": {"get": answer | {"operationId": "listNewPets"}},
        "/toys": {"get": answer},
    }
    file.write_text(json.dumps(changed), encoding="utf-8")

    findings = json.loads(cli("source", "doctor", str(file), "--json")[1])["findings"]

    clashes = {
        finding["upstream"]: finding["message"]
        for finding in findings
        if finding["kind"] == "name_clash"
    }
    assert clashes.keys() == {"listPets", "listNewPets"}
    assert all(word in clashes["listPets"] for word in ("pets.list", "list_pets", "listNewPets"))


def test_a_url_is_fetched_once_after_its_host_is_confirmed(
    root: Path, cli: Cli, file: Path
) -> None:
    with listening(host := DocumentHost(file.read_bytes())) as port:
        location = f"http://127.0.0.1:{port}/shelter.json"
        code, text = cli("source", "add", "shop", location)
        assert code != 0
        assert f"127.0.0.1:{port}" in text
        assert host.requests == 0  # without a terminal there is no answer

        add(cli, location)
        assert host.requests == 1
        assert cli("source", "refresh", "shop", "--check")[0] == 0
        cli("validate")
        cli("tool", "list")
        assert host.requests == 1
    assert location in (root / "toolsets/shop/toolset.yaml").read_text(encoding="utf-8")


def test_no_document_is_fetched_without_tls_or_from_a_redirect_to_this_machine(cli: Cli) -> None:
    code, text = cli("source", "add", "shop", "http://example.com/a.json", "--no-terminal", "test")
    assert code != 0
    assert "not https" in text

    def redirects(_: Any, start: Any) -> list[bytes]:
        start("302 Found", [("Location", f"http://127.0.0.1:{other}/a.json")])
        return []

    with listening(host := DocumentHost(b"{}")) as other, listening(redirects) as port:
        location = f"http://127.0.0.1:{port}/a.json"
        assert cli("source", "add", "shop", location, "--no-terminal", "test")[0] != 0
        assert host.requests == 0


def test_the_doctor_checks_a_schema_without_an_endpoint(cli: Cli, file: Path) -> None:
    pytest.importorskip("graphql")
    schema = file.with_name("films.graphql")
    schema.write_text(SCHEMA, encoding="utf-8")

    code, text = cli("source", "doctor", str(schema), "--json")

    assert code == 0, text
    assert json.loads(text)["tools"] == 2


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("schema { query: Q }\ntype Q { a: Int }", "graphql"),
        ('"""The root."""\ntype Query @key {\n  a: Int\n}', "graphql"),
        ("# comment\nextend type Query {\n  a: Int\n}", "graphql"),
        ('{"data": {"__schema": {}}}', "graphql"),
        ("openapi: 3.0.0\ntype: {a: 1}\nschema: {a: 1}", "openapi"),
        ('{"openapi": "3.0.0"}', "openapi"),
    ],
)
def test_the_kind_of_a_pasted_document_is_that_of_its_text(text: str, kind: str) -> None:
    assert kind_of("", text.encode()) == kind


def test_a_document_that_does_not_exist_is_reported_as_a_file(cli: Cli) -> None:
    code, text = cli("source", "doctor", "nothere.yaml")
    assert code != 0
    assert "'nothere.yaml' cannot be read" in text


def test_a_long_list_of_tools_names_the_command_that_prints_the_rest(
    cli: Cli, file: Path, url: str
) -> None:
    answers = {"200": {"description": "-"}}
    paths = {f"/p{number}": {"post": {"responses": answers}} for number in range(25)}
    write_document(file, url, paths=paths)

    assert "and 5 more: covalt-git source show shop/shelter --all" in add(cli, file)


def test_a_refresh_that_leaves_no_tool_changes_no_file(
    root: Path, cli: Cli, file: Path, url: str
) -> None:
    add(cli, file, "--include", "pets.*")
    before = snapshot(root)
    toys = {"/toys": {"get": {"description": "Toys.", "responses": {}}}}
    write_document(file, url, paths=toys)

    code, text = cli("source", "refresh", "shop", "--from", str(file), "--no-terminal", "test")

    assert code != 0
    assert "no operation that can be a tool" in text
    assert snapshot(root) == before


SCHEMA = """\
type Query { film(id: ID!): Film }
type Mutation { addFilm(title: String!): Film }
type Film { id: ID! title: String director: Person }
type Person { name: String }
"""


class FilmHost:
    """A WSGI app that answers each GraphQL operation with one film, and has the last operation."""

    def __init__(self) -> None:
        self.last: Any = None

    def __call__(self, environ: Any, start: Any) -> list[bytes]:
        size = int(environ.get("CONTENT_LENGTH") or 0)
        self.last = json.loads(environ["wsgi.input"].read(size))
        start("200 OK", [("Content-Type", "application/json")])
        return [b'{"data": {"film": {"id": "1", "title": "Alien"}}}']


@pytest.mark.requirement("toolshed-sources.graphql")
def test_the_fields_of_a_graphql_schema_are_tools(
    root: Path, cli: Cli, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("graphql")
    schema = file.with_name("films.graphql")
    schema.write_text(SCHEMA, encoding="utf-8")
    with listening(host := FilmHost()) as port:
        text = add(cli, schema, "--endpoint", f"http://127.0.0.1:{port}/graphql")
        assert "2 tools, 1 of them writing" in text
        granted(cli, monkeypatch)
        cli("chat", "new", "--id", "c1")
        code, text = cli("call", "c1", "films:film", '{"id": "1", "select": "title"}', "--json")
        assert code == 0, text
        assert json.loads(text)["result"]["data"]["film"]["title"] == "Alien"
        assert "title" in host.last["query"]
        assert host.last["variables"] == {"id": "1"}
        # The types of the lock decide which fields callers can select.
        code, text = cli("call", "c1", "films:film", '{"id": "1", "select": "titel"}')
        assert code != 0
        assert "titel" in text
        assert cli("call", "c1", "films:add_film", '{"title": "Alien"}')[0] != 0  # it asks
    lock = root / "toolsets/locks/films.yaml"
    changed = lock.read_text(encoding="utf-8").replace("director:", "producer:")
    assert changed != lock.read_text(encoding="utf-8")
    lock.write_text(changed, encoding="utf-8")
    assert "CG403" in cli("validate")[1]


def test_an_operation_that_is_accepted_later_gets_nothing_by_a_grant_of_another_host(
    cli: Cli, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("source", "add", "shop", str(file))
    reason = ("--no-terminal", "test")
    code, text = cli("source", "accept", "shop/shelter", "pets.list", *reason)
    assert code == 0, text
    granted(cli, monkeypatch)
    code, text = cli("source", "accept", "shop/shelter", "pets.create", *reason)
    assert code == 0, text

    _, text = cli("grant", "list", "shop")
    assert "a tool of a document was accepted later" in text
    for words in (("network", "other.example"), ("secret", "SHELTER_APIKEY", "other.example")):
        code, text = cli("grant", "add", "shop", *words, "--no-terminal", "test")
        assert code == 0, text
        assert "127.0.0.1" not in text
