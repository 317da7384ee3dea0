"""A project served as `covalt-git serve` serves it, stock git as its client, and hand-made requests."""

import hashlib
import http.client
import io
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from covalt_git.serving.server import project_app
from tests.api_client import BEARER, TOKEN, Api
from tests.uvicorn_server import running_app
from tests.workspaces.stores import run_git

PATIENCE_S = 60
FETCH = "git-upload-pack"
PUSH = "git-receive-pack"
NONE = "0" * 40
FLUSH = b"0000"

VERSIONS = ("0", "1", "2")
"""The versions of git's protocol."""


@dataclass(frozen=True)
class Said:
    """What a run of stock git came to; its output and its complaints together."""

    code: int
    text: str


def line(content: str | bytes) -> bytes:
    """Return a pkt-line."""
    raw = content.encode() if isinstance(content, str) else content
    return b"%04x%s" % (len(raw) + 4, raw)


def run(folder: Path, *arguments: str, given: bytes = b"") -> Said:
    """Run stock git in a folder, with no configuration but the repository's."""
    done = run_git(folder, *arguments, given=given)
    return Said(done.returncode, (done.stdout + done.stderr).decode("utf-8", "surrogateescape"))


def git(folder: Path, *arguments: str, given: bytes = b"") -> str:
    """Return what stock git says, which has to succeed."""
    done = run(folder, *arguments, given=given)
    assert done.code == 0, (arguments, done.text)
    return done.text.strip()


def commit(folder: Path, message: str, **files: str) -> str:
    """Commit everything in a working tree, some files written before; return the commit's id."""
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", message)
    return git(folder, "rev-parse", "HEAD")


@dataclass(frozen=True)
class Answer:
    """An answer of the server."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


@dataclass(frozen=True)
class GitServed:
    """A project whose chats git can reach."""

    root: Path
    port: int

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, chat_id: str = "c1", user: str = f"x:{TOKEN}@") -> str:
        return f"http://{user}{self.place}/git/{chat_id}"

    def chat_folder(self, chat_id: str = "c1") -> Path:
        return self.root / "data" / "chats" / chat_id

    def store(self, chat_id: str = "c1") -> Path:
        return self.chat_folder(chat_id) / "store.git"

    def workspace(self, chat_id: str = "c1") -> Path:
        return self.chat_folder(chat_id) / "workspace"

    def clone(self, into: Path, *options: str, chat_id: str = "c1", version: str = "2") -> Path:
        """Clone a chat with stock git."""
        protocol = ("-c", f"protocol.version={version}")
        git(into.parent, *protocol, "clone", "--quiet", *options, self.url(chat_id), str(into))
        return into

    def refs(self, chat_id: str = "c1") -> dict[str, str]:
        """Return the branches as stock git reads them in the store."""
        listed = git(self.store(chat_id), "for-each-ref", "--format=%(refname) %(objectname)")
        pairs = (row.split(" ") for row in listed.splitlines())
        return {ref: oid for ref, oid in pairs if ref.startswith("refs/heads/")}

    def files_of_store(self, chat_id: str = "c1") -> set[str]:
        """Return every file of a chat except records of its last user."""
        folder = self.chat_folder(chat_id)
        found = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
        return {path for path in found if path not in {"lock", "lock.next", "stat.cache"}}

    def fsck(self, chat_id: str = "c1") -> str:
        """Return what stock git has to say of a store, but that a branch has no commit yet."""
        said = git(self.store(chat_id), "fsck", "--strict", "--full").splitlines()
        return "\n".join(row for row in said if not row.startswith("notice: "))

    def ask(self, method: str, path: str, body: bytes = b"", /, **headers: str) -> Answer:
        """Make one request as a program with the token, whatever comes of it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body=body or None, headers=BEARER | named)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def send(self, service: str, body: bytes, /, **headers: str) -> Answer:
        """Send one request of a fetch from the chat c1, or of a push to it."""
        kind = {"Content_Type": f"application/x-{service}-request"}
        return self.ask("POST", f"/git/c1/{service}", body, **kind | headers)

    def send_push(self, ref: str, new: str, pack: bytes, *, old: str = NONE) -> str:
        """Push a hand-made pack; return the report, without the lengths of its lines."""
        command = f"{old} {new} {ref}\0report-status agent=test"
        answer = self.send(PUSH, line(command.encode()) + FLUSH + pack)
        assert answer.status == 200, answer.text
        return "\n".join(lines_of(answer.body))


def lines_of(body: bytes) -> list[str]:
    """Return the lines of an answer, up to its first mark."""
    stream = io.BytesIO(body)
    lines = []
    while (size := int(stream.read(4), 16)) > 1:
        lines.append(stream.read(size - 4).removesuffix(b"\n").decode("utf-8", "replace"))
    return lines


@contextmanager
def git_served(root: Path) -> Iterator[GitServed]:
    """Serve a project until the block ends."""
    with running_app(lambda port: project_app(root, token=TOKEN, port=port)) as server:
        yield GitServed(root, server.port)


def chat_with_files(api: Api) -> None:
    """Make two states in the chat c1: ``a.txt``, and then also a folder."""
    for files in ({"a.txt": b"one\n"}, {"d.txt": b"deep\n"}):
        folder = "" if "a.txt" in files else "sub/deep"
        answer = api.upload(*files.items(), folder=folder)
        assert answer.status_code == 200, answer.get_data(as_text=True)


# Packs made by hand

KINDS = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}


def oid_of(kind: str, content: bytes) -> str:
    return hashlib.sha1(b"%s %d\0" % (kind.encode(), len(content)) + content).hexdigest()


def start_of(number: int, size: int) -> bytes:
    """Return how an entry of a pack begins."""
    made = bytearray()
    byte, size = number << 4 | size & 15, size >> 4
    while size:
        made.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    made.append(byte)
    return bytes(made)


def entry(kind: str, content: bytes, *, size: int | None = None) -> bytes:
    """Return an entry of a pack, which may say that it is of another size than it is."""
    told = len(content) if size is None else size
    return start_of(KINDS[kind], told) + zlib.compress(content)


def pack_of(*entries: bytes, count: int | None = None) -> bytes:
    """Return a pack of some entries."""
    told = len(entries) if count is None else count
    body = b"PACK" + struct.pack(">II", 2, told) + b"".join(entries)
    return body + hashlib.sha1(body).digest()


def tree_content(*entries: tuple[str, bytes, str]) -> bytes:
    """Return a tree of (mode, name, id), in the order in which they come."""
    return b"".join(
        b"%s %s\0%s" % (mode.encode(), name, bytes.fromhex(oid)) for mode, name, oid in entries
    )


def commit_content(tree: str, *parents: str, message: str = "made by hand") -> bytes:
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
    person = "Eve <eve@example.com> 1700000000 +0000"
    return "\n".join([*lines, f"author {person}", f"committer {person}", "", message]).encode()
