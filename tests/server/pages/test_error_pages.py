"""Error pages: each leads on, to pages that exist."""

import re
from html import unescape

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.api_client import BEARER, HOME, Api
from tests.server.visitor import Visitor

EXISTING = {"chat_id": "c1", "toolset_id": "data-lab", "tool_id": "data-lab:summarize"}
LISTED = {"approvals", "chats", "imports", "reference", "scripts", "tools", "toolsets"}
OTHER_HEADERS = BEARER | {"Accept": "text/html"}


def opened(client: FlaskClient, address: str, method: str = "GET") -> TestResponse:
    return client.open(address, method=method, base_url=HOME, headers=OTHER_HEADERS)


def url_of(rule: str, values: dict[str, str]) -> str:
    """Return the URL of a rule; the variables without a value have one that names nothing."""
    return re.sub(r"<(?:\w+:)?(\w+)>", lambda variable: values.get(variable[1], "nope"), rule)


def links_of(page: str) -> list[str]:
    main = page.partition("<main")[2].partition("</main")[0]
    found = re.findall(r'<a [^>]*href="([^"]*)"', main)
    return [unescape(address) for address in found]


@pytest.mark.rest
def test_each_error_page_has_links_that_lead_on(api: Api) -> None:
    client = api.client()
    leads: dict[str, bool] = {}
    count = 0
    for rule in sorted(api.app.url_map.iter_rules(), key=str):
        if not rule.arguments or str(rule).startswith(("/api", "/v1", "/static", "/preview")):
            continue
        is_page = "GET" in (rule.methods or ())
        for values in ({}, EXISTING) if is_page else (EXISTING,):
            address = url_of(str(rule), values)
            method = "GET" if is_page else "POST"
            answer = opened(client, address, method)
            if answer.status_code < 400 or answer.mimetype != "text/html":
                continue
            count += 1
            links = links_of(answer.get_data(as_text=True))
            assert links, f"{method} {address}"
            if address.split("/")[1] in LISTED:
                assert set(links) - {"/"}, f"{method} {address}"
            for link in links:
                if link not in leads:
                    leads[link] = opened(client, link).status_code < 400
                assert leads[link], f"{method} {address}: {link}"
                assert link != address
    assert count > 60


@pytest.mark.usefixtures("api")
def test_a_page_that_does_not_exist_leads_to_the_list_of_its_kind(visitor: Visitor) -> None:
    assert visitor.open("/chats/nope/files").link("All chats") == "/chats"
    assert visitor.open("/toolsets/nope").link("All toolsets") == "/toolsets"
    assert visitor.open("/chats/c1/calls/nope").link("The chat c1") == "/chats/c1"
    assert visitor.open("/nowhere").link("Start page") == "/"


@pytest.mark.usefixtures("api")
def test_an_error_page_leaves_out_the_command_that_its_link_replaces(visitor: Visitor) -> None:
    for address in ("/chats/nope", "/tools/nope:nope", "/toolsets/nope", "/approvals/nope"):
        assert not re.search(r"covalt-git [a-z]+ list", visitor.open(address).text)
    assert "Did you mean 'data-lab'?" in visitor.open("/toolsets/data-labb").text


@pytest.mark.usefixtures("api")
@pytest.mark.parametrize(
    ("address", "label", "page"),
    [
        ("/chats/c1/merge?branch=nope", "The branches and commits of c1", "/chats/c1/history"),
        ("/chats/c1?branch=nope", "The branches and commits of c1", "/chats/c1/history"),
        ("/chats/c1/preview/nope.html", "The files of c1", "/chats/c1/files"),
    ],
)
def test_a_name_that_a_chat_does_not_have_leads_to_the_page_with_its_names(
    visitor: Visitor, api: Api, address: str, label: str, page: str
) -> None:
    api.write("a.txt", "a")
    error = visitor.open(address)
    assert error.status == 404
    assert error.link(label) == page
    assert "covalt-git chat" not in error.text
    assert visitor.open(page).status == 200


def test_a_decision_about_a_stale_approval_leads_to_the_approval_as_it_is_now(
    visitor: Visitor, api: Api
) -> None:
    call = api.call("app-builder:run_command", command="ls")
    form = visitor.open(f"/approvals/{call['execution_id']}").form("/approve")
    api.post("deny_call", execution_id=call["execution_id"])

    page = visitor.send(form)

    assert page.status == 409
    assert "covalt-git approval" not in page.text
    page = visitor.open(page.link("The approval as it is now"))
    assert "denied" in page.text
