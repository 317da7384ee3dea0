"""A git server that lies, or whose answers are cut off: no answer of it counts for more than it confirms."""

import hashlib
import socketserver
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.git_store import direct_requests, git_http
from covalt_git.git_store.git_http import FETCH, FLUSH, PUSH, MalformedAnswerError, UnsuitedError
from covalt_git.git_store.objects import EXECUTABLE, FILE, FOLDER, CommitObject, TreeEntry
from covalt_git.git_store.server_repository import (
    Move,
    PushRefusedError,
    ServerError,
    ServerRepository,
)
from covalt_git.git_store.store import GitStore
from tests.examples import examples

MAIN = "refs/heads/main"
REFS = ("refs/covalt/lease", MAIN)
IDS = ("1" * 40, "2" * 40)
CAPABILITIES = "report-status delete-refs atomic object-format=sha1"
ERRORS = (MalformedAnswerError, UnsuitedError)
Answer = Callable[[str], Iterable[bytes]]


def line(text: str) -> bytes:
    return git_http.line(text)


# Changed answers


def report(words: Iterable[str]) -> list[bytes]:
    rows = [
        f"{word} {ref}{' late' * (word == 'ng')}\n" for word, ref in zip(words, REFS, strict=True)
    ]
    return [line("unpack ok\n"), *map(line, rows), FLUSH]


def offer() -> list[bytes]:
    rows = [f"{IDS[0]} HEAD\0{CAPABILITIES}\n"]
    rows += [f"{oid} {ref}\n" for ref, oid in zip(REFS, IDS, strict=True)]
    return [line(f"# service={PUSH}\n"), FLUSH, *map(line, rows), FLUSH]


@st.composite
def changed(draw: st.DrawFn, lines: list[bytes]) -> bytes:
    """Draw an answer without its end, with another byte, or with one line twice or missing."""
    whole = b"".join(lines)
    at = draw(st.integers(0, len(whole) - 1))
    number = draw(st.integers(0, len(lines) - 1))
    return draw(
        st.sampled_from(
            [
                whole[:at],
                whole[:at] + bytes([draw(st.integers(0, 255))]) + whole[at + 1 :],
                b"".join([*lines[:number], lines[number], *lines[number:]]),
                b"".join([*lines[:number], *lines[number + 1 :]]),
            ]
        )
    )


@settings(max_examples=examples(300))
@given(st.data(), st.sampled_from([["ok", "ok"], ["ng", "ng"]]))
def test_a_changed_report_of_a_push_never_means_more(data: st.DataObject, words: list[str]) -> None:
    expected = git_http.read_report(b"".join(report(words)), REFS)
    assert set(expected) == ({*REFS} if "ng" in words else set())
    with suppress(*ERRORS):
        assert set(git_http.read_report(data.draw(changed(report(words))), REFS)) == set(expected)


@settings(max_examples=examples(300))
@given(changed(offer()))
def test_a_changed_list_of_refs_is_refused_or_has_valid_refs(answer: bytes) -> None:
    whole = b"".join(offer())
    assert git_http.read_offer(whole, PUSH).refs == dict(zip(REFS, IDS, strict=True))
    with suppress(*ERRORS):
        refs = git_http.read_offer(answer, PUSH).refs
        assert not (len(answer) < len(whole) and whole.startswith(answer))
        assert len(refs) <= len(REFS)
        assert all(map(git_http.is_ref, refs))
        assert all(len(oid) == 40 and int(oid, 16) for oid in refs.values())


@settings(max_examples=examples(300))
@given(st.data())
def test_a_changed_pack_is_refused(data: st.DataObject) -> None:
    content = b"PACK" + bytes(40)
    pack = content + hashlib.sha1(content).digest()
    parts = [
        b"%04x\1%b" % (5 + len(pack[at : at + 16]), pack[at : at + 16]) for at in (0, 16, 32, 48)
    ]
    lines = [line("packfile\n"), *parts, FLUSH]
    assert b"".join(git_http.read_pack(b"".join(lines))) == pack
    with suppress(*ERRORS):
        received = b"".join(git_http.read_pack(data.draw(changed(lines))))
        assert received == pack or hashlib.sha1(received[:-20]).digest() != received[-20:]


