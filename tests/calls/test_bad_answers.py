"""Answers of MCP servers that differ from the protocol: they arrive, with a note, and are recorded truly."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from covalt_git.connections.pool import CONNECTIONS
from covalt_git.grants.grants import add_grant
from tests.calls.conftest import World, make_world
from tests.taking_servers import take
from tests.trusting import use_config

SERVER = Path(__file__).parents[2] / "fixtures" / "servers" / "bad_answers.py"
MANIFEST = f"""\
id: demo
name: Demo
version: "1"
mcp_servers:
  - {{id: bad, command: {sys.executable}, args: [{SERVER}], requires_confirmation: false}}
"""
CONFIG = """\
default_role: owner
roles:
  owner: {admin: true}
limits: {timeout_s: 20}
"""
TEXT = '{"type": "text", "text": "sent"}'
DEEP = "[" * 150 + "]" * 150


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("bad")
    with pytest.MonkeyPatch.context() as patch:
        use_config(patch, folder / "config")
        made = make_world(folder / "project")
        made.configure(CONFIG)
        made.write("demo/toolset.yaml", MANIFEST)
        add_grant(made.root, "demo", "process", "bad", by="me")
        take(made.root, "demo", "bad")
        yield made
        CONNECTIONS.close()


def result(inner: str) -> str:
    """Return the line of an answer with this JSON as its result."""
    return f'{{"jsonrpc": "2.0", "id": $ID, "result": {inner}}}'


ANSWER = result(f'{{"content": [{TEXT}]}}')
INDENTED = json.dumps(json.loads(ANSWER.replace("$ID", '"$ID"')), indent=2).replace('"$ID"', "$ID")


def structured(value: str, content: str = TEXT) -> str:
    return result(f'{{"content": [{content}], "structuredContent": {value}}}')


@pytest.mark.parametrize(
    ("tool", "line", "expected", "note"),
    [
        ("answer", structured('{"id": 9007199254740993}'), {"id": "9007199254740993"}, "2^53"),
        ("answer", structured('{"id": 1' + "0" * 5000 + "}"), {"id": "1" + "0" * 5000}, ""),
        ("answer", structured('{"id": NaN}'), {"id": "nan"}, "nan is not a JSON number"),
        ("answer", structured('{"a": "\\ud83d"}'), {"a": "\ufffd"}, "half of a surrogate"),
        (
            "checked",
            structured('{"id": 7, "note": null}'),
            {"structured_content": {"id": 7, "note": None}, "content": ["sent"]},
            "does not match the output schema of the tool: $.note: must be a text, not null",
        ),
        ("checked", structured('{"id": 9007199254740993}'), {"id": "9007199254740993"}, "2^53"),
        ("checked", result(f'{{"content": [{TEXT}]}}'), "sent", "has no structured content"),
        (
            "answer",
            result('{"content": [{"type": "text", "text": "a\\ud83d"}]}'),
            "a\ufffd",
            "half of a surrogate",
        ),
        ("answer", result('{"content": [{"type": "text", "text": "a\xff"}]}'), "a\ufffd", ""),
        (
            "answer",
            result(f'{{"content": [{TEXT}, {{"type": "video", "url": "u"}}]}}'),
            ["sent", {"type": "video", "url": "u"}],
            "unknown type 'video'",
        ),
        ("answer", result('{"content": ["plain", 3]}'), ["plain", 3], "block is not an object"),
        ("answer", result('{"content": [{"type": "text", "text": 5}]}'), "5", "is not a text"),
        ("answer", result('{"content": [{"type": "text"}]}'), "", "without 'text'"),
        ("answer", f"<html>busy</html>\n{ANSWER}", "sent", "not a protocol message: '<html>busy"),
        ("answer", f"5\n[]\n{ANSWER}", "sent", "not a protocol message: '[]'"),
        ("answer", result(f'{{"content": {TEXT}}}'), "sent", "is not a list"),
        (
            "answer",
            result('{"content": "just text", "structuredContent": {"a": 1}}'),
            {"structured_content": {"a": 1}, "content": ["just text"]},
            "is not a list",
        ),
        ("answer", result('{"temperature": 5}'), {"temperature": 5}, "has no content"),
        ("answer", result("{}"), "", "has no content"),
        (
            "answer",
            result('{"content": [{"type": "image", "data": "%%%", "mimeType": "image/png"}]}'),
            {"file": "answer.png.txt", "size": 3, "media_type": "text/plain"},
            "the data of image/png is not base64",
        ),
        (
            "answer",
            result('{"content": [{"type": "image", "data": "aG\\nk=", "mimeType": "image/gif"}]}'),
            {"file": "answer.gif", "size": 2, "media_type": "image/gif"},
            "",
        ),
        ("answer", '{"id": $ID, "result": {"content": [' + TEXT + "]}}", "sent", ""),
        ("answer", result(f'{{"content": [{TEXT}]}}').replace("$ID", '"$ID"'), "sent", ""),
        ("answer", ANSWER.replace("$ID", "$ID.0"), "sent", ""),
        ("answer", f"[{ANSWER}]", "sent", ""),
        ("answer", f"\xef\xbb\xbf{ANSWER}", "sent", ""),
        ("answer", INDENTED, "sent", ""),
        ("answer", result(f'{{"content": [{TEXT}], "resultType": "new"}}'), "sent", ""),
        ("answer", structured(f'{{"a": {DEEP}}}'), None, "nested deeper than 128 levels"),
    ],
)
def test_an_answer_arrives_with_a_note(
    world: World, tool: str, line: str, expected: Any, note: str
) -> None:
    outcome = world.call(f"bad:{tool}", line=line)

    assert outcome.error is None
    assert outcome.call.result == expected or expected is None
    assert note in outcome.output
    assert (not note) or outcome.output.startswith("note: ")
    assert world.record().status == "success"


@pytest.mark.parametrize("channel", ["9007199254740993", 5])
def test_the_digits_of_an_integer_beyond_2_53_are_sent_as_a_number(
    world: World, channel: Any
) -> None:
    outcome = world.call("bad:echo", channel=channel, texts=["9007199254740993"])

    digits = str(channel)
    assert outcome.call.result == f'{{"channel": {digits}, "texts": ["9007199254740993"]}}'
    assert world.record().args["channel"] == channel


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"jsonrpc": "2.0", "id": $ID, "result": {"content": [', "it is not JSON"),
        ('{"jsonrpc": "2.0", "id": $ID, "result": "sent"}', "its result is invalid"),
        ('{"jsonrpc": "2.0", "id": $ID}', "it has no result"),
        ('{"jsonrpc": "2.0", "id": $ID, "result": null}', "it has no result"),
        ('{"jsonrpc": "2.0", "id": $ID, "error": "the disk is full"}', "the disk is full"),
        (
            ANSWER.replace("$ID", "null"),
            """id is that of no request: {"jsonrpc": "2.0", "id": null""",
        ),
        (ANSWER.replace("$ID", "99"), """id is that of no request: {"jsonrpc": "2.0", "id": 99"""),
        (f"[{ANSWER.replace('$ID', 'null')}]", """id is that of no request: {"jsonrpc": "2.0","""),
        (
            '{"result": {"content": []}}',
            """id is that of no request: {"result": {"content": []}}""",
        ),
        (
            '{"id": null, "error": "busy"}',
            """id is that of no request: {"id": null, "error": "busy"}""",
        ),
        (
            '{"jsonrpc": "2.0", "id": $ID, "error": {"code": "x", "message": null}}',
            'answered with an error: {"code": "x", "message": null}',
        ),
    ],
)
def test_an_answer_that_cannot_be_read_is_an_error_with_the_reason_at_once(
    world: World, line: str, problem: str
) -> None:
    world.call("bad:answer", line=line)

    error = world.record().error
    assert error is not None
    assert error.code == "server_error"
    assert problem in error.message


def test_a_result_of_an_error_arrives_too(world: World) -> None:
    outcome = world.call(
        "bad:checked",
        line=result(
            '{"content": [' + TEXT + '], "structuredContent": {"id": "a"}, "isError": true}'
        ),
    )

    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.message) == ("tool_failed", "sent")
    assert json.loads(json.dumps(world.record().result)) == {"id": "a"}


@pytest.mark.parametrize(
    ("code", "message"),
    [(-32000, "plain"), (-32000, "Connection closed"), (-32600, "Session terminated")],
)
def test_an_error_with_the_code_of_a_closed_connection_is_the_servers_answer(
    world: World, code: int, message: str
) -> None:
    starts = [one.starts for one in CONNECTIONS.health(world.root)]
    answer = {"jsonrpc": "2.0", "id": "$ID", "error": {"code": code, "message": message}}

    world.call("bad:answer", line=json.dumps(answer).replace('"$ID"', "$ID"))

    error = world.record().error
    assert error is not None
    assert error.code == "server_error"
    assert error.message.endswith(f"answered with an error: {message} ({code})")
    assert [one.starts for one in CONNECTIONS.health(world.root)] == starts or not starts


def test_the_time_limit_names_a_line_that_is_no_protocol_message(world: World) -> None:
    world.call("bad:answer", line=ANSWER)  # starts the server
    world.configure(CONFIG.replace("timeout_s: 20", "timeout_s: 0.5"))
    try:
        world.call("bad:answer", line="Deleted \x1b[2J" + "x" * 1000)
        error = world.record().error
        world.call("bad:answer", line='{"jsonrpc": "2.0", "method": "notifications/none"}')
        later = world.record().error
    finally:
        world.configure(CONFIG)

    assert error is not None
    assert error.code == "limit_time"
    assert "the tool may have had its effect" in error.message
    assert (
        "the server printed a line that is not a protocol message: 'Deleted \\u{1b}[2Jx"
        in error.message
    )
    assert len(error.message) < 500
    assert later is not None
    assert "not a protocol message" not in later.message  # of an earlier call


def test_an_answer_that_exceeds_the_limit_may_have_had_its_effect(world: World) -> None:
    world.configure(CONFIG.replace("timeout_s: 20", "output_mb: 1"))
    try:
        error = world.call("bad:answer", line=ANSWER.replace("sent", "x" * 1_100_000)).error
    finally:
        world.configure(CONFIG)

    assert error is not None
    assert error.code == "limit_output"
    assert error.message.endswith("; the tool may have had its effect")
