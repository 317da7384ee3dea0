"""Bundles that wait to be looked at: the same bytes come back, for an hour, or none do."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from covalt_git.installs.incoming import Bundle, BundleGoneError, forget, keep, kept


def test_what_was_kept_comes_back_with_where_it_came_from(tmp_path: Path) -> None:
    sent = Bundle.sent(b"PK\n\0", "demo.zip")
    fetched = Bundle(b"PK\n\0", "demo.zip", "url", "https://example.com/demo.zip")
    ids = [keep(tmp_path, one) for one in (sent, fetched, sent)]

    assert ids[0] == ids[2] != ids[1]
    assert [kept(tmp_path, one) for one in ids] == [sent, fetched, sent]
    forget(tmp_path, ids[0])
    with pytest.raises(BundleGoneError):
        kept(tmp_path, ids[0])


def test_other_bytes_than_were_looked_at_are_none(tmp_path: Path) -> None:
    bundle_id = keep(tmp_path, Bundle.sent(b"one", "demo.zip"))
    file = tmp_path / "data/incoming" / bundle_id
    file.write_bytes(file.read_bytes() + b"!")

    with pytest.raises(BundleGoneError):
        kept(tmp_path, bundle_id)


def test_after_an_hour_it_is_gone_and_cleared_away(tmp_path: Path) -> None:
    bundle_id = keep(tmp_path, Bundle.sent(b"one", "demo.zip"))
    folder = tmp_path / "data/incoming"
    then = time.time() - 3601
    os.utime(folder / bundle_id, (then, then))

    with pytest.raises(BundleGoneError):
        kept(tmp_path, bundle_id)
    other = keep(tmp_path, Bundle.sent(b"two", "demo.zip"))
    assert [file.name for file in folder.iterdir()] == [other]


def test_no_more_than_sixteen_wait(tmp_path: Path) -> None:
    ids = [keep(tmp_path, Bundle.sent(b"%d" % number, "demo.zip")) for number in range(18)]

    assert len(list((tmp_path / "data/incoming").iterdir())) == 16
    assert kept(tmp_path, ids[-1]).content == b"17"


@pytest.mark.parametrize("bundle_id", ["", "..", "../../covalt.yaml", "A" * 64, "0" * 64])
def test_an_id_that_is_none_leads_nowhere(tmp_path: Path, bundle_id: str) -> None:
    (tmp_path / "covalt.yaml").write_text("version: 1\n")

    with pytest.raises(BundleGoneError):
        kept(tmp_path, bundle_id)
    forget(tmp_path, bundle_id)
    assert (tmp_path / "covalt.yaml").exists()


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
def test_a_sent_files_name_is_its_last_part_as_people_can_read_it(filename: str, name: str) -> None:
    assert Bundle.sent(b"", filename).name == name
