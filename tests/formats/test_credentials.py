"""No credential of an input is in any output, report or error."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from covalt_git.errors import CovaltError
from covalt_git.formats import conversion, recognition
from covalt_git.formats.credentials.literal_credentials import replace_credentials
from covalt_git.formats.documents import FormatError, parse
from covalt_git.formats.table import TOOLSET
from tests.examples import rest
from tests.formats import laws

CANARY = "Zq8vN3kT7wLp2RxB5mYc"
CASES: dict[str, Any] = yaml.load(
    Path(__file__).with_name("credentials.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)


@pytest.mark.parametrize("name", CASES["replaced"])
def test_a_credential_becomes_a_reference(name: str) -> None:
    case = CASES["replaced"][name]
    value, notes = replace_credentials(with_canary(case["input"]))

    assert value == case["output"]
    assert [note.secret for note in notes] == case["secrets"]


@pytest.mark.parametrize("name", CASES["unchanged"])
def test_other_values_stay(name: str) -> None:
    value = CASES["unchanged"][name]

    assert replace_credentials(value) == (value, [])


@pytest.mark.parametrize("reference", CASES["references"])
def test_a_reference_of_a_client_is_no_credential_wherever_it_is(reference: str) -> None:
    for place in CASES["places of references"]:
        text = json.dumps(place).replace("REF", reference)
        value = {"mcpServers": {"a": json.loads(text)}}

        assert replace_credentials(value, has_bare_references=lambda _: True) == (value, [])


@pytest.mark.parametrize("reference", ["${DBUSER:-me}", "${env:DBUSER:-me}"])
def test_a_default_of_a_variable_is_a_credential_only_in_place_of_one(reference: str) -> None:
    users = [["--user", "REF"], ["-u", "REF"], ["-c", "curl -u REF https://h"], ["--user=REF:${P}"]]
    for user in users:
        value = json.loads(json.dumps({"args": user}).replace("REF", reference))

        assert replace_credentials(value) == (value, [])

    value, _ = replace_credentials({"id": "a", "args": ["-u", f"{reference}:s3cretPass9"]})
    assert value["args"] == ["-u", f"{reference}:${{A_PASSWORD}}"]


@pytest.mark.parametrize("name", CASES["documents"])
def test_no_output_has_the_credential(name: str) -> None:
    text = json.dumps(with_canary(CASES["documents"][name]))
    document = parse(text.encode(), "input.json")
    source = recognition.recognize(document, name)
    for target in laws.WRITABLE:
        try:
            done = conversion.convert(document, source, target)
        except FormatError:  # Cognipeer has no documents with several tools
            continue

        assert CANARY not in repr(done)
        assert any("credential" in note.message for note in done.notes)


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="OpenSSH makes the key")
@pytest.mark.parametrize("algorithm", ["ed25519", rest("rsa"), rest("ecdsa")])
@pytest.mark.parametrize("passphrase", ["", "correct horse"])
def test_a_private_key_of_openssh_is_a_credential(
    tmp_path: Path, algorithm: str, passphrase: str
) -> None:
    file = tmp_path / "key"
    arguments = ["-q", "-t", algorithm, "-N", passphrase, "-f", str(file)]
    if algorithm == "rsa":
        arguments += ["-b", "1024"]  # a key of 3,072 bits takes a second to make
    subprocess.run(["ssh-keygen", *arguments], check=True, timeout=60)
    key = file.read_text(encoding="ascii").strip()
    for text in (key, key.replace("\n", "\\n"), key.replace("\n", "\r\n")):
        value, notes = replace_credentials({"id": "a", "env": {"DEPLOY": text}, "args": [text]})

        assert value == {"id": "a", "env": {"DEPLOY": "${DEPLOY}"}, "args": ["${DEPLOY}"]}
        assert {note.secret for note in notes} == {"DEPLOY"}


def test_a_line_of_a_private_key_that_looks_like_a_variable_hides_no_key() -> None:
    lines = [CANARY[:17] * 4, CANARY[3:] * 4, "+KxJJrYi0J2RJ1xXXBwLW+n1vZmRcMKn1zunPw=="]
    begin, end = (f"-----{word} OPENSSH PRIVATE KEY-----" for word in ("BEGIN", "END"))
    key = "\n".join([begin, *lines, end])

    value, _ = replace_credentials({"id": "a", "args": [key, key.replace("\n", "\\n")]})

    assert not any(line in json.dumps(value) for line in lines)


def test_no_error_has_the_credential() -> None:
    for text in (
        '{"schema": "x", "toolsets": [{"id": "CANARY", "kind": "CANARY"}]',
        '{"a": CANARY}',
    ):
        with pytest.raises(CovaltError) as caught:
            parse(text.replace("CANARY", f"ghp_{CANARY}{CANARY[:16]}").encode(), "input.json")
        assert CANARY not in str(caught.value)


def with_canary(value: Any) -> Any:
    return json.loads(re.sub("CANARY", CANARY, json.dumps(value)))


def test_a_note_names_a_secret_only_if_the_output_refers_to_it() -> None:
    servers = {
        "name": "io.example/a",
        "packages": [
            {
                "registryType": "npm",
                "identifier": "a",
                "environmentVariables": [
                    {"name": "SD", "isSecret": True, "default": "s3cretPass9"}
                ],
            }
        ],
    }
    sources = b"sources: {db: {kind: postgres, password: s3cretPass9}, web: {kind: http, baseUrl: 'https://a.example'}}\n"
    tools = b"tools: {t: {kind: http, source: web, method: GET, path: /x, description: A tool.}}\n"
    for content, name, path, secret in (
        (json.dumps(servers).encode(), "mcp-server-json", "server.json", "SD"),
        (sources + tools, "genai-toolbox", "tools.yaml", ""),
    ):
        result = laws.converted(content, recognition.find_format(name), TOOLSET, path)
        (note,) = [item for item in result.notes if "credential" in item.message]
        assert note.secret == secret
        assert ("no tool or server of the output needs it" in note.message) == (not secret)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("Server=db;User Id=sa;Password=Xk3&9fLq(2Vb|7Tz;", "Server=db;User Id=sa;Password=${};"),
        ("Driver={SQL Server};UID=sa;PWD={Qk3;7hLq2Vb7};", "Driver={SQL Server};UID=sa;PWD=${};"),
        ("Password = horse battery correct; Database = d", "Password = ${}; Database = d"),
        ("h:6380,password=a&bQk37hLq2,ssl=True", "h:6380,password=${},ssl=True"),
        ("jdbc:sqlserver://h;user=u;password=a&bQk37hLq", "jdbc:sqlserver://h;user=u;password=${}"),
    ],
)
def test_the_whole_password_of_a_connection_string_is_replaced(text: str, rest: str) -> None:
    server = {"command": "npx", "args": ["srv", text], "env": {"DB": text}}

    value, _ = replace_credentials({"mcpServers": {"dbx": server}})

    replaced = value["mcpServers"]["dbx"]
    assert replaced["args"][1] == replaced["env"]["DB"] == rest.replace("${}", "${DBX_PASSWORD}")
