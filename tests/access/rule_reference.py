"""Second implementation of the decision about a call of a project's HTTP tools: no caches, no models, no schemas."""

import fnmatch
import json
import posixpath
from typing import Any


def decision(config: dict[str, Any], role: str, tool: dict[str, Any], args: dict[str, Any]) -> str:
    """Return ``hidden``, ``denied``, ``asks`` or ``runs`` for a configuration that is valid."""
    name, facts = tool["tool_id"].split(":"), config["roles"][role]
    may = facts.get("admin") or any(is_about(one, name) for one in facts.get("allow", []))
    if not may or any(is_about(one, name) for one in facts.get("deny", [])):
        return "hidden"
    rules = [
        one
        for one in config["rules"]
        if role in one.get("roles", [role]) and is_about(one["pattern"], name)
    ]
    first = [one for one in rules if one["effect"] != "deny" or not any(one["when"].values())]
    if first and first[0]["effect"] == "deny":
        return "hidden"
    for one in rules:
        quantifier = all if one["effect"] == "allow" else any
        annotations = one["when"].get("annotations", {})
        if (annotations and quantifier is all and not tool["annotations_are_own"]) or not (
            annotations.items() <= tool["annotations"].items()
        ):
            continue
        conditions = one["when"]["args"].items()
        if all(holds(args, path.split("."), wanted, quantifier) for path, wanted in conditions):
            return {"allow": "runs", "ask": "asks", "deny": "denied"}[one["effect"]]
    return "asks" if tool["confirmation"] else "runs"


def is_about(pattern: str, name: list[str]) -> bool:
    segments = pattern.split(".") if "." in pattern else ["*", "*"]
    return all(map(fnmatch.fnmatchcase, name, segments))


def holds(args: Any, path: list[str], wanted: Any, quantifier: Any) -> bool:
    """Return whether an argument matches: possibly with the quantifier ``any``, certainly with ``all``."""
    if not isinstance(wanted, dict):
        return any(
            is_equal(one, wanted, quantifier) for one in values(args, path, quantifier, inside=True)
        )
    (key, part), other = next(iter(wanted.items())), any if quantifier is all else all
    if key == "in":
        return any(holds(args, path, one, quantifier) for one in part)
    if key == "not":
        return not holds(args, path, part, other)
    if key == "exists":
        found = values(args, path, quantifier if part else other)
        if part is (quantifier is all):
            found = [one for one in found if one is not None]  # HTTP tools do not send null
        return bool(found) is part
    return any(
        all(is_within(one, key, part, quantifier) for key, part in wanted.items())
        for one in values(args, path, quantifier, inside=True)
    )


def values(args: Any, path: list[str], quantifier: Any, *, inside: bool = False) -> list[Any]:
    if path and isinstance(args, list):
        items = args if quantifier is any else []
        return [one for item in items for one in values(item, path, quantifier, inside=inside)]
    if path:
        has = isinstance(args, dict) and path[0] in args
        return values(args[path[0]], path[1:], quantifier, inside=inside) if has else []
    inner = [*args, *args.values()] if isinstance(args, dict) else args
    if not inside or quantifier is all or not isinstance(args, dict | list):
        return [args]
    return [args] + [one for item in inner for one in values(item, [], any, inside=True)]


def is_within(value: Any, key: str, wanted: Any, quantifier: Any) -> bool:
    if key == "under":
        plain = posixpath.normpath(value) if isinstance(value, str) else ""
        below = [
            str(one).startswith(f"{wanted}/") and one != f"{wanted}/" for one in (value, plain)
        ]
        return (quantifier is any and plain == wanted) or bool(quantifier(below))
    if quantifier is any and isinstance(value, str) and value.isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    return bool(value >= wanted if key == "min" else value <= wanted)


def is_equal(value: Any, wanted: Any, quantifier: Any) -> bool:
    if isinstance(value, dict | list) or (quantifier is all and type(value) is not type(wanted)):
        return False
    texts = [one if isinstance(one, str) else json.dumps(one) for one in (value, wanted)]
    if not isinstance(wanted, str):
        return texts[0] == texts[1]
    forms = (
        [texts, [posixpath.normpath(one) for one in texts]] if isinstance(value, str) else [texts]
    )
    return bool(quantifier([fnmatch.fnmatchcase(*form) for form in forms]))