@pytest.mark.parametrize(
    "rows",
    [
        ["unpack ok\n"],
        ["unpack ok\n", f"ok {MAIN}\n"],
        ["unpack ok\n", f"ok {MAIN}\n", f"ok {MAIN}\n"],
        ["unpack ok\n", f"ok {MAIN}\n", "ng refs/covalt/lease late\n"],
        ["unpack ok\n", f"ok {MAIN}\n", "ok refs/covalt/lease\n", "ok refs/heads/other\n"],
        ["unpack failed\n", f"ok {MAIN}\n", "ok refs/covalt/lease\n"],
        [f"ok {MAIN}\n", "ok refs/covalt/lease\n", "unpack ok\n"],
        ["ERR the project is read-only\n"],
        ["hello\n"],
    ],
)
def test_an_incomplete_report_leaves_the_outcome_unknown(rows: list[str]) -> None:
    with pytest.raises(MalformedAnswerError):
        git_http.read_report(b"".join(map(line, rows)) + FLUSH, REFS)


@pytest.mark.parametrize(
    "content", [b"+005a", b" 005a", b"00_5a", b"0x5a", b"0001", b"0003", b"00"]
)
def test_a_length_has_four_digits(content: bytes) -> None:
    with pytest.raises(MalformedAnswerError):
        list(git_http.packets(content))


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ("zz refs/heads/a\n", MalformedAnswerError),
        (f"{'0' * 40} refs/heads/a\n", MalformedAnswerError),
        (f"{'1' * 64} refs/heads/a\n", MalformedAnswerError),
        (f"{IDS[0]} refs/heads/../../a\n", MalformedAnswerError),
        (f"{IDS[0]} refs/heads/a.lock\n", MalformedAnswerError),
        (f"{IDS[0]} {MAIN}\n", MalformedAnswerError),
        ("ERR access denied", MalformedAnswerError),
        (f"{IDS[0]} refs/heads/\udcff\n", UnsuitedError),
    ],
)
def test_a_malformed_ref_is_refused(row: str, error: type[Exception]) -> None:
    text = row.encode("utf-8", "surrogateescape")
    rows = [*offer()[:-1], b"%04x%b" % (len(text) + 4, text), FLUSH]
    with pytest.raises(error):
        git_http.read_offer(b"".join(rows), PUSH)


