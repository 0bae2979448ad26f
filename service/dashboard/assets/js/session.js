// The page of one session.

import { get, sessionPath } from "./api.js";
import { changeArms, deleteDialog } from "./actions.js";
import { callsSection } from "./calls.js";
import { Chart, COLOURS, REST, clock, coloursOf, local } from "./charts.js";
import { age, badges, h, HINTS, number, percent, setText } from "./dom.js";
import { asSample, delays, firstWindow, hasDefault, meanOf, meanSoFar, means, outcomes, shares, times, within } from "./series.js";
import { LiveTable } from "./table.js";
import { URGENT, VerdictPart } from "./verdict.js";

const RANGES = [["All", 0], ["Last day", 86_400], ["Last hour", 3600], ["Last 10 minutes", 600]];
const OUTCOMES = [["feedbacks", "applied"], ["expired", "expired"], ["removed", "removed"], ["voided", "voided"]];
const HISTORY_EVERY = 5000;
const MOST_LIVE = 600;
const MOST_INTERVALS = 15;

export class SessionPage {
  seconds = 2;

  constructor(context, id) {
    Object.assign(this, { context, id, title: id, history: [], live: [], asked: 0, sort: { key: "probability", down: true } });
    this.verdict = new VerdictPart(id, context);
    this.names = new Map();
    this.heading = h("h1", {}, id);
    this.badges = h("span");
    this.facts = h("p", { class: "note" });
    this.tiles = h("dl", { class: "tiles" });
    this.hints = h("ul", { class: "hints", "aria-label": "Hints" });
    const remove = h("button", { type: "button", class: "bad", onclick: () => deleteDialog(id) }, "Delete");
    remove.hidden = context.role !== "admin";
    this.range = h("select", { onchange: () => this.draw() }, RANGES.map(([name, seconds]) => h("option", { value: seconds }, name)));
    this.charts = h("div", { class: "charts" });
    this.intervals = h("div");
    this.rest = h("div");
    this.element = h("div", {}, h("p", { class: "crumb" }, h("a", { href: "#/" }, "All sessions")),
      h("div", { class: "row top" }, h("div", {}, this.heading, this.badges), remove),
      this.facts, this.verdict.element, this.intervals, this.tiles, this.hints,
      h("div", { class: "row top end" }, h("h2", {}, "Over time"), h("label", {}, "Time shown", this.range)), this.charts, this.rest);
  }

