"""Static files: compressed, and cached until their content changes."""

import gzip
import re
from pathlib import Path

import pytest
from werkzeug.test import TestResponse

from covalt_server import static_files
from tests.api_client import BEARER, HOME, Api


def file(api: Api, path: str, **headers: str) -> TestResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return api.client().get(path, base_url=HOME, headers=BEARER | named)


def test_each_file_of_a_page_is_compressed_and_cached_for_good(api: Api) -> None:
    page = file(api, "/chats/c1").text
    paths = set(re.findall(r'"(/static/[^"]+)"', page))

    assert any("/code.css?" in path for path in paths)
    for path in paths:
        plain = file(api, path, Accept_Encoding="identity")
        packed = file(api, path, Accept_Encoding="gzip")
        assert packed.headers["Content-Encoding"] == "gzip", path
        assert gzip.decompress(packed.data) == plain.data
        assert "Content-Encoding" not in plain.headers
        for answer in (plain, packed):
            assert answer.headers["Cache-Control"].endswith("immutable")
            assert answer.headers["Vary"] == "Accept-Encoding"
            again = file(api, path, If_None_Match=answer.headers["ETag"])
            assert (again.status_code, again.data) in {(304, b""), (200, plain.data)}
        assert packed.headers["ETag"] != plain.headers["ETag"]


@pytest.mark.parametrize("path", ["style.css", "style.css?v=0", "vendor/htmx.min.js"])
def test_a_file_without_its_digest_is_checked_again(api: Api, path: str) -> None:
    answer = file(api, f"/static/{path}")

    assert answer.headers["Cache-Control"] == "no-cache"
    assert file(api, f"/static/{path}", If_None_Match=answer.headers["ETag"]).status_code == 304


@pytest.mark.parametrize("path", ["nothing.css", "../app.py", "%2e%2e/app.py", "vendor"])
def test_only_files_of_the_folder_are_sent(api: Api, path: str) -> None:
    assert file(api, f"/static/{path}").status_code == 404


def test_a_changed_file_has_another_url(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("style.css", "text.css"):
        (tmp_path / name).write_text("a {}")
    monkeypatch.setattr(static_files, "FOLDER", tmp_path)
    with api.client().application.test_request_context(base_url=HOME):
        old = static_files.asset("style.css")
        assert old == static_files.asset("text.css").replace("text", "style")
        (tmp_path / "style.css").write_text("b {}")
        assert static_files.asset("style.css") != old
    assert file(api, old).headers["Cache-Control"] == "no-cache"
