// Keeps a page up to date by server-sent events: parts of it as HTML that the agent made and escaped, and numbers.
import "./copy.js";
import { watchFilter } from "./filter.js";
import { watchLines } from "./lines.js";
import { watchSlots } from "./slots.js";

let page = document.body.dataset.page;
const link = document.getElementById("link");
const QUIET = 12000; // ms: the agent says something every 5 s
const OLD = 30; // s: the agent makes each page that is looked at every 2 to 15 s
const AGAIN = 3000;
let since = document.body.dataset.since;
let source = null;
let heard = Date.now();
let lost = null;
let retry = 0;
let values = {};

function clock(time) {
  return time.toISOString().slice(11, 19);
}

const title = document.title;
const old = { title: document.getElementById("old-title"), text: document.getElementById("old-text") };

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// The page is live, away (it shows a banner and is grey) or still (so it is after a while, by the style alone).
function say(state, text, why = "") {
  if (link.dataset.state !== state) link.dataset.state = document.body.dataset.link = state;
  set(link, text);
  if (state === "live") {
    document.title = title;
    return;
  }
  set(old.title, text);
  set(old.text, why);
  if (state === "away") document.title = `Not connected · ${title}`;
}

// As `number` in wording.py.
export function number(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return value;
  const digits = (v) => (v < 9.995 ? v.toFixed(2) : v < 99.95 ? v.toFixed(1) : v.toFixed(0));
  if (value >= 999500) return `${digits(value / 1e6)} M`;
  if (value >= 999.5) return `${digits(value / 1e3)} k`;
  return value < 0.05 ? "0" : value < 99.95 ? digits(value) : value.toFixed(0);
}

const STEP = 5000, POINTS = 60;
// The rates of a line that the page came with; between two points it is straight. As `spark` in drawing.py.
export function ratesOf(polyline, most) {
  const rates = Array(POINTS).fill(null);
  let before = null;
  for (const { x, y } of polyline.points) {
    const rate = (most * (23 - y)) / 22;
    for (let n = before?.x ?? x; n < x; n++) rates[n] = before.rate + ((rate - before.rate) * (n - before.x)) / (x - before.x);
    rates[x] = rate;
    before = { x, rate };
  }
  return rates;
}

let lines = new Map();
let drawn = 0;
function findLines() {
  lines = new Map();
  for (const svg of document.querySelectorAll("[data-line]")) {
    const polyline = svg.firstElementChild;
    lines.set(svg.dataset.line, { polyline, past: ratesOf(polyline, Number(svg.dataset.most)) });
  }
  drawn = Date.now();
}
findLines();

function draw() {
  const now = Date.now();
  const steps = Math.min(POINTS, Math.floor((now - drawn) / STEP));
  drawn += steps * STEP;
  if (now - drawn > STEP) drawn = now;
  for (const [name, line] of lines) {
    const value = name in values ? values[name] : line.past.at(-1);
    for (let n = 0; n < steps; n++) line.past.push(value);
    line.past.splice(0, line.past.length - POINTS);
    if (!steps && line.past.at(-1) === value) continue;
    line.past[POINTS - 1] = value;
    const most = Math.max(...line.past) || 1;
    const points = line.past.map((rate, x) => (rate === null ? "" : `${x},${(23 - (22 * rate) / most).toFixed(1)}`));
    line.polyline.setAttribute("points", points.join(" "));
  }
  document.dispatchEvent(new Event("drawn"));
}

let targets = new Map();
function find() {
  targets = new Map();
  for (const element of document.querySelectorAll("[data-number]")) {
    const name = element.dataset.number;
    targets.set(name, [...(targets.get(name) ?? []), element]);
  }
}
find();

