"""Forms of pages for branches and chats: restore, merge, resolve, rename, fork, delete."""

import pytest
from playwright.sync_api import BrowserContext, expect
from playwright.sync_api import Page as BrowserPage

from tests.api_client import Api
from tests.live_server import Live
from tests.server.visitor import Page, Visitor


@pytest.fixture
def branched(api: Api) -> Api:
    """A chat with a.txt on main, and on the branch idea another a.txt and a b.txt."""
    api.write("a.txt", "one\n")
    api.post("create_branch", chat_id="c1", name="idea")
    api.post("switch_branch", chat_id="c1", branch="idea")
    api.write("a.txt", "idea\n")
    api.write("b.txt", "b\n")
    api.post("switch_branch", chat_id="c1", branch="main")
    return api


def folder(api: Api) -> dict[str, str]:
    found = sorted(path for path in api.workspace.rglob("*") if path.is_file())
    return {path.relative_to(api.workspace).as_posix(): path.read_text() for path in found}


def test_files_are_restored_from_the_page_of_a_state_or_of_a_file(
    visitor: Visitor, api: Api
) -> None:
    first = api.write("a.txt", "one\n")["post_manifest_id"]
    api.write("a.txt", "two\n")
    api.write("b.txt", "b\n")

    old = visitor.open(f"/chats/c1/files/a.txt?at={first}")
    page = visitor.send(old.form("/chats/c1/restore"))
    assert page.address == "/chats/c1/files/a.txt"
    assert folder(api) == {"a.txt": "one\n", "b.txt": "b\n"}

    page = visitor.send(visitor.open(f"/chats/c1/states/{first}").form("/chats/c1/restore"))
    assert page.address == "/chats/c1"
    assert folder(api) == {"a.txt": "one\n"}
    newest = visitor.open("/chats/c1/states/HEAD")
    assert "/chats/c1/restore" not in [form.action for form in newest.forms]


@pytest.mark.usefixtures("branched")
def test_the_tab_of_files_keeps_the_branch_of_the_conversation(visitor: Visitor) -> None:
    page = visitor.open("/chats/c1?branch=idea")
    (files,) = (link.href for link in page.links if link.text == "Files")

    assert "b.txt" in visitor.open(files).text
    assert "b.txt" not in visitor.open("/chats/c1/files").text


def test_a_branch_without_a_typed_name_gets_the_name_of_the_field(
    visitor: Visitor, branched: Api
) -> None:
    visitor.send(visitor.open("/chats/c1").form("/branches"))

    branches = branched.get("list_branches", chat_id="c1")["branches"]
    assert len(branches) == 3
    assert all(branch["name"] for branch in branches)


def test_a_conflict_is_resolved_before_the_merge(visitor: Visitor, branched: Api) -> None:
    branched.write("a.txt", "main\n")
    page = visitor.open("/chats/c1/merge?branch=idea")
    assert page.link("Show the file on idea") == "/chats/c1/files/a.txt?at=idea"
    assert "Ours: main main Base one Theirs: idea idea" in page.text

    before = folder(branched)
    shown = visitor.send(
        page.form("/chats/c1/merge"), "Show the result", **{"choice:a.txt": "theirs"}
    )
    assert "Changes in 2 files on main with these choices" in shown.text
    assert {"idea"} <= {*shown.changed_lines("add")}
    assert folder(branched) == before
    assert "Change 1 of 1, at line 1" in shown.text
    assert (
        "after <<<<<<< the lines of main (ours), and after ======= those of idea (theirs)"
        in page.text
    )
    edited = visitor.send(page.form("/chats/c1/merge"), "Edit the result")
    assert "The text has after <<<<<<< the lines of main (ours)" in edited.text
    assert any("autofocus" in area for area in edited.named("textarea"))

    visitor.send(shown.form("/chats/c1/merge"), "Merge")

    assert folder(branched) == {"a.txt": "idea\n", "b.txt": "b\n"}


