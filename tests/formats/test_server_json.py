"""Packages and remotes of ``server.json`` become servers that start as their registry's clients start them."""

import json
from typing import Any

import pytest
import yaml

from covalt_git.formats import recognition
from covalt_git.formats.conversion import Conversion
from covalt_git.formats.documents import parse
from covalt_git.formats.table import TOOLSET
from tests.formats import laws

SERVER_JSON = recognition.find_format("mcp-server-json")


def converted(name: str) -> tuple[dict[str, Any], Conversion]:
    content = (laws.FIXTURES / "mcp-server-json" / name).read_bytes()
    done = laws.converted(content, SERVER_JSON, TOOLSET, name)
    return yaml.safe_load(done.files["toolset.yaml"]), done


def test_an_image_and_a_remote_get_their_arguments_variables_and_headers() -> None:
    manifest, done = converted("containers.json")
    image, remote = manifest["mcp_servers"]

    mount = "type=bind,src=${env:HARBOR_SOURCE_PATH},dst=/project"
    options = ["--rm", "-e", "HARBOR_TOKEN=${HARBOR_TOKEN}", "--mount", mount]
    variables = ["-e", "HARBOR_URL", "-e", "HARBOR_UNITS"]
    program = ["registry.example/harbor-mcp:0.20.1", "serve", "--log-level", "info"]
    assert image["command"] == "docker"
    assert image["args"] == ["run", "-i", *options, *variables, *program]
    assert image["env"] == {
        "HARBOR_URL": "${env:HARBOR_URL}",
        "HARBOR_UNITS": "${env:HARBOR_UNITS:-}",
    }
    assert remote["url"] == "https://${env:HARBOR_PORT}.harbor.example/mcp?region=eu"
    assert remote["headers"] == {
        "Authorization": "Bearer ${HARBOR_TOKEN}",
        "X-Trace": "${env:HARBOR_X_TRACE:-}",
    }
    assert manifest["secrets"] == ["HARBOR_TOKEN"]
    lost = {one.pointer: one.reason for one in done.lost}
    assert [*lost] == ["/packages/1"]
    repeated, note, default, alternative = done.notes
    assert repeated.pointer.endswith("/isRepeated")
    assert "has the default 'eu'" in default.message
    assert (alternative.pointer, remote["enabled"]) == ("/remotes/0", False)
    assert note.pointer == "/packages/0"
    assert "--berths" in note.message
    assert "bundle import https://harbor.example/harbor.mcpb" in lost["/packages/1"]


def test_packages_run_with_the_runner_of_their_registry() -> None:
    manifest, done = converted("programs.json")
    commands = [[one["command"], *one["args"]] for one in manifest["mcp_servers"]]

    assert commands == [
        ["uvx", "--from", "letters[mcp]==0.3.5", "letters", "mcp", "${env:LETTERS_FOLDER}"],
        ["npx", "--yes", "--registry=https://npm.letters.example", "@example/letters@next", "--stdio", "--port=80"],
        ["dnx", "Example.Letters@1.0.0", "--yes", "--", "mcp"],
    ]  # fmt: skip
    assert manifest["mcp_servers"][0]["env"] == {
        "LETTERS_KEY": "${LETTERS_KEY}",
        "LETTERS_COOKIE": "${LETTERS_COOKIE:-}",
        "LETTERS_MODE": "fast",
    }
    assert [one.pointer for one in done.lost] == ["/packages/3", "/packages/4"]


def test_the_registry_that_a_runner_uses_by_default_is_no_option() -> None:
    document = json.loads((laws.FIXTURES / "mcp-server-json/programs.json").read_bytes())
    document["packages"][0]["registryBaseUrl"] = "https://pypi_org".replace("_", ".")
    done = laws.converted(json.dumps(document).encode(), SERVER_JSON, TOOLSET, "programs.json")

    server = yaml.safe_load(done.files["toolset.yaml"])["mcp_servers"][0]

    assert server["args"][:2] == ["--from", "letters[mcp]==0.3.5"]
    assert "/packages/0/registryBaseUrl" not in [loss.pointer for loss in done.lost]


def test_descriptions_and_links_are_carried() -> None:
    manifest, done = converted("containers.json")
    carried = manifest["extensions"]["mcp-server-json"]["set"]

    assert manifest["name"] == "Harbor"
    assert carried["/repository"] == {"url": "https://git.example/harbor", "source": "git"}
    assert carried["/remotes/0/headers/1/description"] == "Id of a trace"
    assert all("no field" not in one.reason for one in done.lost)


