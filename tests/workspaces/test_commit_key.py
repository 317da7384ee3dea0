"""Commits that ``audit.sign_key`` signs: stock git verifies them, and a key that cannot be used runs nothing."""

import subprocess
from pathlib import Path

import pytest

from covalt_git.calls.running import Follower
from covalt_git.credentials.ssh_signatures import SigningKeyError
from covalt_git.git_store.objects import split_signature
from covalt_git.trust import NotTrustedError
from tests.calls.conftest import World, make_world
from tests.operations_client import Operations
from tests.ssh_keys import Key, make_key
from tests.trusting import use_config
from tests.workspaces.stores import git, run_git


@pytest.fixture
def key(tmp_path: Path) -> Key:
    return make_key(tmp_path, "audit_key")


@pytest.fixture
def world(tmp_path: Path, key: Key) -> World:
    world = make_world(tmp_path / "project")
    world.configure(f"audit: {{sign_key: {key.file}}}\n")
    return world


def verify_commit(world: World, key: Key, oid: str) -> subprocess.CompletedProcess[bytes]:
    """Run stock ``git verify-commit``, which trusts the key alone."""
    allowed = key.file.with_name("allowed_signers")
    line = key.allowed(options='namespaces="git"')
    allowed.write_text(f"{line}\n", encoding="utf-8")
    option = f"gpg.ssh.allowedSignersFile={allowed}"
    return run_git(world.store, "-c", option, "verify-commit", oid)


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_stock_git_verifies_the_commits_of_calls_edits_and_denials(
    tmp_path: Path, key: Key, object_format: str
) -> None:
    world = make_world(tmp_path / "project")
    world.configure(f"audit: {{sign_key: {key.file}}}\n")
    if object_format == "sha256":
        world.project().chats.delete("c1")
        world.configure(f"  object_format: sha256\naudit: {{sign_key: {key.file}}}\n")
        config = (world.root / "covalt.yaml").read_text(encoding="utf-8")
        config = config.replace("workspace: {durability: fast}", "workspace:\n  durability: fast")
        (world.root / "covalt.yaml").write_text(config, encoding="utf-8")
        world.project().chats.new("c1").close()
    world.call("add", text="Grüße\n\n-----BEGIN SSH SIGNATURE-----")
    (world.workspace / "note.txt").write_text("of the user", encoding="utf-8")
    world.deny(world.ask(text="b"))
    world.call("workspace:write_file", path="c.txt", content="c")
    manifests = world.log()

    assert [manifest.source for manifest in manifests] == ["tool_run", "edit", "tool_run", "edit"]
    for manifest in manifests:
        verified = verify_commit(world, key, manifest.id)
        assert verified.returncode == 0, verified.stderr
        assert key.fingerprint.encode() in verified.stderr
    git(world.store, "fsck", "--strict", "--no-dangling")
    other = make_key(tmp_path, "other")
    assert verify_commit(world, other, manifests[0].id).returncode != 0


def test_our_signature_is_the_one_of_ssh_keygen(world: World, key: Key) -> None:
    """Ed25519 is deterministic, so equal bytes show the format."""
    world.call("add", text="a")
    with world.project().chats.open("c1") as chat:
        content = chat.store.read_content(world.log()[-1].id, b"commit")
        payload, signature = split_signature(content, chat.store.object_format)

    assert signature + b"\n" == key.sign(payload, "git")


BAD_KEYS = ["missing", "readable by others", "passphrase", "ecdsa", "no key", "in the project"]


@pytest.mark.parametrize("state", BAD_KEYS)
def test_a_key_that_cannot_be_used_is_an_error_before_the_tool_runs(
    world: World, key: Key, tmp_path: Path, state: str
) -> None:
    kinds = {"passphrase": ("ed25519", "secret words"), "ecdsa": ("ecdsa", "")}
    if state in kinds:
        key = make_key(tmp_path, "of_another_kind", *kinds[state])
        world.configure(f"audit: {{sign_key: {key.file}}}\n")
    elif state == "missing":
        key.file.unlink()
    elif state == "readable by others":
        key.file.chmod(0o644)
    elif state == "no key":
        key.file.write_text("of something else", encoding="utf-8")
    else:
        (world.root / "keys").mkdir()
        key.file.rename(world.root / "keys" / "audit_key")
        key.file.symlink_to(world.root / "keys" / "audit_key")
    with pytest.raises(SigningKeyError) as caught:
        world.call("add", text="a")

    assert caught.value.hint
    # The history would not show that the tool ran, because its commit fails too.
    assert not (world.workspace / "runs.txt").exists()
    assert world.log() == []


def test_a_call_is_recorded_and_signed_although_the_key_is_deleted_while_it_runs(
    world: World, key: Key
) -> None:
    private = key.file.read_bytes()
    outcome = world.call("add", text="a", follower=Follower(lambda _: key.file.unlink(True)))
    assert not key.file.exists()
    assert outcome.call.status == "success"
    key.file.touch(0o600)
    key.file.write_bytes(private)

    assert verify_commit(world, key, world.log()[-1].id).returncode == 0


def test_a_pull_that_names_a_key_signs_nothing_and_runs_nothing_before_it_is_trusted(
    tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_config(monkeypatch, tmp_path / "config", trusts=False)
    root = tmp_path / "clone"
    (root / "toolsets").mkdir(parents=True)
    (root / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    operate = Operations(root)
    operate("trust_project")
    operate("create_chat", chat_id="c1")
    config = f"version: 1\naudit: {{sign_key: {key.file}}}\n"
    (root / "covalt.yaml").write_text(config, encoding="utf-8")
    world = World(root)
    with pytest.raises(NotTrustedError, match="sign the commits of chats with your key"):
        world.call("workspace:write_file", path="a", content="a")
    assert world.log() == []

    operate("trust_project")
    world.call("workspace:write_file", path="a", content="a")
    assert verify_commit(world, key, world.log()[-1].id).returncode == 0
