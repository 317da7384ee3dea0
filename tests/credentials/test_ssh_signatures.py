"""Signatures in OpenSSH's format: ssh-keygen accepts ours, and one changed byte is enough to refuse one."""

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.credentials.ssh_signatures import SigningKey, SshSignature
from tests.ssh_keys import Key, make_key

CONTENT = b"the content"


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Key:
    return make_key(tmp_path_factory.mktemp("keys"), "key")


def is_valid(armored: bytes, content: bytes = CONTENT, namespace: bytes = b"git") -> bool:
    signature = SshSignature.parse(armored)
    return signature is not None and signature.is_valid(content, namespace)


def test_ours_and_that_of_ssh_keygen_are_the_same(key: Key) -> None:
    ours = SigningKey.read(key.file).sign(CONTENT, b"git").encode()

    assert ours + b"\n" == key.sign(CONTENT, "git")
    assert is_valid(ours)
    assert SshSignature.parse(ours).fingerprint == key.fingerprint  # type: ignore[union-attr]


def test_a_signature_is_for_one_content_and_one_namespace(key: Key) -> None:
    armored = key.sign(CONTENT, "git")
    assert not is_valid(armored, b"another content")
    assert not is_valid(armored, namespace=b"covalt-git")


def test_a_signature_of_another_kind_of_key_does_not_count(tmp_path: Path) -> None:
    other = make_key(tmp_path, "other", "ecdsa")
    assert SshSignature.parse(other.sign(CONTENT, "git")) is not None
    assert not is_valid(other.sign(CONTENT, "git"))


@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_signature_with_one_other_bit_does_not_count(key: Key, place: int, bit: int) -> None:
    lines = key.sign(CONTENT, "git").decode().splitlines()
    blob = bytearray(base64.b64decode("".join(lines[1:-1])))
    blob[place % len(blob)] ^= 1 << bit
    text = base64.b64encode(blob).decode()
    assert not is_valid("\n".join([lines[0], text, lines[-1]]).encode())


@given(st.binary(max_size=300))
def test_any_bytes_are_a_signature_or_none(content: bytes) -> None:
    armored = b"-----BEGIN SSH SIGNATURE-----\n%b\n-----END SSH SIGNATURE-----\n"
    for text in (content, armored % base64.b64encode(b"SSHSIG\0\0\0\1" + content)):
        assert not is_valid(text)


def test_the_key_is_not_in_its_text(key: Key) -> None:
    assert repr(SigningKey.read(key.file)) == f"SigningKey({key.fingerprint})"
