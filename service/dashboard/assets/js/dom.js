// Elements, and numbers and times as text.

export function h(name, attributes = {}, ...children) {
  // An element; attributes that begin with "on" are listeners, `true` is an attribute without value.
  const element = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) {
    if (attribute.startsWith("on")) element.addEventListener(attribute.slice(2), value);
    else if (value === true) element.setAttribute(attribute, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(attribute, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const whole = new Intl.NumberFormat("en");

export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (Number.isInteger(value)) return whole.format(value);
  const size = Math.abs(value);
  if (size >= 1000) return whole.format(Math.round(value));
  return size >= 1e-4 ? String(Number(value.toPrecision(4))) : value.toExponential(2);
}

export function percent(share) {
  if (share === null || share === undefined) return "–";
  if (share > 0 && share < 0.001) return "< 0.1 %";
  return `${(100 * share).toFixed(1)} %`;
}

export function age(time) {
  // How long ago a time of the service was.
  if (!time) return "never";
  const seconds = Math.max(0, (Date.now() - Date.parse(time)) / 1000);
  if (seconds < 5) return "now";
  for (const [unit, length] of [["d", 86_400], ["h", 3600], ["min", 60]]) {
    if (seconds >= 2 * length) return `${Math.floor(seconds / length)} ${unit} ago`;
  }
  return `${Math.floor(seconds)} s ago`;
}

export const clock = (milliseconds) =>
  new Date(milliseconds).toLocaleString(undefined, { dateStyle: "short", timeStyle: "medium" });

export const HINTS = {
  halted: "Look why before you let it go on; it keeps what it has learned.",
  no_feedback: "Report what came of each act with POST …/feedback and the arm that was shown, or give the session an expiry, so that decisions nobody reacts to count as its default.",
  first_window: "Wait until the first window has ended. If reactions should have come already, look whether they are reported.",
  equal_losses: "Report what differs between arms: also what was not clicked, as a loss, or with an expiry and a default.",
  mostly_surplus: "Report each event once, with an event_id, and as losses of the decisions that this session made.",
  late_events: "Choose a longer expiry.after_seconds (PATCH /v1/sessions/{id}), or report sooner.",
  silence: "Look at what posts the clicks. The session learns again as soon as one comes; if all is well, set \"guard\": {\"silence\": false}.",
  growing_outstanding: "Give the session an expiry (PATCH /v1/sessions/{id}), or also report when nothing happened.",
  answered_too_often: "Create the session again with \"provisional\": false in its expiry, or with the default null.",
  few_events: "Wait, show fewer arms, or count something that happens more often.",
  rewards_rare_and_bad: "If the events are good news, swap the ends of reward_range or loss_range, or of what is posted.",
  features_missing: "Say in each act what is known of the visitor; a feature that is seldom known is better left out.",
  features_clipped: "Create the session again with a wider range of the feature.",
  features_unused: "Nothing is lost. Other features may tell more, or the best arm is the same for all.",
};

export const badges = (hints) =>
  (hints || []).map((hint) => h("span", { class: "badge", title: hint.message }, hint.code.replaceAll("_", " ")));
