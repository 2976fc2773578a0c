// The console's only script: the theme switch, keys, and pages that refresh themselves.
"use strict";

(() => {
  const root = document.documentElement;

  function isDark() {
    if (root.dataset.theme) return root.dataset.theme === "dark";
    return window.matchMedia("(prefers-color-scheme: dark)").matches;
  }

  function label(button) {
    const next = isDark() ? "light" : "dark";
    button.setAttribute("aria-label", `Switch to the ${next} theme`);
    button.title = `Switch to the ${next} theme`;
  }

  for (const button of document.querySelectorAll("[data-theme-switch]")) {
    label(button);
    button.hidden = false;
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      document.cookie = `theme=${root.dataset.theme}; path=/; max-age=31536000; SameSite=Lax`;
      document.querySelectorAll("[data-theme-switch]").forEach(label);
    });
  }

  // Texts to copy. Browsers offer the clipboard to pages of TLS and of this machine only.
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = !navigator.clipboard;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "Copied";
    });
  }

  // "/" goes to the search field of the page, as on many sites; Escape leaves it.
  document.addEventListener("keydown", (event) => {
    const target = event.target;
    const isTyping = target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement
      || target instanceof HTMLSelectElement;
    if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
      const search = document.querySelector("input[type=search]");
      if (search) {
        event.preventDefault();
        search.focus();
        search.select();
      }
    } else if (event.key === "Escape" && target instanceof HTMLInputElement) {
      target.blur();
    }
  });

  // A form whose fields depend on a choice: fields with data-for are shown for that choice only.
  for (const select of document.querySelectorAll("select[data-chooses]")) {
    const update = () => {
      for (const each of document.querySelectorAll("[data-for]")) {
        each.hidden = !each.dataset.for.split(" ").includes(select.value);
      }
    };
    select.addEventListener("change", update);
    update();
  }

  // "Search on" is a link to the next step of a search. With this script it takes one step after another, shows how
  // far it is, and ends with the next match, at the end of the topic, or with "Stop".
  const REST_MS = 100;

  async function searchOn(link) {
    const stop = document.createElement("button");
    stop.type = "button";
    stop.className = "small";
    stop.textContent = "Stop";
    const stopping = new AbortController();
    stop.addEventListener("click", () => stopping.abort());
    link.replaceWith(stop);
    stop.focus();
    let next = link;
    try {
      while (next && !stopping.signal.aborted) {
        const response = await fetch(next.href, { headers: { Accept: "text/html" }, signal: stopping.signal });
        const page = new DOMParser().parseFromString(await response.text(), "text/html");
        const fresh = page.getElementById("found");
        if (!response.ok || response.redirected || !fresh) throw new Error("not a page of results");
        document.getElementById("progress").textContent = page.getElementById("progress").textContent;
        next = page.querySelector("[data-search-on]");
        if (addFound(fresh)) break;
        await new Promise((resolve) => { window.setTimeout(resolve, REST_MS); });
      }
    } catch {
      if (!stopping.signal.aborted) {
        // The page of this step says what is wrong.
        window.location.assign(next.href);
        return;
      }
    }
    if (next) stop.replaceWith(next); else stop.remove();
    const target = next || document.getElementById("content");
    target.focus();
  }

  // The records of another step below those that are shown. Returns whether there are any.
  function addFound(fresh) {
    const rows = fresh.querySelectorAll(".message");
    const shown = document.querySelector("#found .messages");
    if (shown) {
      shown.append(...rows);
    } else {
      document.querySelector("#found .empty").replaceWith(...fresh.querySelectorAll(".message-head, .messages, .empty"));
    }
    const total = document.querySelectorAll("#found .message").length;
    document.querySelector("#found .pager span").textContent = `${total.toLocaleString("en")} record${total === 1 ? "" : "s"}`;
    return rows.length > 0;
  }

  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("[data-search-on]") : null;
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      searchOn(link);
    }
  });

  // Live messages: server-sent events put rows on top until "Pause"; "Resume" goes on where it was.
  const ROWS_SHOWN_MAX = 200;
  const tail = document.querySelector("[data-tail]");
  if (tail) {
    const rows = tail.querySelector("[data-tail-rows]");
    const rate = tail.querySelector("[data-tail-rate]");
    const button = tail.querySelector("[data-tail-switch]");
    let source = null;
    let cursor = "";

    const stop = (sentence) => {
      source.close();
      source = null;
      rate.textContent = sentence;
      button.textContent = "Resume";
    };

    const follow = () => {
      source = new EventSource(tail.dataset.tail + (cursor ? (tail.dataset.tail.includes("?") ? "&" : "?") + "from=" + cursor : ""));
      button.textContent = "Pause";
      source.addEventListener("rows", (event) => {
        cursor = event.lastEventId;
        const made = document.createElement("template");
        made.innerHTML = JSON.parse(event.data);
        rows.prepend(made.content);
        for (const old of [...rows.children].slice(ROWS_SHOWN_MAX)) old.remove();
        tail.querySelector("[data-tail-empty]").hidden = true;
      });
      source.addEventListener("rate", (event) => {
        cursor = event.lastEventId;
        rate.textContent = JSON.parse(event.data);
      });
      source.addEventListener("end", (event) => stop(JSON.parse(event.data)));
      source.onerror = () => {
        if (source.readyState === EventSource.CLOSED) stop("The console does not answer.");
        else rate.textContent = "Connecting again";
      };
    };

    button.hidden = false;
    button.addEventListener("click", () => { if (source) stop("Paused"); else follow(); });
    follow();
  }

  // Sections marked data-live are replaced by newer ones every few seconds while the page is visible.
  const seconds = Number(document.body.dataset.refresh || 0);
  if (seconds > 0) {
    window.setInterval(async () => {
      const isBusy = document.activeElement && document.activeElement.closest("[data-live]");
      if (document.hidden || isBusy) return;
      try {
        const response = await fetch(window.location.href, { headers: { Accept: "text/html" } });
        if (!response.ok || response.redirected) return;
        const page = new DOMParser().parseFromString(await response.text(), "text/html");
        for (const old of document.querySelectorAll("[data-live]")) {
          const fresh = page.getElementById(old.id);
          if (fresh) old.replaceWith(fresh);
        }
      } catch {
        // The console or the network is away; the next turn tries again.
      }
    }, seconds * 1000);
  }
})();
