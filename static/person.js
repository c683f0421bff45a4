// Filter the list of actions by name or description while typing. Without this script the list is complete.
"use strict";

const filter = document.getElementById("action-filter");
const list = document.getElementById("action");
const entries = [...list.options].filter((option) => option.value);
// Removed instead of hidden: some browsers show hidden options of a list.
const places = entries.map((option) => [option, option.parentElement, option.text.toLowerCase()]);

filter.hidden = false;
filter.addEventListener("input", () => {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  const chosen = list.value;
  places.forEach(([option, group, text]) => {
    option.remove();
    if (option.value === chosen || words.every((word) => text.includes(word))) group.append(option);
  });
  list.querySelectorAll("optgroup").forEach((group) => { group.hidden = !group.children.length; });
  const shown = places.filter(([option]) => option.isConnected).length;
  list.options[0].text = words.length ? `Choose an action: ${shown} of ${places.length} match` : "Choose an action";
  list.value = chosen;
});
filter.addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  const first = places.find(([option]) => option.isConnected && option.value !== list.value);
  if (first && filter.value.trim()) {
    list.value = first[0].value;
    list.dispatchEvent(new Event("change", { bubbles: true }));
  }
  list.focus();
});
