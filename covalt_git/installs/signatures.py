"""Signatures of bundles, created and verified by ``ssh-keygen -Y``.

The signature of ``FILE`` is ``FILE.sig``.  The trusted keys are ``signers`` in ``covalt.yaml``.  Format:
OpenSSH's PROTOCOL.sshsig.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from covalt_git.credentials.ssh_signatures import MAX_SIGNATURE, SshSignature, fingerprint
from covalt_git.errors import CovaltError
from covalt_git.models.allowed_signers import (
    NAMESPACE,
    AllowedSigner,
    BadSignerLineError,
    wire_strings,
)
from covalt_git.models.toolset_state import Signer
from covalt_git.system import programs
from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SUFFIX = ".sig"
"""Suffix of a bundle's name that makes the name of its signature."""

_VERIFY_S = 20.0
_SIGN_S = 300.0  # the user may have to enter a passphrase or touch a security key

_GOOD = re.compile(r" with \S+ key (SHA256:[A-Za-z0-9+/]{43})\n?\Z")
_MAX_QUOTED = 200


class SignatureError(CovaltError):
    """A signature that is malformed or not trusted; ``code`` is the reason."""

    code = "bad_signature"
    http_status = 422

    def __init__(self, code: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code


class UnknownSignerError(SignatureError):
    """A valid signature of the content by a key that ``signers`` does not contain.

    ``public_key`` is the key in OpenSSH's format; empty if ``signers`` does not support it.
    """

    def __init__(self, signature: _Signature, signers: Sequence[str]) -> None:
        self.public_key = signature.public_key
        missing = "does not contain this key" if signers else "is empty"
        super().__init__(
            "unknown_signer" if signers else "no_signers",
            f"it is signed with {signature.fingerprint}, but `signers` in covalt.yaml {missing}",
            hint=signature.trust_hint,
        )


class SignerChangedError(CovaltError):
    """An update of a signed toolset that is not signed with the same key."""

    code = "signer_changed"
    http_status = 409


class _Signature(NamedTuple):
    """The unverified fields of a signature."""

    key: bytes
    namespace: bytes

    @classmethod
    def read(cls, text: bytes) -> Self:
        parsed = SshSignature.parse(text)
        if parsed is None:
            raise SignatureError(
                "not_a_signature",
                "the signature was not created by ssh-keygen",
                hint=f"to create FILE{SUFFIX}: ssh-keygen -Y sign -n {NAMESPACE} -f KEY FILE",
            )
        return cls(parsed.key, parsed.namespace)

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.key)

    @property
    def public_key(self) -> str:
        """The key in OpenSSH's format; empty if ``signers`` does not support it."""
        kind = (wire_strings(self.key) or [b""])[0].decode("ascii", "replace")
        key = f"{kind} {base64.b64encode(self.key).decode()}"
        try:
            AllowedSigner.parse(f"NAME {key}")
        except BadSignerLineError:
            return ""
        return key

    @property
    def trust_hint(self) -> str:
        """How to trust the key."""
        if not self.public_key:
            return "ask the signer for the key, and add it to `signers` in covalt.yaml"
        return (
            "if you know the owner of the key, import with --trust-signer NAME, which adds to `signers` in"
            f" covalt.yaml: - NAME {self.public_key}\n--unsigned imports it without a signer"
        )


def verify(content: bytes, signature: bytes, signers: Sequence[str]) -> Signer:
    """Return the signer of ``content`` in ``signers``, lines of OpenSSH's allowed-signers format.

    Raises:
        SignatureError: if the signature is not by one of them, not valid now, not of this content, or
            cannot be verified.
    """
    parsed = _Signature.read(signature)
    # A namespace keeps apart what a key signs: the signature of a git commit must not pass as that of a bundle
    # (PROTOCOL.sshsig).
    if parsed.namespace != NAMESPACE.encode():
        raise SignatureError(
            "wrong_namespace",
            f"the signature is for {_one_line(parsed.namespace)}, not for {NAMESPACE!r}",
            hint=f"ask the signer to run: ssh-keygen -Y sign -n {NAMESPACE} -f KEY FILE",
        )
    with tempfile.TemporaryDirectory(prefix="covalt-git-") as name:
        folder = Path(name)  # with mode 0700
        file, allowed = folder / "signature", folder / "allowed_signers"
        file.write_bytes(signature)
        # The content before the key: otherwise a signature of another file would be reported as an unknown key, with
        # the advice to trust it.
        match = ["-Y", "check-novalidate", "-n", NAMESPACE, "-s", str(file)]
        if _ssh_keygen(match, content).returncode:
            raise SignatureError(
                "content_changed",
                f"the bundle does not match its signature by the key {parsed.fingerprint}",
                hint="download the bundle and its signature again",
            )
        allowed.write_text("".join(f"{line.strip()}\n" for line in signers), encoding="utf-8")
        files = ["-s", str(file), "-f", str(allowed)]
        principals = _ssh_keygen(["-Y", "find-principals", *files], b"")
        principal = _principal(principals.stdout)
        if principals.returncode or principal is None:
            raise _untrusted(parsed, signers)
        verified = _ssh_keygen(["-Y", "verify", "-n", NAMESPACE, "-I", principal, *files], content)
    good = _GOOD.search(verified.stdout.decode("utf-8", "replace"))
    if verified.returncode or good is None:
        raise _untrusted(parsed, signers)
    return Signer(principal=principal, fingerprint=good[1])


