// Calls of the service. The API key is kept for this tab alone, in its session storage.

const KEY = "delayed-bandits-api-key";

export class Problem extends Error {
  // An answer that is no success, or none at all (status 0).
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export const key = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

export async function call(method, path, body) {
  // Addresses are relative to the page, so that it also works below a path of a proxy.
  const headers = key.get() ? { "X-API-Key": key.get() } : {};
  const options = { method, headers, cache: "no-store", signal: AbortSignal.timeout(30_000) };
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    throw new Problem(0, "unreachable", `The service does not answer (${error.message})`);
  }
  if (answer.status === 204) return null;
  const text = await answer.text();
  let content = {};
  try {
    content = JSON.parse(text);
  } catch {
    throw new Problem(answer.status, "no_json", `The service answered ${answer.status} without JSON`);
  }
  if (!answer.ok) throw new Problem(answer.status, content.code, content.detail || content.title || `Status ${answer.status}`);
  return content;
}

export const get = (path) => call("GET", path);

export const sessionPath = (id, rest = "") => `v1/sessions/${encodeURIComponent(id)}${rest}`;

export async function pages(path, field, most) {
  // Rows of a list, page by page, `most` at most; and whether there are more.
  const rows = [];
  let cursor = null;
  do {
    const query = new URLSearchParams({ limit: 1000, ...(cursor === null ? {} : { cursor }) });
    const page = await get(`${path}?${query}`);
    rows.push(...page[field]);
    cursor = page.next_cursor;
  } while (cursor !== null && rows.length < most);
  return { rows, more: cursor !== null };
}
