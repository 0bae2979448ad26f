// Whether a session is better than its control group: a sentence, a picture of its interval, both groups; and before
// it what stops the session.

import { call, sessionPath } from "./api.js";
import { clock, h, HINTS, number, percent, setText } from "./dom.js";
import { hasDefault } from "./series.js";

const FIRST = 200;
const GROUPS = ["learner", "control"];
const TAKE_CONTROL = ["multiscale_tsallis", "centred_tsallis", "exp3", "fixed"];
export const URGENT = ["halted", "silence"];

const rangeOf = (view) => view.reward_range ?? view.loss_range;
const wordOf = (view) => (view.reward_range ? "reward" : "loss");

function difference(view) {
  // Such as "better by 3.2 points, between 2.1 and 4.3": a point is a hundredth of a range from 0 to 1.
  const { verdict } = view;
  const isShare = Math.min(...rangeOf(view)) === 0 && Math.max(...rangeOf(view)) === 1;
  const scale = (isShare ? 100 : 1) * (verdict.is === "worse" ? -1 : 1);
  const [low, middle, high] = [verdict.low, verdict.difference, verdict.high].map((each) => scale * each).sort((a, b) => a - b);
  const digits = Math.min(20, Math.max(1, 1 - Math.floor(Math.log10(high - low || 1))));
  const text = (value) => value.toFixed(digits).replace(/^-(?=[0.]*$)/, "").replace("-", "−");
  const numbers = `${text(middle)}${isShare ? " points" : ""}, between ${text(low)} and ${text(high)}`;
  return `${{ better: "Better by", worse: "Worse by", unclear: "Unclear:" }[verdict.is]} ${numbers}`;
}

function about(view) {
  const { verdict, groups } = view;
  if (!groups) return "Nobody knows what this session gains. Give it a control group with PATCH /v1/sessions/{id} and {\"control\": {\"share\": 0.1}}: one act in ten is then drawn by chance, and after 200 acts there is a verdict.";
  if (!verdict) {
    const acts = GROUPS.map((name) => groups[name].acts);
    const since = hasDefault(view) && !acts.includes(0) && acts[0] + acts[1] >= FIRST ? " since the halt" : "";
    return `It needs ${FIRST} ${hasDefault(view) ? "acts" : "acts whose outcome is known"}${since}, some of each group.`;
  }
  const lift = verdict.is === "unclear" || verdict.lift === null ? "" : ` That is ${percent(Math.abs(verdict.lift))} of the control's mean.`;
  return `The learner against the control, ${Math.round(100 * verdict.confidence)} % sure however often you look.${lift}`;
}

const HELP = "Acts without an event count as the default, or not at all if there is none, so open clicks make a verdict a little cautious. "
  + "A point is a hundredth of a range from 0 to 1. You may look as often as you like, and stop once the interval is clear of 0.";

export class VerdictPart {
  // What a session's page begins with.
  constructor(id, context) {
    Object.assign(this, { id, context });
    this.banners = h("ul", { class: "hints urgent", "aria-label": "What stops this session" });
    this.error = h("p", { class: "error", role: "alert" });
    this.sentence = h("p", { class: "lead" });
    this.detail = h("p");
    this.leader = h("p");
    this.bar = h("span", { class: "bar" });
    this.dot = h("span", { class: "dot" });
    this.zero = h("span", { class: "zero" });
    this.picture = h("div", { class: "interval", role: "img" }, this.zero, this.bar, this.dot);
    this.zeroText = h("span", {}, "worse ← 0 → better");
    this.ends = h("div", { class: "ends", "aria-hidden": "true" }, this.zeroText);
    this.body = h("tbody");
    this.meanHead = h("th", { scope: "col", class: "number" });
    this.table = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Groups" }, h("table", {},
      h("caption", { class: "unseen" }, "Groups"),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Group"), this.meanHead, ["Acts", "Events", "Outstanding"].map((name) => h("th", { scope: "col", class: "number" }, name)))), this.body));
    const help = h("details", {}, h("summary", {}, "How to read it"), h("p", { class: "note" }, HELP, " The page docs/verdict.md says more; ", h("a", { href: "docs#/sessions/view_session" }, "the API"), " has the fields."));
    this.card = h("section", { class: "card verdict", "aria-label": "Verdict" }, h("h2", {}, "Verdict"), this.sentence, this.detail, this.picture, this.ends, this.table, this.leader, help);
    this.element = h("div", {}, this.banners, this.error, this.card);
  }

  show(view) {
    const { verdict, groups, leader } = view;
    this.#showBanners(view);
    this.card.hidden = !groups && !TAKE_CONTROL.includes(view.learner.kind);
    this.card.dataset.is = verdict?.is ?? "none";
    setText(this.sentence, verdict ? difference(view) : groups ? "No verdict yet" : "No control group");
    setText(this.detail, about(view));
    for (const part of [this.picture, this.ends]) part.hidden = !verdict;
    if (verdict) this.#draw(verdict, difference(view));
    this.table.hidden = !groups;
    const word = `mean_${wordOf(view)}`;
    setText(this.meanHead, `Mean ${wordOf(view)} so far`);
    const rows = groups ? GROUPS.map((name) => [name, ...[word, "acts", "events", "outstanding"].map((field) => number(groups[name][field]))]) : [];
    const content = JSON.stringify(rows);
    if (content !== this.content) {
      this.content = content;
      this.body.replaceChildren(...rows.map(([name, ...cells]) => h("tr", {}, h("th", { scope: "row" }, name), cells.map((cell) => h("td", { class: "number" }, cell)))));
    }
    this.leader.hidden = !leader;
    if (leader) {
      const name = leader.label ?? `arm ${leader.arm}`;
      const mean = leader.mean === null ? "with no outcome known yet" : `mean ${wordOf(view)} ${number(leader.mean)} so far, between ${number(leader.low)} and ${number(leader.high)}`;
      setText(this.leader, `Most probable arm: ${name} (${percent(leader.probability)}), ${mean}; ${leader.clear ? "clearly better than every other arm" : "not clearly better than every other arm yet"}.`);
    }
  }

  #draw({ low, high, difference: middle }, text) {
    // Positions are set one by one: the page's policy allows no styles in attributes.
    const span = Math.max(high, 0) - Math.min(low, 0);
    const [from, to] = [Math.min(low, -0.3 * span), Math.max(high, 0.3 * span)];
    const place = (value) => `${5 + (90 * (value - from)) / (to - from || 1)}%`;
    this.zero.style.left = place(0);
    this.dot.style.left = place(middle);
    this.bar.style.left = place(low);
    this.bar.style.right = `calc(100% - ${place(high)})`;
    this.zeroText.style.left = place(0);
    this.picture.setAttribute("aria-label", `${text}; 0 is as the control.`);
  }

  #showBanners(view) {
    const found = view.hints.filter((hint) => URGENT.includes(hint.code));
    const content = JSON.stringify([found, view.halted_at]);
    this.banners.hidden = !found.length;
    if (content === this.shown) return;
    this.shown = content;
    const goOn = async () => {
      setText(this.error, "");
      try {
        await call("PATCH", sessionPath(this.id), { halted: false });
      } catch (problem) {
        setText(this.error, problem.message);
      }
    };
    const button = this.context.role === "admin" ? h("button", { type: "button", onclick: goOn }, "Let the learner go on") : null;
    this.banners.replaceChildren(...found.map(({ code, message }) => h("li", { class: code },
      h("strong", {}, code === "halted" ? `Halted since ${clock(Date.parse(view.halted_at))}: ${message}` : message), HINTS[code] || "", code === "halted" ? button : null)));
  }
}
