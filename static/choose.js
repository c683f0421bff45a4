// Select all or none of the checkboxes of a fieldset or list, in place. In a list these buttons work only with this script. Without this script the button sends the form, which comes back with everything typed.
"use strict";

document.querySelectorAll("[data-choices] button[name=select]").forEach((button) => { button.hidden = false; });

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[name=select]");
  const group = button && button.closest("fieldset, [data-choices]");
  if (!group) return;
  event.preventDefault();
  const boxes = [...group.querySelectorAll("input[type=checkbox]")].filter((box) => box.checkVisibility());
  boxes.forEach((box) => { box.checked = button.value === "all"; });
  if (boxes.length) boxes[0].dispatchEvent(new Event("change", { bubbles: true }));
});
