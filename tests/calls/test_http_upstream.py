"""HTTP tools against a real Flask host: every placement arrives as meant, and no bad answer harms the chat."""

from __future__ import annotations

import json
import subprocess
from textwrap import dedent, indent
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.toolsets.toolset import read_toolset
from tests.runtime.http_upstream import Upstream, answering, upstream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.calls.conftest import World

HOSTILE = 'ü/?#&=+%2f;"\\'
"""Every sign that means something to some part of a request."""


@pytest.fixture(scope="module")
def served() -> Iterator[Upstream]:
    with upstream() as made:
        yield made


def call(world: World, http: str, *hosts: str, limits: str = "{}", **args: Any) -> Any:
    """Call an HTTP tool that a manifest declares and a person granted; return the finished call."""
    declare(world, http, *hosts, limits=limits)
    return world.call("it", **args).call


def declare(world: World, http: str, *hosts: str, limits: str = "{}") -> None:
    """Declare the HTTP tool ``demo:it``, and grant it its hosts."""
    head = 'id: demo\nname: Demo\nversion: "1"\ntools:\n- id: it\n'
    head += f"  input_schema: {{type: object}}\n  limits: {limits}\n  http:\n"
    world.write("demo/toolset.yaml", head + indent(dedent(http), "    "))
    toolset = read_toolset(world.root, "demo")
    assert toolset.sound, toolset.problems
    when = {"granted_at": "2026-11-20T17:24:00Z", "granted_by": "local"}
    granted = {"kind": "network", "hosts": hosts, "digest": toolset.digest, **when}
    world.write("state/demo.yaml", json.dumps({"grants": {"network": granted}}))


@pytest.mark.parametrize(
    ("request_text", "args", "seen"),
    [
        pytest.param(
            "url: {url}/echo/{{v}}", {"v": "a b/c"}, {"raw": "/echo/a%20b%2Fc"}, id="path"
        ),
        pytest.param(
            "url: {url}/echo/{{+v}}", {"v": "a b/c"}, {"path": "/echo/a b/c"}, id="whole-path"
        ),
        pytest.param("url: {url}/echo", {"v": HOSTILE}, {"query": {"v": [HOSTILE]}}, id="query"),
        pytest.param(
            "url: {url}/echo\nparameters: {{v: {{in: query, style: comma}}}}",
            {"v": ["a", "b"]},
            {"query": {"v": ["a,b"]}},
            id="query-of-a-list",
        ),
        pytest.param(
            "url: {url}/echo\nparameters: {{v: {{in: query, style: deep}}}}",
            {"v": {"a": HOSTILE}},
            {"query": {"v[a]": [HOSTILE]}},
            id="query-of-an-object",
        ),
        pytest.param(
            "url: {url}/echo\nquery: {{fixed: 1, v: $args.v}}",
            {"v": HOSTILE},
            {"query": {"fixed": ["1"], "v": [HOSTILE]}},
            id="written-query",
        ),
        pytest.param(
            "url: {url}/echo\nparameters: {{v: {{in: header, name: X-V}}}}",
            {"v": "a; b"},
            {"headers": {"x-v": "a; b"}},
            id="header",
        ),
        pytest.param(
            "url: {url}/echo\nheaders: {{X-V: 'v is $args.v'}}",
            {"v": "1"},
            {"headers": {"x-v": "v is 1"}},
            id="written-header",
        ),
        pytest.param(
            "url: {url}/echo\nparameters: {{v: {{in: cookie, name: c}}}}",
            {"v": "abc"},
            {"cookies": {"c": "abc"}},
            id="cookie",
        ),
        pytest.param(
            "method: POST\nurl: {url}/echo",
            {"v": [HOSTILE, 1, None]},
            {"body": json.dumps({"v": [HOSTILE, 1, None]}, separators=(",", ":"))},
            id="json-body",
        ),
        pytest.param(
            "method: PUT\nurl: {url}/echo\nbody: form",
            {"v": HOSTILE, "w": ["1", "2"]},
            {"form": {"v": [HOSTILE], "w": ["1", "2"]}},
            id="form-body",
        ),
        pytest.param(
            "method: POST\nurl: {url}/echo\nbody: {{multipart: {{v: $args.v, f: $workspace/$args.p}}}}",
            {"v": HOSTILE, "p": "a.bin"},
            {
                "form": {"v": [HOSTILE]},
                "files": [("f", "a.bin", "application/octet-stream", b"\0\xff\r\n--x")],
            },
            id="multipart-body",
        ),
        pytest.param(
            "method: PATCH\nurl: {url}/echo\nbody: {{text: 'v: $args.v'}}",
            {"v": HOSTILE},
            {"body": f"v: {HOSTILE}"},
            id="text-body",
        ),
        pytest.param(
            "method: POST\nurl: {url}/echo\nbody: {{file: $workspace/$args.p}}",
            {"p": "a.bin"},
            {"body": b"\0\xff\r\n--x"},
            id="file-body",
        ),
    ],
)
def test_every_placement_arrives_as_it_was_meant(
    world: World, served: Upstream, request_text: str, args: dict[str, Any], seen: dict[str, Any]
) -> None:
    served.seen.clear()
    (world.workspace / "a.bin").write_bytes(b"\0\xff\r\n--x")

    made = call(world, request_text.format(url=served.url), served.address, **args)

    assert (made.status, made.error) == ("success", None)
    (arrived,) = served.seen
    for part, wanted in seen.items():
        found = arrived[part]
        if part == "body" and isinstance(wanted, str):
            found = found.decode()
            if found.startswith("{"):
                found, wanted = json.loads(found), json.loads(wanted)  # noqa: PLW2901 - as values
        if part == "headers":
            found = {name: found[name] for name in wanted}
        assert found == wanted