  async update() {
    const view = await get(sessionPath(this.id));
    if (!this.view || this.view.created_at !== view.created_at) this.#build(view);
    this.view = view;
    if (performance.now() - this.asked > HISTORY_EVERY || !this.asked) {
      const { samples } = await get(sessionPath(this.id, "/history"));
      this.asked = performance.now();
      this.history = samples;
      const last = samples.length ? Date.parse(samples.at(-1).at) : 0;
      this.live = this.live.filter((sample) => Date.parse(sample.at) > last).slice(-MOST_LIVE);
    }
    // The newest counts are drawn at once, also where no history is kept; while nothing happens nothing is drawn.
    if (this.version !== view.version) this.live.push(asSample(view));
    this.version = view.version;
    this.draw();
    await Promise.all([this.#showArms(), this.#showSegments(), this.#showFeatures()]);
  }

  #build(view) {
    this.live = [];
    this.version = null;
    this.word = view.reward_range ? "reward" : "loss";
    for (const chart of this.drawn || []) chart.close();
    this.points = Boolean(view.x);
    const over = this.points ? "Coordinates of the point" : "Share of each arm";
    const note = this.points ? "Of the point that is played, the first ten." : "The probability of each arm: the ten largest, and all others together; an arm that was not among the ten largest at a time counts to the others there.";
    this.shareChart = new Chart(over, { whole: true, note, columns: [] });
    const band = `Of the events between two points of the line${this.points ? "" : ", with a band of 95 %"}.`;
    const late = " An event counts at once, and a decision without one when its window ends: the line begins near the mean of events alone, after the first window has ended.";
    this.meanChart = new Chart(`Mean ${this.word}`, { note: band + (hasDefault(view) ? late : ""), columns: ["Time", `Mean ${this.word}`, "From", "To", "Events"] });
    this.outstandingChart = new Chart("Outstanding decisions", { note: `Acts that wait for an event. One is over when it comes${view.expiry ? `, or ${number(view.expiry.after_seconds)} s after the act` : "; without an expiry it may wait for ever"}.`, columns: ["Time", "Outstanding"] });
    this.outcomeChart = new Chart("Events by outcome", { note: "Per minute.", columns: ["Time", ...OUTCOMES.map(([, name]) => name)] });
    this.delayChart = new Chart("Mean delay", { note: "In acts: how many came between an act and its feedback, on average.", columns: ["Time", "Delay in acts"] });
    this.drawn = [this.shareChart, this.meanChart, this.outstandingChart, this.outcomeChart, this.delayChart];
    if (this.points && view.x.length > 1) {
      this.pathChart = new Chart("Path of the point", { note: "Its first two coordinates.", columns: ["Time", "x₁", "x₂"] });
      this.drawn.push(this.pathChart);
    }
    this.weightChart = view.features ? new Chart("Weight of features", { note: "How far acts rest on features: with 0 on none of them, with 100 % on them alone.", columns: ["Time", "Weight"] }) : null;
    if (this.weightChart) this.drawn.push(this.weightChart);
    this.charts.replaceChildren(...this.drawn.map((chart) => chart.element));
    this.intervalChart = this.points ? null : new Chart("How good each arm is", { note: `The mean ${this.word} of each arm so far, open decisions as the default, and the interval of 95 % around it, which holds however often you look; the ${MOST_INTERVALS} most probable arms.`, whole: true, columns: ["Arm", `Mean ${this.word} so far`, "From", "To", "Acts", "Share"] });
    this.intervals.replaceChildren(...(this.points ? [] : [h("h2", { class: "unseen" }, "Arms so far"), this.intervalChart.element]));
    if (!this.points) this.drawn.push(this.intervalChart);
    this.arms = this.points ? null : this.#armsTable(view);
    const settings = h("details", {}, h("summary", {}, "Settings of the session"), (this.settings = h("pre", { tabindex: "0", role: "region", "aria-label": "Settings of the session" })));
    const arms = this.arms ? [h("h2", {}, "Arms"), h("p", { class: "note" }, "A paused arm is not shown until it is resumed. To stop a session at once, pause all arms but a safe one."), h("div", { class: "row end" }, this.armSearch), this.armError, this.armNote, this.arms.element] : [];
    this.segments = typeof view.segments === "number" ? this.#segmentsTable() : null;
    const segments = this.segments ? [h("h2", {}, "Segments"), this.segmentNote, this.segments.element] : [];
    this.features = view.features ? this.#featuresTable() : null;
    const features = this.features ? [h("h2", {}, "Features"), h("p", { class: "note" }, "Of the last acts, about a thousand: how many did not say the feature, and of how many it was outside its range."), this.features.element] : [];
    this.rest.replaceChildren(...arms, ...segments, ...features, callsSection(view, this.context.needsKey), h("h2", {}, "Settings"), settings);
  }

  draw() {
    const { view, word } = this;
    if (!view) return;
    this.verdict.show(view);
    this.#drawHead(view);
    const begin = { at: view.created_at, slot: 0, feedbacks: 0, outstanding: 0, expired: 0, removed: 0, voided: 0, total_delay: 0, counted: 0, mean_loss: null };
    const known = [...this.history, ...this.live];
    // Counts of a session that was imported, or is of an earlier version, do not begin at 0.
    const all = this.history.length && this.history[0].slot > 1000 ? known : [begin, ...known];
    const samples = within(all, Number(this.range.value));
    const at = times(samples).map(local);
    const shown = samples.filter((sample) => sample.x || sample.arms?.length);
    if (this.points) this.#drawPoints(shown);
    else this.#drawShares(shown);
    const mean = means(samples, view[`${word}_range`] && view.normalize_losses !== false && !this.points ? view[`${word}_range`] : null, firstWindow(all, view));
    this.#drawMean(mean);
    const outstanding = samples.map((sample) => sample.outstanding);
    this.outstandingChart.show([{ x: at, y: outstanding, name: "Outstanding", mode: "lines", fill: "tozeroy", line: { color: COLOURS[0] } }],
      samples.map((sample) => [clock(Date.parse(sample.at)), sample.outstanding]), `${number(view.outstanding)} now, at most ${number(Math.max(...outstanding))}.`, { yaxis: { rangemode: "tozero" } });
    const delay = delays(samples);
    this.delayChart.show([{ x: delay.map((each) => local(each.at)), y: delay.map((each) => each.delay), name: "Delay", line: { color: COLOURS[4] } }],
      delay.map((each) => [clock(each.at), each.delay]), `${number(delay.at(-1)?.delay)} acts lately.`, { yaxis: { rangemode: "tozero" } });
    this.#drawOutcomes(outcomes(samples));
    if (this.weightChart) this.#drawWeight(samples.filter((sample) => typeof sample.feature_weight === "number"));
  }

  #drawWeight(samples) {
    const weights = samples.map((sample) => sample.feature_weight);
    const trace = { x: times(samples).map(local), y: weights, name: "Weight", mode: "lines", line: { color: COLOURS[2] }, hovertemplate: "%{y:.1%}" };
    const rows = samples.map((sample) => [clock(Date.parse(sample.at)), percent(sample.feature_weight)]);
    this.weightChart.show([trace], rows, `${percent(weights.at(-1))} now.`, { yaxis: { tickformat: ".0%", range: [0, 1] } });
  }

