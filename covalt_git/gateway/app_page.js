// Shows a page of a toolset in a host of MCP Apps (SEP-1865, version 2026-01-26).
//
// Such a page finds its data in window.__TOOL_DATA__ while it loads, and a host tells a result only to a
// page that has loaded.  So a host loads this script alone.  It waits for the result, and then shows the
// page in a frame, with its data as our own server injects it.  The frame is what holds the page, however
// careless the host is: it has the policy of this document, which lets no frame be led elsewhere, an
// origin of its own, and no say with the host, which listens to this window alone.
"use strict";
(() => {
  const VERSION = "2026-01-26";
  const PLAN = "covalt-git/render_plan";
  const INITIALIZE = 1;
  const UNKNOWN_METHOD = -32601;
  const host = window.parent;
  const given = JSON.parse(document.getElementById("page").textContent);
  const told = document.getElementById("told");
  const looks = {};
  let frame = null;

  // ---- the host ------------------------------------------------------------------------------

  // Nobody knows the host's origin, and what is said to it are sizes.
  const say = (message) => host.postMessage({ jsonrpc: "2.0", ...message }, "*");

  const answers = {
    "ping": () => ({}),
    "ui/resource-teardown": () => ({}),
  };

  const notices = {
    "ui/notifications/tool-result": show,
    "ui/notifications/tool-cancelled": () => tell("The call was cancelled."),
    "ui/notifications/host-context-changed": adopt,
  };

  function hear({ data, source }) {
    if (frame !== null && source === frame.contentWindow) return fit(data);
    if (source !== host || data?.jsonrpc !== "2.0") return;
    const { id, method, params } = data;
    if (method === undefined) {
      if (id === INITIALIZE) begin(data);
    } else if (id === undefined) {
      if (Object.hasOwn(notices, method)) notices[method](params ?? {});
    } else if (Object.hasOwn(answers, method)) {
      say({ id, result: answers[method]() });
    } else {
      say({ id, error: { code: UNKNOWN_METHOD, message: "unknown method" } });
    }
  }

  function begin({ result, error }) {
    if (!result) return tell(`The host refused this page: ${error?.message ?? "it gave no reason"}`);
    adopt(result.hostContext ?? {});
    say({ method: "ui/notifications/initialized", params: {} });
    fit(told.getBoundingClientRect().bottom);
  }

  // ---- theme and size ------------------------------------------------------------------------

  function adopt({ theme, styles }) {
    if (theme === "light" || theme === "dark") looks.theme = theme;
    if (styles?.variables) looks.variables = styles.variables;
    // What stands in a frame prefers the scheme that the frame has.
    document.documentElement.style.colorScheme = looks.theme ?? "";
    frame?.contentWindow.postMessage(looks, "*");
  }

  function fit(height) {
    if (!Number.isFinite(height) || height < 0) return;
    const params = { width: Math.ceil(window.innerWidth), height: Math.ceil(height) };
    say({ method: "ui/notifications/size-changed", params });
  }

  // ---- the page ------------------------------------------------------------------------------

  function tell(text) {
    if (frame === null) {
      told.textContent = text;
      fit(told.getBoundingClientRect().bottom);
    }
  }

  function show(result) {
    if (frame !== null) return;
    const plan = result._meta?.[PLAN];
    const config = plan?.renderer === "html" && !plan.error ? plan.config : undefined;
    const [before, behind] = given ?? ["", config?.content];
    if (!config || typeof behind !== "string") return tell(plan?.error ?? words(result));
    const start = `(${inside})(${literal(config.data ?? null)}, ${literal(looks)});`;
    frame = document.createElement("iframe");
    frame.title = document.title;
    frame.sandbox = "allow-scripts";
    frame.allow = "";
    frame.referrerPolicy = "no-referrer";
    frame.srcdoc = `${before}<script>${start}<\/script>${behind}`;
    document.body.replaceChildren(frame);
  }

  function words({ content }) {
    const texts = (content ?? []).filter((block) => block.type === "text").map((block) => block.text);
    return texts.join("\n") || "The call told nothing to show.";
  }

  // A value as JavaScript, without what means something to HTML; by JSON, so that no key of it sets a
  // prototype.
  function literal(value) {
    const escape = (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
    return `JSON.parse(${JSON.stringify(JSON.stringify(value)).replace(/[<>&\u2028\u2029]/g, escape)})`;
  }

  // Runs in the frame, before anything of the page: its data, the host's looks, and how high it is.
  function inside(data, looks) {
    const outside = window.parent;
    const root = document.documentElement;
    window.__TOOL_DATA__ = data;

    function adopt({ theme, variables }) {
      if (theme) root.dataset.theme = theme;
      for (const [name, value] of Object.entries(variables ?? {})) {
        if (name.startsWith("--") && typeof value === "string") root.style.setProperty(name, value);
      }
    }

    function measure() {
      const before = root.style.height;
      root.style.height = "max-content"; // else it is as high as its frame at least, and never shrinks
      const { height } = root.getBoundingClientRect();
      root.style.height = before;
      outside.postMessage(height, "*");
    }

    adopt(looks);
    addEventListener("message", ({ data, source }) => source === outside && adopt(data));
    addEventListener("DOMContentLoaded", () => {
      const sizes = new ResizeObserver(measure);
      sizes.observe(root);
      if (document.body) sizes.observe(document.body);
    });
  }

  addEventListener("message", hear);
  say({
    id: INITIALIZE,
    method: "ui/initialize",
    params: {
      appInfo: { name: "covalt-git", version: document.documentElement.dataset.version },
      appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] },
      protocolVersion: VERSION,
    },
  });
})();
