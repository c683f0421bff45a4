// The rating page: keyboard shortcuts, the guide, missing fields, times in the viewer's time zone. The form works without this script.
"use strict";

const $ = (selector, root = document) => root.querySelector(selector);
const KEYS_OFF = "wetbench-keys-off"; // used only if the server could not store the choice
const withStorage = (action) => { try { return action(localStorage); } catch { return null; } }; // storage may be forbidden
const cookie = (name) => (document.cookie.match(new RegExp(`(?:^|; )(?:__Host-)?${name}=([^;]+)`)) || [])[1] || "";
const keysSwitch = $("#keys-on");
if (keysSwitch && withStorage((s) => s.getItem(KEYS_OFF)) === "yes") keysSwitch.checked = false;
const keysOn = () => !keysSwitch || keysSwitch.checked;

// ---------------------------------------------------------------- keys
const typing = (target) => target.closest("textarea, select, [contenteditable], input:not([type=radio], [type=checkbox])");
const control = (target) => target.closest("a, button, summary, input[type=checkbox]");
const marks = () => [...document.querySelectorAll("input[name=marks]")].filter((box) => box.checkVisibility());

function choose(key) {
  const choice = $(`#verdict input[data-key="${key}"]`);
  if (!choice) return false;
  if (!choice.checked) {
    choice.checked = true;
    choice.dispatchEvent(new Event("change", { bubbles: true }));
  }
  return true;
}
function move(step) {
  const rows = marks();
  if (!rows.length) return false;
  const here = rows.indexOf(document.activeElement);
  const next = here < 0 ? (step > 0 ? 0 : rows.length - 1) : (here + step + rows.length) % rows.length;
  rows[next].focus({ focusVisible: true });
  rows[next].scrollIntoView({ block: "nearest" });
  return true;
}
// ---------------------------------------------------------------- calculator
// Loaded when it is first opened, or if it was used on this item before the page was reloaded.
const calculator = $("#calculator");
function loadCalculator() {
  const style = document.createElement("link");
  Object.assign(style, { rel: "stylesheet", href: calculator.dataset.style });
  const styled = new Promise((resolve) => {
    if ($(`link[href="${calculator.dataset.style}"]`)) { resolve(); return; }
    ["load", "error"].forEach((name) => style.addEventListener(name, resolve));
    document.head.append(style);
  });
  return Promise.all([import("./calculator.js"), styled]).then(([script]) => script);
}
function openCalculator() {
  if (!calculator) return false;
  loadCalculator().then((script) => script.open(), showNotLoaded);
  return true;
}
function showNotLoaded() {
  const notice = $("#calculator-notice") || document.createElement("p");
  Object.assign(notice, { id: "calculator-notice", className: "banner banner--warn break" });
  notice.setAttribute("role", "status");
  $("#rating-card").before(notice);
  notice.textContent = "The calculator could not be loaded. Check the connection, then reload the page; your choices are kept.";
}
if (calculator && withStorage(() => sessionStorage.getItem("wetbench-calculator"))) loadCalculator().catch(() => null);
document.addEventListener("click", (event) => { if (event.target.closest("[data-opens=calculator]")) openCalculator(); });
// Here and not in calculator.js, because an answer may be sent before that script has been loaded again after a reload.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!calculator || form.id !== "verdict" || !form.dataset.place) return;
  const use = JSON.parse(calculator.dataset.use || withStorage(() => sessionStorage.getItem("wetbench-calculator")) || "{}");
  if (use.item !== form.dataset.place.split(" ")[0]) return;
  const field = form.elements.calculations || form.appendChild(Object.assign(document.createElement("input"), { type: "hidden", name: "calculations" }));
  field.value = use.count;
}, true);
document.querySelectorAll("[data-opens=calculator]").forEach((button) => { button.hidden = false; });

