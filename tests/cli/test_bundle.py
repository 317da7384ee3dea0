"""``covalt-git bundle``: one file, whole or not at all; what comes in is off until a person says so."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests import command

MANIFEST = """\
id: demo
name: Demo
version: "1.2"
tools:
  - {id: web, http: {url: "https://example.com/"}}
  - {id: more, http: {url: "https://example.com/more"}}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "toolsets/demo").mkdir(parents=True)
    (tmp_path / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    (tmp_path / "toolsets/demo/toolset.yaml").write_text(MANIFEST, encoding="utf-8")
    return tmp_path


def covalt(root: Path, *args: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    done = command.run_raw(*args, cwd=root, env=os.environ | variables)
    assert b"Traceback" not in done.stderr
    return done


def test_export_names_the_file_by_id_and_version_and_never_replaces_one(root: Path) -> None:
    done = covalt(root, "bundle", "export", "demo", "--json")
    told = json.loads(done.stdout)
    content = (root / "demo-1.2.zip").read_bytes()

    assert told["file"] == "demo-1.2.zip"
    assert told["sha256"] == hashlib.sha256(content).hexdigest()
    assert zipfile.ZipFile(root / "demo-1.2.zip").namelist() == ["toolset.yaml"]

    again = covalt(root, "bundle", "export", "demo")
    assert again.returncode == 1
    assert b"there is a file 'demo-1.2.zip'" in again.stderr
    assert (root / "demo-1.2.zip").read_bytes() == content
    assert covalt(root, "bundle", "export", "demo", "-o", "-").stdout == content


def test_export_leaves_nothing_where_a_secret_of_this_machine_would_go_along(root: Path) -> None:
    (root / "toolsets/demo/notes.md").write_text("use Rumpelstilz-17\n", encoding="utf-8")
    before = sorted(root.iterdir())

    done = covalt(root, "bundle", "export", "demo", MY_TOKEN="Rumpelstilz-17")

    assert done.returncode == 1
    assert done.stderr.startswith(b"toolsets/demo/notes.md:1:5: CG212 the value of MY_TOKEN")
    assert b"Rumpelstilz" not in done.stdout + done.stderr
    assert sorted(root.iterdir()) == before


def test_export_is_for_roles_that_see_every_tool(root: Path) -> None:
    roles = 'roles: {some: {allow: ["demo.web"]}, all: {allow: ["demo.*"]}}\n'
    (root / "covalt.yaml").write_text(f"version: 1\n{roles}", encoding="utf-8")

    refused = covalt(root, "--role", "some", "bundle", "export", "demo")
    assert refused.returncode == 1
    assert refused.stderr.startswith(b"your role does not see all of 'demo'")
    assert not list(root.glob("*.zip"))
    assert covalt(root, "--role", "all", "bundle", "export", "demo").returncode == 0


def test_a_place_that_cannot_be_written_is_told_in_words(root: Path) -> None:
    done = covalt(root, "bundle", "export", "demo", "-o", "no/such/folder.zip")

    assert done.returncode == 1
    assert b"'no/such/folder.zip' cannot be written: no such file" in done.stderr


@pytest.fixture
def theirs(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of somebody else, beside which the bundle of ``demo`` lies."""
    other = tmp_path_factory.mktemp("theirs")
    (other / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    (other / "toolsets").mkdir()
    assert covalt(root, "bundle", "export", "demo", "-o", str(other / "d.zip")).returncode == 0
    return other


def test_what_comes_in_is_off_until_somebody_switches_it_on(theirs: Path) -> None:
    dry = covalt(theirs, "bundle", "import", "d.zip", "--dry-run")
    assert dry.stdout.endswith(b"nothing has changed\n")
    assert not list((theirs / "toolsets").iterdir())

    said = covalt(theirs, "bundle", "import", "d.zip").stdout.decode()
    assert "tools: web, more\n  hosts: example.com\n" in said
    commands = [line.split()[1:] for line in said.splitlines() if line.startswith("  covalt-git")]
    (group,) = json.loads(covalt(theirs, "tool", "list", "--json").stdout)["groups"]
    assert [(tool["tool_id"], tool["enabled"]) for tool in group["tools"]] == [
        ("demo:more", False),
        ("demo:web", False),
    ]

    assert [covalt(theirs, *command).returncode for command in commands] == [0, 0]
    (group,) = json.loads(covalt(theirs, "tool", "list", "--json").stdout)["groups"]
    assert {tool["enabled"] for tool in group["tools"]} == {True}


def test_what_is_no_bundle_is_told_with_its_place_and_nothing_stays(theirs: Path) -> None:
    (theirs / "bad.zip").write_bytes((theirs / "d.zip").read_bytes()[:-30])

    done = covalt(theirs, "bundle", "import", "bad.zip")

    assert done.returncode == 1
    assert done.stderr == b"bad.zip: CG101 it is no ZIP, or cut off\n'bad.zip' is not taken\n"
    assert not list((theirs / "toolsets").iterdir())


def test_a_second_import_is_an_update_and_json_tells_all(theirs: Path) -> None:
    told = json.loads(covalt(theirs, "bundle", "import", "d.zip", "--json").stdout)
    again = covalt(theirs, "bundle", "import", "d.zip")

    assert (told["toolset_id"], told["source_type"], told["source_ref"]) == ("demo", "zip", "d.zip")
    assert told["wants"] == {"hosts": ["example.com"]}
    assert (again.returncode, again.stdout) == (0, b"demo 1.2 is up to date\n")


def test_a_role_that_may_not_do_everything_takes_nothing_in(theirs: Path) -> None:
    roles = 'roles: {maker: {allow: ["**"]}, owner: {admin: true}}\n'
    (theirs / "covalt.yaml").write_text(f"version: 1\n{roles}", encoding="utf-8")

    assert covalt(theirs, "--role", "maker", "bundle", "import", "d.zip").returncode == 1
    assert not list((theirs / "toolsets").iterdir())
    assert covalt(theirs, "--role", "owner", "bundle", "import", "d.zip").returncode == 0


def test_a_host_that_somebody_sets_elsewhere_is_told_as_that(root: Path) -> None:
    tool = '  - {id: far, http: {url: "${BASE_URL}/x", headers: {X-Key: "${A_KEY}"}}}\n'
    text = MANIFEST.replace("tools:\n", f"secrets: [BASE_URL, A_KEY]\ntools:\n{tool}")
    (root / "theirs").mkdir()
    (root / "theirs/toolset.yaml").write_text(text.replace("id: demo", "id: other"))

    told = json.loads(covalt(root, "bundle", "import", "theirs", "--dry-run", "--json").stdout)

    assert told["wants"]["hosts"] == ["example.com", "what ${BASE_URL} stands for"]
