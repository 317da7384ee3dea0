"""JavaScript scripts, by quickjs-ng: an interpreter in C that runs in this process, which is in the sandbox.

JavaScript calls no function of Python: the interpreter refuses that while it has a time limit.  A call of a tool
returns a promise and is put in a queue in JavaScript, which is read between the jobs of the interpreter.  The function
that this module calls is in no variable that a script can reach, and uses no method that a script can replace.
"""

from __future__ import annotations

import contextlib
import json
import re
import resource
import time
from typing import TYPE_CHECKING, Any, NoReturn

from covalt_git.runtime.processes.script_values import MOST_PATH, STUCK, NotJsonDataError, json_data

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.runtime.processes.script_process import Script

_STACK = 1 << 19
_CHECK_S = 1.0
_JOBS = 256
"""How many jobs run before the queue is read, so that a script cannot fill it for ever."""

_LINES_BEFORE = 1000
"""Empty lines before the script: its frames have higher line numbers than those of the code below."""

_PRELUDE = '"use strict";' + "\n" * _LINES_BEFORE

_PLACE = re.compile(r"<input>:(\d+):(\d+)")
_MOST_INTEGER = 2**53
_NEARLY = 0.6

_HOST = r"""
(function () {
"use strict";
const {stringify, parse} = JSON;
const {apply, construct, defineProperty, deleteProperty} = Reflect;
const isArray = Array.isArray, imul = Math.imul, now = Date.now;
const text = String, slice = text.prototype.slice, trim = text.prototype.trimEnd;
const lastIndexOf = text.prototype.lastIndexOf, test = RegExp.prototype.exec;
const Failure = Error, Mistake = TypeError, Syntax = SyntaxError, P = Promise;
const then = P.prototype.then;
const AsyncFunction = (async function () {}).constructor;
const faults = new WeakMap(), faultOf = faults.get, addFault = faults.set;
const declaration = /^\s*(?:\{|function\b|class\b|async\s+function\b)/;
const newLine = /^[^\S\n]*(?:\/\/[^\n]*)?\n(?:\s|\/\/[^\n]*\n)*[\w$"']/;
const bare = (members) => ({__proto__: null, ...members});
const define = (object, name, value) =>
  defineProperty(object, name, bare({value, writable: true, configurable: true, enumerable: false}));

let queue = "", ended = "", exceeded = "", tickets = 0, outputLeft = 0, callsLeft = 0, longest = 0;
const waiting = bare({});
const put = (item) => { queue += queue ? "," + item : item; };
const exceed = (code) => { exceeded = exceeded || code; throw new Failure(code); };
const stackOf = () => {
  try { const stack = new Failure().stack; return typeof stack === "string" ? stack : ""; } catch { return ""; }
};

const hidden = bare({
  then: 1, toJSON: 1, constructor: 1, prototype: 1, __proto__: 1, toString: 1, valueOf: 1, toLocaleString: 1,
});
hidden["__proto__"] = 1;
const part = (path) => new Proxy(() => {}, bare({
  get: (_, name) =>
    typeof name === "symbol" || hidden[name] || path.length + name.length > longest ? undefined : part(path ? path + "." + name : name),
  apply: (_, self, list) => new P((resolve, reject) => {
    if (!path) throw new Mistake("tools is not a function");
    const given = list.length ? list[0] : bare({});
    if (list.length > 1 || typeof given !== "object" || given === null || isArray(given))
      throw new Mistake("tools." + path + " takes its arguments as one object");
    const json = stringify(given);
    if (typeof json !== "string" || json[0] !== "{")
      throw new Mistake("tools." + path + " takes its arguments as one object");
    if (--callsLeft < 0) exceed("script_calls");
    const ticket = ++tickets;
    waiting[ticket] = bare({resolve, reject});
    put('{"ticket":' + ticket + ',"path":' + stringify(path) + ',"arguments":' + json +
        ',"stack":' + stringify(stackOf()) + "}");
  }),
  has: () => false, ownKeys: () => [], getOwnPropertyDescriptor: () => undefined, getPrototypeOf: () => null,
  set: () => false, defineProperty: () => false, deleteProperty: () => false, setPrototypeOf: () => false,
  preventExtensions: () => false,
}));

const shown = (value) => {
  if (typeof value === "string") return value;
  if (typeof value === "object" && value !== null) {
    if (value instanceof Failure) return described(value).message;
    try { return text(stringify(value)); } catch { return "[object]"; }
  }
  return typeof value === "function" ? "[function]" : text(value);
};
const console = {};
for (const [name, level] of [["log", "info"], ["info", "info"], ["debug", "debug"], ["trace", "debug"],
                             ["warn", "warn"], ["error", "error"]])
  define(console, name, (...values) => {
    let line = "";
    for (let at = 0; at < values.length; at++) line += (at ? " " : "") + shown(values[at]);
    outputLeft -= line.length + 1;
    if (outputLeft < 0) exceed("script_output");
    put('{"level":"' + level + '","message":' + stringify(line) + "}");
  });

const described = (error) => {
  try {
    if (typeof error !== "object" || error === null) return bare({message: text(error), stack: ""});
    const {name, message, stack} = error;
    if (typeof message !== "string") return bare({message: shown(stringify(error)), stack: ""});
    return bare({
      message: typeof name === "string" ? name + ": " + message : message,
      stack: typeof stack === "string" ? stack : "",
    });
  } catch {
    return bare({message: "an error whose text cannot be read", stack: ""});
  }
};
const failed = (code, error) => {
  ended = '{"code":"script_raised"}';  // for want of memory for the rest
  const {message, stack} = described(error);
  const fault = typeof error === "object" && error !== null ? apply(faultOf, faults, [error]) : undefined;
  ended = '{"code":' + stringify(code) + ',"message":' + stringify(message) + ',"stack":' + stringify(stack) +
    ',"fault":' + (fault || 0) + "}";
};
const returned = (value) => {
  let json;
  try { json = value === undefined ? "null" : stringify(value); } catch (error) { return failed("script_value", error); }
  if (typeof json !== "string") return failed("script_value", "a " + typeof value + " is not JSON data");
  ended = '{"value":' + json + "}";
};

const compiled = (source, before) => new AsyncFunction("tools", "args", "console", before + source);
const compiles = (source) => { try { compiled(source, '"use strict";'); return true; } catch { return false; } };
// The value of a last statement that is an expression, as in Python.  Only after a `;` that is a token, or a `}` and a new
// line that begins with a word: there a statement surely begins.  Elsewhere the lines before could continue in it.
const withValue = (source) => {
  let end = apply(trim, source, []);
  while (end && end[end.length - 1] === ";") end = apply(trim, apply(slice, end, [0, -1]), []);
  let at = end.length;
  for (let tries = 0; tries < 20 && at >= 0; tries++) {
    const semicolon = at > 0 ? apply(lastIndexOf, end, [";", at - 1]) : -1;
    const brace = at > 0 ? apply(lastIndexOf, end, ["}", at - 1]) : -1;
    at = brace > semicolon ? brace : semicolon;
    const head = apply(slice, end, [0, at + 1]), tail = apply(slice, end, [at + 1]);
    const isToken = at < 0 || (compiles(head) && !compiles(apply(slice, head, [0, -1]) + "@"));
    const begins = at < 0 || at === semicolon || apply(test, newLine, [tail]);
    if (isToken && begins && !apply(test, declaration, [tail]) && compiles("return (" + tail + "\n)"))
      return head + (at < 0 ? "" : ";") + "return (" + tail + "\n)";
  }
  return source;
};

const fixTime = (started) => {
  const Real = Date;
  const fixed = new Proxy(Real, bare({
    construct: (target, list, from) => construct(target, list.length ? list : [started], from === fixed ? target : from),
    apply: () => text(new Real(started)),
  }));
  define(Real, "now", () => started);
  define(Real.prototype, "constructor", fixed);
  define(globalThis, "Date", fixed);
  define(globalThis, "performance", {now: () => 0, timeOrigin: started});
};
const fixRandom = (seed) => {
  let state = seed | 0;
  const next = () => {  // mulberry32
    state = (state + 0x6D2B79F5) | 0;
    let mixed = imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
  define(Math, "random", () => ((next() >>> 5) * 67108864 + (next() >>> 6)) / 9007199254740992);
};

return (what, first, second, third) => {
  switch (what) {
    case "limits": outputLeft = first; callsLeft = second; longest = third; return;
    case "fix": {
      fixTime(first);
      fixRandom(second);
      // What depends on the memory's state or on other threads, or is no part of the language.
      const removed = ["WeakRef", "FinalizationRegistry", "SharedArrayBuffer", "Atomics", "navigator"];
      for (let at = 0; at < removed.length; at++) deleteProperty(globalThis, removed[at]);
      define(globalThis, "console", console);
      return;
    }
    case "begin": {
      let run;
      try {
        compiled(first, third);
        run = compiled(withValue(first), third);
      } catch (error) { failed("script_syntax", error); return; }
      const main = run(part(""), parse(second), console);
      apply(then, main, [returned, (error) => failed("script_raised", error)]);
      return;
    }
    // As JSON twice: the library cannot return a text that was put together and never copied.
    case "check": {
      try { compiled(first, second); } catch (error) { failed("script_syntax", error); }
      return;
    }
    case "queue": { const items = "[" + queue + "]"; queue = ""; return stringify(items); }
    case "ended": return stringify(ended);
    case "exceeded": return stringify(exceeded);
    case "resolve": {
      const {resolve} = waiting[first];
      delete waiting[first];
      resolve(parse(second));
      return;
    }
    case "reject": {
      const {reject} = waiting[first];
      delete waiting[first];
      const error = third ? new Failure(second) : new Mistake(second);
      if (third) {
        define(error, "code", third);
        apply(addFault, faults, [error, first]);
      }
      reject(error);
    }
  }
};
})()
"""


