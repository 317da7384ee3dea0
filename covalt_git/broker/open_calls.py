"""State of the calls in the queue: which worker has each, their events, and their ends.

A call is a hash with the fields ``call``, ``state`` (queued, taken, waiting, ended), ``worker``, ``takes``, ``since``,
``cancel`` and ``end``, and a stream of events.  The set ``open`` has the calls without an end.  Celery only brings a call to
a worker: a message that comes twice is dropped here, and a call whose worker has died is sent again from here.

A chat has one writer.  So a call of a chat that has a call at a living worker waits in a list of the chat, and occupies no
place of a worker; the end of the other call sends it.  This is for the use of workers only: the lock of the chat orders
calls, also if this state is lost.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import ValidationError

from covalt_git.models.queued_call import QueuedCall, QueuedEnd
from covalt_git.models.reported_refs import UNREAD, ReportedRefs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.broker.connection import Broker
    from covalt_git.json_values import JsonObject

STORED_S = 600
"""Time for which the events and the end of a call are stored after its end, in seconds."""

ALIVE_S = 15
"""Time after which a worker that does not report is dead, in seconds."""

REPORT_S = 4.0
"""Interval of the reports of a worker, in seconds."""

MOST_EVENTS = 4096
MOST_TAKES = 5
"""Number of workers that may die with a call before its tool starts; then the call is refused."""

WORKERS_DIED = "workers_died"
"""Code of the error that refuses such a call."""

_LOST_S = 10.0
"""Time after which a call is sent again if it is in no queue and no worker has it, in seconds."""

CONTROL = "control"
"""Channel with requests to all workers."""

WAITS = -1
"""Result of :meth:`OpenCalls.take` for a call that waits for another call of its chat."""

_ADD = """
if redis.call('HGET', KEYS[1], 'unsettled') then
  redis.call('DEL', KEYS[1], KEYS[4])
end
if redis.call('HEXISTS', KEYS[1], 'call') == 1 then return 0 end
redis.call('HSET', KEYS[1], 'call', ARGV[1], 'state', 'queued', 'since', ARGV[3])
redis.call('SADD', KEYS[2], ARGV[2])
redis.call('SET', KEYS[3], ARGV[2])
return 1
"""
"""Enter a call that is new, or had no result when it was requested the last time.

If Redis loses its data as a call is cancelled, it has the cancellation and not the call.  Then the cancellation stays.
"""

_TAKE = """
local function has_worker(name)
  if redis.call('HGET', name, 'state') ~= 'taken' then return false end
  return redis.call('EXISTS', ARGV[1] .. redis.call('HGET', name, 'worker')) == 1
end
if redis.call('HGET', KEYS[1], 'state') == 'ended' or has_worker(KEYS[1]) then return 0 end
if ARGV[6] ~= '' and not redis.call('HGET', KEYS[1], 'cancel') then
  local holder = redis.call('GET', KEYS[4])
  if holder and holder ~= ARGV[5] and has_worker(ARGV[6] .. holder) then
    redis.call('HSET', KEYS[1], 'state', 'waiting', 'since', ARGV[3], 'call', ARGV[4])
    redis.call('SET', KEYS[3], ARGV[5])
    redis.call('SADD', KEYS[2], ARGV[5])
    redis.call('LREM', KEYS[5], 0, ARGV[5])
    redis.call('RPUSH', KEYS[5], ARGV[5])
    return -1
  end
  redis.call('SET', KEYS[4], ARGV[5])
end
redis.call('LREM', KEYS[5], 0, ARGV[5])
redis.call('HSET', KEYS[1], 'state', 'taken', 'worker', ARGV[2], 'since', ARGV[3], 'call', ARGV[4])
redis.call('SET', KEYS[3], ARGV[5])
redis.call('PERSIST', KEYS[1])
redis.call('SADD', KEYS[2], ARGV[5])
return redis.call('HINCRBY', KEYS[1], 'takes', 1)
"""
"""Take a call for a worker, unless it has ended, a living worker has it, or it waits; also one that Redis has lost."""

_NEXT = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
local key = redis.call('LPOP', KEYS[2])
while key do
  if redis.call('HGET', ARGV[2] .. key, 'state') == 'waiting' then
    redis.call('HSET', ARGV[2] .. key, 'state', 'queued', 'since', ARGV[3])
    return redis.call('HGET', ARGV[2] .. key, 'call')
  end
  key = redis.call('LPOP', KEYS[2])
end
return false
"""
"""Free a chat after its call has ended, and return the next call that waits for it."""