def test_an_edited_result_does_not_drop_a_line_that_comes_later(
    visitor: Visitor, branched: Api
) -> None:
    action, mine = "/chats/c1/merge", {"choice:a.txt": "content", "content:a.txt": "mine\n"}
    branched.write("a.txt", "main\n")
    page = visitor.open("/chats/c1/merge?branch=idea")
    edited = visitor.send(page.form(action), "Edit the result")
    assert "newer merge" not in edited.source
    branched.write("a.txt", "main\nlater\n")

    for _ in range(2):  # The same button again is not enough.
        edited = visitor.send(edited.form(action), "Merge", **mine)
        assert edited.status == 409
        assert "later" in edited.changed_lines("del")
        assert edited.form(action).fields["content:a.txt"] == ["mine\n"]
    shown = visitor.send(edited.form(action), "Show the result", **mine, **{"replaces:a.txt": "1"})
    assert "with these choices" in shown.text
    branched.write("a.txt", "main\nlater\nlast\n")
    page = visitor.send(shown.form(action), "Merge", **mine, **{"replaces:a.txt": "1"})
    assert page.status == 409
    assert folder(branched)["a.txt"] == "main\nlater\nlast\n"

    visitor.send(page.form(action), "Merge", **mine, **{"replaces:a.txt": "1"})
    assert folder(branched)["a.txt"] == "mine\n"


@pytest.mark.rest
def test_back_to_a_page_that_answered_a_form_opens_the_page_of_the_merge(
    page: BrowserPage, served: Live, branched: Api
) -> None:
    branched.write("a.txt", "main\n")
    page.goto(f"{served.url}/chats/c1/merge?branch=idea")
    page.get_by_role("button", name="Edit the result").click()
    page.get_by_label("Use the whole file of idea").check()
    page.get_by_role("button", name="Merge", exact=True).click()
    expect(page.get_by_text("Merged idea into main.")).to_be_visible()

    page.go_back()

    expect(page.get_by_text("Nothing to merge")).to_be_visible()


def test_decisions_about_hunks_are_not_applied_to_other_hunks(
    visitor: Visitor, branched: Api
) -> None:
    branched.write("a.txt", "main\n")
    form = visitor.open("/chats/c1/merge?branch=idea").form("/chats/c1/merge")
    branched.write("a.txt", "another\n")

    page = visitor.send(form, "Merge", **{"choice:a.txt": "hunks", "hunk:1:a.txt": "theirs"})

    assert page.status == 409
    assert "has changed since this page was shown" in page.text
    assert (
        "no choice applies any more, because the changes are different now; choose for change 1"
        in page.text
    )
    radios = [one for one in page.named("input") if one.get("name") == "hunk:1:a.txt"]
    assert len(radios) == 3
    assert not [one for one in radios if "checked" in one]


def test_a_choice_still_applies_to_the_same_change_of_a_file(
    visitor: Visitor, four_changes: Api
) -> None:
    path, name = "/chats/c1/merge", "app.txt"
    form = visitor.open(f"{path}?branch=idea").form(path)
    content = (four_changes.workspace / name).read_text()
    # Another text on our side of the first change, and a new one before the second.
    content = content.replace("main 2\n", "main 2 again\n").replace("7\n", "7 too\n", 1)
    (four_changes.workspace / name).write_bytes(content.replace("\n", "\r\n").encode())
    typed = {"choice:app.txt": "hunks", "hunk:1:app.txt": "theirs", "hunk:2:app.txt": "both"}

    page = visitor.send(form, "Merge", **typed)

    assert page.status == 409
    hint = (
        "1 of your 2 choices still applies, because the change is the same; choose for changes 1, 2"
    )
    assert hint in page.text
    chosen = {
        one["name"]: one["value"]
        for one in page.named("input")
        if one["name"].startswith("hunk:") and "checked" in one
    }
    assert chosen == {"hunk:3:app.txt": "both"}
    rest = {"hunk:1:app.txt": "ours", "hunk:2:app.txt": "ours"}
    visitor.send(page.form(path), "Merge", **rest)
    merged = (four_changes.workspace / name).read_text()
    assert [line in merged for line in ("main 2 again", "7 too", "main 12\nidea 12")] == [True] * 3


