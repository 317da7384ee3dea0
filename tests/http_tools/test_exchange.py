"""A call of an HTTP tool from its manifest to its result, against a real upstream."""

import os
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from covalt_git.access.grants import Granted
from covalt_git.credentials.values import SecretStore
from covalt_git.hosts import Reach
from covalt_git.http_tools.exchange import HttpJob, run
from covalt_git.http_tools.files import LockedWorkspace
from covalt_git.models.outcomes import Log, Outcome, Progress
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.models.tool import Tool
from covalt_git.models.tool_properties import Annotations, HttpRequest, Limits
from tests.examples import first_of
from tests.http_tools.upstream import Upstream, answering, there
from tests.tables import tables

__all__ = ["there"]

TABLES = tables(__file__)
SECRET = "hunter2-is-the-word"


@dataclass
class Desk:
    """Where calls are made from: the upstream, a workspace, and how long was waited in between."""

    there: Upstream
    workspace: Path
    waited: list[float] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def call(self, path: str, /, **changes: Any) -> Outcome:
        """Call a tool whose request goes to ``path`` of the upstream."""
        url = path if path.startswith(("http://", "$")) else self.there.url + path
        names = ("method", "headers", "query", "body", "parameters", "retries", "cookies")
        http = {name: changes.pop(name) for name in names if name in changes}
        hosts = changes.pop("hosts", (self.there.address,))
        limits = {"timeout_s": 20, "output_mb": 1, **changes.pop("limits", {})}
        tool = Tool(
            tool_id="web:it",
            toolset_id="web",
            name="It",
            kind="http",
            http=HttpRequest.model_validate({"url": url, **http}),
            input_schema={"type": "object"} | changes.pop("input_schema", {}),
            output_schema=changes.pop("output_schema", None),
            annotations=Annotations(**changes.pop("annotations", {})),
        )
        job = HttpJob(
            tool=tool,
            args=changes.pop("args", {}),
            granted=Granted(
                "web", Reach.of(*hosts), {"KEY": Reach.of(*changes.pop("for_key", hosts))}
            ),
            declared=frozenset(changes.pop("declared", ("KEY",))),
            secrets=SecretStore(changes.pop("environment", {"KEY": SECRET})),
            files=LockedWorkspace(self.workspace, WorkspaceConfig(max_file_mb=1), "sha1"),
            limits=Limits(**limits),
            report=self._hear,
            cancel=changes.pop("cancel", None),
            types=changes.pop("types", None),
        )
        assert not changes
        outcome = run(job, sleep=self.waited.append)
        assert SECRET not in repr(outcome) + repr(self.told)
        return outcome

    def fails(self, path: str, /, **changes: Any) -> tuple[str, str, str]:
        """Return code, message and hint of a call that fails."""
        outcome = self.call(path, **changes)
        assert outcome.error is not None, outcome
        return outcome.error.code, outcome.error.message, outcome.error.hint

    def _hear(self, one: Progress | Log) -> None:
        assert isinstance(one, Log)
        self.told.append(one.message)


@pytest.fixture
def desk(there: Upstream, tmp_path: Path) -> Desk:
    there.forget()
    (tmp_path / "workspace").mkdir()
    return Desk(there, tmp_path / "workspace")


def as_bytes(text: str) -> bytes:
    """Return the bytes of a table's text, which has escapes of Python."""
    return text.encode("latin-1").decode("unicode_escape").encode("latin-1")


# --- results --------------------------------------------------------------------------------------


def test_a_missing_argument_has_the_default_of_its_schema(desk: Desk) -> None:
    schemas = {"q": {"default": "x"}, "n": {"default": 1}, "none": {"default": None}, "id": {}}

    outcome = desk.call(
        "/echo/{id}", args={"id": "a", "n": 2}, input_schema={"properties": schemas}
    )

    assert outcome.result["query"] == {"q": ["x"], "n": ["2"]}


