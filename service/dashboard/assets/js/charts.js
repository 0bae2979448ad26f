// Charts, each with its data as a table beside it. The library is loaded when the first chart is drawn.

import { clock, h, number, setText } from "./dom.js";

export const COLOURS = ["#3b7dd8", "#e08214", "#2f9e6e", "#c2497d", "#8c6bc8", "#a6761d", "#16a3b8", "#d6604d", "#6b8e23", "#b07aa1"];
export const REST = "#8a93a3";

export function coloursOf(arms) {
  // Each arm has the colour of its index whatever its rank, or the next one that no other of these arms has.
  const found = new Map();
  const free = new Set(COLOURS);
  for (const arm of [...arms].sort((a, b) => a - b)) {
    const colour = COLOURS.map((_, step) => COLOURS[(arm + step) % COLOURS.length]).find((each) => free.has(each));
    free.delete(colour);
    found.set(arm, colour);
  }
  return found;
}

// Where an element has this id, the library leaves out the style of its maps, which the page's policy blocks.
const MAPS_STYLE = "9f215cf04c5486422605d13261cb87401f4e7763b6296af81e98efbc0130da53";
let loading = null;

function library() {
  loading ??= new Promise((resolve, reject) => {
    const script = h("script", { id: MAPS_STYLE, src: "dashboard-assets/plotly.min.js" });
    script.addEventListener("load", () => resolve(window.Plotly));
    script.addEventListener("error", () => {
      loading = null;
      script.remove();
      reject(new Error("The chart library could not be loaded; the tables have the data."));
    });
    document.head.append(script);
  });
  return loading;
}

const theme = matchMedia("(prefers-color-scheme: dark)");
const drawn = new Set();
theme.addEventListener("change", () => drawn.forEach((each) => each.redraw()));

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export class Chart {
  constructor(title, { note = "", whole = false, columns }) {
    this.title = title;
    this.columns = columns;
    this.plot = h("div", { class: "plot empty", role: "img", "aria-label": title }, "Nothing to show yet.");
    this.body = h("tbody");
    const heads = columns.map((column) => h("th", { scope: "col", class: "number" }, column));
    this.head = h("tr", {}, heads);
    const table = h("table", {}, h("caption", {}, "Newest first"), h("thead", {}, this.head), this.body);
    this.details = h("details", { ontoggle: () => this.#fill() }, h("summary", {}, `Table: ${title}`),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table: ${title}` }, table));
    this.element = h("section", { class: whole ? "card whole" : "card" }, h("h3", {}, title),
      note ? h("p", { class: "note" }, note) : null, this.plot, this.details);
    drawn.add(this);
  }

  close() {
    drawn.delete(this);
    if (window.Plotly && !this.plot.classList.contains("empty")) window.Plotly.purge(this.plot);
  }

  // traces: of the library; rows: of the table, oldest first; summary: what the chart says, in a sentence.
  show(traces, rows, summary, layout = {}, columns = this.columns) {
    if (!rows.length) return;
    const content = JSON.stringify([rows, summary, columns]);
    if (content === this.content) return;
    this.content = content;
    this.last = { traces, layout };
    this.rows = rows;
    this.plot.setAttribute("aria-label", `${this.title}. ${summary}`);
    if (columns !== this.columns) {
      this.columns = columns;
      this.head.replaceChildren(...columns.map((column) => h("th", { scope: "col", class: "number" }, column)));
    }
    this.#fill();
    this.redraw();
  }

  async redraw() {
    // One drawing at a time: what changes meanwhile is drawn after it, once.
    this.isStale = true;
    if (this.isDrawing) return;
    this.isDrawing = true;
    try {
      while (this.isStale) {
        this.isStale = false;
        await this.#draw();
      }
    } finally {
      this.isDrawing = false;
    }
  }

  async #draw() {
    if (!this.last) return;
    let plotly;
    try {
      plotly = await library();
    } catch (error) {
      setText(this.plot, error.message);
      return;
    }
    if (!drawn.has(this)) return;
    if (this.plot.classList.contains("empty")) {
      this.plot.classList.remove("empty");
      this.plot.replaceChildren();
    }
    const { traces, layout } = this.last;
    const axis = { gridcolor: colour("grid"), linecolor: colour("line"), zerolinecolor: colour("line"), automargin: true, fixedrange: true };
    const narrow = this.plot.clientWidth < 640;
    await plotly.react(this.plot, traces, {
      font: { family: "system-ui, sans-serif", size: 12, color: colour("text") },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 8, r: 12, t: 8, b: 8 }, dragmode: false, hovermode: "x unified", showlegend: traces.length > 1,
      legend: { orientation: "h", yref: "container", y: 0, yanchor: "bottom", traceorder: "normal", font: { size: 11 } },
      hoverlabel: { bgcolor: colour("card"), bordercolor: colour("line"), font: { color: colour("text") } },
      ...layout,
      xaxis: { type: "date", nticks: narrow ? 4 : 7, tickangle: 0, ...axis, ...layout.xaxis }, yaxis: { ...axis, ...layout.yaxis },
    }, { displayModeBar: false, responsive: true });
  }

  #fill() {
    // A closed table is not filled: with ten charts that would be thousands of cells every two seconds.
    if (!this.details.open || !this.rows) return;
    const text = (cell, place) => (place === 0 ? cell : typeof cell === "number" || cell === null ? number(cell) : cell);
    this.body.replaceChildren(...[...this.rows].reverse().map((row) =>
      h("tr", {}, row.map((cell, place) => h(place ? "td" : "th", { class: "number", scope: place ? null : "row" }, String(text(cell, place)))))));
  }
}

export const local = (milliseconds) => {
  // The library shows times as they are written: in the zone of the reader.
  const time = new Date(milliseconds);
  return new Date(milliseconds - time.getTimezoneOffset() * 60_000).toISOString().slice(0, -1);
};

export { clock };