def test_the_page_of_a_merge_lists_the_other_files_that_change(
    visitor: Visitor, branched: Api
) -> None:
    branched.write("a.txt", "main\n")
    page = visitor.open("/chats/c1/merge?branch=idea")

    assert "Changes in 1 other file on main" in page.text
    assert "b.txt added +1" in page.text


def test_a_merge_that_was_undone_is_made_again_by_a_link(visitor: Visitor, branched: Api) -> None:
    branched.write("mine.txt", "mine\n")
    visitor.send(visitor.open("/chats/c1/merge?branch=idea").form("/chats/c1/merge"))
    merged = folder(branched)
    branched.post("undo_change", chat_id="c1")
    assert folder(branched) != merged

    page = visitor.open("/chats/c1/merge?branch=idea")
    assert "took back changes of idea" in page.text
    again = visitor.open(page.link("Merge them again"))
    visitor.send(again.form("/chats/c1/merge"))
    assert folder(branched) == merged


LOGOS = b"GIF89a\0main", b"GIF89a\0idea"


@pytest.fixture
def two_logos(branched: Api) -> Api:
    """Both branches add a picture, and change a.txt."""
    branched.write("a.txt", "main\n")
    branched.upload(("logo.gif", LOGOS[0]))
    branched.post("switch_branch", chat_id="c1", branch="idea")
    branched.upload(("logo.gif", LOGOS[1]))
    branched.post("switch_branch", chat_id="c1", branch="main")
    return branched


def ways(page: Page, path: str) -> dict[str, bool]:
    """Return the ways to resolve a conflict that a page offers, and whether each is chosen."""
    radios = [one for one in page.named("input") if one.get("name") == f"choice:{path}"]
    return {one["value"]: "checked" in one for one in radios}


def test_only_possible_ways_to_resolve_a_conflict_are_offered(
    visitor: Visitor, two_logos: Api
) -> None:
    page = visitor.open("/chats/c1/merge?branch=idea")
    others = dict.fromkeys(("ours", "theirs", "union", "both"), False)
    assert ways(page, "a.txt") == {"hunks": True, **others}
    assert ways(page, "logo.gif") == {"ours": False, "theirs": False, "both": True}

    choices = {"choice:a.txt": "both", "choice:logo.gif": "both"}
    waiting = visitor.send(page.form("/chats/c1/merge"), **choices)
    assert waiting.address == "/chats/c1/conflicts"
    offered = [value for form in waiting.forms for name, value, _ in form.buttons if name]
    assert offered == ["hunks", "ours", "theirs", "union", "a.txt.theirs-idea", "ours", "theirs"]
    assert (two_logos.workspace / "logo.gif").read_bytes() == LOGOS[0]


def test_a_refused_merge_shows_the_form_again_with_its_choices(
    visitor: Visitor, two_logos: Api
) -> None:
    form = visitor.open("/chats/c1/merge?branch=idea").form("/chats/c1/merge")
    two_logos.write("a.txt", "idea\n")  # since the form was opened: no conflict any more

    page = visitor.send(form, **{"choice:a.txt": "theirs", "choice:logo.gif": "theirs"})
    assert page.status == 404
    assert "Not merged: " in page.text
    assert ways(page, "logo.gif") == {"ours": False, "theirs": True, "both": False}

    page = visitor.send(page.form("/chats/c1/merge"), **{"choice:logo.gif": "union"})
    assert page.status == 400
    assert "no lines to unite" in page.text
    visitor.send(page.form("/chats/c1/merge"), **{"choice:logo.gif": "theirs"})
    assert (two_logos.workspace / "logo.gif").read_bytes() == LOGOS[1]


