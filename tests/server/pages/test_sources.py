"""Pages on which API documents become tools, without JavaScript."""

import json
import re
from pathlib import Path

import pytest

from tests.api_client import form_file
from tests.server.visitor import Visitor
from tests.sources.pets_api import KEY, document, served
from tests.sources.test_rest_api import DocumentHost
from tests.wsgi_server import listening

URL = "https://pets.example.com"
ADD = "/toolsets/data-lab/sources/new"


def test_a_document_without_a_server_gets_the_url_of_its_api_on_the_page(
    visitor: Visitor, root: Path
) -> None:
    content = json.dumps(document(URL, servers=[{"url": "/v1"}])).encode()

    page = visitor.send(
        visitor.open(ADD).forms[1],
        "Add",
        file=form_file("pets.json", content),
        address=f"{URL}/v1",
    )

    assert "Added 5 tools" in page.text
    assert "does not state the host" not in page.text
    assert f"base_url: {URL}/v1" in (root / "toolsets/data-lab/toolset.yaml").read_text()
    assert f"GET {URL}/v1/pets" in visitor.open("/tools/pets:pets.list").text
    # Nothing was accepted before: what the new tools share has not changed.
    shared = page.source.partition("Definitions that these tools share")[2].partition("</summary>")[
        0
    ]
    assert re.findall(r">([^<>]*\w)<", shared) == ["1 new"]


def test_a_schema_of_graphql_gets_the_url_of_its_api_on_the_page(
    visitor: Visitor, root: Path
) -> None:
    pytest.importorskip("graphql")
    form = visitor.open(ADD).forms[1]
    pasted = "type Query { film(id: ID!): String }"

    visitor.send(form, "Add", document=pasted, namespace="films", address=f"{URL}/graphql")

    assert f"endpoint: {URL}/graphql" in (root / "toolsets/data-lab/toolset.yaml").read_text()


def test_a_document_is_fetched_after_its_host_is_confirmed_and_checked_before_it_is_added(
    visitor: Visitor, root: Path
) -> None:
    manifest = root / "toolsets/data-lab/toolset.yaml"
    before = manifest.read_bytes()
    host = DocumentHost(json.dumps(document(URL)).encode())
    with listening(host) as port:
        location = f"http://127.0.0.1:{port}/shelter.json"
        form = visitor.open(ADD).forms[1]
        page = visitor.send(form, "Add", url=location, fields="pets.get=id,owner.city")
        assert f"This sends a request to 127.0.0.1:{port}" in page.text
        assert host.requests == 0

        page = visitor.send(page.forms[1], "Fetch it")
        assert "listPets : the argument 'tag' has no description" in page.text
        assert "tokens in a list" in page.text
        assert (host.requests, manifest.read_bytes()) == (1, before)

        page = visitor.send(page.forms[1], "Add")
        assert "Added 5 tools" in page.text
        assert host.requests == 1
    text = manifest.read_text(encoding="utf-8")
    assert location in text
    assert "owner.city" in text
    assert (root / "toolsets/data-lab/specs/shelter.json").is_file()


@pytest.mark.parametrize("place", ["/etc/passwd", "file:///etc/passwd", "http://example.com/a"])
def test_no_file_of_the_server_is_opened_as_a_url(visitor: Visitor, place: str) -> None:
    page = visitor.send(visitor.open(ADD).forms[1], "Add", url=place, confirmed="example.com")

    assert page.status >= 400
    assert "Nothing was added" in page.text


def test_an_uploaded_document_is_checked_and_its_lines_stay(visitor: Visitor, root: Path) -> None:
    content = json.dumps(document(URL), indent=1)

    page = visitor.send(
        visitor.open(ADD).forms[1], "Check", file=form_file("shelter.json", content.encode())
    )
    assert "getPet : it has no description" in page.text
    # As a browser sends it.
    sent = page.forms[1].fields["document"][0].replace("\n", "\r\n")
    visitor.send(page.forms[1], "Add", document=sent)

    added = root / "toolsets/data-lab/specs/shelter.json"
    assert added.read_bytes() == content.encode()


@pytest.mark.rest
def test_pets_are_created_read_updated_and_deleted_on_pages(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELTER_APIKEY", KEY)
    visitor.send(visitor.open("/chats").form("/chats"), title="pets")

    def called(tool: str, **args: str) -> str:
        """Run a tool on its page, after an approval if it asks for one, and return the text of the call's page."""
        address = f"/tools/shelter:pets.{tool}"
        sent = {f"args/{name}": value for name, value in args.items()}
        page = visitor.send(visitor.open(f"{address}?chat=c1").form(address), **sent)
        asks = [form for form in page.forms if form.action.endswith("/approve")]
        assert bool(asks) == (tool in {"create", "update", "delete"}), page.text
        return (visitor.send(asks[0], "Approve and run") if asks else page).text

    with served() as url:
        content = json.dumps(document(url)).encode()
        upload = form_file("shelter.json", content)
        visitor.send(visitor.open(ADD).forms[1], "Add", file=upload)
        page = visitor.open("/toolsets/data-lab")
        page = visitor.send(page.form("/accept"))
        # The answer is at the document, and its tools are elsewhere on the page.
        assert page.link("See the tools of this toolset") == "#tools"
        visitor.send(page.form("/grants/requested"))

        assert "Ada" in called("create", name="Ada", tag="cat")
        assert "Ada" in called("get", petId="1")
        assert "Bob" in called("update", petId="1", name="Bob")
        assert "Bob" in called("list")
        called("delete", petId="1")
        assert "Bob" not in called("list")


def test_a_document_gets_a_toolset_of_its_own_from_the_list(visitor: Visitor, root: Path) -> None:
    page = visitor.open(visitor.open("/toolsets").link("Add an API document"))
    form = page.form("/new-toolset")
    assert "already exists" in visitor.send(form, id="data-lab").text
    added = visitor.send(form, id="orders")
    assert added.address == "/toolsets/orders/sources/new"
    assert (root / "toolsets/orders/toolset.yaml").is_file()
    assert "enabled" in visitor.open("/toolsets/orders").text
    assert "Data Lab" in page.text
