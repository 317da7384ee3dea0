"""Render plans: what each renderer is given, and where no plan ever leads."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.models.calls import CallError, RenderPlan
from covalt_git.models.renderers import FILE_KEYS, Renderer
from covalt_git.render.plan import plan
from tests.tables import tables

TABLES = tables(__file__)

ERROR = CallError(code="tool_raised", message="KeyError: 'a'", traceback="tools/files.py:3 in read")


def make_plan(
    renderer: str, config: dict[str, Any], *, args: Any = None, result: Any = None
) -> RenderPlan:
    made = plan(
        Renderer.model_validate({"type": renderer, "config": config}),
        args=args or {},
        result=result,
        chat_id="chat-1",
    )
    assert made is not None
    return made


def test_tool_without_a_renderer_has_no_plan() -> None:
    assert plan(None, args={}, result={"a": 1}, chat_id="c") is None


@pytest.mark.requirement("covalt-4.3.9", "covalt-5.3.plan")
def test_plan_holds_the_resolved_configuration() -> None:
    config = {"file": "$args.path", "language": "auto", "editable": True}

    assert make_plan("code", config, args={"path": "src/app.py"}) == RenderPlan(
        renderer="code",
        config={"file": "workspace:src/app.py", "language": "auto", "editable": True},
    )


@pytest.mark.requirement("covalt-1.4.html")
def test_html_page_is_given_the_result_unless_it_says_what() -> None:
    page = {"artifact": "./artifacts/viz.html"}

    assert make_plan("html", page, result=[1]).config == {
        "artifact": "toolset:artifacts/viz.html",
        "data": [1],
    }
    assert make_plan("html", {**page, "data": {"n": "$args.n"}}, args={"n": 2}).config["data"] == {
        "n": 2
    }
    assert make_plan("html", {**page, "data": None}, result=[1]).config["data"] is None


@pytest.mark.parametrize(
    ("key", "template", "args", "file"), TABLES["file_keys_name_a_file_of_a_place"]
)
def test_file_keys_name_a_file_of_a_place(
    key: str, template: str, args: dict[str, Any], file: str
) -> None:
    made = make_plan("code", {key: template}, args=args)

    assert made.config == {key: file}
    assert made.error is None


@pytest.mark.parametrize(
    ("renderer", "config", "result", "shown", "error"),
    [
        ("markdown", {"content": "$return"}, "# hi", {"content": "# hi"}, None),
        ("code", {"file": "$return.file"}, {"file": None}, {}, None),
        ("code", {"file": "/etc/$args.name"}, None, {}, "$args.name: the arguments have no 'name'"),
        (
            "code",
            {"content": "$return.out", "language": "$args.lang"},
            {},
            {"content": "$return.out", "language": "$args.lang"},
            "$return.out: the result has no 'out'; $args.lang: the arguments have no 'lang'",
        ),
        ("frame", {}, None, {}, "a frame requires 'url' or 'port'"),
        (
            "frame",
            {"url": "http://localhost:3000/a", "port": 3000},
            None,
            {"url": "http://localhost:3000/a", "port": 3000},
            None,
        ),
        (
            "frame",
            {"url": "$return", "port": 3000},
            "https://evil.tld/",
            {"port": 3000},
            "url: the host of 'https://evil.tld/' must be localhost or 127.0.0.1 or [::1]",
        ),
    ],
)
def test_what_cannot_be_shown_is_left_out_or_an_error_of_the_plan(
    renderer: str, config: dict[str, Any], result: Any, shown: dict[str, Any], error: str | None
) -> None:
    made = make_plan(renderer, config, result=result)

    assert made.renderer == ("document" if renderer == "markdown" else renderer)
    assert (made.config, made.error) == (shown, error)


@pytest.mark.parametrize(("template", "data", "url"), TABLES["data_fills_in_a_frames_address"])
def test_data_fills_in_a_frames_address(template: str, data: object, url: str) -> None:
    made = make_plan("frame", {"url": template}, result={"x": data})

    assert made == RenderPlan(renderer="frame", config={"url": url})


@pytest.mark.parametrize(("template", "data"), TABLES["data_never_leads_a_frame_elsewhere"])
def test_data_never_leads_a_frame_elsewhere(template: str, data: object) -> None:
    made = make_plan("frame", {"url": template}, result={"x": data})

    assert made.config == {}
    assert made.error


@pytest.mark.requirement("covalt-4.4.plan")
@pytest.mark.parametrize(
    "renderer",
    [
        pytest.param(Renderer(type="code", config={"content": "$return.output"}), id="content"),
        pytest.param(Renderer(type="html", config={"artifact": "a.html"}), id="html"),
        pytest.param(Renderer(type="frame", config={"port": "$return.port"}), id="frame"),
        pytest.param(None, id="no-renderer"),
    ],
)
def test_failed_call_that_has_nothing_to_show_shows_its_error(renderer: Renderer | None) -> None:
    made = plan(renderer, args={}, result=None, chat_id="c", error=ERROR)

    assert made == RenderPlan(
        renderer="code",
        config={
            "content": "tool_raised: KeyError: 'a'\ntools/files.py:3 in read",
            "language": "text",
        },
    )


def test_failed_call_whose_renderer_needs_no_result_keeps_it() -> None:
    renderer = Renderer(type="code", config={"file": "$args.path"})

    made = plan(renderer, args={"path": "a.py"}, result=None, chat_id="c", error=ERROR)

    assert made == RenderPlan(renderer="code", config={"file": "workspace:a.py"})


HOSTILE = st.lists(
    st.sampled_from(["..", ".", "/", "\\", "workspace:", "toolset:", "$workspace", "a", "C:", "\0"])
    | st.text(max_size=3),
    max_size=8,
).map("".join)
TEMPLATES = st.sampled_from(
    [
        "$args.p",
        "${args.p}",
        "$workspace/$args.p",
        "$workspace$args.p",
        "$toolset$args.p",
        "a/$args.p",
    ]
)


@given(key=st.sampled_from(sorted(FILE_KEYS)), template=TEMPLATES | HOSTILE, hostile=HOSTILE)
def test_file_keys_never_hold_a_path_that_leads_outside(
    key: str, template: str, hostile: str
) -> None:
    made = make_plan("code", {key: template}, args={"p": hostile})

    assert (made.error is None) == (key in made.config)
    if key in made.config:
        place, _, path = made.config[key].partition(":")
        assert place in {"workspace", "toolset"}
        assert not path.startswith("/")
        assert not {"", ".", ".."} & set(path.split("/"))


@given(data=st.text() | st.sampled_from(["80@evil.tld", "3000/", "@evil.tld", ":3000", "1024#"]))
def test_settled_host_stays_whatever_the_data(data: str) -> None:
    made = make_plan("frame", {"url": "http://localhost:$args.p"}, args={"p": data})

    url = made.config.get("url", "http://localhost:")
    assert url.startswith("http://localhost:")
    assert "@" not in url.partition("://")[2].partition("/")[0].partition("?")[0].partition("#")[0]
