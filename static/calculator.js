// The scratch calculator of the rating page; rate.js loads it when it is opened. It counts the calculations on an item, and
// rate.js sends the count with the answer. The count survives a reload of the page.
import { ArithmeticError, dilute, evaluate, findValues, formatQuantity } from "./arithmetic.js";

const STORE = "wetbench-calculator";
const CELLS = "td:not(.mk), dd, .obs li, .record__facts > span, .record__made > p > span";
const find = (selector, root = document) => root.querySelector(selector);
const panel = find("#calculator"), list = find("#calc-values"), search = find("#calc-find"), expression = find("#calc-expression"), result = find("#calc-result");
const session = (action) => { try { return action(sessionStorage); } catch { return null; } }; // storage may be forbidden
const readItem = () => { const form = find("#verdict[data-place]"); return form ? form.dataset.place.split(" ")[0] : ""; };
const readStored = () => JSON.parse(session((s) => s.getItem(STORE)) || "{}");
let use = readStored(); // of the item on the page: { item, count }
let cameFrom = null; // the element focused before the calculator was opened
let values = []; // of the item: { text, place, cell, box }
let chosen = []; // in the order in which they were selected

function store() {
  panel.dataset.use = JSON.stringify(use); // rate.js sends it
  session((s) => s.setItem(STORE, panel.dataset.use));
}
function beginUse() {
  if (use.item !== readItem()) use = { item: readItem(), count: 0 };
  store();
}
function countUse() {
  beginUse();
  use.count += 1;
  store();
}

// ---------------------------------------------------------------- values of the item
const clean = (node) => {
  const copy = node.cloneNode(true);
  copy.querySelectorAll(".vh, .same, .diff, .ref, input").forEach((part) => part.remove());
  return copy.textContent.replace(/\s+/g, " ").trim();
};
function describePlace(cell, part) {
  const row = cell.closest("tr"), table = cell.closest("table");
  const words = [];
  if (row && table) {
    if (table.caption) words.push(clean(table.caption));
    if (find("th", row)) words.push(clean(find("th", row)));
    const heads = table.tHead ? [...table.tHead.rows[0].cells] : [];
    const head = heads.length === row.cells.length ? heads[cell.cellIndex] : null;
    if (head) words.push(clean(head));
  } else if (cell.matches("dd")) words.push(clean(cell.previousElementSibling));
  else words.push(clean(cell).slice(0, 60));
  if (part.matches("strong") && !words.includes("After")) words.push("after");
  return words.filter(Boolean).join(", ");
}
function readValues() {
  const shown = find(".shown");
  values = [];
  if (!shown) return;
  for (const cell of shown.querySelectorAll(CELLS)) {
    if (find(CELLS, cell)) continue; // its own cells have the values
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const part = texts.currentNode.parentElement;
      if (part.closest(".vh, .same, .ref, .diff")) continue;
      for (const text of findValues(texts.currentNode.data)) values.push({ text, place: describePlace(cell, part), cell });
    }
  }
}
function listValues() {
  readValues();
  const items = values.map((value, number) => {
    const item = document.createElement("li"), label = document.createElement("label"), words = document.createElement("span"), place = document.createElement("small");
    value.box = document.createElement("input");
    value.box.type = "checkbox";
    value.box.value = number;
    value.box.tabIndex = number ? -1 : 0; // one stop for the Tab key; arrow keys move between the values
    value.item = item;
    place.textContent = value.place;
    words.append(value.text, " ", place);
    label.append(value.box, words);
    item.append(label);
    value.cell.classList.add("calc-value");
    return item;
  });
  list.replaceChildren(...items);
  find("#calc-options").replaceChildren(...values.map((value) => { const option = document.createElement("option"); option.value = value.text; option.label = `${value.text}, ${value.place}`; return option; }));
  chosen = [];
  search.value = "";
  showChosen();
}
function showChosen() {
  const texts = chosen.map((value) => value.text);
  find("#calc-chosen").textContent = texts.length ? `Selected: ${texts.join("; ")}` : values.length ? "Select values in the item or in this list." : "This item has no values to select. Type a calculation below.";
  values.forEach((value) => value.box.checked !== chosen.includes(value) && (value.box.checked = chosen.includes(value)));
  document.querySelectorAll(".calc-value").forEach((cell) => cell.classList.toggle("calc-value--chosen", chosen.some((value) => value.cell === cell)));
}
function toggleValue(value) {
  chosen = chosen.includes(value) ? chosen.filter((other) => other !== value) : [...chosen, value];
  showChosen();
}
function stopMarking() {
  document.querySelectorAll(".calc-value").forEach((cell) => cell.classList.remove("calc-value", "calc-value--chosen"));
}

