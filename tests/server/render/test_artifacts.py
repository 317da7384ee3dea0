"""Artifacts: who receives one, with which headers, and what it can do in its frame."""

import json
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext
from werkzeug.test import TestResponse

from covalt_git.models.calls import FileReference, RenderPlan
from covalt_server.render.artifacts import (
    ARTIFACT_HEADERS,
    HEIGHT_SCRIPT,
    artifact_page,
    artifact_source,
)
from tests.api_client import BEARER, HOME, Api, configure, refused
from tests.live_server import live
from tests.server.render.page_tool import add_page_tool, show
from tests.tables import tables

IN_A_FRAME = {"Sec-Fetch-Dest": "iframe", "Sec-Fetch-Site": "same-origin"}
CHART = Path(__file__).parents[3] / "toolsets" / "data-lab" / "artifacts" / "chart.html"
TABLE = b"day,celsius\n2026-01-01,3.5\n2026-01-02,4.5\n2026-01-03,1.0\n"


def ask(api: Api, call_id: str, chat_id: str = "c1", **headers: str) -> TestResponse:
    """Ask for an artifact as a frame of our page does."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return api.client().get(
        f"/artifacts/{chat_id}/{call_id}",
        base_url=HOME,
        headers=BEARER | IN_A_FRAME | {"Accept": "application/json"} | named,
    )


@pytest.fixture(scope="module")
def chart(shared: Api) -> str:
    """The id of a call that shows a chart."""
    shared.post("create_chat", chat_id="c2")
    assert shared.upload(("days.csv", TABLE)).status_code == 200
    return str(shared.call("data-lab:summarize", path="days.csv")["id"])


@pytest.fixture
def api(shared: Api) -> Api:
    """The API of the project with that call; not to be changed."""
    return shared


@pytest.fixture
def own(shared: Api, chart: str, tmp_path: Path) -> Api:  # noqa: ARG001 - the call is before the copy
    """The API of a copy of that project, which a test may change."""
    return Api.of(Path(shutil.copytree(shared.root, tmp_path / "project", symlinks=True)))


# The page


@pytest.mark.requirement("covalt-5.1.html", "covalt-5.4.1")
def test_a_page_is_the_stored_artifact_with_its_data() -> None:
    kept = FileReference(ref=f"sha256:{'0' * 64}", size=9)
    plan = RenderPlan(renderer="html", config={"data": {"a": "<"}}, artifact=kept)
    read = {kept: b"<head></head>caf\xe9"}

    assert artifact_page(plan, read.__getitem__) == (
        b'<head><script>window.__TOOL_DATA__ = {"a":"\\u003c"};</script>'
        b"<script>" + HEIGHT_SCRIPT.encode() + b"</script></head>caf\xe9"
    )
    assert artifact_source(plan, read.__getitem__) == b"<head></head>caf\xe9"


# The answer


def test_a_page_stays_the_same_after_the_end_of_the_call(own: Api, chart: str) -> None:
    before = ask(own, chart).get_data()
    artifact = own.root / "toolsets" / "data-lab" / "artifacts" / "chart.html"
    artifact.write_text("<p>edited</p>")
    (own.workspace / "days.csv").write_text("nothing\n")

    after = ask(own, chart)

    assert after.status_code == 200
    assert after.get_data() == before
    assert after.get_data().replace(b"\n", b"").endswith(b"</html>")
    assert b'window.__TOOL_DATA__ = {"columns":' in after.get_data()
    assert len(after.get_data()) > len(CHART.read_bytes())


def test_a_page_has_every_header_of_its_sandbox(api: Api, chart: str) -> None:
    answer = ask(api, chart)

    assert ARTIFACT_HEADERS.items() <= dict(answer.headers).items()
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = answer.headers.getlist("Content-Security-Policy")
    assert len(policy) == 1
    assert {one.strip() for one in policy[0].split(";")} == {
        "sandbox allow-scripts",
        "default-src 'none'",
        "script-src 'unsafe-inline'",
        "style-src 'unsafe-inline'",
        "img-src data: blob:",
        "font-src data:",
        "media-src data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",
    }
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        *(
            ({"Sec_Fetch_Dest": dest}, 403, "not_in_a_frame")
            for dest in ("document", "empty", "embed", "object", "frame", "script", "")
        ),
        ({"Sec_Fetch_Site": "cross-site"}, 403, "wrong_origin"),
        ({"Sec_Fetch_Site": "same-site"}, 403, "wrong_origin"),
        ({"Origin": "null"}, 403, "wrong_origin"),
        ({"Authorization": "Bearer wrong"}, 401, "no_token"),
    ],
)
def test_a_page_is_sent_only_to_a_frame_of_our_own_page(
    api: Api, chart: str, headers: dict[str, str], status: int, code: str
) -> None:
    refused(ask(api, chart, **headers), status, code)


def test_other_calls_have_no_page(own: Api, chart: str) -> None:
    for call_id in ("0", "..", "01a1fa31-e4a0-7281-b2ab-859e374964b9", "\u00e9"):
        assert ask(own, call_id).status_code in {404, 308}
    refused(ask(own, chart, "c2"), 404, "unknown_call")
    refused(ask(own, chart, "c3"), 404, "unknown_chat")
    refused(ask(own, own.write("a.txt", "a")["id"]), 404, "no_page")
    pending = own.call("app-builder:run_command", command="ls")
    refused(ask(own, pending["id"]), 404, "no_page")


def test_a_call_that_does_not_exist_for_the_role_has_no_page(own: Api, chart: str) -> None:
    roles = 'roles: {builder: {allow: ["app-builder.**"]}, lab: {allow: ["data-lab.**"]}}'
    configure(own.root, roles)

    refused(ask(Api.of(own.root, role="builder"), chart), 404, "unknown_call")
    assert ask(Api.of(own.root, role="lab"), chart).status_code == 200


def test_an_unchanged_page_is_not_sent_again(api: Api, chart: str) -> None:
    first = ask(api, chart)

    again = ask(api, chart, If_None_Match=first.headers["ETag"])
    outside_a_frame = ask(
        api, chart, If_None_Match=first.headers["ETag"], Sec_Fetch_Dest="document"
    )

    assert (
        first.headers["ETag"]
        == f'"{api.get("get_call", chat_id="c1", call_id=chart)["post_manifest_id"]}"'
    )
    assert (again.status_code, again.get_data()) == (304, b"")
    assert ARTIFACT_HEADERS.items() <= dict(again.headers).items()
    assert outside_a_frame.status_code == 403


# In the browser


TABLES = tables(__file__)
TRYING = """<!doctype html><html><head><style>body { margin: 7px }</style></head>
<body><button onclick="document.body.dataset.clicked = 'yes'">x</button>
<script type="module">document.body.dataset.module = "ran"</script>
<script>
function attempt(code) {
  return new Promise((resolve) => {
    window.answers = window.answers || [];
    const number = window.answers.push(resolve) - 1;
    const script = document.createElement("script");
    script.textContent = `(async () => { try { await (${code}); answers[${number}]("works") }
      catch { answers[${number}]("refused") } })()`;
    document.body.append(script);
  });
}
addEventListener("load", async () => {
  const found = {};
  for (const [name, code] of Object.entries(window.__TOOL_DATA__)) found[name] = await attempt(code);
  const told = document.createElement("pre");
  told.id = "told";
  told.textContent = JSON.stringify(found);
  document.body.append(told);
});
</script></body></html>"""


def test_the_frame_permits_scripts_of_the_page_and_refuses_everything_else(
    own: Api, context: BrowserContext
) -> None:
    probes = dict([*TABLES["works"], *TABLES["refused"]])
    add_page_tool(own.root)
    with live(own.root) as server:
        page = context.new_page()
        page.goto(server.door)
        page.goto(f"{server.url}/chats/c1/calls/{show(own, TRYING, probes)}")
        found = json.loads(page.frame_locator("iframe.artifact").locator("#told").inner_text())

    assert found == {
        name: outcome for outcome in ("works", "refused") for name, _ in TABLES[outcome]
    }
