import functools
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from covalt_git import yaml_text
from covalt_git.errors import CovaltError
from covalt_git.formats import conversion, document_reader, documents, recognition
from covalt_git.formats.mcp_clients.hosts import HOSTS, Host
from covalt_git.formats.model import pointer_text
from covalt_git.formats.table import TOOLSET
from tests.formats import laws
from tests.operations_client import Operations

SERVERS = b"""
id: team
name: Team
version: "1"
secrets: [TOKEN, DSN]
mcp_servers:
  - {id: local, command: npx, args: ["-y", "db", "${DSN}"], env: {TOKEN: "${TOKEN}", MODE: "5$$"}}
  - {id: far, url: "https://far.example/mcp", headers: {Authorization: "Bearer ${TOKEN}"}}
  - {id: events, transport: sse, url: "https://far.example/sse", enabled: false}
"""


def written(name: str) -> tuple[Any, dict[str, str]]:
    """Return the file of a host with these servers, and the reasons of what is lost."""
    done = laws.converted(SERVERS, TOOLSET, recognition.find_format(name), "toolset.yaml")
    (content,) = done.files.values()
    text = content.decode()
    value = tomllib.loads(text) if name == "codex" else json.loads(text)
    return value, {one.pointer: one.reason for one in done.lost}


@pytest.mark.parametrize(
    "document",
    [
        {"mcpServers": {"gh": {"url": "https://a.example/mcp", "headers": {"Authorization": "Bearer ${GITHUB_TOKEN}"}},
                        "github": {"url": "https://b.example/mcp", "headers": {"Authorization": "Bearer 7f8e9d0c1b2a7f8e9d0c"}}}},
        {"mcpServers": {"gh": {"command": "a", "env": {"GITHUB_TOKEN": "7f8e9d0c1b2a7f8e9d0c"}},
                        "other": {"command": "b", "env": {"T": "${GITHUB_TOKEN}"}}}},
        {"inputs": [{"id": "api-key", "type": "promptString", "password": True}, {"id": "api_key", "type": "promptString", "password": True}],
         "servers": {"bank": {"command": "a", "env": {"K": "${input:api-key}"}}, "weather": {"command": "b", "env": {"K": "${input:api_key}"}}}},
        {"inputs": [{"id": "api-key", "type": "promptString", "password": True}],
         "servers": {"bank": {"command": "a", "env": {"K": "${input:api-key}"}}, "weather": {"command": "b", "env": {"API_KEY": "7f8e9d0c1b2a7f8e9d0c"}}}},
    ],
)  # fmt: skip
def test_values_of_two_servers_never_become_one_secret(document: Any) -> None:
    name = "vscode" if "inputs" in document else "claude-code"
    content = json.dumps(document).encode()
    done = laws.converted(content, recognition.find_format(name), TOOLSET, "mcp.json")
    toolset = yaml_text.load(done.files["toolset.yaml"], "toolset.yaml").data
    first, second = (
        set(re.findall(r"\$\{(?:env:)?(\w+)", json.dumps(server)))
        for server in toolset["mcp_servers"]
    )
    assert first
    assert second
    assert first.isdisjoint(second)


def test_vscode_asks_for_secrets() -> None:
    value, _ = written("vscode")

    assert [one["id"] for one in value["inputs"]] == ["token", "dsn"]
    assert value["servers"]["local"] == {
        "command": "npx",
        "args": ["-y", "db", "${input:dsn}"],
        "env": {"TOKEN": "${input:token}", "MODE": "5$"},
    }
    assert value["servers"]["far"]["headers"] == {"Authorization": "Bearer ${input:token}"}
    assert value["servers"]["events"]["type"] == "sse"


def test_codex_reads_variables_by_name() -> None:
    value, lost = written("codex")
    servers = value["mcp_servers"]

    assert servers["local"]["env_vars"] == ["TOKEN"]
    assert servers["far"]["bearer_token_env_var"] == "TOKEN"
    assert servers["events"]["enabled"] is False
    assert "does not replace variables" in lost["/mcp_servers/0/args/2"]


def test_claude_desktop_only_starts_programs() -> None:
    value, lost = written("claude-desktop")

    assert list(value["mcpServers"]) == ["local"]
    assert "only starts programs" in lost["/mcp_servers/1/url"]
    assert "write the value of TOKEN" in lost["/mcp_servers/0/env/TOKEN"]


@pytest.mark.parametrize(
    ("name", "key", "reference"),
    [
        ("cursor", "url", "Bearer ${env:TOKEN}"),
        ("windsurf", "serverUrl", "Bearer ${env:TOKEN}"),
        ("opencode", "url", "Bearer {env:TOKEN}"),
        ("gemini-cli", "httpUrl", "Bearer ${TOKEN}"),
        ("claude-code", "url", "Bearer ${TOKEN}"),
    ],
)
def test_references_have_the_form_of_the_host(name: str, key: str, reference: str) -> None:
    value, _ = written(name)
    (host,) = (one for one in HOSTS if one.name == name)
    far = value[host.path[0]]["far"]

    assert far[key] == "https://far.example/mcp"
    assert far["headers"] == {"Authorization": reference}


def test_the_name_of_the_file_decides_between_formats_with_equal_content() -> None:
    content = b'{"mcpServers": {"a": {"command": "b"}}}'
    for path, name in ((".mcp.json", "claude-code"), ("x/.cursor/mcp.json", "cursor")):
        found = recognition.recognize(documents.parse(content, path))
        assert found.name == name


@pytest.mark.parametrize(
    "server",
    [
        {"command": "npx", "args": ["-y", "a"], "env": {"B": "${B}"}},
        {"url": "https://a.example/mcp"},
        {"type": "sse", "url": "https://a.example/mcp", "headers": {"A": "b"}},
        {"command": "npx", "unheard": True},
    ],
)
def test_a_file_that_means_the_same_for_several_clients_is_converted(server: Any) -> None:
    content = json.dumps({"mcpServers": {"a": server}}).encode()
    document = documents.parse(content, "other.json")
    done = conversion.convert(document, recognition.recognize(document), TOOLSET)

    assert done.lost == ()
    assert b"mcp_servers" in done.files["toolset.yaml"]


def test_a_file_with_another_meaning_for_some_clients_names_them() -> None:
    content = b'{"mcpServers": {"a": {"url": "https://a.example", "timeout": 5}}}'
    with pytest.raises(CovaltError) as caught:
        recognition.recognize(documents.parse(content, "other.json"))
    for name in ("claude-code", "gemini-cli", "lm-studio"):
        assert name in caught.value.message
    assert caught.value.hint == "add --from, with one of: claude-code, gemini-cli, cline, lm-studio"
    named = recognition.recognize(documents.parse(content, "copy/mcp.json"))
    assert named.name == "lm-studio"


@pytest.mark.parametrize(
    ("server", "column"),
    [
        ('{"command": 5}', 57),
        ('"npx"', 45),
        ('{"command": "a", "env": {"B": 1}}', 75),
        ("null", 45),
        ('{"comand": "npx"}', 45),
        ('{"type": "http", "uri": "https://a.example/mcp"}', 45),
        ('{"type": "http"}', 45),
        ('{"type": "ws", "url": "wss://a.example/mcp"}', 45),
        ('{"command": "a", "url": "https://a.example/mcp"}', 45),
    ],
)
def test_one_wrong_server_in_a_file_has_its_place(server: str, column: int) -> None:
    content = f'{{"mcpServers": {{"a": {{"command": "b"}}, "c": {server}}}}}'
    for path in ("other.json", ".mcp.json"):
        document = documents.parse(content.encode(), path)
        with pytest.raises(CovaltError) as caught:
            document_reader.read(document, recognition.recognize(document))
        assert [(one.line, one.col) for one in caught.value.problems] == [(1, column)]


def test_wrong_servers_are_left_out_with_their_place() -> None:
    content = b'{"mcpServers": {"a": {"command": "b"},\n "c": 5,\n "d": {"command": []}}}'
    document = documents.parse(content, ".mcp.json")
    source = recognition.recognize(document)
    with pytest.raises(documents.BadPartsError) as caught:
        conversion.convert(document, source, TOOLSET)
    assert caught.value.parts == ("/mcpServers/c", "/mcpServers/d")

    done = conversion.convert(document, source, TOOLSET, skip_bad=True)
    lost = [(one.pointer, one.reason[:14]) for one in done.lost]
    assert lost == [("/mcpServers/c", "left out: 2:7 "), ("/mcpServers/d", "left out: 3:19")]
    assert b"command: b" in done.files["toolset.yaml"]


@pytest.mark.parametrize("name", ["claude-code", "cline", "gemini-cli", "lm-studio"])
@pytest.mark.parametrize("key", ["type", "transportType", "transport"])
@pytest.mark.parametrize("word", ["http", "streamable-http", "streamableHttp", "streamable_http"])
def test_each_word_for_streamable_http_is_this_transport(name: str, key: str, word: str) -> None:
    content = json.dumps({"mcpServers": {"a": {key: word, "url": "https://a.example/mcp"}}})
    result = laws.converted(content.encode(), recognition.find_format(name), TOOLSET)

    (server,) = yaml_text.load(result.files["toolset.yaml"], "t").data["mcp_servers"]
    assert server["transport"] == "streamable-http"


WITH_A_DEFAULT = b"""
id: a
name: A
version: "1"
mcp_servers:
  - {id: a, command: x, args: ["${env:REGION:-eu}"], env: {AREA: "${env:REGION:-eu}"}}
"""


