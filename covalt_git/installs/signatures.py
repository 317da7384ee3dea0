"""Signatures of bundles: made and verified by ``ssh-keygen -Y``, with the keys that people have anyway.

A signature lies beside a bundle, in ``FILE.sig``, and never in it.  Whose signatures count stands in
``signers`` of ``covalt.yaml``.  What ``ssh-keygen`` says is read and never printed.

Format: OpenSSH's PROTOCOL.sshsig.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from covalt_git.errors import CovaltError
from covalt_git.models.allowed_signers import (
    NAMESPACE,
    AllowedSigner,
    BadSignerLineError,
    wire_strings,
)
from covalt_git.models.toolset_state import Signer
from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SUFFIX = ".sig"
"""What the name of a signature has after that of its bundle."""

MAX_SIGNATURE = 64 << 10
"""The most bytes of a signature; the longest keys need less than a tenth."""

_VERIFY_S = 20.0
_SIGN_S = 300.0  # somebody types a passphrase, or looks for the key to touch

_ARMOR = re.compile(
    rb"\s*-----BEGIN SSH SIGNATURE-----\r?\n([A-Za-z0-9+/=\r\n]+?)\r?\n-----END SSH SIGNATURE-----\s*"
)
_MAGIC = b"SSHSIG" + (1).to_bytes(4)
_PARTS = 5  # key, namespace, reserved, hash, signature
_GOOD = re.compile(r" with \S+ key (SHA256:[A-Za-z0-9+/]{43})\n?\Z")
_MAX_SAID = 200


class SignatureError(CovaltError):
    """A signature is none, or not one that counts; ``code`` says why."""

    code = "bad_signature"
    http_status = 422

    def __init__(self, code: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code


class UnknownSignerError(SignatureError):
    """A signature is by a key that ``signers`` does not have.

    ``public_key`` is the key in OpenSSH's form; empty if ``signers`` could not have it.
    """

    def __init__(self, said: _Signature, signers: Sequence[str]) -> None:
        self.public_key = said.public_key
        who = (
            "signers of covalt.yaml has no key"
            if not signers
            else "signers of covalt.yaml lacks this key"
        )
        super().__init__(
            "unknown_signer" if signers else "no_signers",
            f"it is signed with {said.fingerprint}, and {who}",
            hint=said.how_to_trust,
        )


class SignerChangedError(CovaltError):
    """A toolset was signed by one key when it came, and what would come now is not."""

    code = "signer_changed"
    http_status = 409


class _Signature(NamedTuple):
    """What a signature says about itself, which nobody has verified."""

    key: bytes
    namespace: bytes

    @classmethod
    def read(cls, text: bytes) -> Self:
        armor = _ARMOR.fullmatch(text) if len(text) <= MAX_SIGNATURE else None
        try:
            blob = base64.b64decode(armor[1] if armor else b"", validate=False)
        except binascii.Error:
            blob = b""
        parts = wire_strings(blob.removeprefix(_MAGIC)) if blob.startswith(_MAGIC) else None
        if parts is None or len(parts) != _PARTS:
            raise SignatureError(
                "not_a_signature",
                "the signature is not one that ssh-keygen made",
                hint=f"ssh-keygen -Y sign -n {NAMESPACE} -f KEY FILE makes FILE{SUFFIX}",
            )
        return cls(parts[0], parts[1])

    @property
    def fingerprint(self) -> str:
        digest = base64.b64encode(hashlib.sha256(self.key).digest())
        return f"SHA256:{digest.decode().rstrip('=')}"

    @property
    def public_key(self) -> str:
        """The key in OpenSSH's form, or nothing if ``signers`` could not have it."""
        kind = (wire_strings(self.key) or [b""])[0].decode("ascii", "replace")
        key = f"{kind} {base64.b64encode(self.key).decode()}"
        try:
            AllowedSigner.parse(f"NAME {key}")
        except BadSignerLineError:
            return ""
        return key

    @property
    def how_to_trust(self) -> str:
        """What would let the key's signatures count."""
        if not self.public_key:
            return "ask its signer for the key, and add it to signers in covalt.yaml"
        return (
            "if you know whose key it is, import it with --trust-signer NAME, which adds to signers in"
            f" covalt.yaml: - NAME {self.public_key}\n--unsigned imports it without a signer"
        )


def verify(content: bytes, signature: bytes, signers: Sequence[str]) -> Signer:
    """Return who of ``signers``, lines of OpenSSH's allowed-signers format, signed ``content``.

    Raises:
        SignatureError: when it was none of them, or not now, or not this, or cannot be found out.
    """
    said = _Signature.read(signature)
    if said.namespace != NAMESPACE.encode():
        raise SignatureError(
            "wrong_namespace",
            f"the signature is for {_one_line(said.namespace)}, not for {NAMESPACE!r}",
            hint=f"whoever made it signs again: ssh-keygen -Y sign -n {NAMESPACE} -f KEY FILE",
        )
    if not signers:
        raise UnknownSignerError(said, signers)
    with tempfile.TemporaryDirectory(prefix="covalt-git-") as name:
        folder = Path(name)  # which only we may enter
        made, allowed = folder / "signature", folder / "allowed_signers"
        made.write_bytes(signature)
        allowed.write_text("".join(f"{line.strip()}\n" for line in signers), encoding="utf-8")
        files = ["-s", str(made), "-f", str(allowed)]
        found = _ssh_keygen(["-Y", "find-principals", *files], b"")
        principal = _principal(found.stdout)
        if found.returncode or principal is None:
            raise _stranger(said, signers)
        verified = _ssh_keygen(["-Y", "verify", "-n", NAMESPACE, "-I", principal, *files], content)
    good = _GOOD.search(verified.stdout.decode("utf-8", "replace"))
    if verified.returncode or good is None:
        raise SignatureError(
            "content_changed",
            f"it is not what {principal!r} ({said.fingerprint}) signed: it has changed since",
            hint="fetch it again, and the signature with it",
        )
    return Signer(principal=principal, fingerprint=good[1])


