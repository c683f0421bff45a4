// The record of an evidence item: search the steps, and expand or collapse them. Without this script all steps are expanded.
"use strict";

(() => {
  const steps = (root) => [...root.querySelectorAll("[data-record] > li")];
  const card = (target) => target.closest(".item__record");

  function find(root, wanted) {
    const word = wanted.trim().toLowerCase();
    let found = 0;
    for (const step of steps(root)) {
      const hit = !word || step.textContent.toLowerCase().includes(word);
      step.hidden = !hit;
      if (hit) found += 1;
      if (hit && word) step.querySelectorAll("details").forEach((part) => { part.open = true; });
    }
    root.querySelector("[data-record-count]").textContent = word ? `${found} of ${steps(root).length} steps` : "";
  }

  function fold(root, button) {
    const open = button.textContent.startsWith("Expand");
    steps(root).forEach((step) => { step.querySelector("details").open = open; });
    button.textContent = open ? "Collapse all" : "Expand all";
  }

  const show = () => document.querySelectorAll("[data-record-tools]").forEach((tools) => { tools.hidden = false; });
  document.addEventListener("input", (event) => {
    if (event.target.matches("[data-record-search]")) find(card(event.target), event.target.value);
  });
  document.addEventListener("click", (event) => {
    if (event.target.matches("[data-record-fold]")) fold(card(event.target), event.target);
  });
  document.addEventListener("htmx:afterSettle", show);
  show();
})();