@pytest.mark.parametrize(
    "name", ["cursor", "windsurf", "gemini-cli", "lm-studio", "cline", "opencode", "codex"]
)
def test_the_default_of_a_variable_is_lost_with_its_value(name: str) -> None:
    target = recognition.find_format(name)
    result = laws.converted(WITH_A_DEFAULT, TOOLSET, target, "toolset.yaml")
    reasons = {lost.pointer: lost.reason for lost in result.lost}

    for pointer in ("/mcp_servers/0/args/0", "/mcp_servers/0/env/AREA"):
        assert "REGION (by default 'eu')" in reasons[pointer]


def test_claude_code_and_inputs_of_vscode_have_the_default_of_a_variable() -> None:
    files = {}
    for name in ("claude-code", "vscode"):
        target = recognition.find_format(name)
        result = laws.converted(WITH_A_DEFAULT, TOOLSET, target, "toolset.yaml")
        assert {lost.pointer for lost in result.lost} == {"/name", "/version"}
        (content,) = result.files.values()
        files[name] = json.loads(content)

    assert files["claude-code"]["mcpServers"]["a"]["args"] == ["${REGION:-eu}"]
    assert files["vscode"]["servers"]["a"]["args"] == ["${input:region}"]
    assert files["vscode"]["inputs"] == [
        {"type": "promptString", "id": "region", "description": "REGION", "default": "eu"}
    ]


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_the_folder_of_a_plugin_is_that_of_its_toolset(*, is_wrapped: bool) -> None:
    folder = "${CLAUDE_PLUGIN_ROOT}"
    servers = {"a": {"command": "bun", "args": ["--cwd", folder, f"{folder}/b.js", "${TOKEN}"]}}
    content = json.dumps({"mcpServers": servers} if is_wrapped else servers).encode()
    document = documents.parse(content, "other.json")
    source = recognition.recognize(document, "claude-plugin")
    result = conversion.convert(document, source, TOOLSET)
    manifest = yaml_text.load(result.files["toolset.yaml"], "t").data

    assert manifest["mcp_servers"][0]["args"] == [
        *("--cwd", "${toolset}", "${toolset}/b.js", "${TOKEN}")
    ]
    assert manifest["secrets"] == ["TOKEN"]
    assert [note.pointer[-7:] for note in result.notes] == ["/args/1", "/args/2"]
    target = recognition.find_format("claude-plugin")
    back = laws.converted(result.files["toolset.yaml"], TOOLSET, target, "toolset.yaml")
    assert json.loads(back.files[".mcp.json"]) == servers
    assert {lost.pointer for lost in back.lost} <= {"/extensions/claude-code"}
    if is_wrapped:
        project = recognition.find_format("claude-code")
        stored = laws.converted(content, project, TOOLSET).files["toolset.yaml"]
        again = laws.converted(stored, TOOLSET, project, "toolset.yaml")
        assert (json.loads(again.files[".mcp.json"]), again.lost) == (json.loads(content), ())


@pytest.mark.parametrize("name", ["claude-code", "cursor", "lm-studio"])
def test_inputs_beside_the_servers_of_other_clients_are_read(name: str) -> None:
    inputs = [{"id": "k", "password": True}, {"id": "region", "default": "eu"}]
    env = {"A": "${input:k}", "B": "${input:region}"}
    value = {"inputs": inputs, "mcpServers": {"a": {"command": "x", "env": env}}}
    result = laws.converted(json.dumps(value).encode(), recognition.find_format(name), TOOLSET)
    manifest = yaml_text.load(result.files["toolset.yaml"], "t").data

    assert manifest["mcp_servers"][0]["env"] == {"A": "${K}", "B": "${env:REGION:-eu}"}
    assert manifest["secrets"] == ["K"]


def test_the_older_form_of_a_command_of_zed_is_read() -> None:
    command = {"path": "npx", "args": ["-y", "a-mcp"], "env": {"LEVEL": "info"}}
    value = {"context_servers": {"a": {"command": command}, "b": {"command": {"path": 5}}}}
    document = documents.parse(json.dumps(value).encode(), ".zed/settings.json")
    source = recognition.recognize(document)
    result = conversion.convert(document, source, TOOLSET, skip_bad=True)
    (server,) = yaml_text.load(result.files["toolset.yaml"], "t").data["mcp_servers"]

    assert server == {"id": "a", "command": "npx", **{key: command[key] for key in ("args", "env")}}
    assert [lost.pointer for lost in result.lost] == ["/context_servers/b"]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("cline", {"timeout": 46}),
        ("goose", {"timeout": 46, "available_tools": ["a", "b"]}),
        ("opencode", {"timeout": 45500}),
        ("claude-code", {"timeout": 45500}),
        ("gemini-cli", {"timeout": 45500, "includeTools": ["a", "b"], "excludeTools": ["c"]}),
        ("continue", {"connectionTimeout": 20000}),
    ],
)
def test_limits_and_choices_of_tools_have_the_key_of_each_client(
    name: str, settings: dict[str, Any]
) -> None:
    content = b"""
[mcp_servers.x]
command = "npx"
enabled = true
startup_timeout_sec = 20
tool_timeout_sec = 45.5
enabled_tools = ["a", "b"]
disabled_tools = ["c"]
"""
    source, target = (recognition.find_format(item) for item in ("codex", name))
    result = laws.converted(content, source, target, "config.toml")
    (text,) = result.files.values()
    (host,) = (item for item in HOSTS if item.name == name)
    servers = host.servers(documents.parse(text, "t").value) or {}

    assert {key: servers["x"].get(key) for key in settings} == settings
    lost = {lost.pointer.split("/")[3]: lost.reason for lost in result.lost}
    assert "enabled" not in lost
    assert ("tool_timeout_sec" in lost) == (name == "continue")
    if name == "continue":
        assert lost["tool_timeout_sec"] == "Continue limits the time of the connection only"


def test_a_setting_that_says_nothing_is_not_lost() -> None:
    content = b"""
extensions:
  far: {name: far, type: sse, uri: "https://a.example/sse", enabled: true, envs: {}, description: null, bundled: null}
  near: {name: near, type: stdio, cmd: npx, available_tools: [], timeout: 200}
"""
    source = recognition.find_format("goose")
    for name in ("cline", "gemini-cli"):
        assert laws.converted(content, source, recognition.find_format(name), "x.yaml").lost == ()


def test_an_input_of_vscode_has_one_default_and_the_other_is_lost() -> None:
    content = WITH_A_DEFAULT.replace(b'AREA: "${env:REGION:-eu}"', b'AREA: "${env:REGION:-us}"')
    result = laws.converted(content, TOOLSET, recognition.find_format("vscode"), "toolset.yaml")
    reasons = {lost.pointer: lost.reason for lost in result.lost}

    assert reasons["/mcp_servers/0/env/AREA"] == "the input for REGION has the default 'eu'"
    assert "/mcp_servers/0/args/0" not in reasons


@pytest.mark.parametrize(
    ("name", "server", "reason"),
    [
        ("continue", {"uses": "acme/memory-mcp"}, "a block of the hub of Continue"),
        ("zed", {"settings": {"port": 1}}, "an extension of Zed"),
        ("zed", {"source": "extension"}, "an extension of Zed"),
        ("goose", {"name": "b", "type": "builtin"}, "runs in Goose itself"),
        ("opencode", {"enabled": True}, "another configuration of OpenCode"),
        (
            "vscode",
            {"type": "http", "url": "unix:///run/a.sock"},
            "connects to this server by a socket",
        ),
        (
            "vscode",
            {"type": "http", "url": "pipe:///pipe/a"},
            "connects to this server by a socket",
        ),
    ],
)
def test_a_server_that_only_its_host_can_start_is_left_out_and_the_others_converted(
    name: str, server: dict[str, Any], reason: str
) -> None:
    (host,) = (item for item in HOSTS if item.name == name)
    source = recognition.find_format(name)
    near: dict[str, Any] = {"name": "a", host.command: "npx", "type": "stdio"}
    near |= {"command": ["npx"], "type": "local"} if host.lists_command else {}
    entries: Any = [server, near] if host.lists_servers else {"b": server, "a": near}
    content = json.dumps(
        functools.reduce(lambda value, key: {key: value}, host.path[::-1], entries)
    )
    rules = {"tools": {"*": False}} if name == "opencode" else {}
    result = laws.converted(laws.as_json(json.loads(content) | rules), source, TOOLSET)
    (lost,) = result.lost

    # A rule is not about a server that is left out.
    assert not any("'b'" in note.message for note in result.notes)
    assert lost.pointer == f"/{host.path[0]}/{0 if host.lists_servers else 'b'}"
    assert lost.reason.startswith("left out: 1:")
    assert reason in lost.reason
    alone: Any = [server] if host.lists_servers else {"b": server}
    with pytest.raises(CovaltError) as caught:
        laws.converted(
            json.dumps(host.document(alone) | {host.path[0]: alone}).encode(), source, TOOLSET
        )
    assert reason in caught.value.problems[0].message


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_a_credential_comes_back_in_the_form_of_its_client_or_is_lost(
    host: Host,
) -> None:
    token = "Zq8vN3kT7wLp2RxB5mYcZr4hJ6sD1g"
    near: dict[str, Any] = {host.command: "npx", host.env: {"SHOP_KEY": token}, "type": "stdio"}
    near["args"] = ["--api-key", token[::-1]]
    if host.lists_command:
        near |= {"command": ["npx", *near.pop("args")], "type": "local"}
    (url, *_) = host.urls or [""]
    kind = next((theirs for theirs, ours in host.types.items() if ours != "stdio"), "http")
    headers: dict[str, Any] = {host.headers: {"Authorization": f"Bearer {token[1:]}x"}}
    headers = {host.around_headers: headers} if host.around_headers else headers
    far = {url: "https://far.example/mcp", "type": kind, **headers}
    servers = {"near": near, "far": far} if url else {"near": near}
    content = json.dumps(host.document(servers)).encode()
    source = recognition.find_format(host.name)
    path = f"x.{host.kind}"
    if host.kind == "toml":
        content = documents.toml_text(host.document(servers)).encode()
    stored = laws.converted(content, source, TOOLSET, path).files["toolset.yaml"]
    for result in (
        laws.converted(stored, TOOLSET, source, "toolset.yaml"),
        laws.converted(content, source, source, path),
    ):
        (written,) = result.files.values()
        value = documents.parse(written, path).value
        named = sorted(
            note for item in result.lost for note in re.findall("[A-Z_]{5,}", item.reason)
        )
        references = sorted(re.findall(r"\$\{([A-Z_]+)\}", json.dumps(value)))

        if host.style not in {"${NAME}", "$NAME"} and not host.header_style:
            assert references == named
        assert host.servers(value).keys() == servers.keys()  # type: ignore[union-attr]
        assert {item.reason.partition(" here: ")[0] for item in result.lost} <= {
            f"{host.title} does not replace variables"
        }