def test_a_name_says_that_a_value_is_secret_if_the_document_does_not() -> None:
    variables = [
        {"name": "RUN_API_TOKEN", "required": True},
        {"name": "RUN_URL", "required": False},
        {"name": "RUN_KEY", "isSecret": False, "isRequired": True},
    ]
    package = {"registryType": "pypi", "identifier": "run", "environmentVariables": variables}
    content = laws.as_json({"name": "run", "packages": [package]})
    done = laws.converted(content, SERVER_JSON, TOOLSET)
    manifest = yaml.safe_load(done.files["toolset.yaml"])

    env = {
        "RUN_API_TOKEN": "${RUN_API_TOKEN}",
        "RUN_URL": "${env:RUN_URL:-}",
        "RUN_KEY": "${env:RUN_KEY}",
    }
    assert manifest["mcp_servers"][0]["env"] == env
    assert manifest["secrets"] == ["RUN_API_TOKEN"]


def test_each_server_of_an_answer_of_the_registry_becomes_a_toolset() -> None:
    package = {
        "registryType": "npm",
        "identifier": "@e/one",
        "version": "1.0.0",
        "runtimeHint": "bun",
    }
    one = {"server": {"name": "example/one", "packages": [package]}, "_meta": {"status": "active"}}
    url = "https://ann:s3cretPass9@two.example/mcp"
    two = {"server": {"name": "example/two", "remotes": [{"type": "streamable-http", "url": url}]}}
    for answer in (one, {"servers": [one, two], "metadata": {"count": 2}}):
        content = json.dumps(answer).encode()
        assert recognition.recognize(parse(content, "input.json")) == SERVER_JSON
        done = laws.converted(content, SERVER_JSON, TOOLSET)
        paths = sorted(done.files)
        servers = [yaml.safe_load(done.files[path])["mcp_servers"] for path in paths]

        assert servers[0] == [{"id": "one", "command": "bun", "args": ["x", "@e/one@1.0.0"]}]
        assert not done.lost
    assert servers[1][0]["url"] == "https://two.example/mcp"
    assert servers[1][0]["headers"] == {"Authorization": "Basic ${EXAMPLE_TWO_LOGIN}"}


@pytest.mark.parametrize(
    ("identifier", "argument", "image"),
    [
        ("example/a:${VERSION}", "example/a", "example/a:${env:VERSION}"),
        ("example/a:1.2.3", "example/a", "example/a:1.2.3"),
        ("example/a:1.2.3", "example/a:2.0.0", "example/a:2.0.0"),
        ("example/a:${VERSION}", "", "example/a:${env:VERSION}"),
    ],
)
def test_an_image_in_an_argument_has_the_version_of_the_package(
    identifier: str, argument: str, image: str
) -> None:
    arguments = [{"type": "positional", "value": argument}] if argument else []
    package = {"registryType": "oci", "identifier": identifier, "runtimeArguments": arguments}
    content = laws.as_json({"name": "a", "version": "${VERSION}", "packages": [package]})
    manifest = yaml.safe_load(laws.converted(content, SERVER_JSON, TOOLSET).files["toolset.yaml"])

    assert manifest["mcp_servers"][0]["args"][-1] == image
    assert "secrets" not in manifest


def test_alternatives_of_a_server_are_disabled_and_the_default_in_a_url_is_noted() -> None:
    variables = {"tenant": {"default": "main", "isRequired": True}}
    remote = {
        "type": "streamable-http",
        "url": "https://{tenant}.example.com/mcp",
        "variables": variables,
    }
    package = {"registryType": "npm", "identifier": "a", "version": "1.0.0"}
    content = laws.as_json({"name": "a", "packages": [package], "remotes": [remote]})
    done = laws.converted(content, SERVER_JSON, TOOLSET)
    servers = yaml.safe_load(done.files["toolset.yaml"])["mcp_servers"]

    assert [server.get("enabled", True) for server in servers] == [True, False]
    assert servers[1]["url"] == "https://main.example.com/mcp"
    notes = {note.pointer: note.message for note in done.notes}
    assert "the default 'main' for {tenant}" in notes["/remotes/0/variables/tenant"]
    assert "'a-2' is disabled" in notes["/remotes/0"]


PORT: dict[str, Any] = {"type": "named", "name": "--port"}
PORT_OF_TEXT = {**PORT, "value": "{p}", "variables": {"p": {"default": "3000"}}}


