// Tables: a click on a head sorts by its column, words or numbers, up and then down; longer ones have a box that filters.
// Rows are moved and hidden, never made, so that no name can become markup.
"use strict";
(() => {
  const LONG = 8; // rows from which on a filter helps
  const text = (row, column) => row.cells[column].textContent.trim();
  const number = (word) => { // the mean of "0.12 ± 0.03"; NaN where a word begins otherwise
    const found = /^[-−]?[0-9][0-9.,]*(e[-+]?[0-9]+)?/i.exec(word);
    return found ? Number(found[0].replace("−", "-").replaceAll(",", "")) : NaN;
  };
  function order(a, b) {
    const [x, y] = [number(a), number(b)];
    if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1; // what has no number comes last
    return Number.isNaN(x) ? a.localeCompare(b, undefined, { numeric: true }) : x - y;
  }
  for (const table of document.querySelectorAll("table")) {
    const body = table.tBodies[0], heads = [...(table.tHead?.rows[0]?.cells ?? [])];
    if (!body || body.rows.length < 2) continue;
    const first = [...body.rows];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        for (const each of heads) each.removeAttribute("aria-sort");
        if (before === "descending") return body.append(...first); // the third click: as it came
        head.setAttribute("aria-sort", before === "ascending" ? "descending" : "ascending");
        const sign = before === "ascending" ? -1 : 1;
        const empty = (row) => Number(text(row, column) === "" || text(row, column) === "–");
        body.append(...[...first].sort((a, b) =>
          empty(a) - empty(b) || sign * order(text(a, column), text(b, column))));
      });
    });
    if (first.length <= LONG) continue;
    const holder = document.createElement("label"), box = document.createElement("input");
    holder.className = "filter";
    box.type = "search";
    holder.append("rows with ", box);
    table.parentElement.before(holder);
    box.addEventListener("input", () => {
      const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of first) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    });
  }
})();