@pytest.mark.requirement("cognipeer-flow.response")
@pytest.mark.parametrize(("content", "media_type", "result"), TABLES["results"])
def test_an_answer_becomes_json_or_text(
    desk: Desk, content: str, media_type: str, result: object
) -> None:
    outcome = desk.call("/typed", args={"hex": as_bytes(content).hex(), "type": media_type})

    assert (outcome.status, outcome.result) == ("success", result)


@pytest.mark.parametrize("content", [b"{", b'"\xff"', b"[" * 100_000])
def test_invalid_json_is_an_error(desk: Desk, content: bytes) -> None:
    with answering(_answer(content)) as port:
        code, _, _ = desk.fails(f"http://127.0.0.1:{port}/", hosts=[f"127.0.0.1:{port}"])

    assert code == "bad_result"


@pytest.mark.parametrize(
    ("content", "result", "note"),
    [
        (
            b'{"id": 9007199254740993, "n": NaN, "t": "sent"}',
            {"id": "9007199254740993", "n": "nan", "t": "sent"},
            "note: nan is not a JSON number, and is stored as a text",
        ),
        (b"[1e999]", ["inf"], "note: inf is not a JSON number, and is stored as a text"),
    ],
)
def test_a_number_that_json_does_not_have_is_a_text_with_a_note(
    desk: Desk, content: bytes, result: object, note: str
) -> None:
    with answering(_answer(content)) as port:
        host = f"127.0.0.1:{port}"
        outcome = desk.call(f"http://{host}/", method="POST", hosts=[host])

    assert (outcome.status, outcome.result) == ("success", result)
    assert note in outcome.output.splitlines()


WRITES = [("POST", True), ("PUT", True), ("PATCH", True), ("DELETE", True), ("GET", False)]


@pytest.mark.parametrize(
    ("status", "method", "writes"),
    first_of(
        (
            (status, method, writes)
            for (method, writes), status in product(WRITES, [500, 502, 503, 504, 501, 404])
        ),
        (1,),
        (0, 2),
    ),
)
def test_an_error_of_the_server_after_a_request_that_writes_may_be_after_its_effect(
    desk: Desk, status: int, method: str, writes: object
) -> None:
    with answering(f"HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n".encode()) as port:
        host = f"127.0.0.1:{port}"
        _, message, _ = desk.fails(f"http://{host}/", method=method, hosts=[host], retries=0)

    expected = writes and status not in {404, 501}
    assert message.endswith("; the tool may have had its effect") is expected


@pytest.mark.parametrize(("method", "writes"), WRITES)
def test_an_answer_that_cannot_be_used_may_be_after_the_effect(
    desk: Desk, method: str, writes: object
) -> None:
    with answering(_answer(b"{")) as port:
        host = f"127.0.0.1:{port}"
        code, message, _ = desk.fails(f"http://{host}/", method=method, hosts=[host])
    assert code == "bad_result"
    assert message.endswith("; the tool may have had its effect") is writes

    with answering(_answer(b"[]")) as port:
        host, schema = f"127.0.0.1:{port}", {"type": "object"}
        code, message, _ = desk.fails(
            f"http://{host}/", method=method, hosts=[host], output_schema=schema
        )
    assert code == "bad_result"
    assert message.endswith("; the tool may have had its effect") is writes


