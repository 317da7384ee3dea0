"""Tasks of MCP clients: calls whose results they fetch later (the extension ``io.modelcontextprotocol/tasks``, SEP-2663).

A task is a call, and has no store of its own.  Its id is ``CHAT.CALL``: the chat and the id of the call, a UUID of version
7, whose time is ``createdAt``.  Who may read the call, and made it, may read the task; for all others its id is unknown.

``tools/call`` returns a task to a client of 2026-07-28 that declares the extension

- if the call needs approval: at once, because its user may decide tomorrow;
- if the call runs longer than ``limits.task_after_s``;
- at once, if the tool has ``task_support: required``.  Other clients get the error -32021, before anything runs.

A question that a tool asks earlier is answered by the client's next ``tools/call``, as the specification recommends.

The state of a task is derived, in this order (:mod:`.task_state`):

1. the call runs in this process: ``working``, or ``input_required`` with its open questions;
2. the call is pending: ``input_required`` with the page of its approval, if the client can open it; else ``working``;
3. another process runs it: ``working``; if that process has ended, the call is recorded as interrupted now;
4. the call is recorded: ``completed`` with its result or error; ``cancelled``; ``failed`` if it was interrupted, if
   covalt-git failed, or if the client lacks a capability;
5. the call was refused after it became a task, as when its tool changed while it waited.  Nothing has run, so nothing is
   recorded, and this process has the reason for ten minutes.

So each task survives a restart that has an effect or a decision.  A call that had not begun has none, and its id is unknown.

Cancelling ends the running call, or withdraws the pending one.  ``ttlMs`` is the time of the approval while it is pending,
and else null: the record of a call is kept as long as its chat.  Lists of tasks do not exist in the extension.

:mod:`.task_requests` has ``tasks/get``, ``tasks/update`` and ``tasks/cancel``; :mod:`.task_notices` notifies clients.
"""
