/* Return a sentence for each number on this page that is broken over two lines, and for each column without content. */
() => {
  document.querySelectorAll("details").forEach((one) => { one.open = true; });
  const problems = [];
  const number = /(?<![\p{L}\d_.,:\/\[-])[-+\u2212]?\d+(?:[.,:]\d+)*%?(?![\p{L}\d_-])/gu;
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    if (node.parentElement.closest("script, style, pre, svg, textarea, option, .raw, .vh")) continue;
    for (const match of node.data.matchAll(number)) {
      const range = document.createRange();
      range.setStart(node, match.index);
      range.setEnd(node, match.index + match[0].length);
      const lines = new Set([...range.getClientRects()].filter((box) => box.width).map((box) => Math.round(box.top)));
      if (lines.size > 1) problems.push(`broken number ${match[0]} in "${node.data.trim().slice(0, 60)}"`);
    }
  }
  for (const table of document.querySelectorAll("table")) {
    const rows = [...table.tBodies].flatMap((body) => [...body.rows]);
    if (!rows.length || table.querySelector("[colspan], [rowspan]")) continue;
    [...(table.tHead?.rows[0]?.cells ?? [])].forEach((head, place) => {
      if (head.querySelector("a")) return; // people sort by it: it would vanish and return as the filter changes
      const cells = rows.map((row) => row.cells[place]).filter(Boolean);
      const isEmpty = (cell) => /^[\s\u2013]*$/.test(cell.textContent) && !cell.querySelector("input, button, img, svg, select, progress");
      if (getComputedStyle(head).display !== "none" && cells.every(isEmpty) && getComputedStyle(cells[0]).display !== "none")
        problems.push(`empty column "${head.textContent.trim()}"`);
    });
  }
  return problems;
}
