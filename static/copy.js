// Copy buttons: each copies the field it names to the clipboard and confirms it. They stay hidden if the browser has no clipboard.
"use strict";
for (const button of document.querySelectorAll("[data-copies]")) {
  const field = document.getElementById(button.dataset.copies);
  field.addEventListener("focus", () => field.select());
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(field.value);
    document.getElementById("copied").textContent = "Copied.";
  });
}
