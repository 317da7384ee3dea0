"""Names of the parts of a document that connect to a service: headers, variables, arguments."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from covalt_git.credentials.plain_names import plain_name

CONNECTIONS: Final = frozenset(
    {
        *("headers", "http_headers", "env", "environment", "server", "auth", "query", "cookies"),
        *("oauth", "environmentVariables", "packageArguments", "runtimeArguments", "variables"),
    }
)
"""Keys of objects whose values can be credentials because of their names."""

_OTHER_NAMES: Final = {
    **dict.fromkeys(("env_vars", "env_variables", "environment_variables", "envs"), "env"),
    **dict.fromkeys(("request_headers", "custom_headers", "extra_headers"), "headers"),
    **dict.fromkeys(("command", "runtime_args"), "args"),
    "basic_auth": "auth",
}
"""Names of connections that other formats have, with ``_`` between their words."""


@lru_cache(maxsize=4096)
def connection_name(key: str) -> str:
    """Return the key of a connection that a key means: ``envVars`` and ``Env`` are ``env``; otherwise the key."""
    if key in CONNECTIONS:
        return key
    # The formats spell these names in their own ways; one that is missed has its credentials copied.
    name = plain_name(key).lower()
    name = _OTHER_NAMES.get(name, name)
    return name if name in CONNECTIONS | {"args"} else key
