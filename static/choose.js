// Select all or none of the checkboxes of a fieldset, in place. Without this script the button sends the form, which comes back with everything typed.
"use strict";

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[name=select]");
  const group = button && button.closest("fieldset");
  if (!group) return;
  event.preventDefault();
  const boxes = [...group.querySelectorAll("input[type=checkbox]")].filter((box) => box.checkVisibility());
  boxes.forEach((box) => { box.checked = button.value === "all"; });
  if (boxes.length) boxes[0].dispatchEvent(new Event("change", { bubbles: true }));
});
