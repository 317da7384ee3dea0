"""Signatures of bundles: those of trusted signers are valid, every other one is refused with a code."""

import os
import re
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.installs.signatures import (
    SignatureError,
    SignerChangedError,
    check_signer,
    sign,
    verify,
)
from covalt_git.models.toolset_state import Signer
from covalt_git.text.display import in_lines
from tests.examples import examples
from tests.ssh_keys import Key, make_key

CONTENT = b"the bytes of a bundle\0\xff"


@pytest.fixture(scope="module")
def ann(tmp_path_factory: pytest.TempPathFactory) -> Key:
    return make_key(tmp_path_factory.mktemp("keys"), "ann")


@pytest.fixture(scope="module")
def bob(tmp_path_factory: pytest.TempPathFactory) -> Key:
    return make_key(tmp_path_factory.mktemp("keys"), "bob", "ecdsa")


@pytest.fixture(scope="module")
def good(ann: Key) -> bytes:
    return ann.sign(CONTENT)


def refused(content: bytes, signature: bytes, signers: list[str]) -> SignatureError:
    with pytest.raises(SignatureError) as caught:
        verify(content, signature, signers)
    assert caught.value.hint
    assert str(caught.value) == in_lines(str(caught.value))
    return caught.value


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("ann@example.com", "ann@example.com"),
        ('"Ann Ö. Other"', "Ann Ö. Other"),
        ("ann@example.com,ann@work.example", "ann@example.com"),
        ("*@example.com", "*@example.com"),
        ("-n", "-n"),
        ("$(id);`id`", "$(id);`id`"),
        ("../../etc/passwd", "../../etc/passwd"),
    ],
)
def test_a_signature_names_its_signer(
    ann: Key, bob: Key, good: bytes, written: str, shown: str
) -> None:
    found = verify(CONTENT, good, [bob.allowed("bob"), ann.allowed(written)])

    assert found == Signer(principal=shown, fingerprint=ann.fingerprint)


def test_ssh_keygen_verifies_a_signature(ann: Key, tmp_path: Path) -> None:
    made = sign(CONTENT, ann.file)
    (tmp_path / "s").write_bytes(made)
    (tmp_path / "a").write_text(ann.allowed("ann") + "\n")
    argv = ["ssh-keygen", "-Y", "verify", "-f", "a", "-I", "ann", "-n", "covalt-git", "-s", "s"]

    subprocess.run(argv, input=CONTENT, cwd=tmp_path, check=True, capture_output=True)

    assert verify(CONTENT, made, [ann.allowed()]).fingerprint == ann.fingerprint


def test_rsa_keys_and_certificates_are_valid(ann: Key, tmp_path: Path) -> None:
    rsa = make_key(tmp_path, "rsa", "rsa")
    assert verify(CONTENT, rsa.sign(CONTENT), [rsa.allowed()]).fingerprint == rsa.fingerprint
    vouched = ["ssh-keygen", "-q", "-s", str(ann.file), "-I", "x", "-n", "carl@example.com"]
    subprocess.run([*vouched, f"{rsa.file}.pub"], check=True)

    found = verify(CONTENT, _by_certificate(rsa), [ann.allowed("*@example.com", "cert-authority")])

    assert found == Signer(principal="carl@example.com", fingerprint=rsa.fingerprint)


def _by_certificate(key: Key) -> bytes:
    certificate = key.file.with_name(f"{key.file.name}-cert.pub")
    argv = ["ssh-keygen", "-q", "-Y", "sign", "-n", "covalt-git", "-f", str(certificate)]
    agent = ["ssh-agent", "sh", "-c", 'ssh-add -q "$0" && exec "$@"', str(key.file), *argv]
    return subprocess.run(agent, input=CONTENT, capture_output=True, check=True).stdout


