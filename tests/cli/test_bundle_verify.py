"""``covalt-git bundle verify`` and ``export --sign``: what is told, what is refused, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from covalt_git.cli import cli
from covalt_git.errors import CovaltError
from covalt_git.grants.grants import grant_network
from covalt_git.models.tool_lock import locked_tool
from covalt_git.toolsets.toolset import read_toolset
from tests.ssh_keys import Key, make_key

MANIFEST = 'id: demo\nname: Demo\nversion: "1.2"\n'


@pytest.fixture(scope="module")
def ann(tmp_path_factory: pytest.TempPathFactory) -> Key:
    return make_key(tmp_path_factory.mktemp("keys"), "ann")


@pytest.fixture(scope="module")
def bob(tmp_path_factory: pytest.TempPathFactory) -> Key:
    return make_key(tmp_path_factory.mktemp("keys"), "bob")


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """The project that the bundle is made in."""
    (tmp_path / "theirs/toolsets/demo").mkdir(parents=True)
    (tmp_path / "theirs/covalt.yaml").write_text("version: 1\n")
    (tmp_path / "theirs/toolsets/demo/toolset.yaml").write_text(MANIFEST)
    return tmp_path / "theirs"


@pytest.fixture
def ours(tmp_path: Path, ann: Key, bob: Key) -> Path:
    """The project that takes it in, and trusts both keys."""
    (tmp_path / "ours/toolsets").mkdir(parents=True)
    lines = f"  - {ann.allowed()}\n  - {bob.allowed('bob')}\n"
    (tmp_path / "ours/covalt.yaml").write_text(f"version: 1\nsigners:\n{lines}")
    return tmp_path / "ours"


@pytest.fixture
def signed(theirs: Path, ann: Key) -> Path:
    """A bundle that ann signed."""
    file = theirs / "demo.zip"
    done = covalt(theirs, "bundle", "export", "demo", "-o", str(file), "--sign", str(ann.file))
    assert done.exit_code == 0
    return file


def covalt(root: Path, *args: str) -> Result:
    """Run a command as the command line does; errors end as text and exit code."""
    result = CliRunner().invoke(cli, ["-C", str(root), *args])
    if isinstance(result.exception, CovaltError):
        result.exit_code = result.exception.exit_code
    elif result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def error(result: Result) -> CovaltError:
    assert isinstance(result.exception, CovaltError), result.output
    return result.exception


def sign(file: Path, key: Key) -> None:
    file.with_name(f"{file.name}.sig").write_bytes(key.sign(file.read_bytes()))


# --- signing ---------------------------------------------------------------------------------------


def test_export_signs_beside_the_file(theirs: Path, ours: Path, signed: Path, ann: Key) -> None:
    assert signed.with_name("demo.zip.sig").exists()
    done = covalt(ours, "bundle", "import", str(signed))

    assert f"signed by: ann@example.com {ann.fingerprint}\n" in done.output
    told = covalt(theirs, "bundle", "export", "demo", "-o", str(theirs / "b.zip"), "--json")
    assert json.loads(told.output)["signature"] is None
    assert (theirs / "b.zip").read_bytes() == signed.read_bytes()


def test_what_cannot_be_signed_makes_no_file(theirs: Path, ann: Key) -> None:
    before = sorted(theirs.iterdir())
    (theirs / "no-key").write_text("no key\n")
    refused = covalt(theirs, "bundle", "export", "demo", "-o", str(theirs / "d.zip"), "--sign", str(theirs / "no-key"))  # fmt: skip
    (theirs / "no-key").unlink()
    assert error(refused).code == "not_signed"
    assert covalt(theirs, "bundle", "export", "demo", "-o", "-", "--sign", str(ann.file)).exit_code == 2  # fmt: skip
    assert sorted(theirs.iterdir()) == before

    (theirs / "d.zip.sig").write_bytes(b"another's")
    taken = covalt(theirs, "bundle", "export", "demo", "-o", str(theirs / "d.zip"), "--sign", str(ann.file))  # fmt: skip
    assert "there is a file" in error(taken).message
    assert not (theirs / "d.zip").exists()
    assert (theirs / "d.zip.sig").read_bytes() == b"another's"


# --- a file ----------------------------------------------------------------------------------------


def test_a_file_is_told_with_its_signer_and_with_what_is_here(
    ours: Path, signed: Path, ann: Key, theirs: Path
) -> None:
    digest = read_toolset(theirs, "demo").digest
    first = covalt(ours, "bundle", "verify", str(signed))
    assert first.output.splitlines() == [
        f"demo 1.2: {digest}",
        f"  signed by: ann@example.com {ann.fingerprint}",
        "  here: no toolset of that id",
    ]
    assert not list((ours / "toolsets").iterdir())

    covalt(ours, "bundle", "import", str(signed))
    again = covalt(ours, "bundle", "verify", str(signed))
    assert (again.exit_code, again.output.splitlines()[2][:30]) == (
        0,
        "  here: the same, imported on ",
    )
    told = json.loads(covalt(ours, "bundle", "verify", str(signed), "--json").output)
    assert (told["digest"], told["is_recorded"], told["problem"]) == (digest, True, None)
    assert told["signer"] == told["recorded"]["signer"] == {
        "fingerprint": ann.fingerprint,
        "principal": "ann@example.com",
    }  # fmt: skip

    (ours / "toolsets/demo/toolset.yaml").write_text(MANIFEST + "description: mine\n")
    assert "changed here since" in covalt(ours, "bundle", "verify", str(signed)).output


def test_another_version_is_no_failure(ours: Path, signed: Path, theirs: Path, ann: Key) -> None:
    covalt(ours, "bundle", "import", str(signed))
    (theirs / "toolsets/demo/toolset.yaml").write_text(MANIFEST.replace("1.2", "1.3"))
    new = theirs / "new.zip"
    covalt(theirs, "bundle", "export", "demo", "-o", str(new), "--sign", str(ann.file))

    done = covalt(ours, "bundle", "verify", str(new))

    assert done.exit_code == 0
    assert "  here: another, 1.2 sha256:" in done.output


@pytest.mark.parametrize("how", ["another key", "no key", "a changed byte"])
def test_a_changed_signer_fails(ours: Path, signed: Path, bob: Key, how: str) -> None:
    covalt(ours, "bundle", "import", str(signed))
    if how == "another key":
        sign(signed, bob)
    elif how == "no key":
        signed.with_name("demo.zip.sig").unlink()
    else:
        signed.with_name("demo.zip.sig").write_bytes(bob.sign(b"another"))

    done = covalt(ours, "bundle", "verify", str(signed))
    told = covalt(ours, "bundle", "verify", str(signed), "--json")

    assert done.exit_code == told.exit_code == 1
    if how == "a changed byte":
        assert error(done).code == error(told).code == "content_changed"
    else:
        assert error(done).code == "signer_changed"
        assert json.loads(told.output)["problem"]["error"] == "signer_changed"
        assert bob.fingerprint in error(done).message or "by nobody" in error(done).message


def test_what_an_import_refuses_is_refused(ours: Path, signed: Path) -> None:
    signed.with_name("demo.zip.sig").unlink()
    signed.write_bytes(signed.read_bytes()[:-4])

    assert error(covalt(ours, "bundle", "verify", str(signed))).code == "bad_bundle"
    assert error(covalt(ours, "bundle", "verify", "nothing.zip")).code == "bad_bundle"
    assert "is a directory" in error(covalt(ours, "bundle", "verify", str(ours))).message


# --- a toolset that is here --------------------------------------------------------------------------


def test_a_toolset_is_compared_with_what_came_and_what_was_granted(
    ours: Path, signed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    covalt(ours, "bundle", "import", str(signed))
    grant_network(ours, "demo", ["example.com"], by="me")
    monkeypatch.chdir(ours)
    (ours / "demo").mkdir()  # a name of a toolset is one, whatever else has it

    fine = covalt(ours, "bundle", "verify", "demo")
    assert fine.exit_code == 0
    assert fine.output.splitlines()[1].startswith("  its files are those that were imported on ")
    assert fine.output.endswith("  grant network: holds\n")

    (ours / "toolsets/demo/toolset.yaml").write_text(MANIFEST + "description: mine\n")
    changed = covalt(ours, "bundle", "verify", "demo")
    assert changed.exit_code == 1
    assert "grant network: does not hold" in changed.output
    assert error(changed).message.startswith("its files are not those that were imported on ")
    told = covalt(ours, "bundle", "verify", "demo", "--json")
    assert told.exit_code == 1
    assert json.loads(told.output)["grants"] == {"network": False}


def test_accepted_tools_are_compared_with_the_lock(ours: Path, signed: Path) -> None:
    covalt(ours, "bundle", "import", str(signed))
    state = ours / "toolsets/state/demo.yaml"
    given = {name: locked_tool({"name": name, "inputSchema": {}}) for name in ("a", "b")}
    one = given["a"].digest
    accepted = f"accepted:\n  srv:a: {one}\n  srv:b: {one}\n  srv:c: {one}\n"
    state.write_text(state.read_text() + accepted)
    (ours / "toolsets/locks").mkdir()
    tools = {name: tool.model_dump(exclude_defaults=True) for name, tool in given.items()}
    lock = {"namespace": "srv", "toolset_id": "demo", "kind": "mcp", "tools": tools}
    (ours / "toolsets/locks/srv.yaml").write_text(json.dumps(lock))

    told = json.loads(covalt(ours, "bundle", "verify", "demo", "--json").output)

    assert told["accepted"] == {"srv:a": True, "srv:b": False, "srv:c": False}


def test_of_a_toolset_of_our_own_nothing_is_recorded(theirs: Path, signed: Path) -> None:
    done = covalt(theirs, "bundle", "verify", "demo")
    assert done.exit_code == 0
    assert "nothing is recorded" in done.output

    file = covalt(theirs, "bundle", "verify", str(signed))
    assert error(file).code == "no_signers"
    assert covalt(theirs, "bundle", "verify", "demo", "--signature", str(signed)).exit_code == 2
    assert error(covalt(theirs, "bundle", "verify", "dmo")).code == "unknown_toolset"


def test_a_state_that_cannot_be_read_is_no_state_without_a_signer(ours: Path, signed: Path) -> None:
    covalt(ours, "bundle", "import", str(signed))
    (ours / "toolsets/state/demo.yaml").write_text("<<<<<<< ours\n")

    for what in ("demo", str(signed)):
        assert "cannot be read" in error(covalt(ours, "bundle", "verify", what)).message


def test_verifying_is_for_roles_that_may_do_everything(ours: Path, signed: Path) -> None:
    with (ours / "covalt.yaml").open("a") as config:
        config.write('roles: {maker: {allow: ["**"]}}\n')

    done = covalt(ours, "--role", "maker", "bundle", "verify", str(signed))

    assert error(done).code == "forbidden"