// ---------------------------------------------------------------- calculations
function show(text, isWrong = false) {
  result.textContent = text;
  result.classList.toggle("calc__result--wrong", isWrong);
}
function calculate(work) {
  try {
    const text = work();
    show(text);
    countUse();
  } catch (error) {
    if (!(error instanceof ArithmeticError)) throw error;
    show(error.message, true);
  }
}
const calculateText = (text) => calculate(() => `${text.replaceAll("*", "×").replaceAll(" / ", " ÷ ")} = ${formatQuantity(evaluate(text))}`);
function combineChosen(sign, needed) {
  const texts = chosen.map((value) => (/^[-−]/.test(value.text) ? `(${value.text})` : value.text));
  if (texts.length < 2 || (needed && texts.length !== needed)) { show(`Select ${needed ? "two" : "at least two"} values first.`, true); return; }
  expression.value = sign === "/" ? texts.map((text) => (text.includes("/") || text.includes("×") ? `(${text})` : text)).join(" / ") : texts.join(` ${sign} `);
  calculateText(expression.value);
}
const ACTIONS = {
  close: () => close(),
  move: () => panel.classList.toggle("calc--left"),
  sum: () => combineChosen("+"),
  difference: () => combineChosen("-", 2),
  ratio: () => combineChosen("/", 2),
  clear: () => { chosen = []; expression.value = ""; showChosen(); show(""); },
};

// ---------------------------------------------------------------- opening and closing
export function open() {
  if (panel.hidden) {
    cameFrom = document.activeElement;
    panel.hidden = false;
    show("");
    listValues();
    beginUse();
  }
  expression.focus({ focusVisible: true });
}
function close(returnFocus = true) {
  if (panel.hidden) return;
  const back = cameFrom && cameFrom !== document.body && cameFrom.isConnected ? cameFrom : find("#rating-card h1");
  panel.hidden = true;
  stopMarking();
  if (returnFocus && back) back.focus({ preventScroll: true });
}

panel.addEventListener("click", (event) => {
  const button = event.target.closest("[data-calc]");
  if (button) ACTIONS[button.dataset.calc]();
});
panel.addEventListener("submit", (event) => {
  event.preventDefault();
  if (event.target.id === "calc-free") { calculateText(expression.value.trim()); return; }
  const texts = Object.fromEntries(new FormData(event.target));
  calculate(() => {
    const { wanted, result: quantity } = dilute(texts);
    event.target.elements[wanted].placeholder = formatQuantity(quantity);
    return `${wanted[0]}${wanted[1] === "1" ? "₁" : "₂"} = ${formatQuantity(quantity)}`;
  });
});
search.addEventListener("input", () => {
  const word = search.value.trim().toLowerCase();
  values.forEach((value) => { value.item.hidden = !`${value.text} ${value.place}`.toLowerCase().includes(word); });
  const first = values.find((value) => !value.item.hidden);
  values.forEach((value) => { value.box.tabIndex = value === first ? 0 : -1; });
});
list.addEventListener("change", (event) => toggleValue(values[event.target.value]));
panel.addEventListener("keydown", (event) => {
  if (event.key === "Escape") { event.preventDefault(); close(); }
  if (["ArrowDown", "ArrowUp", "Home", "End"].includes(event.key) && event.target.closest("#calc-values")) {
    event.preventDefault();
    const boxes = values.filter((value) => !value.item.hidden).map((value) => value.box);
    const here = boxes.indexOf(event.target), last = boxes.length - 1;
    const next = boxes[{ Home: 0, End: last, ArrowDown: Math.min(here + 1, last), ArrowUp: Math.max(here - 1, 0) }[event.key]];
    boxes.forEach((box) => { box.tabIndex = box === next ? 0 : -1; });
    next.focus({ focusVisible: true });
  }
  event.stopPropagation(); // the keys of the rating page do not work in here
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !panel.hidden && !find("dialog[open], .more[open]")) { event.preventDefault(); close(); }
});
document.addEventListener("click", (event) => {
  if (panel.hidden || event.target.closest("a, button, input, label, summary, #calculator")) return;
  const cell = event.target.closest(".calc-value");
  if (!cell) return;
  // The part that was clicked, or all values of the cell.
  const own = values.filter((value) => value.cell === cell);
  const clicked = own.filter((value) => event.target !== cell && event.target.textContent.includes(value.text));
  (clicked.length ? clicked : own).forEach(toggleValue);
});
document.addEventListener("htmx:afterSettle", (event) => {
  if (!event.detail.elt || !event.detail.elt.closest("#rating-card")) return;
  if (use.item !== readItem()) close(false); // the next item begins without it
  else if (!panel.hidden) listValues();
});