class JavaScriptScript:
    """A script in JavaScript that runs until it needs a reply."""

    def __init__(self, script: Script) -> None:
        # Not the package `quickjs`, which starts a thread when it is imported.
        import _quickjs  # noqa: PLC0415 - in the sandbox

        self._script = script
        self._failure = (_quickjs.JSException, _quickjs.StackOverflow)
        self._context = _quickjs.Context()
        self._context.set_memory_limit(script.memory_mb << 20)
        self._context.set_max_stack_size(_STACK)
        self._host = self._context.eval(_HOST)
        self._used_s = 0.0
        self._begun_kb = _peak_kb()
        self._tickets: dict[int, int] = {}
        self._lines: dict[int, int | None] = {}
        self._faults: dict[int, dict[str, str]] = {}

    def begin(self, text: str, args: dict[str, Any], started_ms: int, seed: int) -> None:
        """Run the script until it needs a reply or has ended."""
        # As floats: the library cuts integers to 32 bits.
        left = float(self._script.output_left), float(self._script.calls_left)
        self._timed(self._host, "limits", *left, MOST_PATH)
        self._timed(self._host, "fix", float(started_ms), float(seed & 0xFFFFFFFF))
        self._timed(self._host, "begin", _text(text), json.dumps(args), _PRELUDE)
        self._run()

    def check(self, text: str) -> None:
        """Report the first error of the syntax; no statement of the script runs."""
        self._timed(self._host, "check", _text(text), _PRELUDE)
        if end := self._text_of("ended"):
            self._ended(json.loads(end))

    def settle(self, index: int, value: Any, error: dict[str, str] | None) -> None:
        """Pass the reply to a call in, and run on."""
        ticket = self._tickets.pop(index)
        if error is None:
            self._timed(self._host, "resolve", ticket, json.dumps(value))
        else:
            self._faults[ticket] = error
            self._timed(self._host, "reject", ticket, error["message"], error["code"])
        self._run()

    def _run(self) -> None:
        jobs = 0
        while self._timed(self._context.execute_pending_job) or self._read():
            jobs += 1
            if jobs % _JOBS == 0:
                self._read()
        if end := self._text_of("ended"):
            self._ended(json.loads(end, parse_int=_integer))
        elif not self._script.is_waiting:
            self._script.end_by("script_stuck", STUCK)

    def _read(self) -> bool:
        """Report what is in the queue; return whether a promise was rejected meanwhile."""
        is_rejected = False
        for item in json.loads(self._text_of("queue"), parse_int=_integer):
            if "level" in item:
                self._script.log(item["level"], item["message"])
                continue
            path, ticket, line = item["path"], item["ticket"], _line(item["stack"])
            try:
                arguments = json_data(item["arguments"], f"an argument of tools.{path}")
            except NotJsonDataError as error:
                is_rejected = True
                self._timed(self._host, "reject", ticket, str(error), "")
                continue
            self._lines[ticket] = line
            self._tickets[self._script.call(path, arguments, line)] = ticket
        if code := self._text_of("exceeded"):
            self._script.fail(code)
        return is_rejected

    def _text_of(self, what: str) -> str:
        text: str = json.loads(self._timed(self._host, what))
        return text

    def _timed(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of the interpreter within the time that the script has left."""
        left_s = self._script.time_s - self._used_s
        if left_s <= 0:
            self._script.fail("script_time")
        begun = time.process_time()
        self._context.set_time_limit(left_s)
        try:
            return function(*args)
        except self._failure as error:
            self._stopped(str(error))
        finally:
            self._used_s += time.process_time() - begun

    def _stopped(self, message: str) -> NoReturn:
        """End the script: the interpreter ended a job of it, and no script can catch that."""
        line = _line(message)
        if "interrupted" in message:
            # A script can catch the error of another limit, and then run until this one.
            self._context.set_time_limit(_CHECK_S)
            with contextlib.suppress(*self._failure):
                if code := json.loads(self._host("exceeded")):
                    self._script.fail(code, line=line)
            self._script.fail("script_time", line=line)
        if "out of memory" in message or self._was_full():
            self._script.fail("script_memory", line=line)
        self._script.fail("script_raised", message.partition("\n")[0], line)

    def _was_full(self) -> bool:
        """Return whether the script has used about as much memory as it may."""
        # Where even the error of too little memory does not fit, the interpreter throws null instead.  The memory may be
        # free again by now, so the most that this process ever used counts.
        return _peak_kb() - self._begun_kb > _NEARLY * (self._script.memory_mb << 10)

    def _ended(self, end: dict[str, Any]) -> None:
        if "value" in end:
            self._script.end(end["value"])
            return
        message, line = end.get("message", ""), _line(end.get("stack", ""))
        ticket = end.get("fault")
        if ticket in self._faults:
            fault = self._faults[ticket]
            self._script.end_by(fault["code"], fault["message"], self._lines[ticket])
        elif "out of memory" in message or (message in {"", "null"} and self._was_full()):
            self._script.fail("script_memory", line=line)
        elif end["code"] == "script_syntax":
            col = _place(end.get("stack", ""))[1]
            self._script.end_by("script_syntax", message.removeprefix("SyntaxError: "), line, col)
        else:
            self._script.end_by(end["code"], message, line)


def _peak_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _integer(digits: str) -> int | float:
    """Return an integer; beyond 2^53 a number, as all are in JavaScript."""
    number = float(digits)
    return int(number) if abs(number) < _MOST_INTEGER else number


def _text(source: str) -> str:
    """Return a source that is UTF-8, as the library needs it."""
    return source.encode("utf-8", "replace").decode()


def _line(stack: str) -> int | None:
    return _place(stack)[0]


def _place(stack: str) -> tuple[int, int] | tuple[None, None]:
    """Return the line and column of the script that are nearest to the top of a stack."""
    for number, col in _PLACE.findall(stack[:10_000]):
        line = int(number) - _LINES_BEFORE - 2
        if line > 0:
            return line, int(col)
    return None, None
