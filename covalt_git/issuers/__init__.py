"""Access tokens of issuers: signed JWTs of identity providers that ``covalt.yaml`` lists under ``issuers``.

Only this package imports PyJWT, and on use: few commands need it.  PyJWT reads keys and checks signatures.  It accepts
repeated members, ``exp`` as a text or a fraction, and any ``typ``, so :mod:`.verification` reads the token itself.
"""

from covalt_git.issuers.verification import (
    InvalidTokenError,
    NoMappedRoleError,
    Verifier,
    is_jwt,
    token_in_file,
)

__all__ = ["InvalidTokenError", "NoMappedRoleError", "Verifier", "is_jwt", "token_in_file"]