@pytest.mark.rest
@pytest.mark.usefixtures("two_logos")
def test_a_refused_resolution_shows_the_conflicts_again(visitor: Visitor) -> None:
    form = visitor.open("/chats/c1/merge?branch=idea").form("/chats/c1/merge")
    page = visitor.send(form, **{"choice:a.txt": "both", "choice:logo.gif": "both"})

    of_logo = next(one for one in page.forms if one.fields.get("path") == ["logo.gif.theirs-idea"])
    refused = visitor.send(of_logo, decision="union")
    assert refused.status == 400
    assert "Not resolved: " in refused.text
    assert "a.txt.theirs-idea" in refused.text


@pytest.fixture
def four_changes(api: Api) -> Api:
    """Branches whose app.txt conflicts in lines 2 and 12, and has a change of its own on each."""
    lines = [f"{number}\r\n" for number in range(1, 20)]

    def version(**changes: str) -> str:
        return "".join(changes.get(line.strip().rjust(2, "_"), line) for line in lines)

    api.upload(("app.txt", version().encode()))
    api.post("create_branch", chat_id="c1", name="idea")
    for branch, own in (("idea", {"_7": "idea 7\r\n"}), ("main", {"17": "main 17\r\n"})):
        api.post("switch_branch", chat_id="c1", branch=branch)
        hunks = {"_2": f"{branch} 2\r\n", "12": f"{branch} 12\r\n"}
        (api.workspace / "app.txt").write_bytes(version(**hunks, **own).encode())
        api.post("save_edits", chat_id="c1")
    return api


RESULT = "".join(
    f"{line}\r\n"
    for line in (
        *(1, "main 2", 3, 4, 5, 6, "idea 7", 8, 9, 10, 11, "main 12", "idea 12", 13, 14, 15, 16),
        *("main 17", 18, 19),
    )
)


@pytest.mark.rest
def test_showing_the_result_of_a_merge_leads_to_it_or_to_why_there_is_none(
    context: BrowserContext, served: Live, four_changes: Api
) -> None:
    del four_changes
    page = context.new_page()  # without the check of the console, which reports the answer 400
    page.goto(served.door)
    page.goto(f"{served.url}/chats/c1/merge?branch=idea")
    page.get_by_role("button", name="Show the result").press("Enter")

    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("No result to show yet: ")
    expect(alert).to_be_focused()
    alert.get_by_role("link", name="Go to change 1").click()
    expect(page.get_by_role("group", name="Change 1 of 2")).to_be_focused()
    for name in ("Ours", "Theirs"):
        page.get_by_label(name, exact=True).nth(1 if name == "Ours" else 0).press("Space")
    # Enter in a choice shows the result too: it must not merge what the user has not seen.
    page.get_by_label("Ours", exact=True).nth(1).press("Enter")
    expect(
        page.get_by_role("heading", name="Changes in 1 file on main with these choices")
    ).to_be_focused()
    page.get_by_role("button", name="Merge", exact=True).press("Enter")
    expect(page.get_by_text("Merged idea into main.")).to_be_visible()