@pytest.mark.parametrize(
    ("name", "key", "document", "changed"),
    [
        (
            "opencode",
            "{env:SHOP_APIKEY}",
            {"shop": {"apikey": "Zq8vN3kT7wLp2RxB5mYc"}, "other": "{env:SHOP_APIKEY}"},
            {"shop": {"apikey": "{env:SHOP_APIKEY_2}"}},
        ),
        (
            "opencode",
            "x",
            {"shop": {"apiKey": "${SHOP_APIKEY}"}, "b": {"shop": {"apikey": "Zq8vN3kT7wLp2RxB"}}},
            {"b": {"shop": {"apikey": "{env:SHOP_APIKEY_2}"}}},
        ),
        (
            "gemini-cli",
            "${SHOP_APIKEY}",
            {"shop": {"apikey": "SHOP_APIKEY"}, "a": "$SHOP_APIKEY", "b": "x-${SHOP_APIKEY}"},
            {"shop": {"apikey": "${SHOP_APIKEY_3}"}},
        ),
    ],
)
def test_references_outside_of_the_servers_come_back_unchanged(
    name: str, key: str, document: dict[str, Any], changed: dict[str, Any]
) -> None:
    (host,) = (host for host in HOSTS if host.name == name)
    server: dict[str, Any] = {"command": "npx", host.env: {"SHOP": key}}
    if host.lists_command:
        server |= {"type": "local", "command": ["npx"]}
    source = recognition.find_format(name)
    value = {**document, **host.document({"near": server})}
    stored = laws.converted(json.dumps(value).encode(), source, TOOLSET).files["toolset.yaml"]
    (written,) = laws.converted(stored, TOOLSET, source, "toolset.yaml").files.values()

    assert json.loads(written) == {**value, **changed}


OF_CONTINUE = b"""
name: Mine
version: 0.0.1
mcpServers:
  - {command: npx}
  - {name: files, command: npx, args: [-y, files-mcp], faster: true}
"""


def test_a_wrong_server_in_a_list_is_left_out_and_the_places_of_the_others_stay() -> None:
    document = documents.parse(OF_CONTINUE, "other.yaml")
    source = recognition.recognize(document)
    with pytest.raises(documents.BadPartsError) as caught:
        conversion.convert(document, source, TOOLSET)
    assert caught.value.parts == ("/mcpServers/0",)
    assert [problem.line for problem in caught.value.problems] == [5]

    target = recognition.find_format("cursor")
    result = conversion.convert(document, source, target, skip_bad=True)
    assert {"/mcpServers/0", "/mcpServers/1/faster"} <= {lost.pointer for lost in result.lost}
    assert b"files-mcp" in result.files[".cursor/mcp.json"]


def test_what_a_server_with_a_url_does_not_get_is_left_out() -> None:
    server = {"url": "https://far.example/mcp", "args": ["-y"], "cwd": "/x", "env": {"A": "b"}}
    document = json.dumps({"mcpServers": {"far": server}}).encode()

    done = laws.converted(document, recognition.find_format("claude-code"), TOOLSET, ".mcp.json")

    (content,) = done.files.values()
    (server,) = yaml_text.load(content, "toolset.yaml").data["mcp_servers"]
    assert server == {"id": "far", "url": "https://far.example/mcp"}


@pytest.mark.parametrize(
    "url",
    [
        "https://servers.example/@acme/search/mcp?api_key={}&profile=a",
        "https://servers.example/mcp?user=ann@acme.example&api_key={}",
        "https://servers.example/mcp?api_key={}",
    ],
)
@pytest.mark.parametrize("kind", [{}, {"type": "http"}, {"type": "sse"}])
def test_a_key_in_the_query_of_a_url_becomes_a_secret_and_its_host_stays(
    url: str, kind: dict[str, str]
) -> None:
    server = {**kind, "url": url.format("7fK2mZq9xT4vB8nL1cR5wY3d")}
    content = json.dumps({"mcpServers": {"search": server}}).encode()
    for name in ("claude-code", "cursor"):
        done = laws.converted(content, recognition.find_format(name), TOOLSET)
        manifest = yaml_text.load(done.files["toolset.yaml"], "t").data

        assert [one["url"] for one in manifest["mcp_servers"]] == [url.format("${SEARCH_API_KEY}")]
        assert manifest["secrets"] == ["SEARCH_API_KEY"]


@pytest.mark.parametrize("name", ["claude-code", "continue", "goose"])
def test_a_login_in_a_url_becomes_a_header_and_its_host_stays(name: str) -> None:
    (host,) = (one for one in HOSTS if one.name == name)
    (key, *_) = host.urls
    server = {key: "https://ann:s3cretPass9@far.example/mcp"}
    server |= {"type": "streamable_http"} if name == "goose" else {}
    content = json.dumps(host.document({"far": server})).encode()
    path = f"file.{host.kind}"
    done = laws.converted(content, recognition.find_format(name), TOOLSET, path)
    manifest = yaml_text.load(done.files["toolset.yaml"], "t").data

    (output,) = manifest["mcp_servers"]
    assert output["url"] == "https://far.example/mcp"
    assert output["headers"] == {"Authorization": "Basic ${FAR_LOGIN}"}
    assert manifest["secrets"] == ["FAR_LOGIN"]
    assert "base64" in done.notes[-1].message
    assert b"s3cret" not in done.files["toolset.yaml"]


@pytest.mark.parametrize("name", ["claude-code", "vscode", "cursor", "codex", "gemini-cli"])
def test_a_name_and_a_version_that_the_conversion_gave_are_not_lost(name: str) -> None:
    server = {"command": "npx", "args": ["-y", "files-mcp"]}
    for servers in ({"files": server}, {"files": server, "more": server}):
        content = json.dumps({"mcpServers": servers}).encode()
        stored = laws.converted(content, recognition.find_format("claude-code"), TOOLSET)
        text = stored.files["toolset.yaml"]
        target = recognition.find_format(name)
        renamed = text.replace(b'version: "0"', b'version: "2"')

        assert laws.converted(text, TOOLSET, target, "toolset.yaml").lost == ()
        lost = laws.converted(renamed, TOOLSET, target, "toolset.yaml").lost
        assert [one.pointer for one in lost] == ["/version"]


