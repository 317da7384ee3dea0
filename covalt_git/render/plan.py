"""Render plan of a call: the configuration of its renderer, with all expressions resolved.

An error in a plan does not affect the call.  ``error`` reports expressions that cannot be resolved, which
stay in the configuration, and invalid targets.  Targets (files, URLs, ports) are left out unless they
are valid, so that code which ignores ``error`` cannot use an invalid one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalt_git.models.calls import RenderPlan
from covalt_git.models.renderers import ALIASES, FILE_KEYS, HtmlConfig
from covalt_git.render.targets import RefusedError, check_file, check_port, check_url
from covalt_git.templating.expressions import Values, expressions, interpolate

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import CallError
    from covalt_git.models.renderers import Renderer

_TARGET_KEYS = frozenset({*FILE_KEYS, "url", "port"})


def plan(
    renderer: Renderer | None,
    *,
    args: JsonObject,
    result: Any,
    chat_id: str,
    error: CallError | None = None,
) -> RenderPlan | None:
    """Return the render plan of a call; None if the call succeeded and its tool has no renderer.

    A failed call has no result: its plan shows the error as text if the tool has no renderer, or one that
    needs ``$return``.
    """
    config = {} if renderer is None else _with_defaults(renderer)
    if error is not None and (renderer is None or _needs_result(config)):
        return _error_plan(error)
    if renderer is None:
        return None
    values = Values(args, result, chat_id)
    resolved, problems = _resolve(config, values)
    if renderer.type == "frame" and not problems:
        resolved, problems = _with_url(resolved)
    return RenderPlan(
        renderer=ALIASES.get(renderer.type, renderer.type),
        config=resolved,
        error="; ".join(problems) or None,
    )


def _with_defaults(renderer: Renderer) -> JsonObject:
    if renderer.type != "html":
        return renderer.config
    # The default is an expression, $return, so it must be there before expressions are searched and resolved.
    shown = {key: value for key, value in renderer.config.items() if key != "calls"}
    return {"data": HtmlConfig.model_fields["data"].default, **shown}


def _needs_result(config: JsonObject) -> bool:
    return any(expression.root == "return" for expression in expressions(config))


def _error_plan(error: CallError) -> RenderPlan:
    content = "\n".join(part for part in (str(error), error.traceback) if part)
    return RenderPlan(renderer="code", config={"content": content, "language": "text"})


def _resolve(config: JsonObject, values: Values) -> tuple[JsonObject, list[str]]:
    """Return the resolved configuration with valid targets, and the problems."""
    resolved: JsonObject = {}
    problems: list[str] = []
    for key, template in config.items():
        value, unresolved = interpolate(template, values)
        problems += unresolved
        if key not in _TARGET_KEYS:
            resolved[key] = value
        elif not unresolved and value is not None:
            try:
                resolved[key] = _checked(key, value, template)
            except RefusedError as refused:
                problems.append(f"{key}: {refused}")
    return resolved, problems


def _checked(key: str, value: Any, template: Any) -> str | int:
    if key in FILE_KEYS:
        return check_file(value, template, place=FILE_KEYS[key])
    if key == "url":
        return check_url(value, template)
    return check_port(value)


def _with_url(config: JsonObject) -> tuple[JsonObject, list[str]]:
    if "url" in config:
        return config, []
    if "port" in config:
        return {"url": f"http://localhost:{config['port']}/", **config}, []
    return config, ["a frame requires 'url' or 'port'"]
