// Lists with checkboxes: a box in the heading that selects all, and the number of selected rows. Without JavaScript the box stays hidden.
"use strict";
for (const all of document.querySelectorAll("[data-selects]")) {
  const boxes = [...document.querySelectorAll(`input[type=checkbox][name="${all.dataset.selects}"]`)];
  const text = document.querySelector(`[data-counts="${all.dataset.selects}"]`);
  const update = () => {
    const n = boxes.filter((box) => box.checked).length;
    all.checked = n > 0 && n === boxes.length;
    all.indeterminate = n > 0 && n < boxes.length;
    if (text) text.textContent = n ? `With the ${n} selected:` : "Select raters to:";
  };
  all.closest("label").hidden = boxes.length === 0;
  all.addEventListener("change", () => { boxes.forEach((box) => { box.checked = all.checked; }); update(); });
  boxes.forEach((box) => box.addEventListener("change", update));
  update();
}
