"""A token of a known format is found wherever a document has it, before anything is written or exported."""

import json
import random
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.checks.text_files import check_text
from covalt_git.credentials.leaks import credentials, has_random_value, value_after_name
from covalt_git.credentials.named_values import (
    announced_credentials,
    announces,
    is_always_secret,
    is_secret,
)
from covalt_git.formats.credentials.literal_credentials import replace_credentials
from tests.credentials.test_leaks import HEX, KNOWN, made
from tests.examples import covering

TOKENS = {name: value for name, value in KNOWN.items() if not name.startswith("private-key")}
AROUND = [
    "{}",
    "${{T:-{}}}",
    "${{env:T:-{}}}",
    "--token-{}",
    "--token={}",
    "prefix-{}",
    "prefix_{}",
    "https://api.example.com/?q={}&x=1",
    "https://api.example.com/{}/x",
    "a%20{}",
    "Bearer {}",
    "line\n{}\n",
    "('{}')",
]
keys = st.sampled_from(["name", "description", "args", "env", "x-note", "default", "url", "T"])
documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(0, 99)
    | st.sampled_from(["", "text", "a b", "git log"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=12,
)


def planted(document: object, text: str, choose: random.Random) -> object:
    """Return a document with a text at a random place."""
    if isinstance(document, dict) and document and choose.random() < 0.8:
        key = choose.choice(sorted(document))
        return {**document, key: planted(document[key], text, choose)}
    if isinstance(document, list) and document and choose.random() < 0.8:
        position = choose.randrange(len(document))
        inner = planted(document[position], text, choose)
        return [*document[:position], inner, *document[position + 1 :]]
    return choose.choice([text, [text, document], {"x": document, "y": text}])


@pytest.mark.parametrize(("name", "around"), covering(sorted(TOKENS), AROUND))
def test_a_token_is_seen_whatever_is_around_it(name: str, around: str) -> None:
    value = TOKENS[name]
    text = around.format(value)

    assert any(found.value in value or value in found.value for found in credentials(text))
    assert any(found.certain for found in credentials(json.dumps({"a": text})))


@given(documents, st.sampled_from(sorted(TOKENS.values())), st.sampled_from(AROUND), st.randoms())
def test_no_conversion_writes_a_token(
    document: object, value: str, around: str, choose: random.Random
) -> None:
    changed, notes = replace_credentials(planted(document, around.format(value), choose))

    assert value not in json.dumps(changed)
    assert value not in json.dumps(changed, ensure_ascii=False)
    assert notes


@given(st.sampled_from(sorted(TOKENS.values())))
def test_a_value_that_is_replaced_once_is_replaced_everywhere(value: str) -> None:
    secret = "hunter2-of-our-team"
    document = {
        "env": {"PASSWORD": secret, "T": value},
        "notes": [f"log in with {secret}", {"deep": f"curl -u me:{secret} {value}"}],
    }

    changed, _ = replace_credentials(document)

    assert secret not in json.dumps(changed)
    assert value not in json.dumps(changed)


@pytest.mark.parametrize(
    "text",
    [
        "Server=db.internal;User Id=app;Password=hunter2-of-us;Encrypt=true",
        "Driver={ODBC};PWD=correcthorse9;Uid=sa",
        f"auth: {made(40, HEX)}",
        f"api_key: {made(32, HEX)}",
        f"token = '{made(64, HEX)}'",
        f"secret: {made(44)}=",
    ],
)
def test_passwords_and_random_values_after_names_of_secrets_are_seen(text: str) -> None:
    assert len(credentials(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        f"digest: sha256:{made(64, HEX)}",
        "author: somebody-with-a-long-name",
        "Password=${DB_PASSWORD};Server=x",
        "Password=<YOUR_PASSWORD>;Server=x",
        "task-01a21e87fdbf7b9c89e6",
        f"commit {made(40, HEX)}",
    ],
)
def test_digests_names_and_references_are_no_credentials(text: str) -> None:
    assert credentials(text) == []


def escaped(token: str, how: str) -> str:
    """Return a token with its third and fourth characters escaped, as its receiver reads it."""
    codes = [how.format(ord(character)) for character in token[2:4]]
    return token[:2] + "".join(codes) + token[4:]


@pytest.mark.parametrize(
    ("name", "how"),
    covering(sorted(TOKENS), ["%{:02X}", "%{:02x}", "\\u{:04x}", "%25{:02X}", "\\u{{{:x}}}"]),
)
def test_an_escaped_token_is_the_same_token(name: str, how: str) -> None:
    text = escaped(TOKENS[name], how)

    found = credentials(f"https://h.example/?k={text}&x=1")

    assert any(one.certain and one.value in text for one in found)


@pytest.mark.parametrize("name", sorted(TOKENS))
def test_no_conversion_writes_an_escaped_token(name: str) -> None:
    text = escaped(TOKENS[name], "%{:02X}")
    document = {"args": [f"--url=https://h.example/{text}"], "note": text}

    changed, _ = replace_credentials(document)

    assert text not in json.dumps(changed)


@given(st.sampled_from(sorted(TOKENS.values())), st.sampled_from(["{}", "A-{}", "x_{}"]))
def test_no_conversion_writes_a_token_that_is_a_key(value: str, around: str) -> None:
    document = {"env": {around.format(value): "v", "B": "w"}, "list": [{value: {value: 1}}]}

    changed, notes = replace_credentials(document)

    assert value not in json.dumps(changed)
    assert len(changed["env"]) == 2
    assert notes


def test_what_follows_a_header_in_a_command_is_kept() -> None:
    token = TOKENS["github"]
    command = f"curl -H 'Authorization: Bearer {token}' https://a.example/x && serve"

    changed, _ = replace_credentials({"servers": {"z": {"args": ["-c", command]}}})

    text = changed["servers"]["z"]["args"][1]
    assert token not in text
    assert text.startswith("curl -H 'Authorization: Bearer ${")
    assert text.endswith("}' https://a.example/x && serve")


def test_a_header_of_its_own_is_replaced_as_a_whole() -> None:
    changed, _ = replace_credentials({"args": ["--header", "Authorization: Bearer two words 12"]})

    assert "two words" not in json.dumps(changed)


@pytest.mark.parametrize(("name", "value"), covering(sorted(TOKENS), ["v", "hunter2-of-our-team"]))
def test_no_name_of_a_secret_is_made_of_a_token(name: str, value: str) -> None:
    token = TOKENS[name]
    documents = [
        {"env": {token: value}},
        {"servers": {token: {"env": {"PASSWORD": value}}}},
        {"servers": [{"name": token, "headers": {"Authorization": f"Bearer {value}"}}]},
        {"args": [f"--{token}", value, f"--{token}-token={value}"]},
    ]

    for document in documents:
        changed, notes = replace_credentials(document)

        written = json.dumps(
            [changed, [note.__dict__ if hasattr(note, "__dict__") else note for note in notes]]
        )
        assert token.lower() not in written.lower()
        assert re.sub(r"\W", "_", token).lower() not in written.lower()


BEFORE = [
    r"\u0022",
    r"\u003c",
    r"caf\u00e9",
    r"caf\u00E9",
    r"\b",
    r"\f",
    r"\\n",
    r"\\\\u0022",
    r"\x22",
    r"\U00000022",
    r"\042",
    r"\ud83d\ude00",
    r"\/a\/",
    r"%22",
]


@pytest.mark.parametrize("before", BEFORE)
def test_a_token_after_an_escape_is_seen_once_at_its_place(before: str) -> None:
    for value in TOKENS.values():
        begins = f'{{"x": "{before}'
        found = [one for one in credentials(f'{begins}{value}"}}') if one.certain]

        assert [(one.place, one.value) for one in found] == [
            (len(begins) + one.place, one.value) for one in credentials(value)
        ]


@given(st.lists(st.sampled_from(BEFORE), max_size=4).map("".join), st.sampled_from(sorted(TOKENS)))
def test_the_place_of_a_token_is_right_after_any_escapes(before: str, name: str) -> None:
    text = f"{before} {TOKENS[name]} {before}"

    for found in credentials(text):
        assert text[found.place : found.place + len(found.value)] == found.value
    assert any(found.place >= len(before) for found in credentials(text))


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_secret_in_a_document_in_a_document_is_seen(layers: int) -> None:
    text = f'{{"exaApiKey": "{made(32)}", "url": "https://ann:tr0ub4dor&3@db.example/x"}}'
    for _ in range(layers):
        text = json.dumps({"config": text})

    assert {made(32), "tr0ub4dor&3"} <= {found.value for found in credentials(text)}


@pytest.mark.rest
@pytest.mark.parametrize("text", ["\\" * 500_000, "\\u" * 200_000, "%2" * 200_000, "\\n" * 200_000])
def test_a_text_of_escapes_is_searched_fast(text: str) -> None:
    assert not credentials(text)


@pytest.mark.parametrize(
    "args",
    [
        ["--user=ann:{}"],
        ["--login", "ann:{}"],
        ["--bearer", "{}"],
        ["-b", "sessionid={}"],
        ["-c", "setenv API_KEY {}; serve"],
        ["-c", "set -gx API_KEY {}"],
    ],
    ids=str,
)
def test_a_password_after_a_name_is_replaced_in_each_form_of_arguments(args: list[str]) -> None:
    password = "hunter2Xq9"
    filled = [text.format(password) for text in args]

    changed, notes = replace_credentials({"mcpServers": {"a": {"command": "x", "args": filled}}})

    assert password not in json.dumps(changed)
    assert notes


@pytest.mark.parametrize("name", ["SSHPASS", "JWT", "BEARER", "CONNECTION_STRING", "SESSION_ID"])
def test_a_variable_whose_name_says_credential_is_replaced(name: str) -> None:
    changed, _ = replace_credentials({"mcpServers": {"a": {"command": "x", "env": {name: "q9"}}}})

    assert "q9" not in json.dumps(changed)


@pytest.mark.parametrize(
    ("name", "end"), covering(sorted(TOKENS), ["\\\n", "\\\n    ", "\\\r\n\t", "\\\\\n"])
)
def test_a_token_that_continues_in_the_next_line_is_seen(name: str, end: str) -> None:
    token = TOKENS[name]
    written = f"{token[:7]}{end}{token[7:]}"

    found = credentials(f'k: "{written}"')

    assert any(one.certain and one.value in written for one in found)


flags = st.tuples(
    st.sampled_from(["--verbose", "--port", "-b", "--a-b"]), st.sampled_from([" 80", "=x", ""])
)


@given(
    st.lists(flags, max_size=4),
    st.lists(flags, max_size=4),
    st.sampled_from(["--api-key", "--token", "--password", "-p --auth-token", "--x_secret"]),
    st.sampled_from([" {}", "={}", " '{}'", '="{}"', "  {}"]),
)
def test_a_flag_among_others_is_replaced_alone(
    before: list[tuple[str, str]], after: list[tuple[str, str]], flag: str, form: str
) -> None:
    value = "hunter2Xq9"
    line = [*map("".join, before), flag + form.format(value), *map("".join, after)]
    document = {"args": ["-c", f"serve {' '.join(line)}"]}

    changed, notes = replace_credentials(document)

    (text,) = changed["args"][1:]
    assert re.sub(r"\$\{\w+\}", value, text) == document["args"][1]
    assert value not in text
    assert len(notes) == 1


@pytest.mark.parametrize(
    "url",
    [
        "ssh://git@host.example/r.git",
        "https://user@host.example/r",
        "https://github.com/owner/r@8f3kD02nVq7RzLm5XwTc",
        "https://some.body-with-a-long-name@host.example/r",
    ],
)
def test_a_user_without_a_password_is_no_credential(url: str) -> None:
    assert credentials(url) == []
    assert replace_credentials({"args": [url], "url": url})[1] == []


SEPARATORS = [" ", ".", ":", "/", "-", "_", "__", ""]


@pytest.mark.parametrize(
    ("separator", "words"),
    covering(SEPARATORS, ["api key", "openai api key", "aws secret key", "my password"]),
)
def test_a_name_is_the_same_with_each_separator(words: str, separator: str) -> None:
    name = words.replace(" ", separator)

    assert is_secret(name)
    assert announces(name)
    assert is_always_secret(name)
    for text in (f'{{"{name}": "{made(24)}"}}', f"{name}={made(24)}", f"{name}: {made(24)}"):
        assert [one.value for one in credentials(text)] == [made(24)]


@pytest.mark.parametrize("separator", [".", "-", "_", ":"])
@pytest.mark.parametrize(
    "args",
    [
        ["-Dopenai.api.key={}"],
        ["--openai.api.key={}"],
        ["--openai.api.key", "{}"],
        ["openai.api.key={}"],
        ["-c", "java -Dopenai.api.key={} -jar s.jar"],
        ["-c", "serve --openai.api.key '{}'"],
        ["-e", "openai.api.key={}"],
        ["--config", '{{"openai.api.key": "{}"}}'],
    ],
    ids=str,
)
def test_a_value_after_a_name_with_any_separator_is_not_copied(
    args: list[str], separator: str
) -> None:
    named = [text.replace("i.", f"i{separator}").replace("y.", f"y{separator}") for text in args]
    filled = [text.format("correcthorse9") for text in named]

    changed, notes = replace_credentials({"mcpServers": {"a": {"command": "x", "args": filled}}})

    assert "correcthorse9" not in json.dumps(changed)
    assert notes


@pytest.mark.rest
@pytest.mark.parametrize("text", ["-a:" * 20_000, "a.b" * 20_000, "-D." * 20_000])
def test_a_text_of_separators_is_searched_fast(text: str) -> None:
    replace_credentials({"args": ["-c", text], "env": {"A": text}})


@pytest.mark.parametrize(
    "server",
    [
        {"args": ["--header=Authorization: Bearer CANARY"]},
        {"args": ["--header=X-Api-Key:CANARY"]},
        {"args": ["-c", "x --header=X-Api-Key:CANARY"]},
        {"args": ["-c", "x --header='X-Access: Bearer CANARY'"]},
        {"args": ["--token", "--", "CANARY"]},
        {"args": ["-c", "x --token -- CANARY"]},
        {"args": ["--pw", "CANARY"]},
        {"command": "/usr/bin/mysql", "args": ["-u", "root", "-pCANARY"]},
        {"command": "docker", "args": ["exec", "db", "mysql", "-pCANARY"]},
        {"command": "docker", "args": ["login", "-u", "ann", "-p", "CANARY"]},
        {"args": ["-c", "mysql -u root -pCANARY db; docker login -u ann -p CANARY h"]},
        {"env": {"AUTH_HEADER": "Bearer CANARY"}},
        {"env": {"AUTH_HEADER": "X-Key: CANARY"}},
        {"env": {"HEADERS": "Authorization: Bearer CANARY"}},
        {"env": {"CFG": "apiKey: CANARY"}},
        {"env": {"DBPASS": "CANARY", "CREDS": "CANARY", "ADMIN_PW": "CANARY", "SESSION": "CANARY"}},
        {"headers": {"X-Access": "Bearer CANARY"}},
        {"headers": {"X-Access": "basic CANARY"}},
        {"url": "https://h.example/x?sig=CANARY&a=b"},
        {"url": "https://h.example/mcp?config=%7B%22apiKey%22%3A%22CANARY%22%7D&a=b"},
    ],
    ids=str,
)
def test_no_conversion_copies_a_word_that_a_scheme_or_a_flag_announces(
    server: dict[str, Any],
) -> None:
    filled = json.loads(json.dumps(server).replace("CANARY", "correcthorse77"))

    changed, notes = replace_credentials({"mcpServers": {"a": {"command": "x", **filled}}})

    assert "correcthorse77" not in json.dumps(changed)
    assert notes


@pytest.mark.parametrize(
    "server",
    [
        {"command": "docker", "args": ["run", "-p", "8080:80", "mysql"]},
        {"command": "ssh", "args": ["-p2222", "h.example"]},
        {
            "args": [
                "-c",
                "docker run -p 80:80 x; ssh -p 22 h",
                "--session",
                "main",
                "--",
                "main.js",
            ]
        },
        {"env": {"DESKTOP_SESSION": "gnome", "AUTH_HEADER": "X-Auth", "MODE": "basic auth"}},
        {"env": {"AUTH_HEADER": "Bearer ${TOKEN}", "COMPASS": "north", "BYPASS": "localhost"}},
        {"url": "https://h.example/mcp?config=%7B%22mode%22%3A%22fast%22%7D"},
    ],
    ids=str,
)
def test_a_conversion_copies_ports_and_plain_words(server: dict[str, Any]) -> None:
    document = {"mcpServers": {"a": {"command": "x", **server}}}

    assert replace_credentials(document) == (document, [])


WITH_DOLLARS = [
    *("Tr0ub4dor$Zebra9!", "Tr0ub4dor$$Zebra9!", "x$Kp2Lw4Vb8Nd3Rt6q7Zx9", "s3$cretHorse"),
    *("q7Zx$Kp2Lw4Vb8Nd3Rt6", "q7Zx$$Kp2Lw4Vb8Nd3Rt6", "abc$defGH12ijKL34mnOP"),
]


WITH_PASSWORD = [
    {"args": ["--password", "CANARY"]},
    {"args": ["--token=CANARY"]},
    {"args": ["-c", "serve --token='CANARY' --port 80"]},
    {"args": ["-c", "set -x API_KEY 'CANARY'"]},
    {"args": ["postgres://app:CANARY@db.example/app"]},
    {"args": ["Server=db;User Id=app;Password=CANARY"]},
    {"args": ["-u", "ann:CANARY"]},
    {"env": {"DB_PASSWORD": "CANARY"}},
    {"env": {"DB_DSN": "postgres://app:CANARY@db.example/app?user=${USER}"}},
    {"env": {"CONNECTION_STRING": "Server=${HOST};User Id=app;Password=CANARY"}},
    {"env": {"DATABASE_URL": "postgres://app:CANARY@db.example/app"}},
    {"env": {"OPENAPI_MCP_HEADERS": '{"Authorization": "Bearer CANARY", "X": "${X}"}'}},
    {"headers": {"Authorization": "Bearer CANARY", "X-Api-Key": "CANARY"}},
    {"url": "https://h.example/mcp?api_key=CANARY"},
]


@pytest.mark.parametrize(("server", "password"), covering(WITH_PASSWORD, WITH_DOLLARS), ids=str)
def test_a_password_with_a_dollar_sign_is_no_reference(
    server: dict[str, Any], password: str
) -> None:
    filled = json.loads(json.dumps(server).replace("CANARY", password))

    changed, notes = replace_credentials({"mcpServers": {"a": {"command": "x", **filled}}})

    assert password not in json.dumps(changed)
    assert notes


@pytest.mark.parametrize(
    "text",
    [
        *("correcthorse${X}", "${X}correcthorse", "${X}$correcthorse!", "pa{{ x }}ss"),
        *("${T:-correcthorse}", "${env:T:-correcthorse}", "Bearer ${T:-correcthorse}"),
        *("${env.T:-correcthorse}", "${db.password:-correcthorse}", "${input:t-x:-correcthorse}"),
        *("{{ env.T | default('correcthorse') }}", "${{ secrets.T || 'correcthorse' }}"),
        *("${process.env.T || correcthorse}", "{{ t or 'correcthorse' }}"),
        *("${T:correcthorse}", "${config.db-password:-correcthorse}", "${NPM/x/correcthorse}"),
        *("$TOKEN9!", "$args.token9!", "correct horse ${X}", "id=correcthorse; csrf=${T}"),
    ],
)
def test_text_beside_a_reference_is_a_credential(text: str) -> None:
    document = {"mcpServers": {"a": {"command": "x", "env": {"API_TOKEN": text}}}}

    assert replace_credentials(document)[1]


@pytest.mark.parametrize(
    "text", ["{{ env.T | default('CANARY') }}", "${{ secrets.T || 'CANARY' }}", "${db.t:-CANARY}"]
)
def test_a_random_text_in_a_reference_is_found_after_a_name_elsewhere(text: str) -> None:
    found = value_after_name(text.replace("CANARY", RANDOM), "API_TOKEN")

    assert found is not None
    assert found.value.startswith(RANDOM)


@pytest.mark.parametrize(
    "text",
    [
        *("$TOKEN", "$$TOKEN", "${TOKEN}", "$${TOKEN}", "Bearer $TOKEN", 'Token token="${T}"'),
        *("Key ${KEY}", "Basic ${A}", "${USER}:${PASSWORD}", "$USER:$PASSWORD", "${A}${B}"),
        *("{env:TOKEN}", "Bearer {env:TOKEN}", "{{ token }}", "${{ secrets.TOKEN }}"),
        *("{{ secrets['MY-TOKEN'] | trim }}", "${env.TOKEN}", "${ TOKEN }", "{{token|upper}}"),
        *("${input:my-token}", "${env:TOKEN}", "${user_config.api-key}", "$env:TOKEN"),
        *("${T:-}", "${T:-<YOUR_TOKEN>}", "${T:-${U}}", "$args.token", "Bearer $args.token"),
        *("Server=db;User Id=app;Password=${P}", "postgres://app:${P}@db.example/app"),
        *("postgres://app:$P@db.example/app", '{"user": "app", "password": "${P}"}'),
    ],
)
def test_references_and_what_belongs_to_them_stay(text: str) -> None:
    variables = {"API_TOKEN": text, "DB_DSN": text, "DB_PASSWORD": text}
    document = {"mcpServers": {"a": {"command": "x", "env": variables}}}

    assert replace_credentials(document) == (document, [])


@pytest.mark.rest
@pytest.mark.parametrize(
    "text",
    ["${:-" * 50_000, "${" + ":-" * 100_000, "$$" + "{" * 100_000, "a." * 100_000, "a=" * 100_000],
    ids=lambda text: text[:4],
)
def test_a_text_of_references_is_searched_fast(text: str) -> None:
    document = {"mcpServers": {"a": {"command": "x", "env": {"API_TOKEN": f"{text} ${{X}}"}}}}
    began = time.process_time()

    assert replace_credentials(document)[1]

    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "server",
    [
        *({key: {"TOKEN": "CANARY"}} for key in ("envVars", "env_vars", "Env", "ENV", "envs")),
        {"environment-variables": {"TOKEN": "CANARY"}},
        {"requestHeaders": {"Authorization": "Bearer CANARY"}},
        {"custom_headers": {"X-Key": "CANARY"}},
        {"Headers": {"Authorization": "CANARY"}},
        *({"Args": ["--token", "CANARY"]}, {"runtimeArgs": ["--token", "CANARY"]}),
        *({"bearerToken": "CANARY"}, {"bearer_token": "CANARY"}, {"authorization_token": "CANARY"}),
        {"url": "https://h.example/?api%5Fkey=CANARY"},
        {"url": "https://h.example/?auth[token]=CANARY"},
        {"url": "https://h.example/?auth%5Bpass%5D=CANARY&a=b"},
        {"url": "https://h.example/#token=CANARY"},
    ],
    ids=str,
)
def test_other_names_of_a_connection_announce_a_credential_too(server: dict[str, Any]) -> None:
    filled = json.loads(json.dumps(server).replace("CANARY", "correcthorse"))

    changed, notes = replace_credentials({"mcpServers": {"a": {"command": "x", **filled}}})

    assert "correcthorse" not in json.dumps(changed)
    assert notes