let opened = null; // the panel most recently opened by a key
let cameFrom = null; // the element focused before a key opened a panel: Escape returns the focus to it
function open(panel, inside) {
  const details = $(panel);
  if (!details) return false;
  cameFrom = document.activeElement.closest(".more, body") === document.body ? document.activeElement : null;
  details.open = true;
  opened = details;
  $(inside, details).focus({ focusVisible: true });
  return true;
}
const COMMANDS = {
  j: () => move(1),
  k: () => move(-1),
  m: () => { const box = document.activeElement; if (!box.matches("input[name=marks]")) return false; box.click(); return true; },
  c: () => open("#note", "textarea"),
  x: () => open("#cannot-judge", "button"),
  u: () => { const link = $("#previous"); if (link) link.click(); return Boolean(link); },
  "=": openCalculator,
  "?": () => { const guide = $("#guide"); if (guide) guide.showModal(); return Boolean(guide); },
};
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") { closePanel(event); return; }
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.isComposing) return;
  if (typing(event.target) || $("dialog[open]")) return;
  if (event.key === "Enter") {
    const save = $("#verdict .verdict__save");
    if (!save || (control(event.target) && event.target.name !== "marks")) return;
    event.preventDefault();
    save.click();
  } else if (keysOn() && event.key.length === 1) {
    const key = event.key.toLowerCase();
    if (COMMANDS[key] ? COMMANDS[key]() : /^[a-z0-9]$/.test(key) && choose(key)) event.preventDefault();
  }
});
function closePanel(event) {
  const panel = $(".more[open]");
  if (!panel || $("dialog[open]")) return;
  event.preventDefault();
  panel.open = false;
  const back = cameFrom === document.body ? $("#rating-card h1") : cameFrom;
  (back && back.isConnected ? back : $("summary", panel)).focus();
  cameFrom = null;
}
document.addEventListener("click", (event) => {
  const panel = $(".more[open]");
  if (panel && !panel.contains(event.target)) panel.open = false;
});

// ---------------------------------------------------------------- guide
document.addEventListener("click", (event) => {
  if (event.target.closest("[data-opens=guide]") && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    $("#guide").showModal();
  }
});
if (keysSwitch) keysSwitch.addEventListener("change", async () => {
  const body = new URLSearchParams(keysSwitch.checked ? { single_keys: "on" } : {});
  const headers = { "X-CSRFToken": cookie("wb_csrf"), "X-Requested-With": "fetch" };
  const saved = await fetch(keysSwitch.dataset.url, { method: "POST", body, headers }).then((answer) => answer.ok, () => false);
  if (saved) withStorage((s) => s.removeItem(KEYS_OFF));
  else withStorage((s) => s.setItem(KEYS_OFF, keysSwitch.checked ? "no" : "yes"));
});

// ---------------------------------------------------------------- missing fields
function showMissing(group, missing) {
  const line = $(".verdict__error", group);
  line.textContent = missing ? line.dataset.missing : "";
  if (missing) group.setAttribute("aria-invalid", "true");
  else group.removeAttribute("aria-invalid");
}
document.addEventListener("submit", (event) => {
  if (event.target.id !== "verdict" || (event.submitter && event.submitter.name === "cannot_judge")) return;
  const groups = [...event.target.querySelectorAll("fieldset")];
  groups.forEach((group) => showMissing(group, !$("input:checked", group)));
  const first = groups.find((group) => !$("input:checked", group));
  if (!first) return;
  event.preventDefault();
  event.stopImmediatePropagation(); // otherwise htmx would still send it
  $("input", first).focus();
}, true);
document.addEventListener("change", (event) => {
  const group = event.target.closest("#verdict fieldset");
  if (group) showMissing(group, false);
});

// ---------------------------------------------------------------- times, and focus after a swap
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
function localTimes() {
  document.querySelectorAll("time[data-clock]").forEach((time) => { time.textContent = CLOCK.format(new Date(time.dateTime)); });
}
localTimes();
document.addEventListener("htmx:afterSettle", (event) => {
  localTimes();
  if (!event.detail.elt || !event.detail.elt.closest("#rating-card")) return;
  const wrong = $("#verdict [aria-invalid=true] input");
  if (wrong) { wrong.focus(); return; }
  window.scrollTo(0, 0);
  if (opened && opened.isConnected && opened.contains(document.activeElement)) return; // the rater already opened a panel by keyboard: do not move the focus
  const question = $("#rating-card h1");
  if (question) question.focus({ preventScroll: true });
});
