// Copy buttons: each puts the field it names into the clipboard, and says so. Without a clipboard they stay hidden.
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