def imported(servers: dict[str, Any], **others: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the toolset of servers of VS Code, and the messages about it."""
    content = json.dumps({"servers": servers, **others}).encode()
    done = laws.converted(content, recognition.find_format("vscode"), TOOLSET, ".vscode/mcp.json")
    return yaml_text.load(done.files["toolset.yaml"], "t").data, laws.messages(done)


def test_predefined_variables_of_vscode_are_no_secrets() -> None:
    args = ["${workspaceFolder}/db", "${userHome}/x", "${env:FOO}", "a${/}b", "${file}"]
    toolset, notes = imported({"a": {"command": "x", "args": args, "envFile": ".env"}})
    (server,) = toolset["mcp_servers"]

    assert server["args"] == [
        *("${workspace}/db", "${env:HOME}/x", "${env:FOO}", "a/b", "$${file}")
    ]
    assert "secrets" not in toolset
    assert any("'.env' are not read" in one for one in notes)
    assert any("$workspace, the folder of the chat" in one for one in notes)


@pytest.mark.parametrize(
    ("name", "folder", "reason"),
    [
        ("vscode", "${workspaceFolder}/server", "no server starts in the folder of the chat"),
        ("cursor", "${userHome}/server", "copy the folder into it"),
        ("codex", "/srv/files", "copy the folder into it"),
        ("continue", "C:\\\\files", "copy the folder into it"),
        ("gemini-cli", "./server", "begins in the folder of the client's project"),
        ("claude-plugin", "${CLAUDE_PLUGIN_ROOT}/server", ""),
    ],
)
def test_a_working_directory_outside_of_the_toolset_is_lost_and_other_clients_get_it(
    name: str, folder: str, reason: str
) -> None:
    (host,) = (item for item in HOSTS if item.name == name)
    value = host.document({"a": {host.command: "x", "cwd": folder}})
    text = documents.toml_text(value) if host.kind == "toml" else json.dumps(value)
    source, path = recognition.find_format(name), f"x.{host.kind}"
    result = laws.converted(text.encode(), source, TOOLSET, path)
    (server,) = yaml_text.load(result.files["toolset.yaml"], "t").data["mcp_servers"]

    assert [reason in item.reason for item in result.lost] == ([True] if reason else [])
    assert all(item.pointer.endswith("/cwd") for item in result.lost)
    assert ("cwd" in server) == (not reason)
    (written,) = laws.converted(
        result.files["toolset.yaml"], TOOLSET, source, "toolset.yaml"
    ).files.values()
    assert documents.parse(written, path).value == documents.parse(text.encode(), path).value
    done = laws.converted(text.encode(), source, recognition.find_format("goose"), path)
    assert any("cwd" in item.pointer for item in done.lost) == ("${" in folder)


@pytest.mark.parametrize(
    ("name", "command", "places"),
    [
        ("cursor", ["pnpx", "tsx", "./p/stdio.ts"], ["args/1"]),
        ("zed", ["node", ".ai/mcp/github.mjs"], ["args/0"]),
        ("claude-code", ["python", "-u", "srv.py", "--data", "../data"], ["args/1", "args/3"]),
        ("opencode", ["./bin/server", "--stdio"], ["command/0"]),
        ("codex", ["npx", "-y", "@acme/notes.js", "/srv/a.py", "https://a.example/b.js"], []),
        ("cursor", ["uv", "--directory", "/srv/weather", "run", "weather.py"], []),
        ("cursor", ["uv", "run", "--directory", "./servers/db", "server.py"], ["args/2"]),
        ("zed", ["uv", "run", "--directory", "servers/db", "server.py"], ["args/2"]),
        ("cursor", ["uv", "--directory=./db", "run", "server.py"], ["args/0"]),
        ("cursor", ["npm", "--prefix", "/srv/p", "run", "start.js"], []),
        ("cursor", ["uvx", "--from", "git+https://a.example", "tool.py"], []),
        ("cursor", ["uvx", "mcp", "run", "tool.py"], ["args/2"]),
        ("cursor", ["srv", "--config=./c.json", "A=../b", "--at=1.5"], ["args/0", "args/1"]),
        (
            "cursor",
            ["srv", "-c", "conf/x.yaml", "--env-file", ".env", "v1.5"],
            ["args/1", "args/3"],
        ),
        ("cursor", ["uvx", "srv", "config.json", "--db=a/b.db", "a.example"], ["args/1", "args/2"]),
        ("zed", ["npx", "-y", "@acme/server-files", "."], ["args/2"]),
        ("cursor", ["docker", "run", "-v", "./d:/d", "-v", "vol:/v", "img", "c.json"], ["args/2"]),
        (
            "cursor",
            ["podman", "run", "--env-file=.env", "--mount", "type=bind,src=./d,dst=/d", "i"],
            ["args/1", "args/3"],
        ),
    ],
)
def test_a_file_of_the_project_of_the_client_has_a_note_with_its_place(
    name: str, command: list[str], places: list[str]
) -> None:
    (host,) = (item for item in HOSTS if item.name == name)
    server: dict[str, Any] = {host.command: command[0], "args": command[1:]}
    server = {"command": command, "type": "local"} if host.lists_command else server
    value = host.document({"a": server})
    text = documents.toml_text(value) if host.kind == "toml" else json.dumps(value)
    source, path = recognition.find_format(name), f"x.{host.kind}"
    result = laws.converted(text.encode(), source, TOOLSET, path)

    assert [note.pointer.partition("/a/")[2] for note in result.notes] == places
    assert all("beside the toolset.yaml" in note.message for note in result.notes)
    assert not laws.converted(text.encode(), source, recognition.find_format("goose"), path).notes


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ({"args": ["./a.py"], "cwd": "./srv"}, "'./a.py' is in './srv', not in the toolset"),
        ({"args": ["-c", "a.yaml"], "cwd": "/srv"}, "'a.yaml' is in '/srv', not in the toolset"),
        ({"command": "uv", "args": ["run", "--directory", "db", "a.py", "b.yaml"]}, "'b.yaml' is in 'db'"),
        ({"command": "docker", "args": ["run", "-v", "./data:/data:ro", "x"]}, "write ${toolset}/data:/data:ro"),
        ({"args": ["--dir", "./"]}, "'./' begins in the folder of the client's project: write ${toolset} for"),
    ],
)  # fmt: skip
def test_a_note_on_a_file_of_a_client_names_its_folder_and_what_to_write(
    server: dict[str, Any], message: str
) -> None:
    content = laws.as_json({"mcpServers": {"a": {"command": "x", **server}}})
    done = laws.converted(content, recognition.find_format("gemini-cli"), TOOLSET)

    assert any(message in note.message for note in done.notes)


def test_a_variable_with_a_file_of_the_project_of_the_client_has_a_note() -> None:
    env = {
        "CONF": "./conf.json",
        "SETTINGS": "conf/settings.toml",
        "PYTHONPATH": "src:/opt/lib",
        "NODE_PATH": "/a:${HOME}/b",
        "CLASSPATH": "C:\\a;D:\\b",
        "BASE_PATH": "api",
        "URL": "https://a.example/b",
    }
    content = laws.as_json({"mcpServers": {"a": {"command": "x", "env": env}}})
    result = laws.converted(content, recognition.find_format("claude-code"), TOOLSET)

    notes = {note.pointer.rpartition("/")[2]: note.message for note in result.notes}
    assert {key: message.split()[0] for key, message in notes.items()} == {
        "CONF": "'./conf.json'",
        "SETTINGS": "'conf/settings.toml'",
        "PYTHONPATH": "'src'",
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${workspaceFolder}/a", "${workspace}/a"),
        ("${CLAUDE_PROJECT_DIR:-.}/a", "${workspace}/a"),
        ("${HOME}/a", "${env:HOME}/a"),
        ("${HOME:-/root}", "${env:HOME:-/root}"),
        ("${file}", "${file}"),
    ],
)
def test_folders_in_files_of_claude_code_are_no_secrets(text: str, value: str) -> None:
    servers = {"a": {"command": "x", "args": [text], "cwd": text}}
    content = json.dumps({"mcpServers": servers}).encode()
    result = laws.converted(content, recognition.find_format("claude-code"), TOOLSET)
    toolset = yaml_text.load(result.files["toolset.yaml"], "t").data

    assert toolset["mcp_servers"] == [{"id": "a", "command": "x", "args": [value]}]
    assert toolset.get("secrets", []) == (["file"] if text == "${file}" else [])
    assert [item.pointer for item in result.lost] == ["/mcpServers/a/cwd"]


@pytest.mark.parametrize(
    ("value", "text", "message"),
    [
        (5, "5", "written as text"),
        (0.5, "0.5", "written as text"),
        (None, None, "null unsets the variable"),
    ],
)
def test_numbers_and_null_are_variables_of_vscode(
    value: Any, text: str | None, message: str
) -> None:
    toolset, notes = imported({"a": {"command": "x", "env": {"A": value, "B": "b"}}})
    env = {"B": "b"} if text is None else {"A": text, "B": "b"}

    assert toolset["mcp_servers"][0]["env"] == env
    assert message in notes[0]
    assert "extensions" not in toolset


@pytest.mark.parametrize(
    ("name", "key", "overrides", "message"),
    [
        ("windsurf", "disabledTools", True, ""),
        ("codex", "disabled_tools", True, ""),
        ("gemini-cli", "excludeTools", True, ""),
        ("claude-code", "disabledTools", True, ""),
        ("lm-studio", "disabled_tools", True, ""),
        ("codex", "enabled_tools", False, "accept only the tools 'a.b', 'c'"),
        ("gemini-cli", "includeTools", False, "accept only the tools 'a.b', 'c'"),
        ("goose", "available_tools", False, "accept only the tools 'a.b', 'c'"),
        ("claude-code", "headersHelper", False, "no toolset starts this program"),
        ("cursor", "auth", False, "the login of the client"),
        ("gemini-cli", "oauth", False, "the login of the client"),
        ("codex", "scopes", False, "the login of the client"),
        ("goose", "client_id", False, "the login of the client"),
        ("goose", "socket", False, "not by a socket"),
        ("gemini-cli", "includeTools(x)", False, "accept only the tools 'a.b', 'c'"),
        ("continue", "apiKey", False, "the login of the client"),
        ("vscode", "sandbox", False, "the limits that the client sets"),
    ],
)
def test_a_restriction_or_a_login_of_a_client_has_its_effect_or_a_message(
    name: str, key: str, *, overrides: bool, message: str
) -> None:
    (host,) = (item for item in HOSTS if item.name == name)
    setting: Any = ["a.b", "c"] if "ools" in key else {"scopes": ["read"]}
    if key.endswith("(x)"):  # only some calls of a tool
        key, setting = key.removesuffix("(x)"), ["a.b(x)", "c"]
    server = {next(iter(host.urls)): "https://a.example/mcp", "type": "http", key: setting}
    value = host.document({"far": server})
    text = documents.toml_text(value) if host.kind == "toml" else json.dumps(value)
    path = f"x.{host.kind}"
    source = recognition.find_format(name)
    result = laws.converted(text.encode(), source, TOOLSET, path)
    content = result.files["toolset.yaml"]
    toolset = yaml_text.load(content, "t").data

    tools = [item["tool_id"] for item in toolset.get("tool_overrides", ())]
    assert ("far:c" in tools, len(tools)) == (overrides, 2 if overrides else 0)
    is_lost = not overrides and key != "sandbox"
    said = [item.reason for item in result.lost] if is_lost else laws.messages(result)
    assert [message in text for text in said] == ([True] if message else [])
    # What only extensions have is not converted.
    assert is_lost or any(key in loc for loc in (result.consumed if overrides else result.carried))
    again = laws.converted(content, TOOLSET, source, "toolset.yaml")
    (written,) = again.files.values()
    assert documents.parse(written, path).value == documents.parse(text.encode(), path).value
    assert not again.lost


@pytest.mark.parametrize(
    ("settings", "of_server", "override"),
    [
        ('default_tools_approval_mode = "prompt"', True, None),
        ('tools.rm.approval_mode = "prompt"', None, {"requires_confirmation": True}),
        (
            'disabled_tools = ["rm"]\ntools.rm.approval_mode = "prompt"',
            None,
            {"enabled": False, "requires_confirmation": True},
        ),
        ('default_tools_approval_mode = "auto"\ntools.rm.approval_mode = "approve"', None, None),
    ],
)
def test_a_call_for_which_codex_asks_its_user_needs_a_confirmation(
    settings: str, *, of_server: bool | None, override: dict[str, bool] | None
) -> None:
    content = f'[mcp_servers.a]\ncommand = "x"\n{settings}\n'.encode()
    codex = recognition.find_format("codex")
    stored = laws.converted(content, codex, TOOLSET, "x.toml").files["toolset.yaml"]
    toolset = yaml_text.load(stored, "t").data

    assert toolset["mcp_servers"][0].get("requires_confirmation") is of_server
    overrides = [{"tool_id": "a:rm", **override}] if override else []
    assert toolset.get("tool_overrides", []) == overrides
    (written,) = laws.converted(stored, TOOLSET, codex, "toolset.yaml").files.values()
    assert tomllib.loads(written.decode()) == tomllib.loads(content.decode())


def test_variables_and_approvals_of_codex_in_their_longer_forms_have_an_effect_or_a_message() -> (
    None
):
    content = b"""[mcp_servers.b]
command = "b"
env_vars = ["A_KEY", {name = "B_KEY"}, {name = "C_KEY", source = "remote"}]
default_tools_approval_mode = "writes"
"""
    codex = recognition.find_format("codex")
    done = laws.converted(content, codex, TOOLSET, "x.toml")
    stored = done.files["toolset.yaml"]
    (server,) = yaml_text.load(stored, "t").data["mcp_servers"]

    assert server["env"] == {name: f"${{env:{name}}}" for name in ("A_KEY", "B_KEY", "C_KEY")}
    assert {loss.pointer: loss.reason.partition(":")[0] for loss in done.lost} == {
        "/mcp_servers/b/default_tools_approval_mode": "Codex asks its user before calls that write",
        "/mcp_servers/b/env_vars/2/source": "Codex reads this variable on the machine of the task, the toolset on this machine",
    }
    (written,) = laws.converted(stored, TOOLSET, codex, "toolset.yaml").files.values()
    assert tomllib.loads(written.decode()) == tomllib.loads(content.decode())


def test_a_credential_has_an_input_beside_the_inputs_of_the_file() -> None:
    inputs = [{"type": "promptString", "id": name, "password": True} for name in ("unused", "own")]
    env = {"API_KEY": "Zq8vN3kT7wLp2RxB5mYcZr4hJ6sD1g", "O": "${input:own}"}
    value = {"inputs": inputs, "servers": {"a": {"command": "x", "env": env}}}
    vscode = recognition.find_format("vscode")
    content = json.dumps(value).encode()
    stored = laws.converted(content, vscode, TOOLSET).files["toolset.yaml"]
    for result in (
        laws.converted(stored, TOOLSET, vscode, "toolset.yaml"),
        laws.converted(content, vscode, vscode),
    ):
        (written,) = result.files.values()
        output = json.loads(written)
        assert output["servers"]["a"]["env"]["API_KEY"] == "${input:api_key}"
        assert output["inputs"][:2] == inputs
        assert [item["id"] for item in output["inputs"][2:]] == ["api_key"]


def test_the_host_of_a_url_and_a_variable_with_a_default_stay() -> None:
    server = {
        "url": "${API_BASE_URL:-https://api.example.com}/mcp?key=${TOKEN}",
        "headers": {"X-Api-Key": "${KEY:-def}", "X-Token": "${env:LONG_KEY:-Zq8vN3kT7wLp2RxB5mYc}"},
    }
    content = json.dumps({"mcpServers": {"a": server}}).encode()
    result = laws.converted(content, recognition.find_format("claude-code"), TOOLSET)
    toolset = yaml_text.load(result.files["toolset.yaml"], "t").data

    (output,) = toolset["mcp_servers"]
    assert output["url"] == "${env:API_BASE_URL:-https://api.example.com}/mcp?key=${TOKEN}"
    assert output["headers"] == {"X-Api-Key": "${KEY}", "X-Token": "${LONG_KEY}"}
    assert toolset["secrets"] == ["KEY", "LONG_KEY", "TOKEN"]


def test_code_in_the_folder_of_the_editor_is_not_read_from_the_workspace() -> None:
    servers = {
        "a": {"command": "python", "args": ["${workspaceFolder}/a.py", "${workspaceFolder}"]},
        "b": {"command": "${workspaceRoot}/b"},
        "c": {"command": "uv", "args": ["--directory", "${cwd}", "run", "c.py"]},
        "d": {"command": "d", "env": {"PYTHONPATH": "${workspaceFolder}/src", "FILE": "${cwd}/d"}},
    }
    toolset, notes = imported(servers)
    a, b, c, d = toolset["mcp_servers"]

    content = laws.as_json({"servers": servers})
    lost = laws.converted(content, recognition.find_format("vscode"), TOOLSET).lost
    assert {loss.pointer for loss in lost} == {
        *("/servers/a/args/0", "/servers/b/command", "/servers/c/args/1"),
        "/servers/d/env/PYTHONPATH",
    }
    assert a["args"] == ["$${workspaceFolder}/a.py", "${workspace}"]
    assert b["command"] == "$${workspaceRoot}/b"
    assert c["args"][1] == "$${cwd}"
    assert d["env"] == {"FILE": "${workspace}/d"}
    reason = "a server must load no code from the workspace, where tools write"
    assert [one.partition(": ")[0] for one in notes if reason in one] == [
        *("${workspaceFolder} stays as text", "${workspaceRoot} stays as text"),
        *("${cwd} stays as text", "PYTHONPATH is left out"),
    ]


def test_inputs_of_vscode_are_secrets_only_if_they_are_credentials() -> None:
    inputs = [
        {"type": "promptString", "id": "db-key", "password": True},
        {"type": "promptString", "id": "api_token"},
        {"type": "pickString", "id": "browser", "options": ["a", "b"], "default": "a"},
        {"type": "promptString", "id": "project-root"},
    ]
    names = ("db-key", "api_token", "browser", "project-root")
    env = {f"V{at}": f"${{input:{name}}}" for at, name in enumerate(names)}
    plain = {"BROWSER": "chrome", "HEADLESS": "true", "PROJECT_ROOT": "/srv/project"}
    toolset, _ = imported({"a": {"command": "x", "env": {**env, **plain}}}, inputs=inputs)

    assert toolset["secrets"] == ["DB_KEY", "API_TOKEN"]
    assert toolset["mcp_servers"][0]["env"] == {
        "V0": "${DB_KEY}",
        "V1": "${API_TOKEN}",
        "V2": "${env:BROWSER:-a}",
        "V3": "${env:PROJECT_ROOT}",
        **plain,
    }


def test_gemini_connects_to_the_url_that_it_prefers_and_knows_the_variables_of_its_process() -> (
    None
):
    both = {"httpUrl": "https://e.example/mcp", "url": "https://e2.example/sse", "command": "e"}
    near = {"command": "a", "args": ["${USER:-me}", "$HOME/x"]}
    content = laws.as_json({"mcpServers": {"both": both, "near": near}})
    done = laws.converted(content, recognition.find_format("gemini-cli"), TOOLSET)
    first, second = yaml_text.load(done.files["toolset.yaml"], "t").data["mcp_servers"]

    assert first["url"] == "https://e.example/mcp"
    assert "command" not in first
    assert sorted(loss.pointer for loss in done.lost) == [
        "/mcpServers/both/command",
        "/mcpServers/both/url",
    ]
    assert second["args"] == ["${env:USER:-me}", "${env:HOME}/x"]


def test_the_settings_of_requests_of_continue_are_lost_and_names_of_packages_are_secrets() -> None:
    requests = {
        "verifySsl": False,
        "caBundlePath": "/x.pem",
        "proxy": "http://p.example:3128",
        "noProxy": ["a"],
        "clientCertificate": {"cert": "c.pem", "key": "k.pem"},
        "headers": {"K": "${{ secrets.org/pkg/K }}"},
    }
    server = {"name": "s", "type": "streamable-http", "url": "https://s.example/mcp"}
    content = laws.as_json({"mcpServers": [{**server, "requestOptions": requests}]})
    done = laws.converted(content, recognition.find_format("continue"), TOOLSET)
    (far,) = yaml_text.load(done.files["toolset.yaml"], "t").data["mcp_servers"]

    assert far["headers"] == {"K": "${ORG_PKG_K}"}
    assert {loss.pointer.rpartition("/")[2] for loss in done.lost} == {*requests} - {"headers"}


def test_an_input_of_vscode_has_no_variable_that_processes_have() -> None:
    inputs = [
        {"type": "promptString", "id": "home", "default": "Bonn"},
        {"type": "promptString", "id": "path"},
        {"type": "promptString", "id": "user", "password": True},
    ]
    args = ["--city", "${input:home}", "--path", "${input:path}", "--user", "${input:user}"]
    toolset, _ = imported({"weather": {"command": "x", "args": args}}, inputs=inputs)
    values = toolset["mcp_servers"][0]["args"][1::2]

    assert values == ["${env:WEATHER_HOME:-Bonn}", "${env:WEATHER_PATH}", "${WEATHER_USER}"]
    assert toolset["secrets"] == ["WEATHER_USER"]


def test_a_folder_in_a_setting_of_the_client_only_is_not_said_to_be_that_of_the_chat() -> None:
    sandbox = {"filesystem": {"allowWrite": ["${workspaceFolder}"]}}
    _, notes = imported({"a": {"command": "x", "sandbox": sandbox}})

    assert notes == ["the limits that the client sets for the server's program have no effect in a toolset"]  # fmt: skip


def test_a_server_that_gemini_does_not_start_and_a_value_that_vscode_asks_for_are_noted() -> None:
    servers = {name: {"command": "x"} for name in ("a", "b", "c")}
    value = {"mcp": {"allowed": ["a", "b"], "excluded": ["b", "z"]}, "mcpServers": servers}
    gemini = recognition.find_format("gemini-cli")
    done = laws.converted(laws.as_json(value), gemini, TOOLSET, "settings.json")
    inputs = [
        {"type": "pickString", "id": "stage", "options": ["dev", {"label": "P", "value": "prod"}]},
        {"type": "pickString", "id": "region", "options": ["eu"], "default": "eu"},
        {"type": "command", "id": "unused", "command": "x"},
    ]
    near = {"command": "x", "args": ["${input:stage}", "${input:region}"]}
    vscode = recognition.find_format("vscode")
    asking = laws.as_json({"inputs": inputs, "servers": {"near": near}})
    notes = laws.converted(asking, vscode, TOOLSET, "mcp.json").notes

    toolset = yaml_text.load(done.files["toolset.yaml"], "t").data
    assert [server.get("enabled", True) for server in toolset["mcp_servers"]] == [
        True,
        False,
        False,
    ]
    (back,) = laws.converted(
        done.files["toolset.yaml"], TOOLSET, gemini, "toolset.yaml"
    ).files.values()
    assert json.loads(back) == value
    assert {note.pointer: note.message.partition(":")[0] for note in done.notes} == {
        "/mcp/allowed": "Gemini CLI does not start 'c'",
        "/mcp/excluded": "Gemini CLI does not start 'b'",
    }
    older = {"allowMCPServers": ["a", "b"], "excludeMCPServers": ["b"], "mcpServers": servers}
    done = laws.converted(laws.as_json(older), gemini, TOOLSET, "settings.json")
    assert {note.pointer for note in done.notes} == {"/allowMCPServers", "/excludeMCPServers"}
    assert [note.pointer for note in notes] == ["/inputs/0"]
    assert notes[0].message.endswith("set the variable STAGE of the environment to 'dev' or 'prod'")


def test_the_folder_of_the_chat_is_that_of_the_editor() -> None:
    content = b"""
id: a
name: A
version: "1"
mcp_servers: [{id: a, command: x, args: [$workspace/b, $$workspace]}]
"""
    shown = {}
    for name in ("vscode", "cursor", "claude-code"):
        done = laws.converted(content, TOOLSET, recognition.find_format(name), "toolset.yaml")
        (file,) = done.files.values()
        (host,) = (one for one in HOSTS if one.name == name)
        servers = host.servers(json.loads(file)) or {}
        shown[name] = (
            servers["a"]["args"],
            [one.reason for one in done.lost if "args" in one.pointer],
        )

    assert shown["vscode"] == shown["cursor"] == (["${workspaceFolder}/b", "$workspace"], [])
    assert shown["claude-code"][1] == [
        "Claude Code has no variable for $workspace: write the path into its file"
    ]


def test_goose_replaces_variables_in_the_url_and_the_headers_of_a_server() -> None:
    far = {
        "type": "streamable_http",
        "name": "far",
        "uri": "https://far.example/$REGION/mcp?apikey=$FAR_KEY",
        "headers": {"X-Key": "$FAR_KEY", "X-Region": "${REGION}", "X-Other": "a$5"},
        "env_keys": ["FAR_KEY"],
        "envs": {"REGION": "eu"},
        "client_id": "abc",
        "client_secret_key": "FAR_SECRET",
    }
    content = laws.as_json({"extensions": {"far": {**far, "enabled": True, "timeout": 60}}})
    goose = recognition.find_format("goose")
    done = laws.converted(content, goose, TOOLSET)
    stored = done.files["toolset.yaml"]
    toolset = yaml_text.load(stored, "t").data
    (server,) = toolset["mcp_servers"]

    assert server["url"] == "https://far.example/eu/mcp?apikey=${FAR_KEY}"
    assert server["headers"] == {"X-Key": "${FAR_KEY}", "X-Region": "eu", "X-Other": "a$$5"}
    assert toolset["secrets"] == ["FAR_KEY"]
    assert not any("credential" in note.message for note in done.notes)
    (written,) = laws.converted(stored, TOOLSET, goose, "toolset.yaml").files.values()
    assert yaml_text.load(written, "g").data == json.loads(content)


def test_goose_gets_secrets_by_name_and_continue_a_list() -> None:
    done = laws.converted(SERVERS, TOOLSET, recognition.find_format("goose"), "toolset.yaml")
    goose = yaml_text.load(done.files["goose/config.yaml"], "t").data["extensions"]
    again = laws.converted(SERVERS, TOOLSET, recognition.find_format("continue"), "toolset.yaml")
    (content,) = again.files.values()
    listed = {one["name"]: one for one in yaml_text.load(content, "t").data["mcpServers"]}

    assert (goose["local"]["cmd"], goose["local"]["env_keys"]) == ("npx", ["TOKEN"])
    assert goose["far"]["uri"] == "https://far.example/mcp"
    assert (goose["far"]["type"], goose["far"]["env_keys"]) == ("streamable_http", ["TOKEN"])
    assert goose["far"]["headers"] == {"Authorization": "Bearer ${TOKEN}"}
    assert listed["local"]["args"][-1] == "${{ secrets.DSN }}"
    assert listed["far"]["requestOptions"]["headers"] == {
        "Authorization": "Bearer ${{ secrets.TOKEN }}"
    }


def zed_tools(**rules: str) -> Any:
    tools = {f"mcp:a:{tool}": {"default": action} for tool, action in rules.items()}
    return {"agent": {"tool_permissions": {"tools": tools}}}


def zed_profile(tools: Any, *, every: bool) -> Any:
    profile = {"enable_all_context_servers": every, "context_servers": {"a": {"tools": tools}}}
    return {"agent": {"default_profile": "p", "profiles": {"p": profile}}}


SECRET = "Zq8vN3kT7wLp2RxB5mYcZr4hJ6sD1g"
OFF = [{"tool_id": "a:rm", "enabled": False}]
ASK = [{"tool_id": "a:rm", "requires_confirmation": True}]
PROFILE = {"profiles": {"p": {"context_servers": {"a": {"tools": {"rm": False}}}}}}


@pytest.mark.parametrize(
    ("name", "settings", "server", "overrides", "message"),
    [
        ("zed", zed_tools(rm="deny"), {}, OFF, ""),
        ("zed", zed_tools(rm="confirm", ok="allow"), {}, ASK, ""),
        ("zed", {"agent": PROFILE}, {}, [], "choice of 'p' among the tools of 'a'"),
        ("zed", {"agent": {**PROFILE, "default_profile": "p"}}, {"enabled": False}, OFF, "no tool"),
        ("zed", zed_profile({"rm": False}, every=True), {}, OFF, "whatever the profile"),
        ("zed", zed_profile({"ok": True}, every=False), {}, [], "offers only 'ok' of 'a'"),
        ("zed", {"agent": {"default_profile": "minimal"}}, {"enabled": False}, [], "no tool"),
        ("zed", {"agent": {"default_profile": "write"}}, {}, [], ""),
        ("opencode", {"tools": {"a_rm": False}}, {}, OFF, ""),
        ("opencode", {"permission": {"a_rm": "ask"}}, {}, ASK, ""),
        ("opencode", {"tools": {"a*": False}}, {"enabled": False}, [], "offers no tool of 'a'"),
        (
            "opencode",
            {"permission": {"a_*": "deny"}},
            {"enabled": False},
            [],
            "offers no tool of 'a'",
        ),
        (
            "opencode",
            {"permission": {"a_*": "deny", "a_mv": "ask"}},
            {"enabled": False},
            [],
            "offers only 'mv' of 'a', which is disabled: enable it, and accept only these; for 'mv' it asks before each call",
        ),
        ("opencode", {"permission": "ask"}, {"requires_confirmation": True}, [], ""),
        (
            "zed",
            {
                "agent": {
                    "tool_permissions": {
                        "default": "confirm",
                        "tools": {"mcp:a:c": {"default": "allow"}},
                    }
                }
            },
            {"requires_confirmation": True},
            [],
            "does not ask before calls of 'c'",
        ),
        ("opencode", {"tools": {"a_r*": False}}, {}, [], "'a_r*' matches"),
        (
            "opencode",
            {"tools": {"a_*": False, "a_ok": True}},
            {"enabled": False},
            [],
            "offers only 'ok'",
        ),
        (
            "opencode",
            {"agent": {"x": {"tools": {"a_*": False}}}},
            {},
            [],
            "choice of 'x' among the tools of 'a'",
        ),
        ("opencode", {"permission": {"a_rm": {"*": "deny", "x": "allow"}}}, {}, OFF, "some calls"),
        (
            "opencode-v2",
            {"permissions": [{"action": "a_rm", "resource": "*", "effect": "deny"}]},
            {},
            OFF,
            "",
        ),
        (
            "opencode-v2",
            {"permissions": [{"action": "a_*", "resource": "*", "effect": "ask"}]},
            {"requires_confirmation": True},
            [],
            "",
        ),
        (
            "opencode-v2",
            {"permissions": [{"action": "a_rm", "resource": "x", "effect": "deny"}]},
            {},
            [],
            "some calls",
        ),
        ("gemini-cli", {"tools": {"exclude": ["mcp_a_rm", "glob"]}}, {}, OFF, ""),
        ("gemini-cli", {"excludeTools": ["a__rm"]}, {}, OFF, ""),
        (
            "gemini-cli",
            {"excludeTools": ["rm"]},
            {},
            [],
            "if a server of the toolset has this tool",
        ),
        ("claude-code", {"permissions": {"deny": ["mcp__a__rm"]}}, {}, OFF, ""),
        (
            "claude-code",
            {"permissions": {"deny": ["mcp__a"]}},
            {"enabled": False},
            [],
            "offers no tool of 'a'",
        ),
        (
            "claude-code",
            {"disabledMcpServers": ["a"]},
            {"enabled": False},
            [],
            "offers no tool of 'a'",
        ),
    ],
)
def test_a_rule_of_the_file_for_tools_has_its_effect_or_a_note(
    name: str, settings: Any, server: Any, overrides: Any, message: str
) -> None:
    (host,) = (item for item in HOSTS if item.name == name)
    value = {**host.document({"a": {"command": ["x"]} if host.lists_command else {"command": "x"}})}
    content = laws.as_json({**value, **settings})
    source = recognition.find_format(name)
    done = laws.converted(content, source, TOOLSET)
    stored = done.files["toolset.yaml"]
    toolset = yaml_text.load(stored, "t").data
    again = laws.converted(stored, TOOLSET, source, "toolset.yaml")
    (written,) = again.files.values()

    assert toolset["mcp_servers"] == [{"id": "a", "command": "x", **server}]
    assert toolset.get("tool_overrides", []) == overrides
    assert [message in text for text in laws.messages(done)] == ([True] if message else [])
    assert (json.loads(written), again.lost) == (json.loads(content), ())


@pytest.mark.parametrize(
    ("server", "transport"),
    [
        ({"url": "https://a.example/mcp"}, None),
        ({"url": "https://a.example/mcp", "type": "sse"}, "sse"),
        ({"httpUrl": "https://a.example/mcp"}, "streamable-http"),
    ],
)
def test_gemini_uses_http_unless_the_type_is_sse(server: Any, transport: str | None) -> None:
    gemini, cursor = (recognition.find_format(name) for name in ("gemini-cli", "cursor"))
    content = laws.as_json({"mcpServers": {"a": server}})
    stored = laws.converted(content, gemini, TOOLSET).files["toolset.yaml"]
    assert yaml_text.load(stored, "t").data["mcp_servers"][0].get("transport") == transport

    (other,) = laws.converted(content, gemini, cursor).files.values()
    (written,) = laws.converted(other, cursor, gemini).files.values()
    (again,) = json.loads(written)["mcpServers"].values()
    assert (again.get("type") == "sse") == ("url" in again) == (transport == "sse")


def test_a_folder_with_a_file_of_a_client_names_that_file(
    operate: Operations, tmp_path: Path
) -> None:
    folder = tmp_path / "some"
    folder.mkdir()
    (folder / ".mcp.json").write_text('{"mcpServers": {"a": {"command": "x"}}}')
    error = operate.error("convert_file", path=folder, target_format="toolset")

    assert error.hint == f"convert the file in it: {folder}/.mcp.json"


def test_a_placeholder_for_a_credential_becomes_a_secret_and_others_stay() -> None:
    env = {"API_KEY": "<your key>", "MODE": "<mode>", "DB_PASSWORD": "{{ password }}"}
    args = ["--token", "<TOKEN>", "--api-key=<KEY>", "--out", "{name}.txt"]
    headers = {"Authorization": "Bearer <YOUR_HF_TOKEN>", "X-Api-Key": "{{API_KEY}}", "A": "{b}"}
    url = "https://b.example/mcp?api_key=<YOUR_KEY>&area=<area>"
    servers = {
        "a": {"command": "x", "args": args, "env": env},
        "b": {"url": url, "headers": headers},
    }
    content = laws.as_json({"mcpServers": servers})
    done = laws.converted(content, recognition.find_format("claude-code"), TOOLSET)
    near, far = yaml_text.load(done.files["toolset.yaml"], "t").data["mcp_servers"]

    assert near["env"] == {
        "API_KEY": "${API_KEY}",
        "MODE": "<mode>",
        "DB_PASSWORD": "${DB_PASSWORD}",
    }
    assert near["args"] == [
        "--token",
        "${A_TOKEN}",
        "--api-key=${A_API_KEY}",
        "--out",
        "{name}.txt",
    ]
    assert far["url"] == "https://b.example/mcp?api_key=${B_API_KEY}&area=<area>"
    assert far["headers"] == {
        "Authorization": "Bearer ${B_TOKEN}",
        "X-Api-Key": "${B_X_API_KEY}",
        "A": "{b}",
    }


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("goose", {"timeout": 300}, "set limits.timeout_s: 300 in covalt.yaml"),
        ("codex", {"startup_timeout_ms": 20000}, "startup_timeout_ms has no effect"),
        ("codex", {"tool_timeout_sec": 45.5}, "set limits.timeout_s: 46 in covalt.yaml"),
        ("gemini-cli", {"timeout": 600000}, "set limits.timeout_s: 600 in covalt.yaml"),
        ("cursor", {"timeout": 300}, "set limits.timeout_s in covalt.yaml"),
        ("continue", {"requestOptions": {"timeout": 30}}, "set limits.timeout_s in covalt.yaml"),
        ("continue", {"connectionTimeout": 5000}, "connectionTimeout has no effect"),
        (
            "opencode-v2",
            {"timeout": {"execution": 600000}},
            "set limits.timeout_s: 600 in covalt.yaml",
        ),
        ("opencode-v2", {"timeout": {"catalog": 5000}}, "catalog has no effect"),
    ],
)
def test_a_limit_of_time_of_a_client_has_a_note_with_the_limit_of_the_project(
    name: str, settings: Any, message: str
) -> None:
    (host,) = (item for item in HOSTS if item.name == name)
    server = {next(iter(host.urls)): "https://a.example/mcp", "type": "sse", **settings}
    value = host.document({"a": server})
    text = documents.toml_text(value) if host.kind == "toml" else json.dumps(value)
    source, path = recognition.find_format(name), f"x.{host.kind}"
    done = laws.converted(text.encode(), source, TOOLSET, path)
    (said,) = laws.messages(done)

    assert message in said
    # A call that needs longer ends.
    assert bool(done.lost) == (": 600" in message)
    assert not laws.converted(text.encode(), source, recognition.find_format("cline"), path).notes


@pytest.mark.parametrize(
    ("name", "settings", "times", "said"),
    [
        ("goose", {}, [300, 200, 30], [(300, False), (300, False), (300, False)]),
        ("goose", {}, [600, 300], [(600, True), (600, False)]),
        ("zed", {"context_server_timeout": 120}, [None], [(120, True)]),
        ("opencode", {"experimental": {"mcp_timeout": 90000}}, [30000], [(90, True), (90, False)]),
    ],
)
def test_limits_of_time_of_a_file_do_not_contradict_each_other(
    name: str, settings: Any, times: list[int | None], said: list[tuple[int, bool]]
) -> None:
    (host,) = (item for item in HOSTS if item.name == name)
    start = {**host.defaults, host.command: ["x"] if host.lists_command else "x", "type": "stdio"}
    servers = {
        f"s{at}": {**start, **({} if time is None else {"timeout": time})}
        for at, time in enumerate(times)
    }
    content = laws.as_json({**host.document(servers), **settings})
    done = laws.converted(content, recognition.find_format(name), TOOLSET)
    lines = [(note.message, False) for note in done.notes]
    lines += [(loss.reason, True) for loss in done.lost]
    limits = [
        (int(match[1]), is_lost)
        for text, is_lost in lines
        if (match := re.search(r"limits\.timeout_s: (\d+)", text))
    ]

    assert sorted(limits) == sorted(said)


@pytest.mark.parametrize("path", ["opencode.json", "opencode.jsonc", "x.json"])
def test_the_servers_of_opencode_2_are_below_a_key_of_their_own(path: str) -> None:
    remote = {"type": "remote", "url": "https://m.example/mcp", "headers": {"A": "Bearer {env:T}"}}
    older = {"type": "local", "command": ["y"]}
    content = json.dumps({"mcp": {"servers": {"rem": remote}, "old": older}}).encode()
    source = recognition.recognize(documents.parse(content, path))
    done = laws.converted(content, source, TOOLSET, path)
    (server,) = yaml_text.load(done.files["toolset.yaml"], "t").data["mcp_servers"]

    assert source.name == "opencode-v2"
    assert recognition.recognize(documents.parse(content, path), "opencode") is source
    assert server["headers"] == {"A": "Bearer ${env:T}"}
    assert [(loss.pointer, "older form" in loss.reason) for loss in done.lost] == [
        ("/mcp/old", True)
    ]


@pytest.mark.parametrize(
    ("name", "path", "value", "pointer"),
    [
        ("zed", "settings.json", {"language_models": {"openai": {"api_key": SECRET}}}, "api_key"),
        ("goose", "config.yaml", {"OPENAI_API_KEY": SECRET}, "OPENAI_API_KEY"),
        (
            "codex",
            "config.toml",
            {"model_providers": {"x": {"http_headers": {"Authorization": f"Bearer {SECRET}"}}}},
            "Authorization",
        ),
        (
            "mcpb",
            "manifest.json",
            {"user_config": {"token": {"type": "string", "title": "T", "default": SECRET}}},
            "default",
        ),
    ],
)
def test_a_credential_that_the_client_would_not_replace_is_lost(
    name: str, path: str, value: Any, pointer: str
) -> None:
    source = recognition.find_format(name)
    config = {"command": "x", "args": []}
    around: Any = {
        "manifest_version": "0.3",
        "name": "a",
        "version": "1",
        "server": {"type": "binary", "mcp_config": config},
    }
    if name != "mcpb":
        (host,) = (item for item in HOSTS if item.name == name)
        around = host.document({"a": {host.command: "x", "type": "stdio"}})
    content = {**around, **value}
    text = documents.toml_text(content) if path.endswith("toml") else json.dumps(content)
    stored = laws.converted(text.encode(), source, TOOLSET, path)
    for result in (
        laws.converted(stored.files["toolset.yaml"], TOOLSET, source, "toolset.yaml"),
        laws.converted(text.encode(), source, source, path),
    ):
        (lost,) = result.lost
        assert lost.pointer.endswith(pointer)
        assert "does not replace variables here: write the value of" in lost.reason
    assert not stored.lost


def test_a_block_of_the_hub_of_continue_comes_back_where_it_was() -> None:
    names = ["a/first", "near", "a/last"]
    servers = [
        {"name": name, "command": "x"} if name == "near" else {"uses": name} for name in names
    ]
    content = {"name": "n", "version": "1", "schema": "v1", "mcpServers": servers}
    source = recognition.find_format("continue")
    stored = laws.converted(laws.as_json(content), source, TOOLSET, "x.yaml")
    again = laws.converted(stored.files["toolset.yaml"], TOOLSET, source, "toolset.yaml")
    (written,) = again.files.values()

    assert [item.pointer for item in stored.lost] == ["/mcpServers/0", "/mcpServers/2"]
    assert (yaml_text.load(written, "t").data, again.lost) == (content, ())


def test_two_servers_of_continue_with_one_name_are_two_servers() -> None:
    same: list[Any] = [{"name": "same", "command": "x", "args": [text]} for text in "ab"]
    servers = [{"uses": "a/first"}, *same, {"uses": "a/first"}, {"name": "c", "command": "y"}]
    content = {"name": "n", "version": "1", "schema": "v1", "mcpServers": servers}
    source = recognition.find_format("continue")
    stored = laws.converted(laws.as_json(content), source, TOOLSET, "x.yaml")
    again = laws.converted(stored.files["toolset.yaml"], TOOLSET, source, "toolset.yaml")
    (written,) = again.files.values()
    cursor = laws.converted(laws.as_json(content), source, recognition.find_format("cursor"), "x.yaml")  # fmt: skip
    (other,) = cursor.files.values()

    assert [item.pointer for item in stored.lost] == ["/mcpServers/0", "/mcpServers/3"]
    assert (yaml_text.load(written, "t").data, again.lost) == (content, ())
    args = [server.get("args") for server in json.loads(other)["mcpServers"].values()]
    assert args == [["a"], ["b"], None]


def test_a_url_of_continue_with_a_secret_in_its_query_comes_back() -> None:
    url = "https://far.example/mcp?key=${{ secrets.FAR_KEY }}&team=${{secrets.TEAM}}"
    servers = {"mcpServers": [{"name": "far", "url": url}], "name": "MCP servers"}
    text = json.dumps(servers | {"version": "0.0.1", "schema": "v1"}).encode()
    source = recognition.find_format("continue")

    stored = laws.converted(text, source, TOOLSET, "config.yaml").files["toolset.yaml"]
    toolset = yaml_text.load(stored, "t").data
    (again,) = laws.converted(stored, TOOLSET, source, "toolset.yaml").files.values()

    assert toolset["mcp_servers"][0]["url"] == "https://far.example/mcp?key=${FAR_KEY}&team=${TEAM}"
    (server,) = documents.parse(again, "config.yaml").value["mcpServers"]
    assert server["url"] == url


def test_a_url_of_vscode_can_have_an_input_with_blanks() -> None:
    toolset, _ = imported({"far": {"url": "https://far.example/mcp?team=${input:my team}"}})

    assert toolset["mcp_servers"][0]["url"] == "https://far.example/mcp?team=${MY_TEAM}"


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        *(
            (host, "disabled", True)
            for host in ("cursor", "claude-code", "lm-studio", "gemini-cli")
        ),
        ("zed", "disabled", True),
        ("cline", "enabled", False),
    ],
)
def test_a_server_that_its_author_disabled_stays_disabled_where_the_client_has_no_key_for_it(
    name: str, key: str, *, value: bool
) -> None:
    (host,) = (item for item in HOSTS if item.name == name)
    content = laws.as_json(host.document({"a": {"command": "x", key: value}}))
    source = recognition.find_format(name)
    done = laws.converted(content, source, TOOLSET)
    again = laws.converted(done.files["toolset.yaml"], TOOLSET, source, "toolset.yaml")
    (written,) = again.files.values()

    (server,) = yaml_text.load(done.files["toolset.yaml"], "t").data["mcp_servers"]
    assert server["enabled"] is False
    assert [note.pointer.rpartition("/")[2] for note in done.notes] == [key]
    assert (json.loads(written), again.lost) == (json.loads(content), ())


@pytest.mark.parametrize(
    ("name", "allowed", "excluded"),
    [("codex", "enabled_tools", "disabled_tools"), ("gemini-cli", "includeTools", "excludeTools")],
)
def test_a_message_on_allowed_tools_names_no_excluded_one(
    name: str, allowed: str, excluded: str
) -> None:
    (host,) = (item for item in HOSTS if item.name == name)
    value = host.document({"a": {"command": "x", allowed: ["ok", "rm"], excluded: ["rm"]}})
    text = documents.toml_text(value) if host.kind == "toml" else json.dumps(value)
    source = recognition.find_format(name)
    (lost,) = laws.converted(text.encode(), source, TOOLSET, f"x.{host.kind}").lost

    assert lost.reason.endswith("accept only the tools 'ok'")


@pytest.mark.parametrize(
    ("name", "key"), [("codex", "enabled_tools"), ("gemini-cli", "includeTools"), ("goose", "available_tools")]
)  # fmt: skip
def test_an_empty_list_of_enabled_tools_disables_the_server_except_in_goose(
    name: str, key: str
) -> None:
    (host,) = (item for item in HOSTS if item.name == name)
    value = host.document({"a": {host.command: "x", "type": "stdio", key: []}})
    text = documents.toml_text(value) if host.kind == "toml" else json.dumps(value)
    source, path = recognition.find_format(name), f"x.{host.kind}"
    done = laws.converted(text.encode(), source, TOOLSET, path)
    stored = done.files["toolset.yaml"]
    again = laws.converted(stored, TOOLSET, source, "toolset.yaml")
    (written,) = again.files.values()

    (server,) = yaml_text.load(stored, "t").data["mcp_servers"]
    assert (server.get("enabled"), len(done.notes)) == (
        (None, 0) if name == "goose" else (False, 1)
    )
    assert (documents.parse(written, path).value, again.lost) == (value, ())


@pytest.mark.parametrize(
    ("name", "variable"), [("opencode", "{file:~/a.txt}"), ("windsurf", "${file:~/a.txt}")]
)
def test_a_file_whose_content_a_client_writes_into_a_value_has_a_note(
    name: str, variable: str
) -> None:
    (host,) = (item for item in HOSTS if item.name == name)
    env = {"MODE": variable, "API_KEY": variable.replace("a.txt", "key")}
    value = host.document(
        {"a": {host.command: ["x"] if host.lists_command else "x", host.env: env}}
    )
    done = laws.converted(laws.as_json(value), recognition.find_format(name), TOOLSET)
    (server,) = yaml_text.load(done.files["toolset.yaml"], "t").data["mcp_servers"]

    assert server["env"]["API_KEY"] == "${API_KEY}"
    shown = {note.pointer.rpartition("/")[2]: note.message for note in done.notes}
    assert "reads the file '~/a.txt'" in shown["MODE"]
    assert "reads this credential from the file '~/key'" in shown["API_KEY"]


WITHOUT_MEANING = {
    *(
        "autoApprove",
        "alwaysAllow",
        "trust",
    ),  # a toolset asks by its own rules, and rather too often
    *("description", "bundled", "name", "source"),  # for people
    *("required", "dev", "settings"),  # of the client's start, and of its extensions
}
"""Keys of servers that a toolset carries without a message, because no user misses them."""


def silent_keys(done: conversion.Conversion, host: Host) -> set[Any]:
    """Return the keys of servers that are carried only, without a note or a loss that names their place."""
    said = {note.pointer for note in done.notes} | {loss.pointer for loss in done.lost}
    at = len(host.path)
    return {
        loc[at + 1]
        for loc in done.carried
        if loc[:at] == host.path
        and len(loc) > at + 1
        and said.isdisjoint(pointer_text(loc[:end]) for end in range(len(loc) + 1))
    }


@pytest.mark.parametrize("host", HOSTS, ids=[host.name for host in HOSTS])
@pytest.mark.parametrize("value", [True, False, 90, 900000, ["a"], {"a": "b"}, "a/b"], ids=repr)
def test_a_setting_of_a_server_has_its_effect_or_a_message(host: Host, value: Any) -> None:
    common = "cwd envFile oauth auth scopes disabled enabled timeout startup_timeout_ms sandbox"
    keys = {*host.more, *host.settings, *common.split()} - WITHOUT_MEANING
    if host.off and not isinstance(value, bool):
        keys -= {host.off[0]}
    start: dict[str, Any] = {host.command: ["x"] if host.lists_command else "x", "type": "stdio"}
    source, path = recognition.find_format(host.name), f"x.{host.kind}"
    fits = {
        bool: {"disabled", "enabled", "oauth", "auth"},
        int: {key for key in keys if "imeout" in key},
        list: {key for key in keys if "ools" in key or key == "scopes"},
        dict: {"oauth", "auth", "sandbox"},
        str: {"cwd", "envFile", "auth", "authProviderType", "headersHelper"},
    }[type(value)]
    for key in keys & fits:
        content = host.document({"a": {**start, key: value}})
        text = documents.toml_text(content) if host.kind == "toml" else json.dumps(content)
        done = laws.converted(text.encode(), source, TOOLSET, path)
        # A server of a toolset is enabled, and has no login, unless the file says something else.
        is_usual = value is False or (key, value) == ("enabled", True)
        assert silent_keys(done, host) <= ({key} if is_usual else set()), key


@pytest.mark.parametrize("host", HOSTS, ids=[host.name for host in HOSTS])
def test_no_setting_of_a_server_is_carried_without_a_message(host: Host) -> None:
    source = recognition.find_format(host.name)
    for path in laws.documents_of(host.name):
        done = laws.converted(path.read_bytes(), source, TOOLSET, path.name)
        assert silent_keys(done, host) <= WITHOUT_MEANING | {"oauth", "envs"}, path
