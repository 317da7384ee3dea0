"""Tables on pages: their query is in the URL, and each part of it works without JavaScript."""

import json
import re

import pytest
from playwright.sync_api import Page as BrowserPage
from playwright.sync_api import expect

from tests.api_client import BEARER, HOME, Api
from tests.live_server import Live
from tests.mcp_client import add_toolset
from tests.server.visitor import Page, Visitor

DAYS = "day,celsius\n" + "".join(f"2026-{n:03},{n % 40 - 9}\n" for n in range(1, 251))
LISTS = """\
id: lists
name: Lists
version: "1"
tools: [{id: rows, entrypoint: "tools.lists:rows"}]
"""
ORDERS = """\
id: orders
name: Orders
version: "1"
tools:
  - id: list
    entrypoint: "tools.orders:orders"
    output_schema:
      items: {properties: {name: {type: string}, day: {type: string}, amount: {type: number}}}
"""
ORDERS_PYTHON = (
    "def orders() -> list[dict]:\n"
    "    return [{'name': 'Zoe', 'amount': 3}, {'name': 'Al', 'day': 'Monday', 'amount': 4}]\n"
)
LISTS_PYTHON = "def rows(rows: list[dict]) -> list[dict]:\n    return rows\n"


def cells(page: Page) -> list[str]:
    """Return the cells of the rows, with their numbers."""
    body = page.source.partition("<tbody>")[2].partition("</tbody>")[0]
    return re.findall(r"<td[^>]*>(.*?)</td>", body)


def test_a_table_is_sorted_filtered_and_read_by_pages(visitor: Visitor, api: Api) -> None:
    api.upload(("days.csv", DAYS.encode()))
    page = visitor.open("/chats/c1/files/days.csv")
    assert "Rows 1 to 100 of 250 rows" in page.text
    assert cells(page)[:3] == ["1", "2026-001", "-8"]

    coldest = visitor.open(page.link("celsius"))
    assert cells(coldest)[:3] == ["40", "2026-040", "-9"]
    warmest = visitor.open(coldest.link("celsius ▲"))
    assert cells(warmest)[:3] == ["39", "2026-039", "30"]
    assert visitor.open(warmest.link("celsius ▼")).address == page.address

    form = next(form for form in warmest.forms if "c2" in form.fields)
    warm = visitor.open(f"/chats/c1/files/days.csv?sort={form.fields['sort'][0]}&c1=&c2=>20")
    assert "60 rows that match, 250 in total" in warm.text
    assert cells(warm)[:3] == ["39", "2026-039", "30"]
    assert "where=%232%3E20" in warm.link("Download 60 rows as CSV")
    content = visitor.app.test_client().get(
        warm.link("Download 60 rows as CSV"), base_url=HOME, headers=BEARER
    )
    assert content.get_data(as_text=True).splitlines()[1] == "2026-039,30"
    texts = visitor.open("/chats/c1/files/days.csv?c2=>abc").text
    assert "No row matches. abc is not a number: it is compared as text" in texts
    assert "compared as text" not in visitor.open("/chats/c1/files/days.csv?c2=>99").text
    listed = warm.source.index("Active conditions")
    assert listed < warm.source.index("<table>")
    assert warm.source.index("a text that the cells contain") < warm.source.index("<table>")
    (without,) = (one.href for one in warm.links if one.text.startswith("Remove the condition"))
    assert visitor.open(without).address == warmest.address
    last = visitor.open(visitor.open(page.link("Next")).link("Next"))
    assert "Rows 201 to 250 of 250 rows" in last.text
    assert "Next" not in [link.text for link in last.links]


@pytest.mark.rest
def test_a_reader_without_a_mouse_stays_at_the_table(
    page: BrowserPage, served: Live, api: Api
) -> None:
    api.upload(
        ("days.csv", f" ,{'x' * 300},day\n{'long ' * 200},1,2026-01-01T10:00:00Z\n".encode())
    )
    page.set_viewport_size({"width": 375, "height": 700})
    page.goto(f"{served.url}/chats/c1/files/days.csv")
    page.get_by_role("link", name="column 1").press("Enter")

    expect(page.locator("[aria-sort]")).to_have_count(1)
    expect(page.get_by_role("link", name="column 1")).to_be_focused()
    page.get_by_label("Filter day").fill(">2026")
    page.get_by_label("Filter day").press("Enter")
    expect(page.get_by_text("1 row that matches, 1 in total")).to_be_visible()
    expect(page.locator("#rows")).to_be_focused()
    # The table scrolls, and not the page; a date is not broken within it.
    width, box, table = page.evaluate(
        "['html', '.wide', 'table'].map((one) => document.querySelector(one).scrollWidth)"
    )
    assert (width, box) == (375, table)
    lines = (
        "(cell) => { const text = document.createRange(); text.selectNodeContents(cell);"
        " return text.getClientRects().length }"
    )
    assert page.locator("td", has_text="10:00").evaluate(lines) == 1


