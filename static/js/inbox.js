// The inbox and the page of a request. The list is live (live.js): rows that are new are held back, so that nothing moves
// under the reader, until they are asked for. Keys of one letter move about; select.js counts what is selected.
import { tell } from "./tell.js";

const list = document.querySelector("#list");
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

// ------------------------------------------------------------ keys

const current = () => document.activeElement?.closest("tr[data-row]");

function move(step) {
  const rows = [...document.querySelectorAll("#rows tr[data-row]")];
  const at = rows.indexOf(current());
  const next = rows[at === -1 ? 0 : Math.min(Math.max(at + step, 0), rows.length - 1)];
  next?.querySelector(".oc-name").focus();
}

// The page of the request with what would be done, or of all that are selected.
function decide(act, hash, query = {}) {
  if (document.querySelector("#requests tbody :checked, [data-select-matching]:checked")) {
    return document.querySelector(`#act-${act}`).click();
  }
  const link = current()?.querySelector(".is-action a");
  if (!link) return;
  const url = new URL(link.href);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  url.hash = hash;
  location.href = url;
}

const KEYS = {
  j: () => move(1),
  k: () => move(-1),
  x: () => current()?.querySelector('[name="select"]')?.click(),
  a: () => decide("accept", "decide"),
  d: () => decide("decline", "decline", { decide: "decline" }),
  "?": () => document.querySelector("#keys").showModal(),
};

if (list) {
  // Back from a decision: the keys go on at its row.
  document.getElementById(location.hash.slice(1))?.querySelector(".oc-name")?.focus();
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches(LETTERS)) return;
    const isMeant = document.activeElement.closest("#list, #bar") || document.documentElement.dataset.shortcuts === "on";
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
