"""Bundles: the same bytes for the same files, without secrets and facts of this machine."""

import base64
import io
import os
import stat
import subprocess
import zipfile
from pathlib import Path

import pytest

from covalt_git.toolsets.export import NotExportedError, pack_bundle
from covalt_git.toolsets.toolset import Toolset, read_toolset

MANIFEST = """\
id: demo
name: Demo
version: "1"
secrets: [API_KEY]
tools:
  - {id: web, http: {url: "https://example.com/", headers: {X-Key: "${API_KEY}"}}}
"""
TOKEN = "ghp_" + "a8Kd02mZq7Lw5RtYb3Nx9VcUe1Sg4HfJoPiT"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    put(tmp_path, "toolset.yaml", MANIFEST)
    put(tmp_path, "assets/b.txt", "b")
    put(tmp_path, "assets/a.txt", "a")
    put(tmp_path, "assets/übung.txt", "ü")
    put(tmp_path, "run.sh", "#!/bin/sh\n").chmod(0o755)
    return tmp_path


def put(root: Path, path: str, content: str | bytes) -> Path:
    file = root / "toolsets/demo" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def demo(root: Path) -> Toolset:
    return read_toolset(root, "demo")


def refusals(root: Path, secrets: dict[str, str] | None = None, **options: bool) -> list[str]:
    with pytest.raises(NotExportedError) as refused:
        pack_bundle(root, demo(root), secrets or {}, **options)
    return [str(problem).splitlines()[0] for problem in refused.value.problems]


@pytest.mark.requirement("covalt-3.4.3")
def test_a_bundle_holds_the_files_sorted_and_no_facts_of_this_machine(root: Path) -> None:
    state = root / "toolsets/state/demo.yaml"
    state.parent.mkdir()
    state.write_text("enabled: false\n", encoding="utf-8")

    with zipfile.ZipFile(io.BytesIO(pack_bundle(root, demo(root), {}))) as bundle:
        entries = bundle.infolist()
        assert bundle.testzip() is None
        assert bundle.read("toolset.yaml") == MANIFEST.encode()

    assert [(one.filename, stat.filemode(one.external_attr >> 16)) for one in entries] == [
        ("assets/a.txt", "-rw-r--r--"),
        ("assets/b.txt", "-rw-r--r--"),
        ("assets/übung.txt", "-rw-r--r--"),
        ("run.sh", "-rwxr-xr-x"),
        ("toolset.yaml", "-rw-r--r--"),
    ]
    assert {one.date_time for one in entries} == {(1980, 1, 1, 0, 0, 0)}


def test_the_same_files_make_the_same_bytes_whatever_their_times_and_folder(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    first = pack_bundle(root, demo(root), {})
    other = tmp_path_factory.mktemp("other")
    subprocess.run(["cp", "-r", f"{root}/toolsets", other], check=True)
    (other / "toolsets/demo/run.sh").chmod(0o711)
    os.utime(other / "toolsets/demo/toolset.yaml", (1, 1))

    assert pack_bundle(other, demo(other), {}) == first

    put(other, "run.sh", "#!/bin/sh\n#\n")
    assert pack_bundle(other, demo(other), {}) != first


@pytest.mark.parametrize(
    ("path", "content", "said"),
    [
        pytest.param("tools/a.py", f"#\nKEY = '{TOKEN}'\n", "tools/a.py:2:8", id="a-token"),
        pytest.param("a.bin", b"\0\xff" + TOKEN.encode(), "a.bin: CG212", id="a-token-in-no-text"),
        pytest.param("a.md", "x\nthe word is Rumpelstilz\n", "a.md:2:13", id="a-value-that-is-set"),
        pytest.param(
            "b.bin", b"\0" + base64.b64encode(b"..Rumpelstilz"), "b.bin: CG212", id="encoded"
        ),
    ],
)
def test_a_file_with_a_secret_is_named_and_nothing_is_exported(
    root: Path, path: str, content: str | bytes, said: str
) -> None:
    put(root, path, content)

    (refused,) = refusals(root, {"MY_PASSWORD": "Rumpelstilz", "CI_TOKEN": "true"})

    assert refused.startswith(f"toolsets/demo/{said}")
    assert "Rumpelstilz" not in refused
    assert TOKEN not in refused


def test_a_probable_secret_stops_the_export_unless_guesses_are_allowed(root: Path) -> None:
    put(root, "notes.md", "api_key: 8fK2mQz7Lw5RtYb3Nx9V\n")

    (refused,) = refusals(root)
    assert refused.startswith("toolsets/demo/notes.md:1:")
    assert pack_bundle(root, demo(root), {}, allow_guesses=True)

    put(root, "more.md", TOKEN)
    (refused,) = refusals(root, allow_guesses=True)
    assert refused.startswith("toolsets/demo/more.md:1:1")
