"""Bundles from URLs: the given host is contacted, and no other."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from covalt_git.bundles import archive_reader
from covalt_git.errors import CovaltError
from covalt_git.installs import download
from covalt_git.installs.importing import import_toolset
from covalt_git.installs.signatures import MAX_SIGNATURE
from covalt_git.toolsets.toolset import read_toolset
from tests.installs.hostile_bundles import GOOD, archive
from tests.ssh_keys import make_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Upstream(BaseHTTPRequestHandler):
    asked: list[str]
    signature: tuple[int, bytes]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        path = self.path.partition("?")[0]
        if path == "/demo.zip":
            self.send_response(200)
            content = archive(GOOD)
        elif path == "/demo.zip.sig":
            status, content = self.signature
            self.send_response(status)
        elif path == "/away":
            self.send_response(302)
            self.send_header("Location", "http://192.0.2.1/demo.zip")
            content = b""
        elif path == "/here":
            self.send_response(302)
            self.send_header("Location", "/demo.zip")
            content = b""
        elif path == "/large.zip":
            self.send_response(200)
            content = bytes(4_000)
        else:
            self.send_response(404)
            content = b"<h1>no</h1>"
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def upstream() -> Iterator[str]:
    Upstream.asked = []
    Upstream.signature = (404, b"<h1>no</h1>")
    with ThreadingHTTPServer(("127.0.0.1", 0), Upstream) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("path", ["/demo.zip?token=s3cret#top", "/here?token=s3cret"])
def test_a_bundle_is_downloaded_and_its_query_is_not_stored(
    root: Path, upstream: str, path: str
) -> None:
    import_toolset(root, upstream + path)

    toolset = read_toolset(root, "demo")
    assert toolset.state.source_type == "url"
    assert toolset.state.source_ref == upstream + path.partition("?")[0]
    assert not toolset.enabled
    assert "s3cret" in Upstream.asked[0]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        pytest.param("/none.zip", "answers 404", id="not-there"),
        pytest.param("/away", "was not granted", id="leads-elsewhere-in-the-clear"),
    ],
)
def test_a_missing_bundle_or_a_redirect_to_another_host_is_refused(
    root: Path, upstream: str, path: str, said: str
) -> None:
    with pytest.raises(CovaltError, match=said):
        import_toolset(root, upstream + path)
    assert not list((root / "toolsets").iterdir())


def test_a_file_that_is_not_a_zip_is_refused(root: Path, upstream: str) -> None:
    with pytest.raises(archive_reader.BadBundleError) as refused:
        import_toolset(root, f"{upstream}/large.zip")
    assert [one.message for one in refused.value.problems] == ["it is no ZIP, or cut off"]


def test_a_download_stops_at_the_size_limit(
    root: Path, upstream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "MAX_ARCHIVE", 1_000)
    with pytest.raises(CovaltError, match=r"larger|more than"):
        import_toolset(root, f"{upstream}/large.zip")


@pytest.mark.parametrize(
    "url",
    ["http://example.com/a.zip", "http://user:pw@127.0.0.1/a.zip", "http://", "http://127.1/a.zip"],
)
def test_an_unsafe_or_invalid_url_is_refused_without_a_request(
    root: Path, upstream: str, url: str
) -> None:
    with pytest.raises(CovaltError):
        import_toolset(root, url)
    assert Upstream.asked == []
    assert upstream


def test_a_signature_at_the_url_has_to_be_valid(
    root: Path, upstream: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ann = make_key(tmp_path_factory.mktemp("keys"), "ann")
    (root / "covalt.yaml").write_text(f"version: 1\nsigners: ['{ann.allowed()}']\n")
    for status, content, said in (
        (200, ann.sign(b"another"), "has changed since"),
        (200, bytes(MAX_SIGNATURE + 1), "more than|larger"),
        (500, b"", "answers 500"),
    ):
        Upstream.signature = (status, content)
        with pytest.raises(CovaltError, match=said):
            import_toolset(root, f"{upstream}/demo.zip")
    assert not list((root / "toolsets").iterdir())

    Upstream.signature = (200, ann.sign(archive(GOOD)))
    imported = import_toolset(root, f"{upstream}/demo.zip?token=s3cret#top")

    assert imported.signer is not None
    assert imported.signer.fingerprint == ann.fingerprint
    assert Upstream.asked[-1] == "/demo.zip.sig?token=s3cret"


@pytest.mark.parametrize("status", [403, 404, 410])
def test_a_bundle_without_a_signature_has_no_signer(root: Path, upstream: str, status: int) -> None:
    Upstream.signature = (status, b"")

    assert import_toolset(root, f"{upstream}/demo.zip").signer is None