@pytest.mark.parametrize(
    ("code", "content", "namespace", "signers"),
    [
        ("content_changed", CONTENT + b"\n", "covalt-git", ["ann"]),
        ("content_changed", b"another", "covalt-git", []),
        ("unknown_signer", CONTENT, "covalt-git", ["bob"]),
        ("no_signers", CONTENT, "covalt-git", []),
        ("wrong_namespace", CONTENT, "covalt-git2", ["ann"]),
        ("wrong_namespace", CONTENT, "\x1b[31mred\x07", ["ann"]),
    ],
)
def test_a_signature_of_other_content_keys_or_namespaces_is_refused(
    ann: Key, bob: Key, code: str, content: bytes, namespace: str, signers: list[str]
) -> None:
    lines = [{"ann": ann, "bob": bob}[name].allowed() for name in signers]
    error = refused(content, ann.sign(CONTENT, namespace), lines)

    assert error.code == code
    assert (repr(namespace) if code == "wrong_namespace" else ann.fingerprint) in error.message


@pytest.mark.parametrize(
    "options", ['valid-before="20200101"', 'valid-after="29990101Z"', 'valid-before="202001010000"']
)
def test_a_key_is_valid_only_between_its_dates(ann: Key, good: bytes, options: str) -> None:
    assert refused(CONTENT, good, [ann.allowed(options=options)]).code == "signer_not_valid"
    both = [ann.allowed(options=options), ann.allowed("new", 'valid-after="20200101"')]
    assert verify(CONTENT, good, both).principal == "new"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (rb"(?s).*", b""),
        (rb"(?s).*", b"\x1b]0;owned\x07 not a signature"),
        (rb"(?s)(-\n).*(\n-)", rb"\1AAAA\2"),
        (rb"(?s)(-\n).*(\n-)", rb"\1=\2"),
        (rb"(?s).{40}\Z", b""),
        (rb"\Z", rb"\033[31m"),
        (rb"\A", rb"echo\n"),
        (rb"U1NIU0", b"U1NIU1"),
        (rb"\Z", bytes(70_000)),
    ],
)
def test_a_broken_signature_is_refused_and_not_shown(good: bytes, old: bytes, new: bytes) -> None:
    broken = re.sub(old, new, good, count=1)

    assert broken != good
    assert refused(CONTENT, broken, []).code == "not_a_signature"


@settings(max_examples=examples(50))
@given(st.integers(min_value=0), st.integers(min_value=1, max_value=255))
def test_no_damage_breaks_the_parser(good: bytes, at: int, flip: int) -> None:
    damaged = bytearray(good)
    damaged[at % len(damaged)] ^= flip

    with pytest.raises(SignatureError) as caught:
        verify(CONTENT, bytes(damaged), [])

    assert caught.value.code in {
        "not_a_signature",
        "wrong_namespace",
        "content_changed",
        "no_signers",
    }


def test_ssh_keygen_gets_no_environment_and_leaves_no_file(
    ann: Key, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spy = tmp_path / "bin" / "ssh-keygen"
    spy.parent.mkdir()
    spy.write_text(f'#!/bin/sh\nenv >> {tmp_path}/seen\nexec /usr/bin/env -i {_real()} "$@"\n')
    spy.chmod(0o755)
    monkeypatch.setenv("PATH", f"{spy.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("MY_TOKEN", "canary")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)

    verify(CONTENT, ann.sign(CONTENT), [ann.allowed()])

    assert (tmp_path / "seen").read_text().count("canary") == 1  # the test's own, which signs
    assert not list((tmp_path / "tmp").iterdir())


def _real() -> str:
    return subprocess.check_output(["sh", "-c", "command -v ssh-keygen"], text=True).strip()


ANN = Signer(principal="ann", fingerprint=f"SHA256:{'A' * 43}")
SAME_KEY = Signer(principal="ann@new.example", fingerprint=f"SHA256:{'A' * 43}")
OTHER = Signer(principal="ann", fingerprint=f"SHA256:{'B' * 43}")


@pytest.mark.parametrize(
    ("recorded", "found", "accepted"),
    [
        (None, None, True),
        (None, ANN, True),
        (ANN, ANN, True),
        (ANN, SAME_KEY, True),
        (ANN, OTHER, False),
        (ANN, None, False),
    ],
)
def test_a_changed_signer_needs_to_be_accepted(
    recorded: Signer | None, found: Signer | None, *, accepted: bool
) -> None:
    check_signer(recorded, found, accept=True)
    with nullcontext() if accepted else pytest.raises(SignerChangedError, match=ANN.fingerprint):
        check_signer(recorded, found, accept=False)