def test_hunks_are_decided_one_by_one_or_the_result_is_edited(
    visitor: Visitor, four_changes: Api
) -> None:
    api = four_changes
    opened = visitor.open("/chats/c1/merge?branch=idea").form("/chats/c1/merge")
    refused = visitor.send(opened, **{"hunk:1:app.txt": "ours"})
    assert (refused.status, "2 changes in conflict; 2 other changes" in refused.text) == (400, True)
    kept = [
        one["value"]
        for one in refused.named("input")
        if "hunk:" in one["name"] and "checked" in one
    ]
    assert kept == ["ours"]

    decided = visitor.send(opened, edit="app.txt", **{"hunk:2:app.txt": "ours"})
    text = decided.form("/chats/c1/merge").fields["content:app.txt"][0]
    assert ("idea 2" in text, "idea 12" in text) == (True, False)

    edit = visitor.send(opened, edit="app.txt").form("/chats/c1/merge")
    marked = edit.fields["content:app.txt"][0]
    assert visitor.send(edit).status == 400  # the markers are still there
    text = marked.replace("\r\n", "\n")
    for mark in ("<<<<<<< main\n", "=======\n", ">>>>>>> idea\n", "idea 2\n"):
        text = text.replace(mark, "")
    visitor.send(edit, **{"content:app.txt": text.replace("\n", "\r\n")})
    assert (api.workspace / "app.txt").read_bytes().decode() == RESULT

    api.post("undo_change", chat_id="c1")
    api.post("merge_branch", chat_id="c1", branch="idea", again=True, conflicts="both")
    page = visitor.open("/chats/c1/conflicts")
    form = next(one for one in page.forms if "path" in one.fields)
    key = form.fields["path"][0]
    choices = {f"hunk:1:{key}": "ours", f"hunk:2:{key}": "both", "decision": "hunks"}
    old = (api.workspace / "app.txt").read_bytes()
    (api.workspace / "app.txt").write_bytes(old + b"mine")
    assert visitor.send(form, **choices).status == 409
    assert (api.workspace / "app.txt").read_bytes() == old + b"mine"
    (api.workspace / "app.txt").write_bytes(old)
    visitor.send(form, **choices)
    assert (api.workspace / "app.txt").read_bytes().decode() == RESULT


LONG = "idea/" + "x" * 90
PATH = "docs/" + "a_folder_with_a_long_name/" * 3 + "y" * 80 + ".txt"
WIDTHS = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"


@pytest.fixture
def long_names(api: Api) -> Api:
    """Branches with conflicts whose names, paths and lines are long."""
    api.write(PATH, "one\n")
    for name in (LONG, "same"):
        api.post("create_branch", chat_id="c1", name=name)
    for branch, letter in ((LONG, "a"), ("main", "b")):
        api.post("switch_branch", chat_id="c1", branch=branch)
        api.write(PATH, letter * 300 + "\n")
        api.upload(("logo.gif", b"GIF89a\0" + letter.encode()))
    api.post("create_branch", chat_id="c1", name="ahead")
    api.post("switch_branch", chat_id="c1", branch="ahead")
    api.write(f"new/{PATH}", "new\n")
    api.post("switch_branch", chat_id="c1", branch="main")
    return api