@pytest.mark.parametrize("mark", "!@$")
@pytest.mark.parametrize(
    "text",
    ["password: {}", "DB_PASSWORD={}", '"api_key": "{}"', "--token {}", "Authorization: Bearer {}"],
)
def test_a_random_password_with_marks_is_seen_as_a_whole(text: str, mark: str) -> None:
    password = f"q7Zx{mark}Kp2Lw4{mark}{mark}Vb8Nd3Rt6{mark}"

    assert [one.value for one in credentials(text.format(password))] == [password]


@pytest.mark.parametrize(
    "text",
    [
        "postgres://app:S3cr$tpw99xQ@db/app",
        "postgres://app:S3cr$$tpw99xQ@db/app",
        "Server=db;Uid=sa;PWD=S3cr$tpw99xQ",
    ],
)
def test_a_password_with_a_dollar_sign_is_seen_in_an_address(text: str) -> None:
    assert len(credentials(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        *("postgres://app:$PASSWORD@db/app", "postgres://app:$DB_HOST.$DB_PASS@db/app"),
        *("Server=db;Uid=sa;PWD=$PASSWORD", "token=$a1b2c3d4e5f6g7h8", "secret: $(q7ZxKp2Lw4Vb8N)"),
        *("auth: first.last@mail.example.com", "token = @babel/plugin-es2015-x"),
    ],
)
def test_variables_and_names_with_marks_are_no_credentials(text: str) -> None:
    assert credentials(text) == []


