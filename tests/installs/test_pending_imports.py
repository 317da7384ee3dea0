"""Staged bundles: the same bytes are returned for an hour, then none."""

import os
import time
from pathlib import Path

import pytest

from covalt_git.installs.pending_imports import (
    Bundle,
    BundleGoneError,
    drop_bundle,
    stage_bundle,
    staged_bundle,
)


def test_a_staged_bundle_is_returned_until_it_is_dropped(tmp_path: Path) -> None:
    sent = Bundle.upload(b"PK\n\0", "demo.zip", b"signed")
    fetched = Bundle(b"PK\n\0", "demo.zip", "url", "https://example.com/demo.zip")
    ids = [stage_bundle(tmp_path, one) for one in (sent, fetched)]

    assert [staged_bundle(tmp_path, one) for one in ids] == [sent, fetched]
    for one in ids:
        drop_bundle(tmp_path, one)
        with pytest.raises(BundleGoneError):
            staged_bundle(tmp_path, one)
    assert list((tmp_path / "data").iterdir()) == []


def test_a_staged_bundle_expires_after_an_hour_and_is_removed(tmp_path: Path) -> None:
    bundle_id = stage_bundle(tmp_path, Bundle.upload(b"one", "demo.zip"))
    (folder,) = (tmp_path / "data").iterdir()
    then = time.time() - 3601
    os.utime(folder, (then, then))

    with pytest.raises(BundleGoneError):
        staged_bundle(tmp_path, bundle_id)
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize(
    ("filename", "name"),
    [
        pytest.param("demo.zip", "demo.zip", id="plain"),
        pytest.param("../../etc/passwd", "passwd", id="folders"),
        pytest.param("C:\\Users\\me\\demo.zip", "demo.zip", id="windows"),
        pytest.param("a\x1b[31m\n\u202eb\ud800.zip", "a_[31m__b_.zip", id="hidden"),
        pytest.param("x" * 500 + ".zip", "x" * 116 + ".zip", id="long"),
        pytest.param("folder/", "bundle.zip", id="none"),
    ],
)
def test_the_name_of_an_uploaded_file_is_its_last_part_without_hidden_characters(
    filename: str, name: str
) -> None:
    assert Bundle.upload(b"", filename).name == name
