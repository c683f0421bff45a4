// Active time on an item: seconds with the tab visible and input in the last minute, seconds to the first verdict, changed
// verdicts, keyboard or pointer. The times survive a reload of the page; the answer itself is not stored here.
"use strict";

const IDLE = 60_000, BREAK_AFTER = 30 * 60, STORE = "wetbench-pace";
const session = (action) => { try { return action(sessionStorage); } catch { return null; } };
const fresh = (place) => ({ place, active: 0, first: null, changes: 0, keys: false, pointer: false });
let pace = JSON.parse(session((s) => s.getItem(STORE)) || "{}");
let last = performance.now(), acted = last, means = "keys", chosen = {}, sinceBreak = Number(session((s) => s.getItem("wetbench-since-break")) || 0);

function takeUp() {
  const form = $("#verdict[data-place]");
  if (!form) return;
  if (pace.place !== form.dataset.place) pace = fresh(form.dataset.place);
  chosen = {};
  form.querySelectorAll("input[type=radio]:checked").forEach((input) => { chosen[input.name] = input.value; });
}
function count() {
  const now = performance.now();
  const seconds = Math.min(now, acted + IDLE) - last;
  last = now;
  if (document.hidden || seconds <= 0) return;
  pace.active += seconds / 1000;
  sinceBreak += seconds / 1000;
}
function keep() {
  count();
  session((s) => { s.setItem(STORE, JSON.stringify(pace)); s.setItem("wetbench-since-break", String(sinceBreak)); });
  const reminder = $("#break");
  if (reminder && sinceBreak >= BREAK_AFTER && !pace.pausedAsked) { reminder.hidden = false; pace.pausedAsked = true; }
}
const act = (kind) => () => { count(); acted = performance.now(); if (kind) means = kind; };
[["keydown", "keys"], ["pointerdown", "pointer"], ["pointermove", ""], ["scroll", ""], ["wheel", ""]].forEach(([name, kind]) =>
  document.addEventListener(name, act(kind), { passive: true, capture: true }));
document.addEventListener("visibilitychange", () => {
  if (document.hidden) { const seconds = (Math.min(performance.now(), acted + IDLE) - last) / 1000; if (seconds > 0) { pace.active += seconds; sinceBreak += seconds; } }
  last = acted = performance.now();
});
setInterval(keep, 5000);

document.addEventListener("change", (event) => {
  const input = event.target;
  if (!input.form || input.form.id !== "verdict" || input.type !== "radio") return;
  count();
  pace[means] = true;
  if (input.name === "verdict" && pace.first === null) pace.first = pace.active;
  if (chosen[input.name] !== undefined && chosen[input.name] !== input.value) pace.changes += 1;
  chosen[input.name] = input.value;
});
document.addEventListener("submit", (event) => {
  if (event.target.id !== "verdict" || !event.target.dataset.place) return;
  keep();
  const write = (name, value) => { event.target.elements[name].value = value; };
  write("active_seconds", pace.active.toFixed(1));
  write("first_verdict_seconds", pace.first === null ? "" : pace.first.toFixed(1));
  write("changes", pace.changes);
  write("hand", pace.keys && pace.pointer ? "both" : pace.keys ? "keys" : pace.pointer ? "pointer" : "");
  write("viewport", `${window.innerWidth}x${window.innerHeight}`);
}, true);
document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-does=go-on]")) return;
  $("#break").hidden = true;
  sinceBreak = 0;
  $("#rating-card h1").focus({ preventScroll: true }); // else Enter would press the button that is no longer seen
  keep();
});
document.addEventListener("htmx:afterSettle", takeUp);
takeUp();
