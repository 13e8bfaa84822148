// The inbox and the page of a request. The list is live (live.js): rows that are new are held back, so that nothing moves
// under the reader, until he asks for them. What is selected is summed up by the server; keys of one letter move about.
import { tell } from "./tell.js";

const form = document.querySelector("#selection");
const newbar = document.querySelector("#newbar");
const LETTERS = "input:not([type=checkbox]), textarea, select, [contenteditable]";

// ------------------------------------------------------------ rows that are new

let held = new Map();
let coming = new Map();

document.addEventListener("live:before-add", (event) => {
  const row = event.detail;
  if (!(row instanceof HTMLTableRowElement) || !row.dataset.row) return;
  event.preventDefault();
  coming.set(row.id, row.cloneNode(true));
});

function announce() {
  const known = held.size;
  held = coming;
  coming = new Map();
  for (const id of held.keys()) if (document.getElementById(id)) held.delete(id);
  newbar.hidden = held.size === 0;
  const text = `${held.size} new request${held.size === 1 ? "" : "s"}`;
  newbar.querySelector("span").textContent = `${text}. Show ${held.size === 1 ? "it" : "them"}`;
  if (held.size > known) tell(`${text}.`);
}

function show() {
  const rows = document.querySelector("#rows");
  if (!rows) return location.reload();
  let first = null;
  for (const row of held.values()) {
    const added = document.importNode(row, true);
    const next = [...rows.rows].find((other) => Number(other.dataset.order) > Number(added.dataset.order));
    rows.insertBefore(added, next ?? null);
    first ??= added;
  }
  held.clear();
  newbar.hidden = true;
  first?.querySelector(".oc-name")?.focus();
}

if (newbar) {
  newbar.addEventListener("click", show);
  document.addEventListener("live:refreshed", announce);
}

// ------------------------------------------------------------ what is selected

const boxes = () => [...form.querySelectorAll('#rows .oc-ck[name="select"]:not(:disabled)')];

function count() {
  form.dispatchEvent(new Event("count"));
}

function reflect() {
  const all = form.querySelector("[data-select-safe]");
  if (!all) return;
  const safe = boxes().filter((box) => box.dataset.verdict === "safe");
  const ticked = safe.filter((box) => box.checked).length;
  all.disabled = safe.length === 0;
  all.checked = ticked > 0 && ticked === safe.length;
  all.indeterminate = ticked > 0 && ticked < safe.length;
}

function selectSafe(wanted) {
  for (const box of boxes()) if (box.dataset.verdict === "safe") box.checked = wanted;
  reflect();
  count();
}

if (form) {
  form.addEventListener("change", (event) => {
    if (event.target.matches("[data-select-safe]")) selectSafe(event.target.checked);
    else reflect();
  });
  form.addEventListener("click", (event) => {
    const link = event.target.closest("[data-all-safe], [data-clear]");
    // Rows on other pages can be selected by the server alone.
    if (!link || document.querySelector(".oc-pager")) return;
    event.preventDefault();
    if (link.matches("[data-all-safe]")) return selectSafe(true);
    for (const box of boxes()) box.checked = false;
    reflect();
    count();
  });
  document.addEventListener("live:refreshed", () => {
    reflect();
    count();
  });
  reflect();
  if (boxes().some((box) => box.checked)) addEventListener("load", count);
}

// ------------------------------------------------------------ keys

const current = () => document.activeElement?.closest("tr[data-row]");

function move(step) {
  const rows = [...document.querySelectorAll("#rows tr[data-row]")];
  const at = rows.indexOf(current());
  const next = rows[at === -1 ? 0 : Math.min(Math.max(at + step, 0), rows.length - 1)];
  next?.querySelector(".oc-name").focus();
}

function open(query) {
  const link = current()?.querySelector(".oc-name");
  if (link && current().querySelector(".is-action a")) location.href = `${link.href}${query}`;
}

const KEYS = {
  j: () => move(1),
  k: () => move(-1),
  x: () => current()?.querySelector('[name="select"]:not(:disabled)')?.click(),
  a: () => open("#decide"),
  d: () => open("?decide=decline#decline"),
  "?": () => document.querySelector("#keys").showModal(),
};

if (form) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches(LETTERS)) return;
    const isMeant = form.contains(document.activeElement) || document.documentElement.dataset.shortcuts === "on";
    if (!isMeant || !Object.hasOwn(KEYS, event.key) || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    KEYS[event.key]();
  });
}

// ------------------------------------------------------------ the page of a request

const version = document.querySelector("#version");
if (version) {
  const read = version.dataset.version;
  document.addEventListener("live:refreshed", () => {
    const changed = document.querySelector("#changed");
    if (document.querySelector("#version").dataset.version === read || !changed.hidden) return;
    changed.hidden = false;
    tell("This request changed while you were reading it.");
  });
}