@pytest.mark.rest
def test_no_page_of_a_merge_scrolls_sideways(
    page: BrowserPage, served: Live, long_names: Api
) -> None:
    def check(path: str) -> None:
        for width in (375, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            shown, fits = page.evaluate(WIDTHS)
            assert shown <= fits, (path, width)

    merges = [f"/merge?branch={name}" for name in (LONG, "same", "ahead")]
    for path in (*merges, f"/diff?old=main&new={LONG}", f"?compare={LONG}", f"?branch={LONG}"):
        page.goto(f"{served.url}/chats/c1{path}")
        check(path)
    page.goto(f"{served.url}/chats/c1{merges[0]}")
    for radio in page.get_by_label("Keep both files").all():
        radio.check()
    page.get_by_role("button", name="Merge").click()
    page.get_by_role("heading", name="Conflicts").wait_for()
    check("/conflicts")
    for path in ("", "/states/HEAD", "/history", "/files"):
        page.goto(f"{served.url}/chats/c1{path}")
        check(path)
    assert [one["path"] for one in long_names.get("list_conflicts", chat_id="c1")["conflicts"]]


def test_a_chat_is_deleted_only_by_its_id(visitor: Visitor, branched: Api) -> None:
    form = visitor.open("/chats/c1").form("/chats/c1/delete")

    visitor.send(form, confirm="c2")
    assert branched.store.exists()

    page = visitor.send(form, confirm="c1")
    assert page.address == "/chats"
    assert not branched.store.parent.exists()


def test_a_call_is_undone_from_its_page_its_commit_and_its_row(visitor: Visitor, api: Api) -> None:
    api.write("a.txt", "one\ntwo\nthree\n")
    call = api.write("a.txt", "ONE\ntwo\nthree\n")
    api.write("a.txt", "ONE\ntwo\nthree\nfour\n")
    address = f"/chats/c1/calls/{call['id']}/undo"
    commit = f"/chats/c1/states/{call['post_manifest_id']}"
    for path in (f"/chats/c1/calls/{call['id']}", commit, "/chats/c1"):
        assert address in [link.href for link in visitor.open(path).links], path

    page = visitor.open(address)
    assert "Undo a call on main" in page.text
    assert "everything that changed in the workspace while the call ran" in page.text
    assert "conflict" not in page.text
    assert folder(api) == {"a.txt": "ONE\ntwo\nthree\nfour\n"}
    page = visitor.send(page.form(address))
    assert page.address == "/chats/c1"
    assert "Undone in a new commit on main." in page.text
    assert folder(api) == {"a.txt": "one\ntwo\nthree\nfour\n"}
    assert "Nothing to undo" in visitor.open(address).text
    commits = api.get("list_manifests", chat_id="c1")["manifests"]
    undo, undone = commits[0], next(row for row in commits if row["id"] == call["post_manifest_id"])
    assert (undo["undone"]["id"], undone["undone_by"]) == (call["id"], undo["id"])
    assert undo["title"] == "undo of app-builder:write_file a.txt"
    assert "Undo of Write file a.txt" in visitor.open("/chats/c1").text
    for path in (f"/chats/c1/calls/{call['id']}", "/chats/c1"):
        assert f"/chats/c1/states/{undo['id']}" in [link.href for link in visitor.open(path).links]


def test_conflicts_of_an_undo_come_first_and_keep_the_later_lines(
    visitor: Visitor, api: Api
) -> None:
    api.write("b.txt", "b\n")
    call = api.call("app-builder:run_command", command="echo call > a.txt; echo B > b.txt")
    api.post("approve_call", execution_id=call["execution_id"])
    (api.workspace / "a.txt").write_text("mine\n")
    address = f"/chats/c1/calls/{call['id']}/undo"
    page = visitor.open(address)
    assert page.text.index("1 conflict with later changes") < page.text.rindex("Show the result")
    form = page.form(address)
    assert "choice:a.txt" not in form.fields  # A choice must not be preselected.
    page = visitor.send(form, **{"choice:a.txt": "ours"})
    assert folder(api) == {"a.txt": "mine\n", "b.txt": "b\n"}


@pytest.mark.rest
def test_one_line_of_a_call_is_removed_by_editing_the_result_of_its_undo(
    visitor: Visitor, api: Api
) -> None:
    api.write("notes.txt", "Notes\n")
    call = api.write("notes.txt", "Notes\nBuy milk\n")
    api.write("notes.txt", "Notes\nBuy milk\nCall home\n")
    address = f"/chats/c1/calls/{call['id']}/undo"
    page = visitor.open(address)
    assert "Now on main Buy milk Call home After the call Buy milk Before the call" in page.text
    assert "<<<<<<< main" not in page.text
    assert "Later changes are kept." not in page.text
    assert "Use the whole file from before the call, without later changes" in page.text

    # "Decide about each change" is chosen, so that a choice of lines is all that a browser needs.
    form = page.form(address)
    refused = visitor.send(form, "Show the result")
    assert (refused.status, "change 1 of 'notes.txt' has no choice" in refused.text) == (400, True)
    chosen = visitor.send(form, "Show the result", **{"hunk:1:notes.txt": "ours"})
    assert "These choices keep all later lines" in chosen.text

    page = visitor.send(page.form(address), edit="notes.txt")
    assert visitor.send(page.form(address), "Show the result").status == 400  # with markers
    text = "Notes\r\nCall home\r\n"
    page = visitor.send(page.form(address), "Show the result", **{"content:notes.txt": text})
    assert [line.strip() for line in page.changed_lines("del")] == ["Buy milk"]
    assert page.changed_lines("add") == []
    assert folder(api) == {"notes.txt": "Notes\nBuy milk\nCall home\n"}

    again = visitor.send(page.form(address), "Change the choices")
    assert again.form(address).fields["content:notes.txt"] == ["Notes\nCall home\n"]
    visitor.send(page.form(address), "Apply these choices to main")
    assert folder(api) == {"notes.txt": "Notes\nCall home\n"}


def test_the_result_of_an_undo_that_would_delete_a_file_is_edited(
    visitor: Visitor, api: Api
) -> None:
    call = api.write("notes.txt", "Buy milk\n")
    api.write("notes.txt", "Buy milk\nCall home\n")
    address = f"/chats/c1/calls/{call['id']}/undo"
    page = visitor.send(visitor.open(address).form(address), edit="notes.txt")
    assert page.form(address).fields["content:notes.txt"] == ["Buy milk\nCall home\n"]
    page = visitor.send(
        page.form(address), "Show the result", **{"content:notes.txt": "Call home\r\n"}
    )
    visitor.send(page.form(address), "Apply these choices to main")
    assert folder(api) == {"notes.txt": "Call home\n"}


def test_an_undo_that_keeps_all_later_lines_says_that_nothing_was_changed(
    visitor: Visitor, api: Api
) -> None:
    call = api.write("a.txt", "call\n")
    api.write("a.txt", "mine\n")
    address = f"/chats/c1/calls/{call['id']}/undo"
    page = visitor.send(visitor.open(address).form(address), **{"choice:a.txt": "ours"})
    assert "Nothing was changed: you kept the later lines." in page.text
    assert "Nothing to undo" not in page.text
    assert folder(api) == {"a.txt": "mine\n"}


def test_an_undo_changes_the_branch_that_its_page_names(visitor: Visitor, api: Api) -> None:
    api.write("a.txt", "one\n")
    call = api.write("a.txt", "two\n")
    api.post("create_branch", chat_id="c1", name="idea")
    address = f"/chats/c1/calls/{call['id']}/undo"
    page = visitor.open(f"{address}?branch=idea")
    assert "Undo on idea" in page.text
    visitor.send(next(form for form in page.forms if form.method == "post"))
    assert folder(api) == {"a.txt": "two\n"}
    assert api.read("a.txt", manifest="idea").get_data(as_text=True) == "one\n"


def test_a_restore_names_its_branch_and_is_refused_after_a_switch(
    visitor: Visitor, api: Api
) -> None:
    first = api.write("a.txt", "one\n")["post_manifest_id"]
    api.write("a.txt", "two\n")
    api.post("create_branch", chat_id="c1", name="idea")
    page = visitor.open(f"/chats/c1/states/{first}")
    assert "Restore all files on main" in page.text
    assert "Restore this file on main" in visitor.open(f"/chats/c1/files/a.txt?at={first}").text
    api.post("switch_branch", chat_id="c1", branch="idea")
    assert visitor.send(page.form("/chats/c1/restore")).status == 409
    assert folder(api) == {"a.txt": "two\n"}


def test_the_history_of_a_file_has_the_commits_of_a_merged_branch_and_who_made_them(
    visitor: Visitor, api: Api
) -> None:
    api.write("a.txt", "one\n")
    api.post("create_branch", chat_id="c1", name="idea")
    on_main = api.write("a.txt", "two\n")["post_manifest_id"]
    api.post("switch_branch", chat_id="c1", branch="idea")
    api.write("b.txt", "b\n")
    api.post("merge_branch", chat_id="c1", branch="main")
    page = visitor.open("/chats/c1/files/a.txt")
    assert f"/chats/c1/files/a.txt?at={on_main}" in [link.href for link in page.links]
    assert "by local" in page.text.partition("History")[2]


@pytest.mark.rest
def test_an_undo_of_the_last_change_shows_it_first_and_marks_its_row(
    visitor: Visitor, api: Api
) -> None:
    api.write("a.txt", "one\n")
    last = api.write("a.txt", "two\n")["post_manifest_id"]
    page = visitor.open(visitor.open("/chats/c1/history").link("Undo..."))
    assert "Undo the last change on main Write file a.txt" in page.text
    assert [line.strip() for line in page.changed_lines("add")] == ["two"]
    assert folder(api) == {"a.txt": "two\n"}
    api.write("b.txt", "b\n")
    assert visitor.send(page.form("/chats/c1/undo")).status == 409  # another change is the last one
    api.post("undo_change", chat_id="c1")

    visitor.send(page.form("/chats/c1/undo"))
    assert folder(api) == {"a.txt": "one\n"}
    row = visitor.open("/chats/c1/history").source.partition(f'id="s-{last[:12]}"')[2]
    assert ">undone<" in row.partition("</li>")[0]
    api.post("redo_change", chat_id="c1")
    row = visitor.open("/chats/c1/history").source.partition(f'id="s-{last[:12]}"')[2]
    assert ">undone<" not in row.partition("</li>")[0]

    (api.workspace / "a.txt").write_text("mine\n")
    page = visitor.open("/chats/c1/undo")
    assert "the uncommitted changes" in page.text
    visitor.send(page.form("/chats/c1/undo"))
    assert folder(api) == {"a.txt": "two\n"}


def test_two_designs_are_previewed_compared_and_merged_in_both_directions(
    visitor: Visitor, api: Api
) -> None:
    api.write("index.html", "<p>light</p>\n")
    api.post("create_branch", chat_id="c1", name="dark")
    api.post("switch_branch", chat_id="c1", branch="dark")
    api.write("index.html", "<p>dark</p>\n")
    page = visitor.open("/chats/c1?compare=main")
    assert len(visitor.open(page.link("Both previews")).named("iframe")) == 2
    assert "newest of main" in visitor.open("/chats/c1").text

    boxes = visitor.open("/chats/c1/history")
    form = next(one for one in boxes.forms if "Compare" in str(one.buttons))
    assert ("compare", "dark", "Compare") in [(*one[:2], one[2].strip()) for one in form.buttons]
    page = visitor.send(form, "Switch, and merge dark...", branch="main")
    assert page.address == "/chats/c1/merge"
    assert "Merge dark into main" in page.text


@pytest.mark.parametrize(
    "step",
    [
        "Merge",
        *(
            pytest.param(step, marks=pytest.mark.rest)
            for step in ("Show the result", "Edit the result")
        ),
    ],
)
def test_choices_about_a_merge_that_another_window_has_made_are_not_dropped_without_a_word(
    visitor: Visitor, branched: Api, step: str
) -> None:
    branched.write("a.txt", "main\n")
    form = visitor.open("/chats/c1/merge?branch=idea").form("/merge")
    theirs, ours = ({"choice:a.txt": choice} for choice in ("theirs", "ours"))
    merged = visitor.send(form, "Merge", **theirs)
    assert "Merged idea into main." in merged.text

    page = visitor.send(form, step, **ours)

    assert "idea was merged into main meanwhile, by" in page.text
    assert "Your choices were not applied." in page.text
    assert 'class="notice warn"' in page.source
    difference = visitor.open(page.link("See what was merged"))
    assert difference.changed_lines("add")[0].strip().endswith("idea")
    assert folder(branched)["a.txt"] == "idea\n"
