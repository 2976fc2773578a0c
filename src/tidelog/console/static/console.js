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
