"""Bundles from URLs: the given host is contacted, and no other."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from werkzeug.wrappers import Request, Response

from covalt_git.bundles.archive_reader import MAX_ARCHIVE
from covalt_git.credentials.ssh_signatures import MAX_SIGNATURE
from covalt_git.errors import CovaltError
from covalt_git.installs import download
from covalt_git.installs.importing import import_toolset
from covalt_git.toolsets.toolset import read_toolset
from tests.installs.hostile_bundles import GOOD, archive
from tests.ssh_keys import make_key
from tests.wsgi_server import listening


class Upstream:
    asked: ClassVar[list[str]] = []
    signature: ClassVar[tuple[int, bytes]]


@Request.application
def answer(request: Request) -> Response:
    Upstream.asked.append(request.environ["RAW_URI"])
    away = {"/away": "http://192.0.2.1/demo.zip", "/here": "/demo.zip"}
    if request.path in away:
        return Response(status=302, headers={"Location": away[request.path]})
    found = {
        "/demo.zip": (200, archive(GOOD)),
        "/demo.zip.sig": Upstream.signature,
        "/large.zip": (200, bytes(4_000)),
    }
    status, content = found.get(request.path, (404, b"<h1>no</h1>"))
    return Response(content, status)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with listening(answer) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def upstream(server: str) -> str:
    """The URL of a server that has no signature and was asked nothing."""
    Upstream.asked.clear()
    Upstream.signature = (404, b"<h1>no</h1>")
    return server


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
    ("path", "most", "error"),
    [
        pytest.param("/none.zip", MAX_ARCHIVE, "answers 404", id="not-there"),
        pytest.param("/away", MAX_ARCHIVE, "was not granted", id="leads-elsewhere-in-the-clear"),
        pytest.param("/large.zip", MAX_ARCHIVE, "cannot be imported", id="no-zip"),
        pytest.param("/large.zip", 3_999, "larger|more than", id="too-large"),
    ],
)
def test_a_missing_redirected_invalid_or_too_large_bundle_is_refused(
    root: Path, upstream: str, monkeypatch: pytest.MonkeyPatch, path: str, most: int, error: str
) -> None:
    monkeypatch.setattr(download, "MAX_ARCHIVE", most)

    with pytest.raises(CovaltError, match=error):
        import_toolset(root, upstream + path)

    assert not list((root / "toolsets").iterdir())


@pytest.mark.usefixtures("upstream")
@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://example.com/a.zip", "not_fetched"),
        ("http://user:pw@127.0.0.1/a.zip", "bad_host"),
        ("http://127.1/a.zip", "bad_host"),
    ],
)
def test_an_unsafe_or_invalid_url_is_refused_without_a_request(
    root: Path, url: str, code: str
) -> None:
    with pytest.raises(CovaltError) as refused:
        import_toolset(root, url)

    assert refused.value.code == code
    assert Upstream.asked == []


def test_a_signature_at_the_url_has_to_be_valid(
    root: Path, upstream: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ann = make_key(tmp_path_factory.mktemp("keys"), "ann")
    (root / "covalt.yaml").write_text(f"version: 1\nsigners: ['{ann.allowed()}']\n")
    for status, content, said in (
        (200, ann.sign(b"another"), "does not match"),
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