function update(data) {
  let found = false;
  for (const [name, html] of Object.entries(data.parts)) {
    const part = document.getElementById(name);
    if (part === null) continue;
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    const at = focused?.className.baseVal, led = focused?.getAttribute("href");
    const texts = new Map([...part.querySelectorAll("[data-number]")].map((e) => [e.dataset.number, e.textContent]));
    const open = [...part.querySelectorAll("details[open][id]")].map((e) => e.id);
    part.innerHTML = html;
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    for (const element of part.querySelectorAll("[data-number]")) {
      element.textContent = texts.get(element.dataset.number) ?? number(values[element.dataset.number]);
      found = true;
    }
    part.dispatchEvent(new CustomEvent("part", { bubbles: true, detail: name }));
    if (at) part.querySelector(`svg.${at.split(" ")[0]}[tabindex]`)?.focus();
    if (led) part.querySelector(`a[href="${CSS.escape(led)}"]`)?.focus({ preventScroll: true });
  }
  if (found) find();
  for (const [name, value] of Object.entries(data.numbers)) {
    values[name] = value;
    if (Array.isArray(value)) continue;
    for (const element of targets.get(name) ?? []) {
      const text = number(value);
      if (element.textContent !== text) element.textContent = text;
    }
  }
  draw();
}

function listened(event, age = 0) {
  heard = Date.now();
  lost = null;
  if (event.lastEventId) since = event.lastEventId;
  if (age > OLD) say("away", `Not read for ${age} s`, "The agent answers, and does not read the switch. What is grey is as it was before.");
  else say("live", `Live ${clock(new Date())} UTC`);
}

function connect() {
  clearTimeout(retry);
  source?.close();
  source = new EventSource(`/events?page=${encodeURIComponent(page)}&since=${encodeURIComponent(since)}`);
  heard = Date.now();
  source.addEventListener("update", (event) => {
    listened(event);
    update(JSON.parse(event.data));
  });
  source.addEventListener("beat", (event) => listened(event, JSON.parse(event.data).age));
  source.addEventListener("reload", () => location.reload());
  source.addEventListener("error", away);
}

function away() {
  lost = lost ?? new Date(heard);
  const why = "What is grey is as it was then. The agent may be stopped or hang, or the way to it is down.";
  say("away", `Not connected since ${clock(lost)} UTC`, why);
  clearTimeout(retry);
  source?.close();
  source = null;
  if (!document.hidden) retry = setTimeout(again, AGAIN);
}

// A session that has ended, or an agent that knows of none, leads to the page to sign in.
async function again() {
  const signal = AbortSignal.timeout(QUIET); // one that hangs accepts connections, and never answers
  const options = { method: "HEAD", redirect: "manual", headers: { accept: "text/html" }, signal };
  const found = await fetch("/pools", options).catch(() => null);
  if (document.hidden || source !== null) return; // it began anew meanwhile
  if (found?.type === "opaqueredirect") location.reload();
  else connect();
}

setInterval(() => {
  if (!document.hidden && source !== null && Date.now() - heard > QUIET) away();
}, 2000);

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    source?.close();
    source = null;
    clearTimeout(retry);
    say("still", `Paused ${clock(new Date())} UTC`, "It is kept up to date while it is looked at.");
  } else connect();
});
addEventListener("pagehide", () => source?.close());
addEventListener("pageshow", (event) => event.persisted && connect());

// Another filter of VIPs is another page of the agent's, of which what differs is taken over.
watchFilter((other) => {
  for (const id of ["stale", "attention", "switch", "found", "unfiltered", "vips"]) {
    const mine = document.getElementById(id), theirs = other.getElementById(id);
    if (mine.innerHTML !== theirs.innerHTML) mine.replaceWith(document.adoptNode(theirs));
  }
  const sums = other.querySelector(".total");
  for (const number of document.querySelectorAll(".total [data-number]")) {
    number.textContent = sums.querySelector(`[data-number=${number.dataset.number}]`).textContent;
  }
  ({ page, since } = other.body.dataset);
  values = {};
  find();
  findLines();
  if (!document.hidden) connect();
});

watchSlots((name) => values[name], number);
watchLines((name) => lines.get(name)?.past, () => heard, number, clock);
if (!document.hidden) connect();
