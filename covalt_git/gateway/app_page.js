// Shows a page of a toolset in a host of MCP Apps (SEP-1865, version 2026-01-26).
//
// Such a page expects its data in window.__TOOL_DATA__ while it loads, but a host sends a result only after
// its document has loaded.  So the host loads this script.  It waits for the result, and then shows the page
// in a frame, with its data injected as by our own server.  The frame isolates the page, whatever the host
// does: it has the CSP of this document, which forbids navigation to other sites, and an opaque origin.  It
// cannot send messages to the host, which only accepts those of this window.  So its calls of tools pass through
// this script, which only forwards those of tools that the result names in PAGE_CALLS.
"use strict";
(() => {
  const VERSION = "2026-01-26";
  const PLAN = "covalt-git/render_plan";
  const PAGE_CALLS = "covalt-git/page_calls";
  const INITIALIZE = 1;
  const UNKNOWN_METHOD = -32601;
  const host = window.parent;
  const page = JSON.parse(document.getElementById("page").textContent);
  const status = document.getElementById("status");
  const theming = {};
  const openCalls = new Map(); // the page's number of each call, by the id of the request
  let lastRequest = INITIALIZE;
  let forwardsCalls = false; // whether the host says that it does
  let callable = {};
  let frame = null;

  // ---- the host ------------------------------------------------------------------------------

  // The host's origin is unknown.  The messages contain sizes, and calls that a page in another host could make too.
  const send = (message) => host.postMessage({ jsonrpc: "2.0", ...message }, "*");

  const requests = {
    "ping": () => ({}),
    "ui/resource-teardown": () => ({}),
  };

  const notifications = {
    "ui/notifications/tool-result": show,
    "ui/notifications/tool-cancelled": () => showText("The call was cancelled."),
    "ui/notifications/host-context-changed": adopt,
  };

  function receive({ data, source }) {
    if (frame !== null && source === frame.contentWindow) {
      return typeof data === "number" ? fit(data) : callTool(data ?? {});
    }
    if (source !== host || data?.jsonrpc !== "2.0") return;
    const { id, method, params } = data;
    if (method === undefined) {
      if (id === INITIALIZE) initialized(data);
      else answerCall(data);
    } else if (id === undefined) {
      if (Object.hasOwn(notifications, method)) notifications[method](params ?? {});
    } else if (Object.hasOwn(requests, method)) {
      send({ id, result: requests[method]() });
    } else {
      send({ id, error: { code: UNKNOWN_METHOD, message: "unknown method" } });
    }
  }

  function initialized({ result, error }) {
    if (!result) return showText(`The host rejected this page: ${error?.message ?? "no reason given"}`);
    forwardsCalls = result.hostCapabilities?.serverTools !== undefined;
    adopt(result.hostContext ?? {});
    send({ method: "ui/notifications/initialized", params: {} });
    fit(status.getBoundingClientRect().bottom);
  }

  // ---- calls of the page ---------------------------------------------------------------------

  function callTool({ call, tool, args }) {
    const refuse = (error) => toPage({ answered: call, error });
    if (typeof call !== "number") return;
    if (typeof tool !== "string" || !Object.hasOwn(callable, tool)) {
      return refuse(`this page may not call ${tool}: its renderer does not name it in calls`);
    }
    if (!forwardsCalls) return refuse("this host does not let pages call tools");
    if (typeof args !== "object" || args === null || Array.isArray(args)) {
      return refuse("the arguments must be an object");
    }
    const { name, arguments: fixed } = callable[tool];
    openCalls.set(++lastRequest, call);
    send({ id: lastRequest, method: "tools/call", params: { name, arguments: { ...args, ...fixed } } });
  }

  function answerCall({ id, result, error }) {
    if (!openCalls.has(id)) return;
    const call = openCalls.get(id);
    openCalls.delete(id);
    toPage(result ? { answered: call, result } : { answered: call, error: error?.message ?? "no reason given" });
  }

  function toPage(message) {
    frame.contentWindow.postMessage(message, "*");
  }

  // ---- theme and size ------------------------------------------------------------------------

  function adopt({ theme, styles }) {
    if (theme === "light" || theme === "dark") theming.theme = theme;
    if (styles?.variables) theming.variables = styles.variables;
    // A framed page prefers the color scheme of its frame.
    document.documentElement.style.colorScheme = theming.theme ?? "";
    if (frame !== null) toPage(theming);
  }

  function fit(height) {
    if (!Number.isFinite(height) || height < 0) return;
    const params = { width: Math.ceil(window.innerWidth), height: Math.ceil(height) };
    send({ method: "ui/notifications/size-changed", params });
  }

  // ---- the page ------------------------------------------------------------------------------

  function showText(text) {
    if (frame === null) {
      status.textContent = text;
      fit(status.getBoundingClientRect().bottom);
    }
  }

  function show(result) {
    if (frame !== null) return;
    const plan = result._meta?.[PLAN];
    const config = plan?.renderer === "html" && !plan.error ? plan.config : undefined;
    const [before, after] = page ?? ["", config?.content];
    if (!config || typeof after !== "string") return showText(plan?.error ?? textOf(result));
    callable = result._meta[PAGE_CALLS] ?? {};
    const mayCall = Object.keys(callable).length > 0;
    const start = `(${initFrame})(${literal(config.data ?? null)}, ${literal(theming)}, ${mayCall});`;
    frame = document.createElement("iframe");
    frame.title = document.title;
    frame.sandbox = "allow-scripts";
    frame.allow = "";
    frame.referrerPolicy = "no-referrer";
    frame.srcdoc = `${before}<script>${start}<\/script>${after}`;
    document.body.replaceChildren(frame);
  }

  function textOf({ content }) {
    const texts = (content ?? []).filter((block) => block.type === "text").map((block) => block.text);
    return texts.join("\n") || "The call returned no text.";
  }

  // Return a value as JavaScript without HTML's special characters; JSON.parse sets no prototype for a key.
  function literal(value) {
    const escape = (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
    return `JSON.parse(${JSON.stringify(JSON.stringify(value)).replace(/[<>&\u2028\u2029]/g, escape)})`;
  }

  // Runs in the frame before the page: injects its data and the host's theme, and reports its height.
  function initFrame(data, theming, mayCall) {
    const parent = window.parent;
    const root = document.documentElement;
    const waiting = new Map();
    let lastCall = 0;
    window.__TOOL_DATA__ = data;
    if (mayCall) window.__CALL_TOOL__ = callTool;

    function callTool(tool, args = {}) {
      return new Promise((resolve, reject) => {
        parent.postMessage({ call: ++lastCall, tool, args }, "*"); // raises an error for a value that is no data
        waiting.set(lastCall, { resolve, reject });
      });
    }

    function receive(message) {
      if (message.answered === undefined) return adopt(message);
      const { resolve, reject } = waiting.get(message.answered);
      waiting.delete(message.answered);
      if (message.result) resolve(message.result);
      else reject(new Error(message.error));
    }

    function adopt({ theme, variables }) {
      if (theme) root.dataset.theme = theme;
      for (const [name, value] of Object.entries(variables ?? {})) {
        if (name.startsWith("--") && typeof value === "string") root.style.setProperty(name, value);
      }
    }

    function measure() {
      const before = root.style.height;
      root.style.height = "max-content"; // otherwise it is at least as high as its frame and never shrinks
      const { height } = root.getBoundingClientRect();
      root.style.height = before;
      parent.postMessage(height, "*");
    }

    adopt(theming);
    addEventListener("message", ({ data, source }) => source === parent && receive(data));
    addEventListener("DOMContentLoaded", () => {
      const sizes = new ResizeObserver(measure);
      sizes.observe(root);
      if (document.body) sizes.observe(document.body);
    });
  }

  addEventListener("message", receive);
  send({
    id: INITIALIZE,
    method: "ui/initialize",
    params: {
      appInfo: { name: "covalt-git", version: document.documentElement.dataset.version },
      appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] },
      protocolVersion: VERSION,
    },
  });
})();