def check(world: World, served: Upstream) -> None:
    """Make sure that the chat works on and that git finds its store sound."""
    made = call(world, f"url: {served.url}/echo", served.address)
    assert made.status == "success"
    checked = subprocess.run(
        ["git", "-C", str(world.store), "fsck", "--strict", "--no-dangling"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout) == (0, "")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        pytest.param("/big", "limit_output", id="huge"),
        pytest.param("/bomb", "limit_output", id="packed"),
        pytest.param("/nested-bomb", "limit_output", id="packed-twice"),
        pytest.param("/loop", "bad_redirect", id="redirects-for-ever"),
        pytest.param("/status/500", "http_500", id="error"),
        pytest.param("/status/404", "http_404", id="not-there"),
        pytest.param("/typed?hex=7b&type=application/json", "bad_result", id="half-a-value"),
    ],
)
def test_a_bad_answer_is_an_error_of_its_call_and_of_no_other(
    world: World, served: Upstream, path: str, code: str
) -> None:
    made = call(
        world,
        f"url: {served.url}{path}\nretries: 0",
        served.address,
        limits="{output_mb: 1}",
    )

    assert made.status == "error"
    assert made.error.startswith(f"{code}: ")
    assert world.codes()[-1] == code
    check(world, served)


@pytest.mark.parametrize(
    ("answer", "hold", "code"),
    [
        pytest.param(b"", True, "limit_time", id="says-nothing"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX-A: ", True, "limit_time", id="half-a-header"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", True, "limit_time", id="half-a-body"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", False, "bad_answer", id="breaks-off"
        ),
        pytest.param(b"SSH-2.0-x\r\n\r\n", False, "bad_answer", id="another-protocol"),
        pytest.param(b"", False, "bad_answer", id="hangs-up"),
    ],
)
def test_a_slow_or_broken_host_is_an_error_of_its_call_and_of_no_other(
    world: World, served: Upstream, answer: bytes, *, hold: bool, code: str
) -> None:
    with answering(answer, hold=hold) as port:
        made = call(
            world,
            f"url: http://127.0.0.1:{port}/\nretries: 0",
            f"127.0.0.1:{port}",
            limits="{timeout_s: 0.5}",
        )

    assert made.error.partition(":")[0] == code
    check(world, served)


def test_a_redirect_is_followed_to_where_was_granted_and_no_further(
    world: World, served: Upstream
) -> None:
    with upstream() as other:
        http = f"url: {served.url}/to"
        alone = call(world, http, served.address, url=f"{other.url}/echo")
        both = call(world, http, served.address, other.address, url=f"{other.url}/echo")
        asked = [one["path"] for one in other.seen]

    assert alone.error.startswith("refused_destination: ")
    assert (both.status, asked) == ("success", ["/echo"])
    check(world, served)
