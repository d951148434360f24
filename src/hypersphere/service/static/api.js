// Questions to the service this page came from, and to nobody else.

let token = "";
let askForToken = () => {};

export class Problem extends Error {
  constructor(body, status) {
    super(body.message ?? `the service answered ${status}`);
    this.body = body;
    this.status = status;
  }
}

export function onTokenNeeded(handler) {
  askForToken = handler;
}

export function useToken(value) {
  token = value;
}

export async function ask(path, { method = "GET", form = null, headers = {} } = {}) {
  const sent = token ? { ...headers, Authorization: `Bearer ${token}` } : headers;
  let answer;
  try {
    answer = await fetch(path, { method, body: form, headers: sent });
  } catch {
    throw new Problem({ message: "the service does not answer" }, 0);
  }
  const body = await answer.json().catch(() => ({}));
  if (answer.status === 401 || (answer.status === 403 && body.error === "token")) askForToken();
  if (!answer.ok) throw new Problem(body, answer.status);
  return body;
}

// Whatever comes from a user or the service is set as text.
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

export function svg(name, attributes = {}, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

export function say(place, kind, headline, ...lines) {
  place.className = kind ? `answer ${kind}` : "answer";
  place.replaceChildren(...(headline ? [element("strong", { textContent: headline })] : []),
    ...lines.filter(Boolean).map((line) => element("small", { textContent: line })));
}

// `photos` are the names of what was sent, so that a message says which photo it is about.
export function complain(place, error, photos = []) {
  if (!(error instanceof Problem)) throw error;
  const { photo, retry_after: wait } = error.body;
  const name = photos[photo - 1];
  say(place, "wrong", "", name ? `${name}: ${reason(error)}` : error.message, wait ? `Try again in ${wait} s.` : "");
}

const REASONS = {
  unreadable_photo: "this file cannot be read as a photo.",
  photo_too_large: "this photo has too many pixels; send a smaller one.",
  landmarks: "eyes, nose and mouth cannot be told apart; take another photo.",
};

function reason({ body, message }) {
  if (body.error !== "face_count") return REASONS[body.error] ?? message;
  return body.faces ? `${body.faces} faces were found; one is expected.` : "no face was found.";
}

export async function busy(button, place, work, photos = []) {
  button.disabled = true;
  say(place, "", "", "…");
  try {
    return await work();
  } catch (error) {
    complain(place, error, photos);
    return null;
  } finally {
    button.disabled = false;
  }
}

// "1 photo", "2,400 photos".
export function counted(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

export function rate(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  return value >= 0.0001 ? `${Number((100 * value).toPrecision(3))} %` : value.toExponential(1);
}

// A rate as people say it: "1 in 1,000".
export function oneIn(value) {
  if (!value) return "hardly any";
  if (value > 0.45) return `${Math.round(100 * value)} in 100`;
  return `1 in ${Number((1 / value).toPrecision(2)).toLocaleString("en")}`;
}

// Names and values, one below the other.
export function facts(table, values) {
  table.replaceChildren(...Object.entries(values).filter(([, value]) => value).map(([name, value]) =>
    element("tr", {}, element("th", { scope: "row", textContent: name }), element("td", { textContent: value }))));
}

// Rates beside one that `power` writes, in its notation.
export function powers(low, high) {
  return `[${[low, high].map((value) => (value === 0 ? "0" : value.toExponential(1))).join(", ")}]`;
}

export function power(value) {
  return value === 1 ? "1" : value.toExponential(0);
}