UUID = "7f3c2b1e-94ad-4c58-b0e6-2d91f5a83c47"
NAMED_VALUES: list[dict[str, Any]] = [
    {"args": ["--encryptionKey", "CANARY"]},
    {"args": ["--licenseKey=CANARY"]},
    {"args": ["-c", "serve --subscriptionKey CANARY --port 80"]},
    {"args": ["-Dapp.storageKey=CANARY"]},
    {"env": {"encryptionKey": "CANARY"}},
    {"env": {"AESKey": "CANARY"}},
    {"env": {"OPENWEATHER_KEY": "CANARY"}},
    {"env": {"SERVICE_KEY1": "CANARY"}},
    {"env": {"SERVICE_KEY_2": "CANARY"}},
    {"env": {"authToken3": "CANARY"}},
    {"headers": {"subscriptionKey": "CANARY"}},
    {"headers": {"Ocp-Apim-Subscription-Key": "CANARY"}},
    {"query": {"sharedKey": "CANARY"}},
    {"basicAuth": "ann:CANARY"},
    {"env": {"AUTH_HEADER": "ApiKey CANARY"}},
    {"headers": {"X-Auth-Header": "Key CANARY"}},
    {"url": "https://h.example/mcp?subscriptionKey=CANARY&a=b"},
    {"args": ["--config", json.dumps(json.dumps({"exaApiKey": "CANARY"}))]},
    {"args": ["--config", json.dumps(json.dumps(json.dumps({"exaApiKey": "CANARY"})))]},
    {"args": ["--config", '{\\"exaApiKey\\":\\"CANARY\\"}']},
    {"args": ["/c", 'npx x --config {\\"apiKey\\":\\"CANARY\\"}']},
    {"args": ["--headers", '[{"name": "Authorization", "value": "CANARY"}]']},
    {"args": ["--headers", '[{"value": "Bearer CANARY", "name": "Authorization"}]']},
    {"args": ["--headers", '[["Authorization", "CANARY"]]']},
    {"env": {"HEADERS": '[{"key": "X-Auth-Key", "value": "CANARY"}]'}},
]
"""Connections with a value whose name announces it, in the forms that programs and clients of MCP accept."""


