// A table that is sorted, filtered and paged here, and whose cells change in place.

import { h, setText } from "./dom.js";

export class LiveTable {
  // columns: {key, title, value(row), cell(row): text or nodes, numeric, wide, first: sort order at the first press}.
  constructor({ caption, columns, rowKey, sort, pageSize = 50, onSort = null, empty = "Nothing here." }) {
    Object.assign(this, { columns, rowKey, pageSize, onSort, empty });
    this.sort = sort;
    this.rows = [];
    this.filter = () => true;
    this.page = 0;
    this.lines = new Map();
    this.body = h("tbody");
    this.heads = columns.map((column) => this.#head(column));
    this.caption = h("caption", { class: "unseen" }, caption);
    this.before = h("button", { type: "button", onclick: () => this.turn(-1) }, "Previous page");
    this.after = h("button", { type: "button", onclick: () => this.turn(1) }, "Next page");
    this.where = h("span");
    this.pager = h("div", { class: "pager" }, this.before, this.where, this.after);
    const table = h("table", {}, this.caption, h("thead", {}, h("tr", {}, this.heads)), this.body);
    this.scroll = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, table);
    this.element = h("div", {}, this.scroll, this.pager);
  }

  #head(column) {
    const kind = [column.numeric ? "number" : "", column.wide ? "wide" : ""].join(" ").trim();
    if (!column.value) return h("th", { scope: "col", class: kind }, column.title);
    const press = () => {
      const same = this.sort.key === column.key;
      this.sort = { key: column.key, down: same ? !this.sort.down : column.numeric };
      this.page = 0;
      if (this.onSort) this.onSort(this.sort);
      this.draw();
    };
    return h("th", { scope: "col", class: kind, "data-key": column.key }, h("button", { type: "button", onclick: press }, column.title));
  }

  turn(pages) {
    this.page += pages;
    this.draw();
    this.scroll.scrollIntoView({ block: "nearest" });
  }

  show(rows) {
    this.rows = rows;
    // The order stays while somebody is in the table: moving a row takes the focus from it.
    this.draw(this.body.contains(document.activeElement));
  }

  draw(keepOrder = false) {
    let shown;
    if (keepOrder) {
      const byKey = new Map(this.rows.map((row) => [this.rowKey(row), row]));
      shown = [...this.lines.keys()].map((name) => byKey.get(name)).filter(Boolean);
      for (const row of shown) this.#fill(this.lines.get(this.rowKey(row)), row);
      return;
    }
    const found = this.rows.filter(this.filter);
    const column = this.columns.find((each) => each.key === this.sort.key);
    if (column) found.sort((a, b) => compare(column.value(a), column.value(b), this.sort.down));
    const pages = Math.max(1, Math.ceil(found.length / this.pageSize));
    this.page = Math.min(Math.max(this.page, 0), pages - 1);
    shown = found.slice(this.page * this.pageSize, (this.page + 1) * this.pageSize);
    const lines = new Map();
    for (const row of shown) {
      const name = this.rowKey(row);
      const line = this.lines.get(name) || h("tr", {}, this.columns.map((each) => h(each.head ? "th" : "td", {
        scope: each.head ? "row" : null, class: [each.numeric ? "number" : "", each.wide ? "wide" : ""].join(" ").trim() || null,
      })));
      this.#fill(line, row);
      lines.set(name, line);
    }
    this.lines = lines;
    this.body.replaceChildren(...(shown.length ? lines.values() : [h("tr", {}, h("td", { colspan: this.columns.length }, this.empty))]));
    for (const head of this.heads) {
      if (head.dataset.key === this.sort.key) head.setAttribute("aria-sort", this.sort.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    const first = found.length ? this.page * this.pageSize + 1 : 0;
    setText(this.where, `${first} to ${first + Math.max(shown.length - 1, 0)} of ${found.length}`);
    this.pager.hidden = pages === 1 && found.length === this.rows.length;
    this.before.disabled = this.page === 0;
    this.after.disabled = this.page === pages - 1;
  }

  #fill(line, row) {
    this.columns.forEach((column, place) => {
      const cell = line.children[place];
      const content = column.cell(row);
      if (typeof content === "string") return setText(cell, content);
      // What has elements is made anew only where it differs, so that a button keeps its focus.
      const made = h("div", {}, content);
      if (cell.dataset.made !== made.innerHTML) {
        cell.dataset.made = made.innerHTML;
        cell.replaceChildren(...made.childNodes);
      }
    });
  }
}

function compare(a, b, down) {
  // What has no value comes last either way.
  const missing = (value) => value === null || value === undefined || Number.isNaN(value);
  if (missing(a) || missing(b)) return missing(a) - missing(b);
  const order = typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b;
  return down ? -order : order;
}
