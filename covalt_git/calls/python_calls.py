"""Calls of Python tools: collects what one run needs from the toolset, the chat and the project."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.access.grants import GrantNeededError, granted
from covalt_git.calls import schema_warnings
from covalt_git.calls.running import Installing
from covalt_git.calls.tool_run import secret_store, sign_ins_of
from covalt_git.connections.entry_tokens import HostNotOfAuthError
from covalt_git.connections.token_store import SignInNeededError
from covalt_git.credentials.values import Mask
from covalt_git.elicitation.requests import inquire
from covalt_git.errors import CovaltError
from covalt_git.hosts import Reach
from covalt_git.json_values import json_schema
from covalt_git.json_values.pointer import json_path
from covalt_git.models.calls import CallError
from covalt_git.models.outcomes import MIB, Outcome, limit_error, of_lost_answer
from covalt_git.models.project_config import effective_limits
from covalt_git.runtime import environments, pool, python_tool
from covalt_git.runtime.jobs import Job
from covalt_git.runtime.sandbox_levels import SandboxNeededError
from covalt_git.templating.references import AUTH, secret_words
from covalt_git.text.display import shorten
from covalt_git.toolsets.toolset_copies import ToolsetCopy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from covalt_git.access.grants import Granted
    from covalt_git.calls.running import Follower
    from covalt_git.calls.tool_run import ToolRun
    from covalt_git.catalog.catalog import Found
    from covalt_git.connections.entry_tokens import ToolsetSignIns
    from covalt_git.json_values import JsonObject
    from covalt_git.models.auth_entries import Auth
    from covalt_git.models.calls import PendingCall, SandboxLevel
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.models.tool_properties import Limits

_LOST = re.compile(r"limit_\w+|tool_died|bad_result")
"""The codes of errors of tools that may have run to their end."""


def prepare(job: ToolRun) -> None:
    """Install the toolset's dependencies and start its interpreter; the first time, this may take long.

    Raises:
        CannotInstallError: if the dependencies cannot be installed.
        InstallCancelledError: if the follower cancels meanwhile.
    """
    pool.shared().start(_interpreter(job.found, job.follower))


def limit_exceeded(
    limits: Limits, usage_before: tuple[int, int], usage_after: tuple[int, int]
) -> CallError | None:
    """Return the error of a call after which the workspace has too many files or bytes.

    If the workspace exceeded a limit before the call, it may keep its size but not grow.
    """
    most_files, most_mb = limits.files, limits.workspace_mb
    if most_files is not None and usage_after[0] > max(most_files, usage_before[0]):
        return limit_error("limit_files", limits)
    if most_mb is not None and usage_after[1] > max(most_mb * MIB, usage_before[1]):
        return limit_error("limit_workspace", limits)
    return None


def _dependencies(target: Found) -> Sequence[str]:
    manifest = target.toolset.manifest
    return manifest.python.dependencies if manifest else ()


def _interpreter(target: Found, follower: Follower) -> Path:
    return environments.interpreter(
        _dependencies(target),
        report=lambda line: follower.report(Installing(line)),
        cancel=follower.cancel,
    )


def describe(
    target: Found,
    config: ProjectConfig,
    follower: Follower,
    *,
    level: SandboxLevel,
    check_again: Callable[[], None],
) -> Outcome:
    """Run the toolset's module, without network, secrets or workspace, for the schemas of a Python tool.

    ``check_again`` checks that the tool may still run, after its dependencies were installed.

    Raises:
        CovaltError: if the dependencies cannot be installed, or the tool may not run any more.
    """
    python = _interpreter(target, follower)
    # The installation may have taken minutes, in which the user can withdraw the trust or disable the toolset.
    if _dependencies(target):
        check_again()
    with tempfile.TemporaryDirectory(prefix="covalt-describe-") as empty:
        return python_tool.run(
            Job(
                toolset=ToolsetCopy.of(target.toolset),
                entrypoint=str(target.tool.entrypoint),
                args={},
                workspace=Path(empty).resolve(),
                chat_id="",
                call_id="",
                level=level,
                limits=effective_limits(target.tool.limits, config.limits),
                python=python,
                describes="only",
                cancel=follower.cancel,
            )
        )


def run(
    job: ToolRun,
    call: PendingCall,
    *,
    level: SandboxLevel,
    confirmed: bool,
    begin: Callable[[], None],
    warm: bool,
) -> Outcome:
    """Run a Python tool once, in a sandbox of a level.

    An imported toolset gets a new process for each call, so that none of its processes outlives a call.  The
    project's own toolsets stay loaded in a ``warm`` process for the next call.  ``begin`` is called before the
    toolset's code runs.
    """
    target, follower = job.found, job.follower
    toolset, tool = target.toolset, target.tool
    may = granted(toolset.id, toolset.state, toolset.digest)
    try:
        python = _interpreter(target, follower)
        if _dependencies(target):  # an approved call may have installed them only now
            job.check_again()
        secrets = _secrets(job, may)
    except CovaltError as error:
        # A failed installation or secret_command is the error of this call, as for HTTP tools, and begin() has to
        # store the call before its end is recorded.
        begin()
        return Outcome.failed(error)
    # A tool can print its secrets, or return them. Records are commits, which users share and push.
    tokens = _Tokens(
        target, may, sign_ins_of(job.root, toolset, may), level, Mask(secrets.values())
    )
    sandbox_job = Job(
        toolset=ToolsetCopy.of(toolset),
        entrypoint=str(tool.entrypoint),
        args=json_schema.with_integers(tool.input_schema, call.args),
        workspace=job.chat.workspace.absolute(),
        chat_id=job.chat.id,
        call_id=call.id,
        level=level,
        limits=job.limits,
        message_id=call.message_id,
        confirmed=confirmed,
        python=python,
        warm=warm and not toolset.state.imported,
        secrets=secrets,
        hosts=tuple(rule.text for rule in may.reach.rules),
        check_result=_declared(target) is None,
        describes="also" if schema_warnings.is_wanted(tool) else "no",
        begin=begin,
        report=lambda event: follower.report(
            event._replace(message=tokens.mask().text(event.message))
        ),
        cancel=follower.cancel,
        kinds=follower.respondent.kinds,
        ask=lambda questions: inquire(
            follower.respondent,
            {
                key: question.model_copy(update={"params": tokens.mask().value(question.params)})
                for key, question in questions.items()
            },
        ),
        token=tokens.token,
    )
    try:
        outcome = python_tool.run(sandbox_job)
    except pool.NoWorkerError as error:
        # Raised after begin(), but no process of the tool has started: it had no effect.
        return Outcome.failed(error)

    if outcome.schemas is not None:
        schema_warnings.report(tool, outcome.schemas)
    outcome = _validated(outcome, tool.output_schema)
    failure = outcome.error
    # An agent repeats a call that failed. Without the warning it does the work twice, such as a second payment
    # (test_an_error_whose_tool_may_have_run_to_its_end_says_so).
    if failure and _LOST.fullmatch(failure.code) and tool.annotations.read_only is not True:
        outcome = outcome._replace(error=of_lost_answer(failure))
    return _masked_outcome(outcome, tokens.mask())


class _Tokens:
    """The tokens of sign-ins for one call of a Python tool, which are masked with its secrets."""

    def __init__(
        self, target: Found, may: Granted, sign_ins: ToolsetSignIns, level: SandboxLevel, mask: Mask
    ) -> None:
        self._toolset_id, self._may = target.toolset.id, may
        self._sign_ins, self._level = sign_ins, level
        self._mask = mask.also(sign_ins.stored_values())
        self._sent_tokens: list[str] = []

    def mask(self) -> Mask:
        """Return the mask of the secrets, and of the tokens that the tool has got until now."""
        return self._mask.also(self._sent_tokens) if self._sent_tokens else self._mask

    def token(self, entry_id: str) -> str:
        """Return the token of an entry of ``auth``, if the tool can send it to the granted hosts only.

        Raises:
            SignInNeededError: without a sign-in, or if the toolset has no such entry.
            SandboxNeededError: if the sandbox does not limit the network.
            GrantNeededError: if the token is not granted, or the tool may reach hosts that it is not granted for.
        """
        name = f"{AUTH}{entry_id}"
        entry = self._sign_ins.entries.get(name)
        if entry is None:
            ids = ", ".join(entry.id for entry in self._sign_ins.entries.values())
            raise SignInNeededError(
                f"the toolset has no sign-in {shorten(entry_id, 60)!r} in auth",
                hint=f"it has {ids}" if ids else "add it to auth in toolset.yaml",
            )
        if self._level != "full":
            raise SandboxNeededError(
                f"the sandbox level {self._level!r} does not limit the network to hosts, so the tool gets no token",
                hint="`covalt-git doctor` shows what the level 'full' needs; an HTTP tool can send the token at each",
            )
        self._check_hosts(name, entry)
        token = self._sign_ins.token(name)
        if token is None:
            raise self._sign_ins.needed(name)
        self._sent_tokens.append(token)
        return token

    def _check_hosts(self, name: str, entry: Auth) -> None:
        rules = self._may.secrets.get(name, Reach()).rules
        grant = f"covalt-git grant add {self._toolset_id} secret {name}"
        if not rules:
            raise GrantNeededError(
                f"the toolset {self._toolset_id!r} may not use {secret_words(name, quoted=True)}",
                hint=f"{grant} {' '.join(entry.effective_hosts)}",
            )
        of_entry = Reach.of(*entry.effective_hosts).rules
        for rule in self._may.reach.rules:
            # The tool could send the token to each host that it reaches.
            if not rule.is_within(rules):
                raise GrantNeededError(
                    f"the toolset {self._toolset_id!r} may reach {rule.text}, and"
                    f" {secret_words(name, quoted=True)} is not granted for that host",
                    hint=f"covalt-git grant revoke {self._toolset_id} network {rule.text}\n{grant} {rule.text}",
                )
            if not rule.is_within(of_entry):
                raise HostNotOfAuthError(
                    f"the tool may reach {rule.text}, which the entry {entry.id!r} of auth does not name",
                    hint=f"add it to its hosts in toolset.yaml, or: covalt-git grant revoke {self._toolset_id} network",
                )


def _secrets(job: ToolRun, may: Granted) -> dict[str, str]:
    """Return the values of the secrets that the toolset declares, that are granted and that are set."""
    manifest = job.found.toolset.manifest
    declared = manifest.secrets if manifest else ()
    store = secret_store(job.command, may, job.check_again)
    values = {name: store.value(name) for name in declared if name in may.secrets}
    return {name: value for name, value in values.items() if value}


def _declared(target: Found) -> JsonObject | None:
    """Return the schema of the result in the toolset's manifest, if any."""
    manifest = target.toolset.manifest
    tools = manifest.tools if manifest else ()
    return next((tool.output_schema for tool in tools if tool.id == target.tool.id.name), None)


def _validated(outcome: Outcome, schema: JsonObject | None) -> Outcome:
    """Validate a result against the listed schema; an invalid result becomes an error.

    The SDK has compared its types with the annotation, but not its values with bounds and patterns.
    """
    if outcome.status != "success" or schema is None:
        return outcome
    try:
        problems = json_schema.value_problems(schema, outcome.result)
    except json_schema.BadSchemaError:  # such as a pattern in pydantic's syntax only
        return outcome
    if not problems:
        return outcome
    message = "; ".join(f"{json_path(place)}: {text}" for place, text in problems)
    # The result is stored beside the error, because the tool has run.
    return outcome._replace(status="error", error=CallError(code="bad_result", message=message))


def _masked_outcome(outcome: Outcome, mask: Mask) -> Outcome:
    """Return an outcome with the secrets masked in everything that is recorded or shown."""
    error = outcome.error
    if error is not None:
        texts = {"message": mask.text(error.message), "traceback": mask.text(error.traceback)}
        error = error.model_copy(update=texts)
    problems = tuple((place, mask.text(message)) for place, message in outcome.problems)
    return outcome._replace(
        result=mask.value(outcome.result),
        error=error,
        output=mask.text(outcome.output),
        problems=problems,
    )
