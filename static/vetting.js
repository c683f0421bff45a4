// Keys of the vetting page, as on the rating page. The form works without this script.
"use strict";

const form = document.getElementById("vetting-form");
const radios = (name) => [...form.querySelectorAll(`input[type=radio][name=${name}]`)];
const questions = () => ["wrong", "only_change", "tell"].filter((name) => radios(name).length);
let here = 0;

function isTyping(target) {
  return target.closest("textarea, select, [contenteditable], input:not([type=radio], [type=checkbox])");
}
function show() {
  form.querySelectorAll(".vetting__here").forEach((field) => field.classList.remove("vetting__here"));
  const name = questions()[here];
  if (name) radios(name)[0].closest(".field").classList.add("vetting__here");
}
function move(step) {
  const count = questions().length;
  here = Math.min(Math.max(here + step, 0), count - 1);
  show();
  const name = questions()[here];
  if (name) radios(name)[0].closest(".field").scrollIntoView({ block: "nearest" });
  return count > 0;
}
function choose(name, value) {
  const radio = radios(name).find((one) => one.value === value);
  if (!radio) return false;
  radio.checked = true;
  radio.dispatchEvent(new Event("change", { bubbles: true }));
  return true;
}
function answer(value) {
  const name = questions()[here];
  if (!name || !choose(name, value)) return false;
  const open = questions().findIndex((one) => !radios(one).some((radio) => radio.checked));
  here = open < 0 ? here : open;
  show();
  return true;
}
function locate(number) {
  const places = radios("field");
  const place = number === 0 ? places[places.length - 1] : places[number - 1];
  return Boolean(place) && number < places.length && choose("field", place.value);
}
function press(id) {
  const target = document.getElementById(id);
  if (target) target.click();
  return Boolean(target);
}
const COMMANDS = {
  y: () => answer("yes"),
  n: () => answer("no"),
  j: () => move(1),
  k: () => move(-1),
  o: () => choose("perturbation", "obvious"),
  s: () => choose("perturbation", "subtle"),
  a: () => choose("decision", "accepted"),
  r: () => choose("decision", "rejected"),
  c: () => { form.elements.note.focus(); return true; },
  x: () => press("skip"),
  u: () => press("undo"),
  "?": () => { const keys = document.getElementById("vetting-keys"); keys.open = !keys.open; return true; },
};

if (form && form.dataset.keys) {
  const open = questions().findIndex((name) => !radios(name).some((radio) => radio.checked));
  here = Math.max(open, 0);
  show();
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.isComposing) return;
    if (event.key === "Escape" && form.contains(event.target)) { event.target.blur(); return; }
    if (isTyping(event.target)) return;
    if (event.key === "Enter") {
      if (event.target.closest("a, button, summary")) return;
      event.preventDefault();
      form.requestSubmit();
    } else if (event.key.length === 1) {
      const key = event.key.toLowerCase();
      const done = COMMANDS[key] ? COMMANDS[key]() : /^[0-9]$/.test(key) && locate(Number(key));
      if (done) event.preventDefault();
    }
  });
}
