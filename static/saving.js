// Saving: the answer stays on the screen until the server has it, what is chosen is kept as a draft, and who was
// signed out signs in on the spot. The same form is sent again with the same submission id, so nothing is saved twice.
"use strict";

const WAITS = [1, 2, 4, 8, 16, 30]; // seconds between tries; the last one from then on
const TOO_MANY = 429, UNAVAILABLE = 500;
let pending = false; // an answer was sent and the server has not confirmed it
let pressed = null; // the button it was sent with
let tries = 0, timer = 0, tokenRenewed = false;
const mine = (event) => event.detail.elt && event.detail.elt.id === "verdict";
const dialog = $("#sign-in");

function unsaved(why) {
  const bar = $("#unsaved");
  if (!bar) return;
  $("#unsaved-why").textContent = why;
  bar.hidden = false;
}
function resend() {
  clearTimeout(timer);
  const form = $("#verdict");
  if (!form || form.classList.contains("htmx-request")) return;
  (pressed && form.contains(pressed) ? pressed : $(".verdict__save", form)).click();
}
function later(why, least = 0) { // `least`: seconds the server asked for
  const wait = Math.max(WAITS[Math.min(tries, WAITS.length - 1)], least);
  tries += 1;
  unsaved(`${why} Your answer is kept here and sent again in ${wait} s.`);
  clearTimeout(timer);
  timer = setTimeout(resend, wait * 1000);
}
const askedFor = (xhr) => Math.ceil(Number(xhr.getResponseHeader("Retry-After"))) || 0; // a date is none of ours
function settled() {
  pending = false; tries = 0; tokenRenewed = false;
  clearTimeout(timer);
}

document.addEventListener("submit", (event) => { if (event.target.id === "verdict") pressed = event.submitter; });
document.addEventListener("htmx:configRequest", (event) => {
  // Signing in again in another tab gives a new token; the form may still hold the old one.
  const token = cookie("wb_csrf");
  if (token && event.detail.verb === "post") {
    event.detail.parameters.csrfmiddlewaretoken = token;
    event.detail.headers["X-CSRFToken"] = token;
  }
});
document.addEventListener("htmx:beforeRequest", (event) => {
  if (!mine(event)) return;
  pending = true;
  forgetDraft();
  clearTimeout(timer);
  if (!tries) $("#unsaved").hidden = true;
});
document.addEventListener("htmx:sendError", (event) => { if (mine(event)) later("The server cannot be reached."); });
document.addEventListener("htmx:timeout", (event) => { if (mine(event)) later("The server did not answer in time."); });
document.addEventListener("htmx:beforeOnLoad", (event) => {
  const status = event.detail.xhr.status;
  if (mine(event) && (status < 400 || status === 409 || status === 422)) settled(); // taken, or asked about
});
document.addEventListener("htmx:beforeSwap", (event) => {
  // Whoever asks for patience, this site or a proxy before it: the form stays where it is.
  const { requestConfig, xhr } = event.detail;
  if (requestConfig.elt.id === "verdict" && xhr.status === TOO_MANY) event.detail.shouldSwap = false;
});
document.addEventListener("htmx:responseError", (event) => {
  if (!mine(event)) return;
  const status = event.detail.xhr.status;
  if (status === 401) askToSignIn();
  else if (status === 403 && !tokenRenewed) { tokenRenewed = true; askToSignIn(); }
  else if (status >= UNAVAILABLE || status === TOO_MANY) later(`The server could not take it (error ${status}).`, askedFor(event.detail.xhr));
  else if (status === 404) unsaved("This item is not yours: you may be signed in as somebody else. Sign in as yourself in another tab, then try again.");
  else unsaved(`The server refused it (error ${status}). Reload the page; what you chose is kept.`);
});
document.addEventListener("click", (event) => { if (event.target.closest("[data-does=retry]")) resend(); });
window.addEventListener("online", () => { if (pending && tries) resend(); });
window.addEventListener("beforeunload", (event) => { if (pending) event.preventDefault(); });

// ---------------------------------------------------------------- signing in on the spot
function checkSignedIn() {
  if (dialog) htmx.ajax("GET", dialog.dataset.url, { target: "#sign-in-body", swap: "innerHTML" });
}
function askToSignIn() {
  unsaved("You have to be signed in to save. Your answer is kept here.");
  checkSignedIn();
}
if (dialog) {
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.pathInfo.requestPath !== dialog.dataset.url) return;
    const status = event.detail.xhr.status;
    if (status === 204) { dialog.close(); resend(); }
    else if (status === 200 && !dialog.open) dialog.showModal();
    else if (!status || status >= UNAVAILABLE) later("The server cannot be reached.");
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && dialog.open) checkSignedIn(); });
  document.addEventListener("htmx:afterSettle", () => { const name = $("#sign-in[open] input:not([type=hidden])"); if (name && !name.value) name.focus(); });
}

// ---------------------------------------------------------------- draft
let draftTimer = 0, drafting = false, draftWaits = false;
function forgetDraft() { clearTimeout(draftTimer); draftTimer = 0; draftWaits = false; }
async function keepDraft() {
  clearTimeout(draftTimer);
  draftTimer = 0;
  const form = $("#verdict[data-draft]");
  if (!form || pending) return;
  if (drafting) { draftWaits = true; return; } // one at a time: the last one wins
  drafting = true; draftWaits = false;
  const headers = { "X-CSRFToken": cookie("wb_csrf"), "HX-Request": "true" };
  await fetch(form.dataset.draft, { method: "POST", body: new URLSearchParams(new FormData(form)), headers, keepalive: true }).catch(() => null);
  drafting = false;
  if (draftWaits) keepDraft();
}
function chose(event) {
  if (!event.target.form || event.target.form.id !== "verdict") return;
  clearTimeout(draftTimer);
  draftTimer = setTimeout(keepDraft, 800);
}
document.addEventListener("change", chose);
document.addEventListener("input", chose);
document.addEventListener("visibilitychange", () => { if (document.hidden && draftTimer) keepDraft(); });