def filled(server: dict[str, Any], value: str) -> dict[str, Any]:
    """Return a document with a server and its value; each of these values is the same in JSON."""
    text = json.dumps({"mcpServers": {"a": {"command": "x", **server}}})
    return dict(json.loads(text.replace("CANARY", value)))


@pytest.mark.parametrize(("server", "value"), covering(NAMED_VALUES, [UUID, "Br0wnTrout"]), ids=str)
def test_no_conversion_copies_a_value_whose_name_announces_it(
    server: dict[str, Any], value: str
) -> None:
    changed, notes = replace_credentials(filled(server, value))

    assert value not in json.dumps(changed)
    assert notes


@pytest.mark.parametrize("server", NAMED_VALUES, ids=str)
def test_a_check_finds_a_random_value_whose_name_announces_it(server: dict[str, Any]) -> None:
    document = filled(server, UUID)

    found = [*credentials(json.dumps(document))]
    found += [one for _, one in announced_credentials(document)]
    assert {one.value for one in found} == {UUID}


@pytest.mark.parametrize(
    "name",
    [
        *("passwordFile", "AUTH_HEADER", "tokenUrl", "SECRET_TYPE", "api_key_header", "tokenFile"),
        *("secretEndpoint", "passwordEnvVar", "AUTH_HEADER_1"),
    ],
)
def test_a_name_of_something_else_does_not_exempt_a_random_value(name: str) -> None:
    document = filled({"env": {name: "CANARY"}}, UUID)

    changed, _ = replace_credentials(document)

    assert UUID not in json.dumps(changed)
    assert [one.value for _, one in announced_credentials(document)] == [UUID]