# Servers


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """Serve the bytes that ``answer`` makes of a request; yield the URL of a repository."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            head = [row.decode("latin-1") for row in iter(self.rfile.readline, b"\r\n")]
            sizes = [row.split(":")[1] for row in head if row.lower().startswith("content-length")]
            self.rfile.read(int(sizes[0]) if sizes else 0)
            with suppress(OSError):  # the client may end the connection
                for part in answer("".join(head)):
                    self.wfile.write(part)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/c1.git"
        finally:
            server.shutdown()
            thread.join()


def http_answer(kind: str, content: bytes, *headers: str) -> bytes:
    lines = [
        "HTTP/1.1 200 OK",
        f"Content-Type: application/x-{kind}",
        "Connection: close",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + content


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GitStore]:
    with GitStore.create(tmp_path / "store.git", durable=False) as created:
        yield created


def test_an_answer_of_another_type_to_a_push_leaves_its_outcome_unknown(store: GitStore) -> None:
    requests = []

    def answer(head: str) -> list[bytes]:
        requests.append(head.split(maxsplit=1)[0])
        is_offer = head.startswith("GET")
        kind = f"{PUSH}-advertisement" if is_offer else "other"
        return [http_answer(kind, b"".join(offer()) if is_offer else b"<html>")]

    with answering(answer) as url, pytest.raises(ServerError, match="does not answer as a git"):
        ServerRepository(url).push(store, {"refs/covalt/a": Move(None, store.write_blob(b"a"))})
    assert requests == ["GET", "POST"]


def test_reasons_of_a_refused_push_are_shown_without_the_password(store: GitStore) -> None:
    def answer(head: str) -> list[bytes]:
        if head.startswith("GET"):
            return [http_answer(f"{PUSH}-advertisement", b"".join(offer()))]
        rows = ["unpack ok\n", "ng refs/covalt/a not with s3cret\x1b[2J\n"]
        return [http_answer(f"{PUSH}-result", b"".join(map(line, rows)) + FLUSH)]

    moves = {"refs/covalt/a": Move(None, store.write_blob(b"a"))}
    with answering(answer) as url, pytest.raises(PushRefusedError) as refused:
        ServerRepository(url, "u", "s3cret").push(store, moves)
    assert refused.value.reasons == {"refs/covalt/a": r"not with ***\u{1b}[2J"}


def test_a_status_line_with_the_login_is_shown_without_it() -> None:
    def answer(head: str) -> list[bytes]:
        (login,) = [row for row in head.splitlines() if row.startswith("Authorization")]
        return [f"X{login} s3cret\r\n\r\n".encode()]

    with answering(answer) as url, pytest.raises(ServerError) as failed:
        ServerRepository(url, "u", "s3cret").refs()
    assert "XAuthorization: Basic *** ***" in str(failed.value)


WHOLE = b"".join([line(f"# service={FETCH}\n"), FLUSH, *offer()[2:]])
CHUNK = b"%x\r\n%b\r\n" % (len(WHOLE), WHOLE)


@pytest.mark.parametrize(
    ("content", "header"),
    [
        (WHOLE, f"Content-Length: {len(WHOLE) + 1}"),
        (CHUNK, "Transfer-Encoding: chunked"),
        (WHOLE[:-4], "Content-Encoding: identity"),
    ],
    ids=["length", "chunk", "end"],
)
def test_a_list_of_refs_that_is_cut_off_is_an_error(content: bytes, header: str) -> None:
    kind = f"{FETCH}-advertisement"
    answer = http_answer(kind, content, header)
    with answering(lambda _: [answer]) as url, pytest.raises(ServerError):
        ServerRepository(url).refs()


def endless(part: bytes) -> Iterator[bytes]:
    pause = threading.Event()
    while not pause.wait(0.005):
        yield part


@pytest.mark.parametrize("part", [b"HTTP/1.1 100 Continue\r\n\r\n", b"x"], ids=["continue", "byte"])
def test_a_request_to_a_server_that_sends_without_an_end_ends(part: bytes) -> None:
    with answering(lambda _: endless(part)) as url:
        requests = git_http.GitHttp(url, git_http.place_of(url, {}), most_s=0.05)
        with pytest.raises(OSError, match=r"timed out|takes too long"):
            requests.get(FETCH)


@pytest.mark.parametrize(
    "path",
    ["/\xe7hat.git", "/a b.git", "/r.git/", "/r.git#x", "/r.git?", "/../r.git", "/a/./r.git"],
)
def test_urls_that_curl_changes_are_left_to_stock_git(path: str) -> None:
    with pytest.raises(UnsuitedError):
        git_http.place_of(f"http://example.com{path}", {})


@pytest.mark.parametrize(
    "name",
    [
        b"a\\.git",
        b"gitmod~1",
        b"GI7EBA~1",
        b"a:b",
        b".GitModules",
        b"a.",
        b"a ",
        b"..",
        b".mailmap",
    ],
)
def test_names_with_another_meaning_on_some_system_are_checked_by_stock_git(name: bytes) -> None:
    assert direct_requests._UNUSUAL.fullmatch(name)
    assert not direct_requests._UNUSUAL.fullmatch(b".hidden-" + b"a.txt")


# Packs


class History:
    """Two commits of a file with two contents, and the ids of all objects by their names."""

    def __init__(self, store: GitStore) -> None:
        self.ids: dict[str, str] = {}
        for number, parents in ((1, ()), (2, ("commit1",))):
            self.ids[f"blob{number}"] = store.write_blob(b"%d" % number)
            rows = [TreeEntry(b"a", FILE, self.ids[f"blob{number}"])]
            self.ids[f"folder{number}"] = store.write_tree(rows)
            rows = [TreeEntry(b"d", FOLDER, self.ids[f"folder{number}"])]
            self.ids[f"tree{number}"] = store.write_tree(rows)
            above = tuple(self.ids[parent] for parent in parents)
            self.ids[f"commit{number}"] = commit(store, self.ids[f"tree{number}"], *above)
        store.flush()


def commit(store: GitStore, tree: str, *parents: str) -> str:
    who = "a <a@example.com>"
    return store.write_commit(CommitObject(tree, parents, who, who, 1_700_000_000, "change\n"))


def fetched(made: GitStore, sent: Iterable[str], wanted: str, copy: GitStore) -> None:
    """Fetch an object into a copy from a server that sends some objects."""
    pack = b"".join(made.pack(sent))
    parts = [pack[at : at + 60_000] for at in range(0, len(pack), 60_000)]
    bands = [b"%04x\1%b" % (len(part) + 5, part) for part in parts]
    content = b"".join([line("packfile\n"), *bands, FLUSH])
    with answering(lambda _: [http_answer(f"{FETCH}-result", content)]) as url:
        repository = ServerRepository(url)
        repository._directly("fetch", lambda requests, at: requests.fetch(at, copy, [wanted]))


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[GitStore]:
    with GitStore.create(tmp_path / "copy.git", durable=False) as created:
        yield created


@pytest.mark.parametrize("left_out", ["blob1", "blob2", "folder2", "tree1", "commit1", "commit2"])
def test_a_pack_without_all_that_the_wanted_object_reaches_is_not_stored(
    store: GitStore, copy: GitStore, left_out: str
) -> None:
    ids = History(store).ids
    sent = [oid for name, oid in ids.items() if name != left_out]
    with pytest.raises(ServerError, match="did not send all objects"):
        fetched(store, sent, ids["commit2"], copy)
    assert not any(map(copy.has, ids.values()))
    fetched(store, ids.values(), ids["commit2"], copy)
    assert all(map(copy.has, ids.values()))


def test_what_a_ref_of_the_store_reaches_is_not_sent_again(store: GitStore, copy: GitStore) -> None:
    ids = History(store).ids
    first = [oid for name, oid in ids.items() if "1" in name]
    fetched(store, first, ids["commit1"], copy)
    second = set(ids.values()).difference(first)
    # A commit in the store counts only if what it reaches is there, too.
    copy.swap_ref(MAIN, None, ids["commit1"])
    with pytest.raises(ServerError, match="did not send all objects"):
        fetched(store, second - {ids["blob2"]}, ids["commit2"], copy)
    fetched(store, second, ids["commit2"], copy)
    third = commit(store, ids["tree1"], ids["commit2"], ids["commit1"])
    copy.swap_ref(MAIN, ids["commit1"], ids["commit2"])
    fetched(store, [third], third, copy)
    assert copy.has(third)


def test_a_commit_of_the_store_that_no_ref_reaches_has_to_be_complete(
    store: GitStore, copy: GitStore
) -> None:
    ids = History(store).ids
    copy.write_commit(store.read_commit(ids["commit1"]))
    copy.flush()
    sent = [oid for name, oid in ids.items() if "2" in name]
    with pytest.raises(ServerError, match="did not send all objects"):
        fetched(store, sent, ids["commit2"], copy)


def wrong_folder(store: GitStore, ids: dict[str, str]) -> str:
    tree = store.write_tree([TreeEntry(b"d", FOLDER, ids["blob1"])])
    return commit(store, tree, ids["commit1"])


def wrong_file(store: GitStore, ids: dict[str, str]) -> str:
    tree = store.write_tree([TreeEntry(b"d", EXECUTABLE, ids["folder1"])])
    return commit(store, tree, ids["commit1"])


def wrong_tree(store: GitStore, ids: dict[str, str]) -> str:
    return commit(store, ids["blob1"])


def wrong_parent(store: GitStore, ids: dict[str, str]) -> str:
    return commit(store, ids["tree1"], ids["tree1"])


@pytest.mark.parametrize("wrong", [wrong_folder, wrong_file, wrong_tree, wrong_parent])
def test_an_object_of_another_kind_than_its_name_says_is_not_stored(
    store: GitStore, copy: GitStore, wrong: Any
) -> None:
    ids = History(store).ids
    tip = wrong(store, ids)
    store.flush()
    trees = [] if wrong in {wrong_tree, wrong_parent} else [store.read_commit(tip).tree]
    with pytest.raises(ServerError, match="did not send all objects"):
        fetched(store, {*ids.values(), tip, *trees}, tip, copy)
    assert not copy.has(tip)


def test_a_tree_of_very_many_entries_is_left_to_stock_git(store: GitStore, copy: GitStore) -> None:
    blob = store.write_blob(b"")
    tree = store.write_tree(TreeEntry(b"%06d" % number, FILE, blob) for number in range(32_000))
    with pytest.raises(UnsuitedError):
        fetched(store, [blob, tree], tree, copy)