@pytest.mark.parametrize(
    ("name", "named", "shown"),
    [
        ("port", {"packageArguments": [{**PORT, "default": "3000"}]}, "3000/mcp itself"),
        ("--port", {"packageArguments": [{**PORT, "default": 3000}]}, "3000/mcp itself"),
        ("--port", {"packageArguments": [PORT_OF_TEXT]}, "3000/mcp itself"),
        ("port", {"packageArguments": [{**PORT, "name": "--port=", "value": "80"}]}, "80/mcp"),
        ("port", {"environmentVariables": [{"name": "PORT", "value": "80"}]}, "80/mcp itself"),
        ("port", {}, "<port>/mcp itself: start it, and add a server with this URL, with your port"),
        ("--port", {"packageArguments": [{**PORT, "isRequired": True}]}, "URL, with your --port"),
    ],
)
def test_the_url_of_a_program_that_serves_itself_has_the_defaults(
    name: str, named: dict[str, Any], shown: str
) -> None:
    transport = {"type": "streamable-http", "url": f"http://localhost:{{{name}}}/mcp"}
    package = {"registryType": "npm", "identifier": "a", "transport": transport, **named}
    remote = {"type": "sse", "url": "https://a.example/sse"}
    content = laws.as_json({"name": "a", "packages": [package], "remotes": [remote]})
    (loss,) = laws.converted(content, SERVER_JSON, TOOLSET).lost

    assert loss.reason.startswith("the program serves http://localhost:")
    assert shown in loss.reason


def test_the_digest_of_a_package_that_nothing_checks_is_said() -> None:
    digest = "5b6b4c24" * 8
    bundle = {"registryType": "mcpb", "identifier": "https://a.example/a.mcpb"}
    packages = [
        {**package, "version": "1.0.0", "fileSha256": digest}
        for package in (bundle, {"registryType": "npm", "identifier": "a"})
    ]
    done = laws.converted(laws.as_json({"name": "a", "packages": packages}), SERVER_JSON, TOOLSET)

    assert f"bundle import https://a.example/a.mcpb --sha256 {digest}" in done.lost[0].reason
    assert [note.pointer for note in done.notes] == ["/packages/1/fileSha256"]


@pytest.mark.parametrize(
    ("identifier", "arguments", "words"),
    [
        ("mneme-hq", ["mneme", "decision-mcp"], ["mneme", "decision-mcp"]),
        ("letters", ["letters", "mcp"], ["letters", "mcp"]),
        ("letters", ["mcp"], ["letters", "mcp"]),
        ("letters", [], ["letters"]),
    ],
)
def test_a_package_after_from_is_the_program_unless_its_arguments_name_one(
    identifier: str, arguments: list[str], words: list[str]
) -> None:
    source = {"type": "named", "name": "--from", "value": f"{identifier}[mcp]==0.9.2"}
    package = {
        "registryType": "pypi",
        "identifier": identifier,
        "version": "0.9.2",
        "runtimeHint": "uvx",
        "runtimeArguments": [source],
        "packageArguments": [{"type": "positional", "value": value} for value in arguments],
    }
    done = laws.converted(laws.as_json({"name": "a", "packages": [package]}), SERVER_JSON, TOOLSET)
    (server,) = yaml.safe_load(done.files["toolset.yaml"])["mcp_servers"]

    assert server["args"] == ["--from", source["value"], *words]
    assert done.lost == ()


@pytest.mark.parametrize("key", ["default", "value"])
def test_a_credential_of_a_variable_has_the_name_of_the_variable(key: str) -> None:
    variable = {"name": "SD", "isSecret": True, key: "sd"}
    package = {"registryType": "npm", "identifier": "b", "environmentVariables": [variable]}
    done = laws.converted(laws.as_json({"name": "b", "packages": [package]}), SERVER_JSON, TOOLSET)
    (server,) = yaml.safe_load(done.files["toolset.yaml"])["mcp_servers"]

    assert server["env"]["SD"].startswith("${SD")
    assert [note.secret for note in done.notes] == ["SD"]


def test_an_argument_can_be_repeated_and_have_variables_in_its_name() -> None:
    arguments: list[dict[str, Any]] = [
        {"type": "positional", "valueHint": "dir", "isRequired": True, "isRepeated": True},
        {"type": "positional", "value": "fixed", "isRepeated": True},
        {"type": "named", "name": "--set-{area}", "value": "{val}", "variables": {"area": {"default": "k"}, "val": {"default": "v"}}},
        {"type": "named", "name": "--port={port}", "isRequired": True, "variables": {"port": {"default": "80"}}},
        {"type": "named", "name": "--as-{is}"},
    ]  # fmt: skip
    variables = [{"name": "A_{key}", "value": "x"}]
    package = {"registryType": "npm", "identifier": "b", "packageArguments": arguments}
    package["environmentVariables"] = variables
    done = laws.converted(laws.as_json({"name": "b", "packages": [package]}), SERVER_JSON, TOOLSET)
    (server,) = yaml.safe_load(done.files["toolset.yaml"])["mcp_servers"]

    words = ["-y", "b", "${env:B_DIR}", "fixed", "--set-k", "v", "--port=80", "--as-{is}"]
    assert server["args"] == words
    assert [note.pointer for note in done.notes] == ["/packages/0/packageArguments/0/isRepeated"]
    assert [loss.pointer for loss in done.lost] == ["/packages/0/environmentVariables/0"]
