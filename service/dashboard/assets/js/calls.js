// How to call a session, as text to copy.

import { h } from "./dom.js";

const quoted = (text) => JSON.stringify(text);
const inShell = (text) => `'${text.replaceAll("'", "'\\''")}'`;

export function snippets(view, needsKey) {
  const base = new URL(".", location.href.split("#")[0]).href.replace(/\/$/, "");
  const word = view.reward_range ? "reward" : "loss";
  const { learner, session_id: id } = view;
  const points = Boolean(view.x);
  const named = Boolean(learner.arms && learner.arms.length);
  const full = ["ogd", "solid"].includes(learner.kind);
  const dim = learner.dim || 0;
  const values = full ? { gradient: Array(dim).fill(0) } : { losses: Array(dim + 1).fill(0.5) };
  const arm = named ? { label: learner.arms[0] } : { arm: 0 };
  const bySlot = ["exp3", "bold", "tsallis_delayed"].includes(learner.kind) ? { slot: 1 } : {};
  const event = points ? values : { ...arm, [word]: view[`${word}_range`] ? view[`${word}_range`][1] : 1, ...bySlot, ...(view.groups ? { group: "<that of the action>" } : {}) };
  const key = needsKey ? ' \\\n  -H "X-API-Key: $API_KEY"' : "";
  const url = `${base}/v1/sessions/${id}`;
  const curl = `# Ask for ${points ? "a point" : "an arm"}.
curl -X POST ${inShell(`${url}/act`)}${key}

# Report what came of it, whenever that is known.
curl -X POST ${inShell(`${url}/feedback`)}${key} \\
  -H 'Content-Type: application/json' \\
  -d ${inShell(JSON.stringify({ ...event, event_id: "<a new id for each click>" }))}`;
  const use = full ? "gradient_at(action.x)" : points ? "evaluate(action.query_points)" : `show(action.${named ? "label" : "arm"})`;
  const shown = full ? "gradient=gradient" : points ? "losses=values" : `action, ${word}=${event[word]}`;
  const python = `from delayed_bandits import Bandits

with Bandits(${quoted(base)}${needsKey ? ', api_key="..."' : ""}) as bandits:
    session = bandits.session(${quoted(id)})
    action = session.act()
    ${points ? `${full ? "gradient" : "values"} = ${use}` : use}
    session.report(${shown})`;
  return { curl, python };
}

export function callsSection(view, needsKey) {
  const texts = snippets(view, needsKey);
  const part = (title, text) => {
    const button = h("button", { type: "button", class: "small", onclick: async () => {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } }, "Copy");
    if (!navigator.clipboard) button.hidden = true;
    return h("div", { class: "card" }, h("div", { class: "row" }, h("h3", {}, title), button),
      h("pre", { tabindex: "0", role: "region", "aria-label": title }, h("code", {}, text)));
  };
  return h("section", {}, h("h2", {}, "How to call it"),
    h("div", { class: "calls" }, part("curl", texts.curl), part("Python", texts.python)));
}