def sign(content: bytes, key: Path) -> bytes:
    """Return the signature of ``content``.

    ``key`` is a private key, or a public key whose private key is in ssh-agent.
    ``ssh-keygen`` prompts for the passphrase of the key on the terminal.

    Raises:
        SignatureError: if the key does not exist, or the passphrase is missing or wrong.
    """
    arguments = ["-q", "-Y", "sign", "-n", NAMESPACE, "-f", str(key.absolute())]
    # The environment has SSH_AUTH_SOCK and SSH_ASKPASS.
    late = "enter the passphrase or touch the security key in time"
    signing = _ssh_keygen(arguments, content, environment=os.environ, seconds=_SIGN_S, late=late)
    if signing.returncode:
        raise SignatureError(
            "not_signed",
            f"cannot sign with {str(key)!r}: {_one_line(signing.stderr)}",
            hint="name a private key of ssh-keygen, or a .pub file whose private key is in ssh-agent",
        )
    return signing.stdout


def signature_path(file: Path) -> Path:
    """Return the path of a bundle's signature, which may not exist."""
    return file.with_name(f"{file.name}{SUFFIX}")


def read_signature(file: Path) -> bytes:
    """Return the content of a signature file, which may be malformed.

    Raises:
        SignatureError: if it cannot be read.
    """
    try:
        with file.open("rb") as opened:
            # One byte more than the limit, so that _Signature.read refuses a file that is larger, which is not read
            # whole.
            return opened.read(MAX_SIGNATURE + 1)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise SignatureError("not_a_signature", f"{str(file)!r} cannot be read: {why}") from None


def check_signer(recorded: Signer | None, signer: Signer | None, *, accept: bool) -> None:
    """Check that an update has the same signing key as the installed version, if that was signed.

    Only keys are compared; the name of a key in ``signers`` may change.

    Raises:
        SignerChangedError: if the key differs or the update is unsigned, unless ``accept`` is set.
    """
    if accept or recorded is None or (signer and signer.fingerprint == recorded.fingerprint):
        return
    change = f"now by {signer.principal!r} ({signer.fingerprint})" if signer else "is now unsigned"
    raise SignerChangedError(
        f"it was signed by {recorded.principal!r} ({recorded.fingerprint}), and {change}",
        hint="ask the signer; if the change is intended, a user accepts it at a terminal by --accept-signer",
    )


def _untrusted(signature: _Signature, signers: Sequence[str]) -> SignatureError:
    """Return why a key is not trusted: it is not in ``signers``, or not valid now."""
    for line in signers:
        allowed = AllowedSigner.parse(line)
        if allowed.key == signature.key:
            times = [
                f"{name} {value}" for name, value in allowed.options.items() if "valid" in name
            ]
            return SignatureError(
                "signer_not_valid",
                f"the key of {allowed.principals!r} ({signature.fingerprint}) is not valid now:"
                f" {', '.join(times) or 'ssh-keygen rejects it'}",
                hint="fix its line in `signers` in covalt.yaml, or ask for a signature with another key",
            )
    return UnknownSignerError(signature, signers)


def _principal(output: bytes) -> str | None:
    """Return the first principal in the output, which is a comma-separated list in old versions."""
    first = output.decode("utf-8", "replace").partition("\n")[0]
    names = [name for name in first.split(",") if name and not name.startswith("!")]
    return names[0] if names and display.is_shown(names[0]) else None


def _ssh_keygen(
    arguments: Sequence[str],
    content: bytes,
    *,
    environment: Mapping[str, str] | None = None,
    seconds: float = _VERIFY_S,
    late: str = "try again",
) -> subprocess.CompletedProcess[bytes]:
    if environment is None:
        # Nothing else of the environment: variables such as SSH_SK_PROVIDER make ssh-keygen load a library.
        names = ("PATH", "TZ")  # times without a Z are local times
        environment = {name: os.environ[name] for name in names if name in os.environ}
    try:
        return programs.run(
            ["ssh-keygen", *arguments],
            input=content,
            capture_output=True,
            timeout=seconds,
            env=dict(environment) | {"LC_ALL": "C"},
        )
    except FileNotFoundError:
        raise SignatureError(
            "ssh_keygen_missing",
            "ssh-keygen is not installed; it creates and verifies signatures",
            hint="install OpenSSH 8.2 or later: apt-get install openssh-client",
        ) from None
    except subprocess.TimeoutExpired:
        raise SignatureError(
            "ssh_keygen_failed", f"ssh-keygen did not finish within {seconds:.0f} s", hint=late
        ) from None
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise SignatureError("ssh_keygen_failed", f"ssh-keygen cannot be run: {why}") from None


def _one_line(untrusted: bytes) -> str:
    """Return untrusted text as one short line without terminal escape sequences."""
    return repr(untrusted[:_MAX_QUOTED].decode("utf-8", "replace").strip())
