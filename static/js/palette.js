// The search palette: Ctrl+K or a click on the field opens it; arrows choose, Enter goes there.
const WAIT = 120;
const MOST_RECENT = 5;
const field = document.querySelector("#search");
const form = document.querySelector("[data-palette]");

// Of this person: another one at the same browser must not read where they were.
const kept = `recent of ${document.querySelector(".oc-user")?.textContent}`;

let dialog;
let timer;
let asked = 0;
let shown; // the text that the list answers

function recent() {
  try {
    return JSON.parse(localStorage.getItem(kept) ?? "[]");
  } catch {
    return [];
  }
}

// What was looked at lately comes first; kept in this browser only.
function remember() {
  const title = document.querySelector("h1")?.textContent.trim();
  const refused = performance.getEntriesByType("navigation")[0]?.responseStatus >= 400;
  if (!title || refused || location.pathname.startsWith("/search")) return;
  const others = recent().filter((page) => page.url !== location.pathname);
  const newest = [{ title, url: location.pathname }, ...others].slice(0, MOST_RECENT + 1);
  localStorage.setItem(kept, JSON.stringify(newest));
}

function build() {
  dialog = document.createElement("dialog");
  dialog.className = "oc-palette";
  dialog.setAttribute("aria-label", "Search everything");
  const copy = form.cloneNode(true);
  const input = copy.querySelector("input");
  input.id = "palette";
  for (const [name, value] of Object.entries({ role: "combobox", "aria-expanded": "true", "aria-controls": "palette-found", "aria-autocomplete": "list" })) input.setAttribute(name, value);
  copy.querySelector("kbd")?.remove();
  const found = document.createElement("div");
  found.id = "palette-found";
  found.setAttribute("role", "listbox");
  found.setAttribute("aria-label", "Results");
  const count = Object.assign(document.createElement("p"), { className: "oc-sr" });
  count.setAttribute("role", "status");
  dialog.append(copy, found, count);
  document.body.append(dialog);
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, WAIT);
  });
  input.addEventListener("keydown", steer);
  copy.addEventListener("submit", go);
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
}

function open() {
  if (!dialog) build();
  if (dialog.open) return;
  dialog.showModal();
  dialog.querySelector("input").select();
  ask();
}

const typed = () => dialog.querySelector("input").value.trim();

// A person who types faster than the list follows gets the typed text, not what the list still shows.
async function go(event) {
  event.preventDefault();
  if (shown !== typed()) await ask();
  const chosen = shown === typed() && dialog.querySelector(".is-active");
  location.href = chosen ? chosen.href : `${form.action}?q=${encodeURIComponent(typed())}`;
}

async function ask() {
  clearTimeout(timer);
  const query = typed();
  const number = ++asked;
  const options = { headers: { "X-Fragment": "found" }, redirect: "error" }; // to the sign-in page, when the session has ended
  const answer = await fetch(`${form.action}?q=${encodeURIComponent(query)}`, options).catch(() => null);
  if (number !== asked || !answer?.ok) return;
  const list = dialog.querySelector("#palette-found");
  list.innerHTML = await answer.text();
  shown = query;
  if (!query) prepend(list.querySelector(".oc-found"));
  list.firstElementChild.removeAttribute("id"); // /search/ has it too
  for (const [index, section] of [...list.querySelectorAll("section")].entries()) label(section, `palette-group-${index}`);
  for (const [index, hit] of [...list.querySelectorAll("a")].entries()) {
    hit.id = `palette-${index}`;
    hit.tabIndex = -1;
    hit.setAttribute("role", "option");
    hit.setAttribute("aria-selected", "false");
  }
  choose(list.querySelector("a"));
  const total = list.querySelectorAll("a").length;
  dialog.querySelector("[role=status]").textContent = `${total} result${total === 1 ? "" : "s"}`;
}

function label(section, id) {
  const title = section.querySelector("h2");
  title.id = id;
  title.setAttribute("role", "presentation");
  section.setAttribute("role", "group");
  section.setAttribute("aria-labelledby", id);
}

function prepend(found) {
  const pages = recent().filter((page) => page.url !== location.pathname);
  if (!found || !pages.length) return;
  const section = document.createElement("section");
  const title = document.createElement("h2");
  title.textContent = "Recent";
  section.append(title, ...pages.map(({ title: text, url }) => Object.assign(document.createElement("a"), { href: url, textContent: text })));
  found.prepend(section);
}

function choose(hit) {
  for (const other of dialog.querySelectorAll(".is-active")) {
    other.classList.remove("is-active");
    other.setAttribute("aria-selected", "false");
  }
  const input = dialog.querySelector("input");
  if (!hit) return input.removeAttribute("aria-activedescendant");
  hit.classList.add("is-active");
  hit.setAttribute("aria-selected", "true");
  hit.scrollIntoView({ block: "nearest" });
  input.setAttribute("aria-activedescendant", hit.id);
}

function steer(event) {
  if (event.key === "Escape") {
    event.preventDefault(); // a search field would only empty itself
    return dialog.close();
  }
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const hits = [...dialog.querySelectorAll("#palette-found a")];
  const now = hits.findIndex((hit) => hit.classList.contains("is-active"));
  choose(hits[(now + step + hits.length) % hits.length]);
}

function isTyping(target) {
  return target.closest?.("input, textarea, select, [contenteditable]");
}

if (form) {
  remember();
  field.addEventListener("mousedown", (event) => {
    event.preventDefault();
    open();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key.length === 1 && !event.ctrlKey && !event.metaKey && !event.altKey) open();
  });
  document.querySelector("[data-palette-open]")?.addEventListener("click", (event) => {
    event.preventDefault();
    open();
  });
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      open();
    } else if (event.key === "/" && document.documentElement.dataset.shortcuts === "on" && !isTyping(event.target)) {
      const filter = document.querySelector(".oc-main input[type=search]");
      if (filter) {
        event.preventDefault();
        filter.focus();
      }
    }
  });
}