@pytest.mark.parametrize(
    "variables",
    [
        {"tokenizer": f"model-{UUID}", "max_tokens": "4096", "maxTokens": "128"},
        {"keyboard": f"layout-{UUID}", "monkey": UUID, "primaryKey": "id", "sortKey": "name"},
        {"authFile": "~/.config/x", "passwordFile": "/run/secrets/a1b2c3d4e5f6a7b8c9d0"},
        {"keyVaultUrl": f"https://a1b2c3d4e5.vault.example/{UUID}", "AUTH_HEADER": "X-Api-Key"},
        {"tokenFile": "certs/a1b2c3d4e5f6a7b8c9d0.pem", "PASSWORD_FILE": "password.txt"},
        {"secretName": "db-credentials-7f3c2b1e94ad4c58", "authType": "oauth2", "tokenType": "jwt"},
        {"keyFile": "C:\\keys\\a1b2c3d4e5f6a7b8.pem", "KEY_ENV_VAR": "EXA_KEY"},
        {"AUTHOR": "ann", "COMPASS": "north", "hotkey": "ctrl"},
    ],
    ids=str,
)
def test_a_name_like_that_of_a_credential_does_not_announce_one(variables: dict[str, str]) -> None:
    document = filled({"env": variables}, "")

    assert [one.value for _, one in announced_credentials(document)] == []
    assert credentials(json.dumps(document)) == []
    assert replace_credentials(document) == (document, [])