def _answer(content: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


LONG_NAME = ('attachment; filename="' + "x" * 300 + '.png"', "x" * 116 + ".png")


@pytest.mark.parametrize(("disposition", "name"), [*TABLES["names"], LONG_NAME])
def test_a_file_gets_a_harmless_name(desk: Desk, disposition: str, name: str) -> None:
    outcome = desk.call("/files/cat.png", args={"as": disposition})

    assert outcome.result["file"] == name
    assert [path.name for path in desk.workspace.iterdir()] == [name]


def test_a_file_never_goes_through_a_link(desk: Desk, tmp_path: Path) -> None:
    (desk.workspace / "cat.png").symlink_to(tmp_path / "outside")
    outcome = desk.call("/files/cat.png")

    assert outcome.result["file"] == "cat_1.png"
    assert not (tmp_path / "outside").exists()


def test_a_file_that_is_too_large_to_keep_is_an_error(desk: Desk) -> None:
    content = b"\0" * ((1 << 20) + 1)
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nConnection: close\r\n\r\n" + content
    with answering(answer) as port:
        url, hosts = f"http://127.0.0.1:{port}/", [f"127.0.0.1:{port}"]
        _, message, _ = desk.fails(url, hosts=hosts, limits={"output_mb": 4})

    assert "1 MiB" in message
    assert list(desk.workspace.iterdir()) == []


def test_a_result_is_checked_against_its_schema(desk: Desk) -> None:
    schema = {"type": "object", "properties": {"method": {"type": "integer"}}}
    outcome = desk.call("/echo", output_schema=schema)

    assert outcome.error is not None
    assert outcome.error.code == "bad_result"
    assert "$.method" in outcome.error.message
    assert outcome.result["method"] == "GET"  # the request is made, so its result is not lost


# --- files that are sent --------------------------------------------------------------------------

UPLOAD = {"method": "POST", "body": {"multipart": {"f": "$workspace/$args.path"}}}


def test_a_file_of_the_workspace_is_sent(desk: Desk) -> None:
    (desk.workspace / "in").mkdir()
    (desk.workspace / "in" / "a.csv").write_bytes(b"1,2")
    desk.call("/echo", args={"path": "in/a.csv"}, **UPLOAD)

    assert desk.there.last["files"] == [("f", "a.csv", "text/csv", b"1,2")]


@pytest.mark.parametrize(
    "path", ["../outside", "/etc/passwd", "link", "folder/x", "folder", "none", "", "fifo"]
)
def test_nothing_but_a_file_of_the_workspace_is_sent(desk: Desk, tmp_path: Path, path: str) -> None:
    (tmp_path / "outside").write_text("private")
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "x").write_text("private")
    (desk.workspace / "link").symlink_to("../outside")
    (desk.workspace / "folder").symlink_to("../away")
    os.mkfifo(desk.workspace / "fifo")
    code, message, _ = desk.fails("/echo", args={"path": path}, **UPLOAD)

    assert code == "no_such_file"
    assert "private" not in message
    assert desk.there.seen == []


def test_file_that_is_too_large_for_the_workspace_is_not_sent(desk: Desk) -> None:
    (desk.workspace / "large").write_bytes(bytes((1 << 20) + 1))
    code, message, _ = desk.fails("/echo", args={"path": "large"}, **UPLOAD)

    assert (code, message) == (
        "no_such_file",
        "'large' cannot be read: it is larger than 1 MiB",
    )
    assert desk.there.seen == []


# --- statuses -------------------------------------------------------------------------------------


def test_an_error_status_is_an_error_with_the_useful_part_of_its_body(desk: Desk) -> None:
    host = desk.there.address

    assert desk.fails("/json-error") == (
        *("http_404", f"{host} answered 404 NOT FOUND: no such city", ""),
    )
    assert desk.fails("/html-error", retries=0) == (
        *("http_500", f"{host} answered 500 INTERNAL SERVER ERROR: It & broke", ""),
    )
    assert desk.fails("/status/304")[0] == "http_304"
    assert desk.fails("/status/410")[1] == f"{host} answered 410 GONE"


# --- tries ----------------------------------------------------------------------------------------


def test_a_busy_host_is_asked_again_when_it_says(desk: Desk) -> None:
    outcome = desk.call("/busy/2")

    assert outcome.result == {"times": 3}
    assert round(sum(desk.waited)) == 14
    assert outcome.output.count(": 429,") == 2
    assert "trying again in 7.0 s" in outcome.output


def test_a_wait_beyond_the_time_of_the_call_is_not_begun(desk: Desk) -> None:
    code, _, hint = desk.fails("/busy/1", args={"after": "3600"})

    assert (code, hint) == ("http_429", "it asks to wait 3600 s")
    assert desk.waited == []