def sign(content: bytes, key: Path) -> bytes:
    """Return the signature of ``content`` by a private key, or by the agent's for a public one.

    ``ssh-keygen`` asks for a passphrase on the terminal, where the key has one.

    Raises:
        SignatureError: when there is no such key, or it was not given its passphrase.
    """
    arguments = ["-q", "-Y", "sign", "-n", NAMESPACE, "-f", str(key.absolute())]
    # The agent, and what asks for passphrases where there is no terminal, are in the environment.
    done = _ssh_keygen(arguments, content, environment=os.environ, seconds=_SIGN_S)
    if done.returncode:
        raise SignatureError(
            "not_signed",
            f"{str(key)!r} signs nothing: {_one_line(done.stderr)}",
            hint="name a private key of ssh-keygen, or a .pub whose private key an agent holds",
        )
    return done.stdout


def signature_path(file: Path) -> Path:
    """Return where the signature of a bundle lies, if it has one."""
    return file.with_name(f"{file.name}{SUFFIX}")


def read_signature(file: Path) -> bytes:
    """Return what a file holds that is said to be a signature.

    Raises:
        SignatureError: when it cannot be read.
    """
    try:
        with file.open("rb") as opened:
            return opened.read(MAX_SIGNATURE + 1)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise SignatureError("not_a_signature", f"{str(file)!r} cannot be read: {why}") from None


def check_signer(recorded: Signer | None, found: Signer | None, *, accept: bool) -> None:
    """Make sure that an update was signed by the key that signed what is here, if any did.

    The key is who signs; the name that ``signers`` has for it may change.

    Raises:
        SignerChangedError: when another key signed it, or none, unless a person says ``accept``.
    """
    if accept or recorded is None or (found and found.fingerprint == recorded.fingerprint):
        return
    now = f"by {found.principal!r} ({found.fingerprint})" if found else "by nobody"
    raise SignerChangedError(
        f"it was signed by {recorded.principal!r} ({recorded.fingerprint}), and now {now}",
        hint="ask them; if it is as it should be, add --accept-signer",
    )


def _stranger(said: _Signature, signers: Sequence[str]) -> SignatureError:
    """Return why a key's signature does not count: nobody named it, or not for now."""
    for line in signers:
        one = AllowedSigner.parse(line)
        if one.key == said.key:
            times = [f"{name} {value}" for name, value in one.options.items() if "valid" in name]
            return SignatureError(
                "signer_not_valid",
                f"the key of {one.principals!r} ({said.fingerprint}) does not count now:"
                f" {', '.join(times) or 'ssh-keygen does not take it'}",
                hint="mend its line of signers in covalt.yaml, or have it signed with another key",
            )
    return UnknownSignerError(said, signers)


def _principal(output: bytes) -> str | None:
    """Return the first name that was found; of a list, as old versions print it, the first."""
    first = output.decode("utf-8", "replace").partition("\n")[0]
    names = [one for one in first.split(",") if one and not one.startswith("!")]
    return names[0] if names and display.is_shown(names[0]) else None


def _ssh_keygen(
    arguments: Sequence[str],
    content: bytes,
    *,
    environment: Mapping[str, str] | None = None,
    seconds: float = _VERIFY_S,
) -> subprocess.CompletedProcess[bytes]:
    if environment is None:
        kept = ("PATH", "TZ")  # times without a Z are those of here
        environment = {name: os.environ[name] for name in kept if name in os.environ}
    try:
        return subprocess.run(
            ["ssh-keygen", *arguments],
            input=content,
            capture_output=True,
            timeout=seconds,
            env=dict(environment) | {"LC_ALL": "C"},
            cwd="/",
            check=False,
        )
    except FileNotFoundError:
        raise SignatureError(
            "ssh_keygen_missing",
            "there is no ssh-keygen on this machine, which verifies and makes signatures",
            hint="install OpenSSH 8.2 or later: apt-get install openssh-client",
        ) from None
    except subprocess.TimeoutExpired:
        raise SignatureError(
            "ssh_keygen_failed", f"ssh-keygen does not come to an end in {seconds:.0f} s"
        ) from None
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise SignatureError("ssh_keygen_failed", f"ssh-keygen cannot be run: {why}") from None


def _one_line(said: bytes) -> str:
    """Return what somebody else wrote, in one short line without anything that a terminal obeys."""
    return repr(said[:_MAX_SAID].decode("utf-8", "replace").strip())