@pytest.mark.rest
@pytest.mark.parametrize("layers", [20, 2000])
def test_texts_of_documents_in_documents_are_read_fast(layers: int) -> None:
    text = "x"
    for _ in range(layers):
        longer = json.dumps(text)
        text = longer if len(longer) < 200_000 else f"[{longer}]"[:200_000]
    began = time.process_time()

    replace_credentials({"args": ["--config", text, '"' * 100_000, '{\\"' * 50_000]})

    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "args",
    [
        ["--config", "{'apiKey': 'CANARY'}"],
        ["--config", "{apiKey: 'CANARY'}"],
        ["-Command", "$env:API_KEY = 'CANARY'; npx x"],
        ["-c", "API_KEY=$'CANARY' npx x"],
        ["/password:CANARY"],
        ["--ini", "password = CANARY"],
        ["--toml", 'host = "x"\npassword = "CANARY"\n'],
        ["https://h.example/mcp;api_key=CANARY"],
        ["https://h.example/mcp?a=1&amp;api_key=CANARY&amp;b=2"],
    ],
    ids=str,
)
def test_a_value_as_other_languages_write_it_is_not_copied(args: list[str]) -> None:
    document = json.loads(json.dumps({"command": "x", "args": args}).replace("CANARY", "Br0wn9"))

    changed, notes = replace_credentials({"mcpServers": {"a": document}})

    assert re.sub(r"\$\{\w+\}", "CANARY", changed["mcpServers"]["a"]["args"][-1]) == args[-1]
    assert len(notes) == 1


@pytest.mark.parametrize(
    "args",
    [
        ["-v", "/secret:/run/secret", "/token:ro"],
        ["-c", "[ $token = foo ] && x --sort key"],
        ["{'apiKey': '${KEY}'}", "{apiKey: '<KEY>'}", "password = ${P}", "$env:API_KEY = $x"],
        ["https://h.example/mcp;api_key=${KEY};v=1", "x.sh;TOKEN=$(cat y) https://h.example"],
    ],
    ids=str,
)
def test_references_and_paths_in_other_languages_stay(args: list[str]) -> None:
    document = {"mcpServers": {"a": {"command": "x", "args": args}}}

    assert replace_credentials(document) == (document, [])


WITH_SIGNS = [
    *("q8Zr3vLx^0KpT7mW*c5NdY2b", "Zr3v&Lx0KpT7m#Wc5NdY2bQ8", "mWc5N%dY2bq8(Zr3vLx0KpT7"),
    *("^q8Zr3vLx0KpT7mWc5NdY2b", "#q8Zr3vLx0KpT7mWc5NdY2b", "q8Zr3vLx0KpT7mWc5NdY2b*"),
    *("(q8Zr3vLx0KpT7mWc5NdY2b)", "q8Zr3v=Lx0K,pT7|mWc5;NdY2b", "q8Zr3vLx0KpT7mWc5NdY2b%"),
]


WITH_VALUE = [
    {"args": ["--password", "CANARY"]},
    {"args": ["--password", "ann:CANARY"]},
    {"env": {"DB_PASSWORD": "CANARY", "CLIENT_SECRET": "CANARY"}},
    {"env": {"API_KEY": "${API_KEY:-CANARY}"}},
    {"note": {"password": "${P:-CANARY}"}},
    {"headers": {"X-Api-Key": "CANARY", "Authorization": "ApiKey CANARY"}},
    {"headers": {"X-Auth": "ann:CANARY"}},
    {"api_key": "CANARY"},
]


@pytest.mark.parametrize(("server", "password"), covering(WITH_VALUE, WITH_SIGNS), ids=str)
def test_a_value_of_a_document_can_have_all_signs(server: dict[str, Any], password: str) -> None:
    text = json.dumps({"mcpServers": {"a": {"command": "x", **server}}})
    document = json.loads(text.replace("CANARY", password))

    found = {one.value for _, one in announced_credentials(document)}
    changed, _ = replace_credentials(document)

    assert has_random_value(json.dumps(document))
    assert found == {password}
    assert password not in json.dumps(changed)


IN_QUOTES = [
    *('password = "{}"', "'api_key': '{}'", 'get("ACCESS_TOKEN", "{}")', "--token '{}'"),
    *('Authorization: "ApiKey {}"', 'API_KEY: "ann:{}"', "x --password `{}`"),
]


@pytest.mark.parametrize(("text", "password"), covering(IN_QUOTES, WITH_SIGNS))
def test_a_value_in_quotes_can_have_all_signs(text: str, password: str) -> None:
    assert [one.value for one in credentials(text.format(password))] == [password]


@pytest.mark.parametrize(
    "text",
    [
        *("$args.token", "${A1B2C3D4E5F6G7H8}", "$a1b2c3d4e5f6g7h8", "{{ a1b2c3d4e5f6g7h8 }}"),
        *("2026-11-20T21:44:15.123Z", "https://h.example/a1b2c3d4e5f6g7h8", "%A1B2C3D4E5F6G7%"),
        *("arn:aws:secretsmanager:eu:1:secret:x-a1b2c3d4e5", f"sha256:{made(64, HEX)}"),
        "The value that the service at the task a1b2c3d4-e5f6-07a8 of the user returns.",
    ],
)
def test_what_is_no_value_of_its_own_is_no_credential(text: str) -> None:
    document = {"api_token": text, "list": [{"name": "password", "value": text}]}

    assert list(announced_credentials(document)) == []
    assert credentials(f'api_token = "{text}"') == []


