// Saving: the answer stays on the screen until the server has confirmed it, choices are stored as an unsaved answer, and a rater
// who was signed out signs in without leaving the page. Retries send the same submission id, so nothing is saved twice.
"use strict";

const WAITS = [1, 2, 4, 8, 16, 30]; // seconds between retries; the last value repeats
const TOO_MANY = 429, UNAVAILABLE = 500;
let pending = false; // an answer was sent and the server has not confirmed it
let pressed = null; // the button it was sent with
let tries = 0, timer = 0, tokenRenewed = false;
const isRatingForm = (event) => event.detail.elt && event.detail.elt.id === "verdict";
const dialog = $("#sign-in");

function showUnsaved(reason) {
  const bar = $("#unsaved");
  if (!bar) return;
  $("#unsaved-why").textContent = reason;
  bar.hidden = false;
}
function resend() {
  clearTimeout(timer);
  const form = $("#verdict");
  if (!form || form.classList.contains("htmx-request")) return;
  (pressed && form.contains(pressed) ? pressed : $(".verdict__save", form)).click();
}
function retryLater(reason, minimum = 0) { // `minimum`: seconds the server asked for
  const wait = Math.max(WAITS[Math.min(tries, WAITS.length - 1)], minimum);
  tries += 1;
  showUnsaved(`${reason} Your answer is still here and will be sent again in ${wait} s.`);
  clearTimeout(timer);
  timer = setTimeout(resend, wait * 1000);
}
const retryAfterSeconds = (xhr) => Math.ceil(Number(xhr.getResponseHeader("Retry-After"))) || 0; // NaN for a date, which this site never sends
function markSaved() {
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
  if (!isRatingForm(event)) return;
  pending = true;
  forgetDraft();
  clearTimeout(timer);
  if (!tries) $("#unsaved").hidden = true;
});
document.addEventListener("htmx:sendError", (event) => { if (isRatingForm(event)) retryLater("The server cannot be reached."); });
document.addEventListener("htmx:timeout", (event) => { if (isRatingForm(event)) retryLater("The server did not answer in time."); });
document.addEventListener("htmx:beforeOnLoad", (event) => {
  const status = event.detail.xhr.status;
  if (isRatingForm(event) && (status < 400 || status === 409 || status === 422)) markSaved(); // saved, or the page asks a question about it
});
document.addEventListener("htmx:beforeSwap", (event) => {
  // Too many requests, from this site or from a proxy in front of it: the form must stay on the page.
  const { requestConfig, xhr } = event.detail;
  if (requestConfig.elt.id === "verdict" && xhr.status === TOO_MANY) event.detail.shouldSwap = false;
});
document.addEventListener("htmx:responseError", (event) => {
  if (!isRatingForm(event)) return;
  const status = event.detail.xhr.status;
  if (status === 401) askToSignIn();
  else if (status === 403 && !tokenRenewed) { tokenRenewed = true; askToSignIn(); }
  else if (status >= UNAVAILABLE || status === TOO_MANY) retryLater(`The server could not save your answer (error ${status}).`, retryAfterSeconds(event.detail.xhr));
  else if (status === 404) showUnsaved("This item is not assigned to you: you may be signed in as somebody else. Sign in to your own account in another tab, then try again.");
  else showUnsaved(`The server rejected your answer (error ${status}). Reload the page; your choices are stored.`);
});
document.addEventListener("click", (event) => { if (event.target.closest("[data-does=retry]")) resend(); });
window.addEventListener("online", () => { if (pending && tries) resend(); });
window.addEventListener("beforeunload", (event) => { if (pending) event.preventDefault(); });

// ---------------------------------------------------------------- signing in again without leaving the page
function checkSignedIn() {
  if (dialog) htmx.ajax("GET", dialog.dataset.url, { target: "#sign-in-body", swap: "innerHTML" });
}
function askToSignIn() {
  showUnsaved("Sign in to save. Your answer is still here.");
  checkSignedIn();
}
if (dialog) {
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.pathInfo.requestPath !== dialog.dataset.url) return;
    const status = event.detail.xhr.status;
    if (status === 204) { dialog.close(); resend(); }
    else if (status === 200 && !dialog.open) dialog.showModal();
    else if (!status || status >= UNAVAILABLE) retryLater("The server cannot be reached.");
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && dialog.open) checkSignedIn(); });
  document.addEventListener("htmx:afterSettle", () => { const name = $("#sign-in[open] input:not([type=hidden])"); if (name && !name.value) name.focus(); });
}

// ---------------------------------------------------------------- unsaved answer
let draftTimer = 0, drafting = false, draftWaits = false;
function forgetDraft() { clearTimeout(draftTimer); draftTimer = 0; draftWaits = false; }
async function saveDraft() {
  clearTimeout(draftTimer);
  draftTimer = 0;
  const form = $("#verdict[data-draft]");
  if (!form || pending) return;
  if (drafting) { draftWaits = true; return; } // one at a time: the last one wins
  drafting = true; draftWaits = false;
  const headers = { "X-CSRFToken": cookie("wb_csrf"), "HX-Request": "true" };
  await fetch(form.dataset.draft, { method: "POST", body: new URLSearchParams(new FormData(form)), headers, keepalive: true }).catch(() => null);
  drafting = false;
  if (draftWaits) saveDraft();
}
function scheduleDraft(event) {
  if (!event.target.form || event.target.form.id !== "verdict") return;
  clearTimeout(draftTimer);
  draftTimer = setTimeout(saveDraft, 800);
}
document.addEventListener("change", scheduleDraft);
document.addEventListener("input", scheduleDraft);
document.addEventListener("visibilitychange", () => { if (document.hidden && draftTimer) saveDraft(); });
