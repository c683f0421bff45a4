// The rating screen: single keys, the guide, what is missing, and what could not be saved. Without it the form still works.
"use strict";

const $ = (selector, root = document) => root.querySelector(selector);
const KEYS_OFF = "wetbench-keys-off";
const stored = (action) => { try { return action(localStorage); } catch { return null; } }; // storage may be forbidden
let keysOn = stored((s) => s.getItem(KEYS_OFF)) !== "yes";

// ---------------------------------------------------------------- keys
const typing = (target) => target.closest("textarea, select, [contenteditable], input:not([type=radio], [type=checkbox])");
const control = (target) => target.closest("a, button, summary, input[type=checkbox]");

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.isComposing) return;
  if (typing(event.target) || $("dialog[open]")) return;
  const form = $("#verdict");
  if (event.key === "Enter") {
    if (!form || control(event.target)) return;
    event.preventDefault();
    form.requestSubmit($(".verdict__save", form));
  } else if (keysOn && event.key === "?") {
    event.preventDefault();
    $("#guide").showModal();
  } else if (keysOn && form && /^[a-z0-9]$/i.test(event.key)) {
    const choice = $(`input[data-key="${event.key.toLowerCase()}"]`, form);
    if (!choice) return;
    event.preventDefault();
    choice.checked = true;
    choice.dispatchEvent(new Event("change", { bubbles: true }));
  }
});

// ---------------------------------------------------------------- guide
document.addEventListener("click", (event) => {
  if (event.target.closest("[data-opens=guide]") && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    $("#guide").showModal();
  }
});
const keysSwitch = $("#keys-on");
if (keysSwitch) {
  keysSwitch.checked = keysOn;
  keysSwitch.addEventListener("change", () => {
    keysOn = keysSwitch.checked;
    stored((s) => s.setItem(KEYS_OFF, keysOn ? "no" : "yes"));
  });
}

// ---------------------------------------------------------------- what is missing
function say(group, missing) {
  const line = $(".verdict__error", group);
  line.textContent = missing ? line.dataset.missing : "";
  if (missing) group.setAttribute("aria-invalid", "true");
  else group.removeAttribute("aria-invalid");
}
document.addEventListener("submit", (event) => {
  if (event.target.id !== "verdict") return;
  const groups = [...event.target.querySelectorAll("fieldset")];
  groups.forEach((group) => say(group, !$("input:checked", group)));
  const first = groups.find((group) => !$("input:checked", group));
  if (!first) return;
  event.preventDefault();
  event.stopImmediatePropagation(); // nor does htmx send it
  $("input", first).focus();
}, true);
document.addEventListener("change", (event) => {
  const group = event.target.closest("#verdict fieldset");
  if (group) say(group, false);
});

// ---------------------------------------------------------------- saving
const unsaved = (why) => {
  const bar = $("#unsaved");
  if (!bar) return;
  $("#unsaved-why").textContent = why;
  bar.hidden = false;
};
document.addEventListener("htmx:configRequest", (event) => {
  // Signing in again in another tab gives a new token; the form may still hold the old one.
  const token = document.cookie.match(/(?:^|; )wb_csrf=([^;]+)/);
  if (token && event.detail.verb === "post") event.detail.parameters.csrfmiddlewaretoken = token[1];
});
document.addEventListener("htmx:beforeRequest", () => { const bar = $("#unsaved"); if (bar) bar.hidden = true; });
document.addEventListener("htmx:sendError", () => unsaved("The server cannot be reached. Your choice is kept here."));
document.addEventListener("htmx:timeout", () => unsaved("The server did not answer in time. Your choice is kept here."));
document.addEventListener("htmx:responseError", (event) => {
  const status = event.detail.xhr.status;
  unsaved(status === 401 || status === 403
    ? "You are signed out. Open your personal link in another tab, then press Retry. Your choice is kept here."
    : `The server could not take it (error ${status}). Your choice is kept here.`);
});
document.addEventListener("htmx:afterSettle", (event) => {
  if (!event.detail.elt || !event.detail.elt.closest("#rating-card")) return;
  const wrong = $("[aria-invalid=true] input");
  if (wrong) { wrong.focus(); return; }
  window.scrollTo(0, 0);
  const question = $("#rating-card h1");
  if (question) question.focus({ preventScroll: true });
});