RANDOM = "q7Zk2Vw9Xr4Tn8Ps1Lm5"
PYTHON = [
    *('api_key: str = "CANARY"', "API_KEY: 'Final' = \"CANARY\""),
    *('def f(password: str = "CANARY"): pass', 'f = lambda *, password="CANARY": 1'),
    *('api_key = r"CANARY"', 'password = b"CANARY"', 'api_key = (\n    "CANARY"\n)'),
    *("api_key = os.environ.get('API_KEY') or 'CANARY'", "x = os.getenv('API_KEY', 'CANARY')"),
    *("x = environ.get('API_KEY') or 'CANARY'", 'x = environ["API_KEY"] if y else "CANARY"'),
    *("ok = password == 'CANARY'", "ok = 'CANARY' == password", 'digest("CANARY", password)'),
    *('dict(api_key="CANARY")', 'x = {"api_key": "CANARY"}', 'class A(B, api_key="CANARY"): 1'),
    *('x = ("api_key", "CANARY")', 'f(["api_key", "CANARY"])', 'run(["x", "--api-key", "CANARY"])'),
    *('if (api_key := "CANARY"): pass', 'self.api_key = "CANARY"', 'e["API_KEY"] = "CANARY"'),
    *('user, api_key = "ann", "CANARY"', 'api_key = Secret("CANARY")', 'api_keys = {"CANARY"}'),
    *('api_key = "q7Zk2Vw9" "Xr4Tn8Ps1Lm5"', 'api_key = "q7Zk2Vw9" + "Xr4Tn8Ps1Lm5"'),
    *(
        'add("--api-key", type=str, default="CANARY")',
        'h = [{"name": "X-Api-Key", "value": "CANARY"}]',
    ),
    *('OPENWEATHER_KEY: Final = "CANARY"', 'x = getenv("SMTPPASS", "CANARY")'),
    *('cookies = {"session": "CANARY"}', 'x = {"api_key": "CANARY", "api_key": y}'),
    *('def f(é="é", password = "é" or "CANARY"): pass', 'match password:\n    case "CANARY": 1'),
    "password: Annotated[str, Field(default='CANARY')]",
]


@pytest.mark.parametrize("source", PYTHON)
def test_a_check_finds_a_named_value_wherever_python_has_it(source: str) -> None:
    text = f"import os\n{source.replace('CANARY', RANDOM)}\n"

    (problem,), values = check_text(text, "toolsets/a/tools.py")

    assert values == {RANDOM}
    begins = text.split("\n")[problem.line - 1][problem.col - 1 :]
    assert begins.lstrip('"').startswith(RANDOM[:8])


@pytest.mark.parametrize(
    "source",
    [
        *('tokenizer = f("CANARY")', 'keyboard: str = "CANARY"', 'monkey="CANARY"'),
        *('primary_keys = ["CANARY"]', 'hotkeys = ["CANARY"]', 'MONKEY: str = "CANARY"'),
        *(
            "ok = password == confirm_password",
            "k = api_key or None",
            'token: str = "<your token>"',
        ),
        *('key: str = "id"', 'keys = ["a", "b"]', "max_tokens: int = 4096", "a(token, 'x')"),
        *('x = f"{CANARY}"', "api_key = os.environ['CANARY']['API_KEY']", "pass  # CANARY"),
    ],
)
def test_words_like_names_of_credentials_announce_nothing_in_python(source: str) -> None:
    assert check_text(source.replace("CANARY", RANDOM), "toolsets/a/tools.py") == ([], set())


@pytest.mark.parametrize(
    "source",
    [
        "api_key = " + "(" * 150 + '"CANARY"' + ")" * 150,
        "api_key = " + " + ".join(['"a"'] * 2000) + ' + x + "CANARY"',
        "api_key = a" + ".b" * 2000 + ' or "CANARY"',
        "x = a" + "()" * 900 + '\napi_key: str = "CANARY"',
        "# coding: latin-1\napi_key: str = 'CANARY'",
        'api_key: str = "CANARY"\nthis is no Python',
    ],
    ids=lambda source: source[:20],
)
def test_a_source_that_is_hard_to_parse_is_searched_too(source: str) -> None:
    _, values = check_text(source.replace("CANARY", RANDOM), "toolsets/a/tools.py")

    assert values == {RANDOM}


@pytest.mark.parametrize(
    "text",
    [
        *('const apiKey: string = "{}"', "apiKey?: string = '{}'", 'API_KEY == "{}"'),
        *(
            'process.env.API_KEY || "{}"',
            'process.env["API_KEY"] ?? `{}`',
            "get('API_KEY') or '{}'",
        ),
        *("password === '{}'", 'apiKey := "{}"', '"api_key" => "{}"', 'const apiKey string = "{}"'),
        *('api_key = ["{}"]', 'password = rb"{}"', "API_TOKENS={}", 'f(password: str = "{}")'),
    ],
)
def test_a_named_value_is_seen_in_other_languages(text: str) -> None:
    assert [one.value for one in credentials(text.format(RANDOM))] == [RANDOM]


VALUED = [
    *("${{ secrets.API_KEY || 'CANARY' }}", "${process.env.API_KEY || 'CANARY'}"),
    "${env.API_KEY:-CANARY}",
    *("${API_KEY:-CANARY}", "${API_KEY-CANARY}", "${API_KEY:=CANARY}", "${API_KEY=CANARY}"),
    *("${API_KEY:+CANARY}", "${API_KEY+CANARY}", "${API_KEY:-${B:-CANARY}}", "$${API_KEY-CANARY}"),
    *("${API_KEY:-${B-${C:+CANARY}}}", "${env:API_KEY-CANARY}", "${API_KEY:-${B}CANARY}"),
]


@pytest.mark.parametrize("text", VALUED)
def test_the_value_in_a_reference_is_no_reference(text: str) -> None:
    document = filled({"env": {"API_KEY": text}}, RANDOM)
    word = filled({"env": {"API_KEY": text}}, "hunter")

    assert {one.value for _, one in announced_credentials(document)} == {RANDOM}
    assert RANDOM not in json.dumps(replace_credentials(document)[0])
    assert "hunter" not in json.dumps(replace_credentials(word)[0])


