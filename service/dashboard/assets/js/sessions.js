// The page of all sessions.

import { pages } from "./api.js";
import { createDialog } from "./actions.js";
import { age, badges, h, number } from "./dom.js";
import { LiveTable } from "./table.js";
import { meanSoFar } from "./series.js";

const MOST = 10_000;

const COLUMNS = [
  { key: "id", title: "Session", head: true, wide: true, value: (row) => row.session_id,
    cell: (row) => [h("a", { href: `#/sessions/${encodeURIComponent(row.session_id)}` }, row.session_id)] },
  { key: "traffic", title: "Acts per second", numeric: true, value: (row) => row.traffic ?? null, cell: (row) => number(row.traffic) },
  { key: "acts", title: "Acts", numeric: true, value: (row) => row.slot, cell: (row) => number(row.slot) },
  { key: "effective", title: "Effective arms", numeric: true, value: (row) => row.effective_arms,
    cell: (row) => (row.effective_arms === undefined ? "–" : `${number(Number(row.effective_arms.toPrecision(3)))} of ${number(row.learner.n_arms)}`) },
  { key: "outstanding", title: "Outstanding", numeric: true, value: (row) => row.outstanding, cell: (row) => number(row.outstanding) },
  { key: "mean", title: "Mean so far", numeric: true, value: (row) => (row.learner ? meanSoFar(row) : null),
    cell: (row) => (!row.learner || meanSoFar(row) === null ? "–" : `${number(meanSoFar(row))} ${"mean_reward" in row ? "reward" : "loss"}`) },
  { key: "event", title: "Last event", numeric: true, value: (row) => (row.last_event_at ? Date.parse(row.last_event_at) : null), cell: (row) => age(row.last_event_at) },
  { key: "learner", title: "Learner", value: (row) => row.learner?.kind, cell: (row) => row.learner?.kind ?? "unreadable" },
  { key: "hints", title: "Hints", value: (row) => (row.hints || []).length, cell: (row) => badges(row.hints) },
];

export class SessionsPage {
  title = "Sessions";
  seconds = 5;

  constructor(context) {
    this.context = context;
    this.seen = new Map();
    this.table = new LiveTable({
      caption: "Sessions", columns: COLUMNS, rowKey: (row) => row.session_id, sort: { key: "traffic", down: true },
      empty: "No session yet, or none that fits.",
    });
    const search = h("input", { type: "search", autocomplete: "off", spellcheck: "false", oninput: () => {
      const text = search.value.trim().toLowerCase();
      this.table.filter = (row) => row.session_id.toLowerCase().includes(text) || (row.learner?.kind ?? "").includes(text)
        || (row.hints || []).some((hint) => hint.code.replaceAll("_", " ").includes(text));
      this.table.page = 0;
      this.table.draw();
    } });
    const create = h("button", { type: "button", class: "main", onclick: () => createDialog() }, "New session");
    create.hidden = context.role !== "admin";
    this.note = h("p", { class: "note" });
    this.element = h("div", {},
      h("div", { class: "row top" }, h("h1", {}, "Sessions"), create),
      h("div", { class: "row end" }, h("label", {}, "Search in ids, learners and hints", search)), h("br"), this.table.element, this.note);
  }

  async update() {
    const started = performance.now();
    const { rows, more } = await pages("v1/sessions", "sessions", MOST);
    const now = performance.now();
    for (const row of rows) {
      const before = this.seen.get(row.session_id);
      if (before && before.created === row.created_at && now > before.at) {
        const rate = Math.max(0, row.slot - before.slot) / ((now - before.at) / 1000);
        row.traffic = before.rate === undefined ? rate : 0.5 * rate + 0.5 * before.rate;
        if (row.traffic < 0.005) row.traffic = 0;
      }
      this.seen.set(row.session_id, { slot: row.slot, at: now, created: row.created_at, rate: row.traffic });
    }
    // Of sessions with like traffic, or none known yet, those come first that acted most.
    rows.sort((a, b) => b.slot - a.slot);
    this.table.show(rows);
    this.note.textContent = more ? `The first ${number(rows.length)} sessions are shown; open others by their address.` : "";
    // A list that takes long is asked for less often.
    this.seconds = Math.max(this.context.fast ? 1 : 5, (now - started) / 100);
  }

  close() {}
}

export class OpenPage {
  // For keys that may view sessions and not list them.
  title = "Open a session";
  seconds = 3600;

  constructor() {
    const id = h("input", { required: true, autocomplete: "off", spellcheck: "false" });
    this.element = h("div", {}, h("h1", {}, "Open a session"), h("p", {}, "This API key may view sessions, but not list them."),
      h("form", { class: "row end", onsubmit: (event) => {
        event.preventDefault();
        location.hash = `#/sessions/${encodeURIComponent(id.value.trim())}`;
      } }, h("label", {}, "Id of the session", id), h("button", { class: "main" }, "Open")));
  }

  async update() {}

  close() {}
}
