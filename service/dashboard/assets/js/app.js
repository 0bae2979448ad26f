// The page: which part of it is shown, asked again and again while somebody looks, and the API key.

import { call, key } from "./api.js";
import { h } from "./dom.js";
import { SessionPage } from "./session.js";
import { OpenPage, SessionsPage } from "./sessions.js";

const main = document.querySelector("main");
const status = document.querySelector("#status");
const forget = document.querySelector("#forget-key");
const WAIT_AFTER_FAILURE = 5;

let page = null;
let timer = 0;
let turn = 0;
const context = { role: null, needsKey: false };

forget.addEventListener("click", () => {
  key.forget();
  context.role = null;
  open();
});
addEventListener("hashchange", () => open(true));
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });

function say(text, bad = false) {
  if (status.textContent !== text) status.textContent = text;
  status.classList.toggle("bad", bad);
}

function show(next, focus) {
  page?.close();
  for (const dialog of document.querySelectorAll("dialog")) dialog.close();
  page = next;
  document.title = `${next.title} – delayed bandits`;
  main.replaceChildren(next.element);
  scrollTo(0, 0);
  if (focus) main.focus({ preventScroll: true });
}

async function open(focus = false) {
  clearTimeout(timer);
  const mine = ++turn;
  try {
    if (context.role === null) Object.assign(context, await call("GET", "v1/key"));
  } catch (problem) {
    return failed(problem, mine);
  }
  if (mine !== turn) return;
  context.needsKey = context.name !== null;
  forget.hidden = !key.get();
  const [, id] = /^#\/sessions\/(.+)$/.exec(location.hash) || [];
  if (id) show(new SessionPage(context, decodeURIComponent(id)), focus);
  else show(context.role === "client" ? new OpenPage() : new SessionsPage(context), focus);
  refresh();
}

async function refresh() {
  clearTimeout(timer);
  if (document.hidden || !page?.update) return;
  const mine = ++turn;
  try {
    await page.update();
    if (mine !== turn) return;
    say("Live");
    timer = setTimeout(refresh, 1000 * page.seconds);
  } catch (problem) {
    failed(problem, mine);
  }
}

function failed(problem, mine) {
  if (mine !== turn) return;
  if (problem.status === 401) return askForKey(problem);
  if (problem.status === 404 && page?.view !== undefined || problem.status === 404 && page instanceof SessionPage) {
    say("");
    return show({ title: "Not found", close() {}, element: h("div", {}, h("h1", {}, "There is no such session"), h("p", {}, h("a", { href: "#/" }, "All sessions"))) });
  }
  if (problem.status === undefined) throw problem;
  say(`${problem.message}. Trying again.`, true);
  timer = setTimeout(() => (page ? refresh() : open()), 1000 * WAIT_AFTER_FAILURE);
}

function askForKey(problem) {
  const input = h("input", { type: "password", required: true, autocomplete: "off" });
  const error = h("p", { class: "error", role: "alert" });
  if (key.get()) error.textContent = problem.message;
  key.forget();
  context.role = null;
  forget.hidden = true;
  say("");
  const form = h("form", { class: "stack", onsubmit: (event) => {
    event.preventDefault();
    key.set(input.value.trim());
    open(true);
  } }, h("label", {}, "API key", input), error, h("div", {}, h("button", { class: "main" }, "Open the dashboard")));
  show({ title: "API key", close() {}, element: h("div", {}, h("h1", {}, "API key"),
    h("p", {}, "This service asks for an API key. It stays in this tab, and is forgotten when you close it."), form) });
  input.focus();
}

open();