  #drawHead(view) {
    const { learner } = view;
    this.badges.replaceChildren(...badges(view.hints));
    setText(this.facts, `${learner.kind}${learner.n_arms ? ` over ${number(learner.n_arms)} arms` : ` in ${learner.dim} dimensions`}, rates ${learner.rates}, created ${age(view.created_at)}${view.expires_at ? `, deleted if idle until ${clock(Date.parse(view.expires_at))}` : ""}`);
    const tiles = [
      ["Acts", number(view.slot)], ["Feedback applied", number(view.feedbacks)], ["Outstanding", number(view.outstanding)],
      [`Mean ${this.word} so far`, number(meanSoFar(view))],
      ...(this.points ? [] : [["Effective arms", `${number(view.effective_arms && Number(view.effective_arms.toPrecision(3)))} of ${number(learner.n_arms)}`]]),
      ...Object.entries(view.goals || {}).map(([name, goal]) => [`Goal ${name}`, number(goal.events)]),
      ["Expired", number(view.expired)], ["Last act", age(view.last_act_at)], ["Last event", age(view.last_event_at)],
    ];
    const names = tiles.map(([name]) => name).join("\n");
    if (this.shownTiles !== names) this.tiles.replaceChildren(...tiles.map(([name]) => h("div", {}, h("dt", {}, name), h("dd"))));
    this.shownTiles = names;
    tiles.forEach(([, text], place) => setText(this.tiles.children[place].lastChild, text));
    const hints = view.hints.filter((hint) => !URGENT.includes(hint.code));
    const texts = hints.map((hint) => `${hint.message}\n${HINTS[hint.code] || ""}`).join("\n");
    if (this.shownHints !== texts) {
      this.shownHints = texts;
      this.hints.replaceChildren(...hints.map((hint) => h("li", {}, h("strong", {}, hint.message), HINTS[hint.code] || "")));
    }
    this.hints.hidden = !hints.length;
    const { learner: full, ...others } = view;
    const { arms, arm_indexes: indexes, ...about } = full;
    const chosen = Object.fromEntries(Object.entries(others).filter(([name]) => /range|normalize|expiry|floor|initial|segments|features|decision_log|updates|goals|control|guard|created_at|expires_at|version/.test(name)));
    setText(this.settings, JSON.stringify({ learner: about, ...chosen }, null, 2));
  }

  #name(arm) {
    const { arms: names, arm_indexes: indexes } = this.view.learner;
    return this.names.get(arm) ?? names?.[indexes ? indexes.indexOf(arm) : arm] ?? (names ? `removed arm ${arm}` : `arm ${arm}`);
  }

  #drawShares(samples) {
    const found = shares(samples);
    const at = samples.map((sample) => Date.parse(sample.at));
    const trace = (name, y, color) => ({ x: at.map(local), y, name, stackgroup: "all", mode: "lines", line: { width: 0.5, color }, fillcolor: color, hovertemplate: "%{y:.1%}" });
    const colours = coloursOf(found.arms.map((each) => each.arm));
    const traces = found.arms.map((each) => trace(this.#name(each.arm), each.shares.map((share) => share ?? 0), colours.get(each.arm)));
    const hasRest = found.rest.some((share) => share > 0);
    if (hasRest) traces.push(trace("all others", found.rest, REST));
    const rows = at.map((time, place) => [clock(time), ...found.arms.map((each) => percent(each.shares[place])), ...(hasRest ? [percent(found.rest[place])] : [])]);
    const best = found.arms[0];
    const summary = best ? `Largest now: ${this.#name(best.arm)} with ${percent(best.shares.at(-1))}.` : "";
    this.shareChart.show(traces, rows, summary, { yaxis: { tickformat: ".0%", range: [0, 1] } }, ["Time", ...traces.map((each) => each.name)]);
  }

  #drawPoints(samples) {
    const at = times(samples);
    const count = Math.max(0, ...samples.map((sample) => sample.x.length));
    const traces = Array.from({ length: count }, (_, axis) => ({ x: at.map(local), y: samples.map((sample) => sample.x[axis]), name: `x${axis + 1}`, mode: "lines", line: { color: COLOURS[axis % 10] } }));
    const rows = samples.map((sample, place) => [clock(at[place]), ...sample.x]);
    this.shareChart.show(traces, rows, `Now at ${this.view.x.slice(0, 10).map(number).join(", ")}.`, {}, ["Time", ...traces.map((each) => each.name)]);
    if (!this.pathChart) return;
    const [x, y] = [0, 1].map((axis) => samples.map((sample) => sample.x[axis]));
    const path = { x, y, mode: "lines+markers", name: "path", line: { color: COLOURS[0] }, marker: { size: 4 } };
    const now = { x: x.slice(-1), y: y.slice(-1), mode: "markers", name: "now", marker: { size: 11, color: COLOURS[1] } };
    this.pathChart.show([path, now], samples.map((sample, place) => [clock(at[place]), sample.x[0], sample.x[1]]), `From ${number(x[0])}, ${number(y[0])} to ${number(x.at(-1))}, ${number(y.at(-1))}.`,
      { hovermode: "closest", xaxis: { type: "linear", title: { text: "x1" } }, yaxis: { title: { text: "x2" } } });
  }

  #drawMean(mean) {
    const at = mean.map((each) => local(each.at));
    const band = (y, more) => ({ x: at, y, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false, name: "95 %", ...more });
    const line = { x: at, y: mean.map((each) => each.mean), name: `Mean ${this.word}`, mode: "lines+markers", marker: { size: 4 }, line: { color: COLOURS[0] } };
    const bands = mean.some((each) => each.low !== null)
      ? [band(mean.map((each) => each.low)), band(mean.map((each) => each.high), { fill: "tonexty", fillcolor: "rgba(59,125,216,.22)" })] : [];
    const rows = mean.map((each) => [clock(each.at), each.mean, each.low, each.high, each.n]);
    this.meanChart.show([...bands, line], rows, `${number(mean.at(-1)?.mean)} lately.`, { showlegend: false });
  }

  #drawOutcomes(found) {
    const middle = found.map((each) => local((each.from + each.to) / 2));
    const width = found.map((each) => each.to - each.from);
    const traces = OUTCOMES.filter(([field]) => field === "feedbacks" || found.some((each) => each[field])).map(([field, name], place) =>
      ({ type: "bar", x: middle, y: found.map((each) => each[field]), width, name, marker: { color: COLOURS[place] } }));
    const rows = found.map((each) => [clock(each.to), ...OUTCOMES.map(([field]) => each[field])]);
    this.outcomeChart.show(traces, rows, `${number(found.at(-1)?.feedbacks)} applied per minute lately.`, { barmode: "stack", bargap: 0, yaxis: found.some((each) => OUTCOMES.some(([field]) => each[field])) ? { rangemode: "tozero" } : { range: [0, 1] } });
  }

  #armsTable(view) {
    const mayChange = this.context.role === "admin" && view.learner.arms;
    const name = (row) => row.label ?? String(row.arm);
    const stateOf = (row) => (row.removed === true ? "removed" : row.paused ? "paused" : "live");
    const change = (field, row) => async () => {
      this.armError.textContent = "";
      try {
        await changeArms(this.id, { [field]: [row.label] });
        await this.#showArms();
      } catch (problem) {
        this.armError.textContent = problem.message;
      }
    };
    const columns = [
      { key: "index", title: "Arm", head: true, wide: true, value: (row) => row.arm, cell: name },
      { key: "probability", title: "Share", numeric: true, value: (row) => row.probability, cell: (row) => percent(row.probability) },
      ...(view.learner.kind === "multiscale_tsallis" ? [{ key: "chance", title: "Best", numeric: true, value: (row) => row.best_chance, cell: (row) => percent(row.best_chance) }] : []),
      { key: "acts", title: "Acts", numeric: true, value: (row) => row.acts, cell: (row) => number(row.acts) },
      { key: "outstanding", title: "Outstanding", numeric: true, value: (row) => row.outstanding, cell: (row) => number(row.outstanding) },
      { key: "feedbacks", title: "Feedback", numeric: true, value: (row) => row.feedbacks, cell: (row) => number(row.feedbacks) },
      { key: "expired", title: "Expired", numeric: true, value: (row) => row.expired, cell: (row) => number(row.expired) },
      { key: "mean", title: `Mean ${this.word} so far`, numeric: true, value: meanSoFar, cell: (row) => number(meanSoFar(row)) },
      { key: "interval", title: "95 %", numeric: true, cell: (row) => (row.so_far?.acts ? `${number(row.low)} to ${number(row.high)}` : "–") },
    ];
    if (mayChange) columns.push({ key: "do", title: "Change", cell: (row) => {
      if (row.removed === true) return "";
      const field = row.paused ? "resume" : "pause";
      return [h("button", { type: "button", class: "small", "aria-label": `${field} ${name(row)}`, onclick: change(field, row) }, row.paused ? "Resume" : "Pause")];
    } });
    columns.splice(1, 0, { key: "state", title: "State", value: (row) => ["live", "paused", "removed"].indexOf(stateOf(row)), cell: stateOf });
    this.armError = h("p", { class: "error", role: "alert" });
    this.armNote = h("p", { class: "note" });
    const search = h("input", { type: "search", autocomplete: "off", spellcheck: "false", oninput: () => {
      const text = search.value.trim().toLowerCase();
      table.filter = (row) => name(row).toLowerCase().includes(text);
      table.page = 0;
      table.draw();
    } });
    this.armSearch = h("label", {}, "Search in arms", search);
    const table = new LiveTable({ caption: "Arms", columns, rowKey: (row) => row.arm, sort: this.sort, pageSize: 25,
      onSort: (sort) => { this.sort = sort; this.#showArms().catch(() => {}); }, empty: "No arm fits." });
    return table;
  }

  async #showArms() {
    if (!this.arms) return;
    // Of many arms those that come first are read, a thousand at most, as the service sorts them; else removed ones, too.
    const isLong = this.view.learner.n_arms > 900;
    const known = isLong && ["index", "probability", "acts", "mean"].includes(this.sort.key) ? this.sort : { key: "probability", down: true };
    const query = `limit=1000&sort=${known.down ? "-" : ""}${known.key}${isLong ? "" : "&removed=true"}`;
    const { arms: listed, next_cursor: next } = await get(sessionPath(this.id, `/arms?${query}`));
    const arms = listed.filter((row) => row.removed !== true || row.label);
    // Names of arms that were removed are known as long as their events could come, and here while the page is open.
    for (const row of arms) if (row.label) this.names.set(row.arm, row.label);
    this.#drawIntervals(arms.filter((row) => row.removed !== true));
    setText(this.armNote, next === null || !isLong ? "" : `The first ${number(arms.length)} of ${number(this.view.learner.n_arms)} arms, by ${known.key}.`);
    this.arms.show(arms);
  }

  #drawIntervals(arms) {
    const rows = arms.filter((row) => row.so_far?.acts).sort((a, b) => b.probability - a.probability).slice(0, MOST_INTERVALS);
    const short = (text) => (text.length > 18 ? `${text.slice(0, 17)}…` : text);
    const place = rows.map((_, index) => index);
    const trace = { x: rows.map((row) => row.so_far.mean), y: place, mode: "markers", name: "Arms", marker: { size: 9, color: COLOURS[0] },
      text: rows.map((row) => `${this.#name(row.arm)}: ${number(row.so_far.mean)}, ${number(row.low)} to ${number(row.high)}`), hoverinfo: "text",
      error_x: { type: "data", symmetric: false, array: rows.map((row) => row.high - row.so_far.mean), arrayminus: rows.map((row) => row.so_far.mean - row.low), thickness: 2, width: 5 } };
    const control = this.view.groups?.control?.[`mean_${this.word}`] ?? null;
    const line = control === null ? {} : {
      shapes: [{ type: "line", yref: "paper", x0: control, x1: control, y0: 0, y1: 1, line: { color: COLOURS[1], width: 2, dash: "dash" } }],
      annotations: [{ x: control, y: 1, yref: "paper", yanchor: "bottom", text: "control", showarrow: false }],
    };
    const cells = rows.map((row) => [this.#name(row.arm), row.so_far.mean, row.low, row.high, row.so_far.acts, percent(row.probability)]);
    const first = rows[0];
    this.intervalChart.show([trace], cells.reverse(), first ? `${this.#name(first.arm)}, the most probable, has ${number(first.so_far.mean)}, between ${number(first.low)} and ${number(first.high)}.` : "",
      { ...line, hovermode: "closest", margin: { l: 8, r: 12, t: 24, b: 8 }, xaxis: { type: "linear", title: { text: `Mean ${this.word} so far` } },
        yaxis: { tickmode: "array", tickvals: place, ticktext: rows.map((row) => short(this.#name(row.arm))), range: [rows.length - 0.5, -0.5] } });
  }

  #segmentsTable() {
    this.segmentNote = h("p", { class: "note" });
    return new LiveTable({ caption: "Segments", rowKey: (row) => row.segment, sort: { key: "slots", down: true }, pageSize: 25, empty: "No segment yet.", columns: [
      { key: "segment", title: "Segment", head: true, wide: true, value: (row) => row.segment, cell: (row) => row.segment },
      { key: "slots", title: "Acts", numeric: true, value: (row) => row.slots, cell: (row) => number(row.slots) },
      { key: "feedbacks", title: "Feedback", numeric: true, value: (row) => row.feedbacks, cell: (row) => number(row.feedbacks) },
      { key: "mean", title: `Mean ${this.word}`, numeric: true, value: meanOf, cell: (row) => number(meanOf(row)) },
      { key: "effective", title: "Effective arms", numeric: true, value: (row) => row.effective_arms, cell: (row) => number(row.effective_arms) },
      { key: "last", title: "Last act", numeric: true, value: (row) => Date.parse(row.last_act_at), cell: (row) => age(row.last_act_at) },
    ] });
  }

  async #showSegments() {
    if (!this.segments) return;
    const { segments, next_cursor: next } = await get(sessionPath(this.id, "/segments?limit=1000&sort=-slots"));
    setText(this.segmentNote, next === null ? "" : `The ${number(segments.length)} segments with the most acts, of ${number(this.view.segments)}.`);
    this.segments.show(segments);
  }

  #featuresTable() {
    return new LiveTable({ caption: "Features", rowKey: (row) => row.name, sort: { key: "missing", down: true }, pageSize: 25, columns: [
      { key: "name", title: "Feature", head: true, wide: true, value: (row) => row.name, cell: (row) => row.name },
      { key: "columns", title: "Columns", numeric: true, value: (row) => row.columns, cell: (row) => number(row.columns) },
      { key: "missing", title: "Missing", numeric: true, value: (row) => row.missing, cell: (row) => percent(row.missing) },
      { key: "clipped", title: "Out of range", numeric: true, value: (row) => row.clipped, cell: (row) => percent(row.clipped) },
    ] });
  }

  async #showFeatures() {
    if (!this.features) return;
    const { features } = await get(sessionPath(this.id, "/features"));
    this.features.show(Object.entries(features).map(([name, row]) => ({ name, ...row })));
  }

  close() {
    for (const chart of this.drawn || []) chart.close();
  }
}