def test_the_url_of_a_filter_has_no_empty_fields(api: Api) -> None:
    api.upload(("days.csv", DAYS.encode()))
    address = "/chats/c1/files/days.csv?at=&c1=&c2=%3D3&sort="
    answer = api.client().get(address, base_url=HOME, headers=BEARER)

    assert answer.headers["Location"] == "/chats/c1/files/days.csv?c2=%3D3"


@pytest.mark.parametrize(
    ("content", "notice"),
    [
        ("a,b\n1,é\n".encode("utf-16"), "The file is UTF-16."),
        (b"a,b\n1,\xe9\n", "read as Latin-1"),
        (b'a,b\n1,"x\n2,y\n', "The quote in line 2 is not closed."),
        (b"a,b\n1\n2,3\n4,5,6\n", "2 rows have more or fewer cells"),
        (b"a,b\n1,x\0y\n", "x\\u{0}y"),
        (b"a;b\n" + b"1;<b>\n", "1 <b>"),
        (b",".join(b"x" for _ in range(99)) + b"\n1\n", "The first 60 of 99 columns"),
    ],
    ids=["utf-16", "latin-1", "quote", "ragged", "null", "html", "columns"],
)
def test_a_file_that_is_not_quite_csv_is_shown_with_the_reason(
    visitor: Visitor, api: Api, content: bytes, notice: str
) -> None:
    api.upload(("odd.csv", content))

    assert notice in visitor.open("/chats/c1/files/odd.csv").text


def test_a_result_is_a_table_and_downloaded_exactly(visitor: Visitor, api: Api) -> None:
    add_toolset(api.root, "lists", LISTS, LISTS_PYTHON)
    rows = [{"day": n, "celsius": n % 7 or None} for n in range(150)]
    call = api.call("lists:rows", rows=rows)
    first = visitor.open(f"/chats/c1/calls/{call['id']}")
    page = visitor.open(first.link("Sort, filter and download all rows") + "?c2=>140&sort=-1")

    assert cells(page)[:9] == ["147", "6", "146", "146", "5", "145", "145", "4", "144"]
    assert cells(page)[-3:] == ["148", "", "147"]
    download = api.client().get(page.link("Download all as JSON"), base_url=HOME, headers=BEARER)
    assert json.loads(download.get_data()) == rows


def test_a_result_has_the_order_of_the_output_schema(visitor: Visitor, api: Api) -> None:
    add_toolset(api.root, "orders", ORDERS, ORDERS_PYTHON)
    call = api.call("orders:list")
    page = visitor.open(f"/chats/c1/calls/{call['id']}")
    rows = visitor.open(page.link("Sort, filter and download all rows"))
    answers = [
        api.client().get(url, base_url=HOME, headers=BEARER)
        for url in (
            rows.link("Download all as JSON"),
            f"/api/export_table?chat_id=c1&call_id={call['id']}",
        )
    ]
    download, exported = (answer.get_data(as_text=True) for answer in answers[:2])
    answers.append(
        api.client().get(
            f"/api/export_table?chat_id=c1&call_id={call['id']}&where=name%3DAl",
            base_url=HOME,
            headers=BEARER,
        )
    )
    names = (".json", "-rows.csv", "-filtered-rows.csv")
    for answer, name in zip(answers, names, strict=True):
        file_name = f"orders-list-{call['id'][-8:]}{name}"
        assert file_name in answer.headers["Content-Disposition"]

    assert [*call["result"][1]] == ["name", "day", "amount"]
    assert "name day amount Zoe 3 Al Monday 4" in page.text
    assert cells(rows)[:4] == ["1", "Zoe", "", "3"]
    assert [*json.loads(download)[1]] == ["name", "day", "amount"]
    assert exported == "name,day,amount\r\nZoe,,3\r\nAl,Monday,4\r\n"
