// Adds a slider to each number of the planner. The number field stays the one that is submitted.
"use strict";
for (const field of document.querySelectorAll("[data-slider]")) {
  const slider = document.createElement("input");
  const [low, high] = field.dataset.slider.split(" ");
  Object.assign(slider, { type: "range", min: low, max: high, value: field.value, className: "planner__slider" });
  slider.setAttribute("aria-label", `${field.labels[0].textContent.trim()}, slider`);
  field.after(slider);
  // A larger number than the slider's end can be typed: the slider then stays at its end.
  field.addEventListener("input", () => { slider.value = field.value; });
  slider.addEventListener("input", () => { field.value = slider.value; });
}