_REPORT = """
if tonumber(redis.call('HGET', KEYS[1], 'counter') or -1) < tonumber(ARGV[1]) then
  redis.call('HSET', KEYS[1], 'counter', ARGV[1], 'refs', ARGV[2])
end
redis.call('EXPIRE', KEYS[1], ARGV[3])
return redis.call('HGET', KEYS[1], 'refs')
"""
"""Store the refs of a chat, unless newer ones are stored, and return the newest."""

_AGAIN = """
if redis.call('HGET', KEYS[1], 'state') ~= ARGV[1] then return 0 end
if redis.call('HGET', KEYS[1], 'since') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'state', 'queued', 'since', ARGV[3])
return 1
"""
"""Put a call back into the state queued, if no other process has changed it meanwhile."""


class Described(NamedTuple):
    """A call in the queue that has not ended, or ended in the last minutes."""

    call: QueuedCall
    state: Literal["queued", "taken", "waiting", "ended"]
    end: QueuedEnd | None
    takes: int


class OpenCalls:
    """The calls of a project in the queue; thread-safe."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._add = broker.client.register_script(_ADD)
        self._take = broker.client.register_script(_TAKE)
        self._next = broker.client.register_script(_NEXT)
        self._again = broker.client.register_script(_AGAIN)
        self._report = broker.client.register_script(_REPORT)

    def add(self, call: QueuedCall) -> bool:
        """Enter a call; return False if the queue has it already.

        A call that was refused, for example while the git server did not answer, has no record, and is entered again.  One
        that waited for its approval too: that may have been replaced or decided since.

        Raises:
            BrokerError: if Redis cannot be reached.
        """
        keys = [
            self._name(call.key),
            self.broker.key("open"),
            self._alias(call.call_id),
            self._events(call.key),
        ]
        with self.broker.requests():
            return bool(self._add(keys=keys, args=[call.model_dump_json(), call.key, _now()]))

    def take(self, call: QueuedCall, worker: str) -> int:
        """Take a call for a worker; return how many workers have taken it.

        It is 0 if this worker must not make it, and :data:`WAITS` if it waits for another call of its chat.

        Raises:
            BrokerError: if Redis cannot be reached.
        """
        keys = [
            self._name(call.key),
            self.broker.key("open"),
            self._alias(call.call_id),
            *self._chat(call),
        ]
        others = self._name("") if call.is_serial else ""
        arguments = [self._worker(""), worker, _now(), call.model_dump_json(), call.key, others]
        with self.broker.requests():
            return int(self._take(keys=keys, args=arguments))

    def end(self, call: QueuedCall, end: QueuedEnd) -> QueuedCall | None:
        """Store the end of a call, and report it to its followers; return a call that waited for it, to send it.

        Raises:
            BrokerError: if Redis cannot be reached; repeat it.
        """
        name, text = self._name(call.key), end.model_dump_json()
        with self.broker.requests() as client, client.pipeline() as pipe:
            # The call too: Redis may have lost it meanwhile.
            pipe.hset(name, "call", call.model_dump_json())
            pipe.hset(name, "end", text)
            pipe.hset(name, "state", "ended")
            if _is_unsettled(call, end):
                pipe.hset(name, "unsettled", "yes")
            pipe.srem(self.broker.key("open"), call.key)
            pipe.xadd(self._events(call.key), {"e": json.dumps(["end"])})
            for key in (name, self._events(call.key), self._alias(call.call_id)):
                pipe.expire(key, STORED_S)
            pipe.execute()
            if not call.is_serial:
                return None
            waiting: Any = self._next(
                keys=self._chat(call), args=[call.key, self._name(""), _now()]
            )
        return QueuedCall.model_validate_json(waiting) if waiting else None

    def newest_refs(self, chat_id: str, reported: ReportedRefs | None) -> ReportedRefs | None:
        """Add refs that a process has reported of a chat, and return the newest that were reported.

        Raises:
            BrokerError: if Redis cannot be reached.
        """
        reported = reported or UNREAD
        with self.broker.requests():
            text: Any = self._report(
                keys=[self.broker.key(f"refs:{chat_id}")],
                args=[reported.counter, reported.model_dump_json(), STORED_S],
            )
        try:
            newest = ReportedRefs.model_validate_json(text) if text else UNREAD
        except ValidationError:  # of a newer version; the git server has the refs
            return None
        return None if newest == UNREAD else newest

    def report(self, call: QueuedCall, *event: Any) -> None:
        """Add an event of a call: its name, and its values.

        Raises:
            BrokerError: if Redis cannot be reached.
        """
        with self.broker.requests() as client:
            client.xadd(
                self._events(call.key),
                {"e": json.dumps(event)},
                maxlen=MOST_EVENTS,
                approximate=True,
            )

    def events(self, key: str, after: str, wait_s: float) -> list[tuple[str, list[Any]]]:
        """Return the events of a call after the one with an id, or wait for one; empty after ``wait_s`` seconds.

        Raises:
            BrokerError: if Redis cannot be reached.
        """
        with self.broker.requests() as client:
            read = client.xread({self._events(key): after}, block=max(1, int(wait_s * 1000)))
        streams: Any = read or []
        return [(number, json.loads(fields["e"])) for _, rows in streams for number, fields in rows]

    def find(self, call_id: str) -> Described | None:
        """Return the call with an id, if the queue has it: once it is approved, the approval, which makes it.

        Raises:
            BrokerError: if Redis cannot be reached.
        """
        with self.broker.requests() as client:
            key: Any = client.get(self._alias(call_id))
        return self.find_key(str(key or call_id))

    def find_key(self, key: str) -> Described | None:
        """Return the call or the approval that the queue has under its key (:attr:`.QueuedCall.key`); None without one.

        Raises:
            BrokerError: if Redis cannot be reached.
        """
        with self.broker.requests() as client:
            fields: Any = client.hgetall(self._name(key))
        if "call" not in fields:
            return None
        end = fields.get("end")
        return Described(
            QueuedCall.model_validate_json(fields["call"]),
            fields.get("state", "queued"),
            None if end is None else QueuedEnd.model_validate_json(end),
            int(fields.get("takes", 0)),
        )

    def request_cancel(self, call_id: str, why: str) -> Described | None:
        """Cancel a call at the worker that has it or will have it; return it, or None if the queue does not have it.

        One that waits for another call of its chat has to be sent, so that a worker cancels it at once.

        Raises:
            BrokerError: if Redis cannot be reached.
        """
        described = self.find(call_id)
        if described is None or described.state == "ended":
            return None
        with self.broker.requests() as client:
            client.hsetnx(self._name(described.call.key), "cancel", why)
        self.broker.publish(CONTROL, {"cancel": described.call.call_id, "why": why})
        return described

    def why_cancelled(self, key: str) -> str | None:
        """Return why a client wants a call cancelled; None if no client does.

        Raises:
            BrokerError: if Redis cannot be reached.
        """
        with self.broker.requests() as client:
            why: Any = client.hget(self._name(key), "cancel")
        return None if why is None else str(why)

    def answer(self, question_id: str, key: str, answer: JsonObject) -> None:
        """Send an answer to an elicitation request to the worker that asks.

        Raises:
            BrokerError: if Redis cannot be reached.
        """
        name = self.broker.key(f"answers:{question_id}")
        with self.broker.requests() as client, client.pipeline() as pipe:
            # A list, and not a published message: while its worker does not listen, a message would be lost, and the user
            # cannot answer a second time.
            pipe.rpush(name, json.dumps([key, answer]))
            pipe.expire(name, STORED_S)
            pipe.execute()

    def wait_for_answer(self, question_id: str, wait_s: float) -> tuple[str, JsonObject] | None:
        """Return the next answer to an elicitation request; None after ``wait_s`` seconds.

        Raises:
            BrokerError: if Redis cannot be reached.
        """
        with self.broker.requests() as client:
            popped: Any = client.blpop([self.broker.key(f"answers:{question_id}")], timeout=wait_s)
        if popped is None:
            return None
        key, answer = json.loads(popped[1])
        return key, answer

    def report_worker(self, worker: str, facts: JsonObject) -> None:
        """Report that a worker is alive, for the next :data:`ALIVE_S` seconds.

        Raises:
            BrokerError: if Redis cannot be reached.
        """
        with self.broker.requests() as client:
            client.set(self._worker(worker), json.dumps(facts), ex=ALIVE_S)

    def forget_worker(self, worker: str) -> None:
        """Report that a worker has ended, so that its calls are made by others at once.

        Raises:
            BrokerError: if Redis cannot be reached.
        """
        with self.broker.requests() as client:
            client.delete(self._worker(worker))

    def workers(self) -> dict[str, JsonObject]:
        """Return the facts of the living workers, by their names.

        Raises:
            BrokerError: if Redis cannot be reached.
        """
        start = self._worker("")
        with self.broker.requests() as client:
            names = sorted(str(name) for name in client.scan_iter(f"{start}*"))
            values: Any = client.mget(names) if names else []
        return {
            name.removeprefix(start): json.loads(value)
            for name, value in zip(names, values, strict=True)
            if value is not None
        }

    def number_open(self) -> int:
        """Return the number of calls without an end.

        Raises:
            BrokerError: if Redis cannot be reached.
        """
        with self.broker.requests() as client:
            return int(client.scard(self.broker.key("open")))

    def queue(self, tag: str) -> str:
        """Return the name of the queue of the workers with a tag."""
        return self.broker.key(f"queue:{tag}" if tag else "queue")

    def lost(self) -> Iterator[Described]:
        """Yield the calls that must be sent again: their worker has died, or no queue and no worker has them.

        Each is yielded to one process only, which sends it.

        Raises:
            BrokerError: if Redis cannot be reached.
        """
        with self.broker.requests() as client:
            keys = sorted(str(key) for key in client.smembers(self.broker.key("open")))
        for key in keys:
            name = self._name(key)
            with self.broker.requests() as client:
                fields: Any = client.hgetall(name)
                if not fields or fields.get("state") == "ended":
                    client.srem(self.broker.key("open"), key)
                    continue
                state, since = fields.get("state", "queued"), fields.get("since", "")
                call = QueuedCall.model_validate_json(fields["call"])
                age_s = time.time() - float(since or 0)
                if state == "taken":
                    facts: Any = client.get(self._worker(fields["worker"]))
                    # A worker that cannot reach Redis gives up a call that it took, and may still be alive.
                    running = json.loads(facts or "{}").get("running", [key])
                    is_lost = facts is None or (age_s > ALIVE_S and key not in running)
                elif state == "waiting":
                    is_lost = not self._has_worker(client.get(self._chat(call)[0]))
                else:
                    # In a long queue, a call may wait for longer. But if the queue is empty, and no worker has taken the
                    # call, its message is lost.
                    is_lost = age_s > _LOST_S and not client.llen(self.queue(call.tag))
                if is_lost and self._again(keys=[name], args=[state, since, _now()]):
                    yield Described(call, "queued", None, int(fields.get("takes", 0)))

    def _has_worker(self, key: Any) -> bool:
        """Return whether a living worker has a call."""
        with self.broker.requests() as client:
            fields: Any = client.hgetall(self._name(str(key))) if key else {}
            return fields.get("state") == "taken" and bool(
                client.exists(self._worker(fields["worker"]))
            )

    def _chat(self, call: QueuedCall) -> list[str]:
        """Return the keys of a chat: the call that a worker makes, and those that wait for it."""
        return [self.broker.key(f"chat:{call.chat_id}"), self.broker.key(f"waiting:{call.chat_id}")]

    def _name(self, key: str) -> str:
        return self.broker.key(f"call:{key}")

    def _alias(self, call_id: str) -> str:
        return self.broker.key(f"key-of:{call_id}")

    def _events(self, key: str) -> str:
        return self.broker.key(f"events:{key}")

    def _worker(self, worker: str) -> str:
        return self.broker.key(f"worker:{worker}")


def _is_unsettled(call: QueuedCall, end: QueuedEnd) -> bool:
    """Return whether the end of a call is no answer to the same request later."""
    if end.error is not None:
        # If it were made again, a call that ends each worker would end further ones.
        return end.error.code != WORKERS_DIED
    # The call waits for an approval, which can be replaced or decided before the next request
    # (test_a_call_whose_approval_was_refused_is_made_when_it_is_requested_again).
    return end.manifest_id is None and call.decision is None


def _now() -> str:
    return f"{time.time():.3f}"