PASSWORDS = [
    *(
        "postgres://app:${DB_PASS:CANARY}@h/db",
        "postgres://app:{{ env.DB_PASS | default('CANARY') }}@h/db",
    ),
    *(
        "postgres://app:${{ env.DB_PASS || 'CANARY' }}@h/db",
        'postgres://app:${PGPASS:-"CANARY"}@h/db',
    ),
    *("UID=app;SERVER=h;PWD={CANARY}", "jdbc:sqlserver://h:1433;user=app;password={CANARY}"),
    *("jdbc:oracle:thin:app/CANARY@h:1521/XE", "app:CANARY@tcp(h:3306)/db"),
    *("app:CANARY@unix(/run/mysqld/mysqld.sock)/db", "app:CANARY@(h:3306)/db"),
    *("postgres://u:<%= ENV['X'] || 'CANARY' %>@db/x", "postgres://u:#{ENV['X'] || 'CANARY'}@db/x"),
    *("postgres://u:pre${X:-CANARY}@db/x", "postgres://u:${X:-CANARY}x@db/x"),
    *("postgres://h/db?user=u&password=CANARY", "jdbc:mysql://h/db?password=CANARY&user=u"),
]


@pytest.mark.parametrize(("text", "value"), covering(PASSWORDS, [RANDOM, "correcthorse77"]))
def test_a_password_in_the_address_of_a_database_needs_no_name(text: str, value: str) -> None:
    (password,) = credentials(text.replace("CANARY", value))
    document = {
        "mcpServers": {"a": {"command": "npx", "env": {"DB_CONN": text.replace("CANARY", value)}}}
    }

    assert password.value == value
    assert value not in json.dumps(replace_credentials(document)[0])


@pytest.mark.parametrize(
    "text",
    [
        *("postgres://app:${DB_PASS}@h/db", "postgres://app:{{ env['DB_PASS'] }}@h/db"),
        *(
            "postgres://app:${env:DB_PASS}@h/db",
            "postgres://app:${DB_PASS:?not set in this shell}@h/db",
        ),
        *(
            "Server=h;Password={db_password};",
            "postgres://app:{{ lookup('file', 'run/secret') }}@h/db",
        ),
        *("jdbc:oracle:thin:app/${ORACLE_PASS}@h:1521/XE", "app:<password>@tcp(h:3306)/db"),
        *(
            "jdbc:mysql://h/db?password=${DB_PASS}",
            "mail ann:secret77@home(2)",
            "https://h/?q=password=abc",
        ),
    ],
)
def test_a_reference_in_the_address_of_a_database_is_no_password(text: str) -> None:
    assert credentials(text) == []


TEMPLATES = [
    *("{{ env.API_KEY | default('CANARY') }}", '{{ api_key | d("CANARY", true) }}'),
    *("{{ api_key | default: 'CANARY' }}", "{{ env['API_KEY'] or 'CANARY' }}"),
    *(
        "{{ api_key if api_key is defined else 'CANARY' }}",
        "{{ 'CANARY' if not token else token }}",
    ),
    *('{{ default "CANARY" .Env.API_KEY }}', "{{ .Env.API_KEY | default `CANARY` }}"),
    *("{% set x = api_key | default('CANARY') %}", "#{ENV['API_KEY'] || 'CANARY'}"),
    *('${API_KEY:-"CANARY"}', "${API_KEY:-'CANARY'}", "${X:-${API_KEY:-CANARY}}"),
    *("token: {{ user | default('CANARY') }}", "--api-key ${X:-CANARY}", "api_key: ${X:-CANARY}"),
]


@pytest.mark.parametrize("text", [one for one in VALUED + TEMPLATES if "}CANARY" not in one])
def test_a_named_reference_announces_its_value_in_each_text(text: str) -> None:
    assert [one.value for one in credentials(text.replace("CANARY", RANDOM))] == [RANDOM]


@pytest.mark.parametrize(
    "text",
    [
        *("${api-key}", "${T:?T must be set}", "${T?is missing}", "${T-}", "${T-<YOUR_TOKEN>}"),
        *("${T:-${U:-}}", "${T-${U:-${V}}}", "token=${T-}", "Bearer ${T:=${U}}"),
    ],
)
def test_a_reference_without_a_value_stays(text: str) -> None:
    document = filled({"env": {"API_TOKEN": text}}, "")

    assert replace_credentials(document) == (document, [])


@pytest.mark.rest
def test_references_in_references_are_read_fast() -> None:
    text = "${A:-" * 50_000 + "}" * 50_000
    began = time.process_time()

    replace_credentials({"env": {"API_KEY": text, "B": "${API_KEY:-" * 20_000}})

    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "name",
    [
        "OPENWEATHER_KEYS",
        "SMTPPASS",
        "MAILGUNKEY",
        "PASSKEY",
        "API_TOKENS",
        "FTP_PASSWRD",
        "apiKeys",
    ],
)
def test_plural_and_joined_names_announce_credentials(name: str) -> None:
    changed, notes = replace_credentials(filled({"env": {name: "CANARY"}}, RANDOM))

    assert RANDOM not in json.dumps(changed)
    assert notes
    assert is_secret(name, RANDOM)


@pytest.mark.parametrize(
    "name", ["hotkeys", "primary_keys", "KEYS", "MONKEY", "HOTKEY", "BYPASS", "COMPASS", "OLDPWD"]
)
def test_words_that_end_like_names_of_credentials_announce_none(name: str) -> None:
    assert not is_secret(name, "left,right")


@pytest.mark.parametrize(
    "cookies",
    [{"session": UUID}, {"a": {"b": UUID}}, [{"name": "session", "value": UUID}]],
    ids=str,
)
def test_a_random_value_of_a_cookie_is_a_credential(cookies: object) -> None:
    document = {"servers": {"a": {"url": "https://h.example", "cookies": cookies}}}

    changed, _ = replace_credentials(document)

    assert UUID not in json.dumps(changed)
    assert {one.value for _, one in announced_credentials(document)} == {UUID}
    plain = {"cookies": {"theme": "dark", "locale": "en-US"}}
    assert replace_credentials(plain) == (plain, [])
