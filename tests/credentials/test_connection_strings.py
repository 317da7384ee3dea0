"""Passwords in connection strings: both the checks and conversion find all of each, in each family's quotes."""

import json
import re
import string
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from covalt_git.credentials.connection_strings import passwords
from covalt_git.credentials.leaks import credentials
from covalt_git.formats.credentials.literal_credentials import replace_credentials
from tests.examples import examples
from tests.tables import tables

TABLES = tables(__file__)
PRINTABLE = string.punctuation + " aZ7"


def adonet(quote: str) -> Callable[[str], str]:
    return lambda password: f"{quote}{password.replace(quote, quote * 2)}{quote}"


def odbc(password: str) -> str:
    return "{" + password.replace("}", "}}") + "}"


def libpq(password: str) -> str:
    escaped = password.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def libpq_without_quotes(password: str) -> str:
    return "".join(sign if sign.isalnum() else f"\\{sign}" for sign in password)


def without(signs: str) -> Callable[[str], str]:
    return lambda password: password.translate({ord(sign): "" for sign in signs})


FAMILIES: dict[str, tuple[str, Callable[[str], str]]] = {
    "ADO.NET": ("Server=h;User Id=u;Password=CANARY;Database=d", adonet('"')),
    "ADO.NET, single quotes": ("Server=h;User Id=u;Password=CANARY", adonet("'")),
    "ADO.NET, no quotes": ("Server=h;Pass=CANARY;User Id=u", without(";\"'{ ")),
    "Jet": ("Data Source=f.mdb;Jet OLEDB:Database Password=CANARY;", adonet('"')),
    "ODBC": ("Driver={X Y};UID=u;PWD=CANARY;Server=h", odbc),
    "JDBC of SQL Server": ("jdbc:sqlserver://h;user=u;trustStorePassword=CANARY;a=b", odbc),
    "JDBC": ("jdbc:mysql://h/d?user=u&password=CANARY&a=b", without("& ")),
    "Redis": ("h:6380,password=CANARY,ssl=True", without(", ")),
    "Teradata": ("jdbc:teradata://h/USER=u,PASSWORD=CANARY,T=x", adonet("'")),
    "libpq": ("host=h user=u password=CANARY dbname=d", libpq),
    "libpq, no quotes": ("host=h user=u password=CANARY dbname=d", libpq_without_quotes),
    "ini": ("[db]\nhost=h\npassword=CANARY\nuser=u\n", without("\"' ")),
    "Go": ("u:CANARY@tcp(h:3306)/d", without(" ")),
    "Oracle": ('jdbc:oracle:thin:u/"CANARY"@h:1521:x', without('"')),
}


def converted(text: str) -> str:
    """Return what conversion leaves of a text as a variable, an argument and the value of a flag."""
    server = {"command": "x", "env": {"CONN": text}, "args": ["run", text, f"--conn={text}"]}
    value, _ = replace_credentials({"mcpServers": {"a": server}})
    left = value["mcpServers"]["a"]
    return "\n".join([left["env"]["CONN"], *left["args"]])


def runs(text: str) -> set[str]:
    """Return what four characters of a text are, one after the other."""
    return {text[at : at + 4] for at in range(len(text) - 3)}


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=examples(40))
@given(middle=st.text(PRINTABLE, max_size=20))
@example(middle=";=',\"{}&")
@example(middle='""}};')
@example(middle="'';b")
@example(middle="\\' x")
@example(middle="${x")
def test_no_part_of_a_password_is_left(family: str, middle: str) -> None:
    template, quoted = FAMILIES[family]
    # Not at its ends: a reference, a quote or a blank is a value of its own there.
    password = quoted(f"Xk3{middle}9fLq")
    text = template.replace("CANARY", password)
    # What people type in place of a password.
    assume(not re.search(r"(.)\1\1", middle))

    left = runs(converted(text))

    assert not left & runs(password) - runs(template.replace("CANARY", "${CONN_PASSWORD}"))
    inner = password[1:-1] if password[0] in "\"'{" else password
    assert inner in [credential.value for credential in credentials(text)]


@pytest.mark.parametrize("text", TABLES["credentials"])
def test_the_whole_password_of_a_connection_string_is_a_credential(text: str) -> None:
    for document in (f"DB: {text}\n", json.dumps({"DB": text})):
        (found,) = credentials(document)
        assert "CANARY" in found.value

    left = converted(text)
    assert "CANARY" not in left
    assert "Rest" not in left


@pytest.mark.parametrize(("text", "expected"), TABLES["converted"])
def test_a_password_is_replaced_with_its_quotes(text: str, expected: str) -> None:
    assert converted(text).splitlines()[0] == expected


@pytest.mark.parametrize("text", TABLES["no_credentials"])
def test_code_templates_and_other_lists_have_no_password(text: str) -> None:
    assert credentials(text) == []


@pytest.mark.parametrize("text", TABLES["unchanged"])
def test_conversion_keeps_references_and_lists_without_a_password(text: str) -> None:
    assert converted(text) == f"{text}\nrun\n{text}\n--conn={text}"


@pytest.mark.parametrize(
    "server",
    [
        {"env": {"X": "u=1|password=Xk3(CANARY"}},
        {"args": ["run", "--odd=x|password=Xk3(CANARY"]},
        {"args": ["run", '--odd={"password": "Xk3\\"CANARY"}']},
        {"args": ["run", "--odd=postgres://u:Xk3'CANARY@h/d"]},
    ],
    ids=str,
)
def test_a_text_becomes_a_secret_if_a_part_of_its_credential_would_stay(
    server: dict[str, Any],
) -> None:
    value, notes = replace_credentials({"mcpServers": {"a": {"command": "x", **server}}})

    assert "CANARY" not in json.dumps(value)
    assert notes


@pytest.mark.rest
@pytest.mark.parametrize(
    "text",
    [
        *("password=" * 50_000, "Server=h;" + "password=a;" * 40_000, "\"pwd='" * 50_000),
        *("host=h " + "password='" * 50_000, "a:@tcp(" * 50_000, "jdbc:oracle:thin:u/" * 20_000),
        *("[a]\n" + "password=\n" * 40_000, ";=" * 100_000 + "password=x", "u:a@tcp(h)/ " * 30_000),
    ],
    ids=lambda text: text[:12],
)
def test_a_text_of_keys_is_searched_fast(text: str) -> None:
    began = time.process_time()

    passwords(text, is_list=True)

    assert time.process_time() - began < 4


@pytest.mark.parametrize("is_first", [True, False])
def test_a_password_in_json_in_an_argument_hides_no_credential_after_it(*, is_first: bool) -> None:
    inner = json.dumps({"db": {"conn": "Server=h;Password=kermit9fLq1-blue"}})
    servers = [
        ("db", {"command": "npx", "args": ["--config", inner]}),
        ("web", {"command": "npx", "args": ["--url", "https://h/?apikey=kermit9fLq5-blue"]}),
    ]
    document = {"mcpServers": dict(servers if is_first else reversed(servers))}

    assert "kermit9fLq5-blue" in [found.value for found in credentials(json.dumps(document))]
    assert "kermit" not in json.dumps(replace_credentials(document)[0])