@pytest.mark.parametrize(
    ("changes", "tries"),
    [
        ({}, 3),
        ({"retries": 0}, 1),
        ({"retries": 5}, 6),
        ({"method": "POST"}, 1),
        ({"method": "POST", "annotations": {"idempotent": True}}, 3),
    ],
)
def test_only_what_may_be_repeated_is_tried_again(
    desk: Desk, changes: dict[str, Any], tries: int
) -> None:
    busy = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
    with answering(busy) as port:
        host = f"127.0.0.1:{port}"
        outcome = desk.call(f"http://{host}/", hosts=[host], limits={"timeout_s": 600}, **changes)

    assert outcome.error is not None
    assert outcome.error.code == "http_503"
    assert outcome.output.count(": 503, 0 bytes") == tries


def test_a_request_that_never_left_may_be_repeated_whatever_it_is(desk: Desk) -> None:
    with answering(b"x") as port:
        pass
    outcome = desk.call(f"http://127.0.0.1:{port}/", method="POST", hosts=[f"127.0.0.1:{port}"])

    assert outcome.error is not None
    assert outcome.error.code == "connection_failed"
    assert "effect" not in outcome.error.message
    assert outcome.output.count("connection refused") == 3
    assert 0 < sum(desk.waited) <= 1.5


@pytest.mark.parametrize(
    ("changes", "is_unknown"),
    [
        ({"method": "POST"}, True),
        ({"method": "DELETE", "retries": 0}, True),
        ({"method": "POST", "annotations": {"read_only": True}}, False),
        ({}, False),
    ],
)
@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"])
def test_a_lost_answer_of_a_request_that_writes_may_have_had_its_effect(
    desk: Desk, answer: bytes, changes: dict[str, Any], is_unknown: object
) -> None:
    with answering(answer) as port:
        _, message, _ = desk.fails(
            f"http://127.0.0.1:{port}/", hosts=[f"127.0.0.1:{port}"], **changes
        )

    assert message.endswith("; the tool may have had its effect") is is_unknown


# --- grants and secrets ---------------------------------------------------------------------------


AUTHORIZED = {"headers": {"X-Key": "${KEY}"}}


@pytest.mark.parametrize(
    ("changes", "needed"),
    [
        ({"hosts": ["api.example.com"]}, "network"),
        ({"for_key": ["api.example.com"], **AUTHORIZED}, "secret KEY"),
    ],
)
def test_a_request_is_not_sent_without_grants_of_its_host_and_its_secret(
    desk: Desk, changes: dict[str, Any], needed: str
) -> None:
    code, _, hint = desk.fails("/echo", **changes)

    assert code == "grant_needed"
    assert hint == f"covalt-git grant add web {needed} {desk.there.address}"
    assert desk.there.seen == []


@pytest.mark.parametrize(
    "target", ["/echo", "/deep/../echo", "/deep/%2e%2e/echo", "//{address}/echo"]
)
def test_a_redirect_stays_where_the_address_begins(desk: Desk, target: str) -> None:
    said = target.replace("{address}", desk.there.address)
    code, _, _ = desk.fails("/deep/to", args={"url": said}, **AUTHORIZED)

    assert code == "bad_redirect"
    assert "/echo" not in desk.there.times


@pytest.mark.parametrize(
    "changes", [{"declared": ()}, {"environment": {}}, {"environment": {"KEY": ""}}]
)
def test_a_missing_secret_is_reported_by_name(desk: Desk, changes: dict[str, Any]) -> None:
    code, message, _ = desk.fails("/echo", headers={"X-Key": "${KEY}"}, **changes)

    assert (code, "'KEY'" in message) == ("secret_missing", True)
    assert desk.there.seen == []


@pytest.mark.parametrize(
    "value", ["hunter2\n", "hunter2\r\nX-Evil: 1", "hunter2-\0", "hunter2-ü", "hunter2-\udcff"]
)
def test_a_secret_that_no_header_can_carry_is_reported_by_name_only(desk: Desk, value: str) -> None:
    headers = {"Authorization": "Bearer ${KEY} $args.x"}

    code, message, hint = desk.fails(
        "/echo", headers=headers, args={"x": "y"}, environment={"KEY": value}
    )

    assert (code, "'KEY'" in message) == ("secret_unfit", True)
    assert "hunter2" not in message + hint
    assert desk.there.seen == []
