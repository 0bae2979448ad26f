// What an admin may do: create, pause, resume, remove, delete.

import { call, sessionPath } from "./api.js";
import { h } from "./dom.js";

const OVER_ARMS = ["multiscale_tsallis", "centred_tsallis", "dexp3", "fixed"];

function dialog(title, parts, does, send, kind = "main") {
  // A form in a dialog; `send` returns when it is done, and throws what the form then shows.
  const error = h("p", { class: "error", role: "alert" });
  const button = h("button", { class: kind }, does);
  const form = h("form", { onsubmit: async (event) => {
    event.preventDefault();
    error.textContent = "";
    button.disabled = true;
    try {
      await send();
      box.close();
    } catch (problem) {
      error.textContent = problem.message;
    } finally {
      button.disabled = false;
    }
  } }, h("h2", { id: "dialog-title" }, title), parts, error,
  h("div", { class: "row" }, button, h("button", { type: "button", onclick: () => box.close() }, "Cancel")));
  const box = h("dialog", { "aria-labelledby": "dialog-title", onclose: () => box.remove() }, form);
  document.body.append(box);
  box.showModal();
}

export function createDialog() {
  const id = h("input", { autocomplete: "off", spellcheck: "false", placeholder: "shop" });
  const kind = h("select", {}, OVER_ARMS.map((each) => h("option", {}, each)));
  const arms = h("textarea", { placeholder: "red shoes\nblue shoes", spellcheck: "false" });
  const word = h("select", {}, h("option", { value: "reward" }, "rewards from 0 to 1 (a click is 1)"), h("option", { value: "loss" }, "losses from 0 to 1 (a click is 0)"));
  const window = h("input", { type: "number", min: "0", step: "any", placeholder: "never" });
  const more = h("textarea", { placeholder: '{"control": {"share": 0.1}}', spellcheck: "false" });
  const parts = [
    h("label", {}, "Id (made for you where it is empty)", id), h("label", {}, "Learner", kind),
    h("label", {}, "Arms: a name on each line, or how many", arms), h("label", {}, "Feedback is in", word),
    h("label", {}, "Seconds after which silence counts as the worst", window),
    h("label", {}, "Other fields of POST /v1/sessions, as JSON", more),
  ];
  dialog("New session", parts, "Create", async () => {
    const names = arms.value.split("\n").map((each) => each.trim()).filter(Boolean);
    const count = names.length === 1 && /^[0-9]+$/.test(names[0]);
    const body = { learner: { kind: kind.value, ...(count ? { n_arms: Number(names[0]) } : { arms: names }) }, [`${word.value}_range`]: [0, 1] };
    if (id.value.trim()) body.session_id = id.value.trim();
    if (window.value) {
      const worst = word.value === "reward" ? 0 : 1;
      body.expiry = { after_seconds: Number(window.value), [`default_${word.value}`]: worst };
    }
    if (more.value.trim()) Object.assign(body, JSON.parse(more.value));
    const view = await call("POST", "v1/sessions", body);
    location.hash = `#/sessions/${encodeURIComponent(view.session_id)}`;
  });
}

export function deleteDialog(id) {
  const text = `Session ${id} is deleted with all that it has learned. Nothing brings it back.`;
  dialog("Delete the session?", [h("p", {}, text)], "Delete", async () => {
    await call("DELETE", sessionPath(id));
    location.hash = "#/";
  }, "main bad");
}

export async function changeArms(id, change) {
  await call("PATCH", sessionPath(id, "/arms"), change);
}
