// Live pages. The server says that something changed; the page asks for itself anew and every element with
// an id and data-live is morphed in place, so that focus, selection and scroll stay. Before a child with an id is added,
// its region gets the event live:before-add, which may be cancelled; after all, the document gets live:refreshed. A page
// that has other such elements by now, as one whose list has become empty, is loaded again.
import { Idiomorph } from "../vendor/idiomorph.js";
import { tell } from "./tell.js";

const FALLBACK = 30_000;
const SOONEST = 1_000;
const LONGEST_WAIT = 30_000;
const SILENCE = 25_000; // the stream beats every 10 s; one that does not is dead, whatever the browser believes
const stamp = document.querySelector("#live");
const scopes = (stamp?.dataset.scope ?? "").trim().split(/\s+/).filter(Boolean);

const live = { source: null, state: "connecting", heard: Date.now(), attempts: 0, beat: 0, again: 0, due: 0, busy: false, began: 0, cost: 0 };

function isPaused() {
  return sessionStorage.getItem("paused") === "yes" || document.documentElement.dataset.liveUpdates === "off";
}

// ------------------------------------------------------------ the page, anew

function carry(old, fresh) {
  if (old instanceof HTMLInputElement && (old.type === "checkbox" || old.type === "radio")) {
    fresh.toggleAttribute("checked", old.checked && !fresh.disabled);
  } else if ((old instanceof HTMLInputElement && old.type !== "hidden") || old instanceof HTMLTextAreaElement) {
    fresh.value = old.value;
    if (old instanceof HTMLInputElement) fresh.setAttribute("value", old.value);
  } else if (old instanceof HTMLSelectElement && fresh instanceof HTMLSelectElement) {
    fresh.value = old.value;
  } else if (old instanceof HTMLDetailsElement) {
    fresh.toggleAttribute("open", old.open);
  }
}

function morph(region, fresh) {
  const may = (node) =>
    !(node instanceof Element && node.id) ||
    region.dispatchEvent(new CustomEvent("live:before-add", { bubbles: true, cancelable: true, detail: node }));
  Idiomorph.morph(region, fresh, {
    morphStyle: "outerHTML",
    restoreFocus: true,
    callbacks: {
      beforeNodeAdded: may,
      beforeNodeMorphed(old, next) {
        if (old instanceof Element && old.hasAttribute("data-live-keep")) return false;
        if (old instanceof Element) carry(old, next);
        return true;
      },
    },
  });
}

function shape(page) {
  const regions = [...page.querySelectorAll("[data-live][id]")];
  const outer = regions.filter((region) => !region.parentElement.closest("[data-live], [data-live-keep]"));
  return outer.map((region) => region.id).join(" ");
}

// Whether a new load would lose something: text that somebody types or has typed, rows that are ticked, a dialog. An answer
// to a form would be asked for again by sending the form.
function isInUse() {
  if ("answersPost" in stamp.dataset) return true;
  const fields = document.querySelectorAll("main input:not([type=checkbox], [type=radio], [type=hidden]), main textarea");
  const isTyped = (field) => field.value !== field.defaultValue || field === document.activeElement;
  return [...fields].some(isTyped) || document.querySelector("tbody :checked, dialog[open]") !== null;
}

// What the page has said of the last act is said on.
const saidHere = `said ${location.pathname}`;
function loadAgain() {
  const said = document.querySelector(".oc-messages");
  if (said) sessionStorage.setItem(saidHere, said.outerHTML);
  location.reload();
}

async function refresh() {
  if (live.busy || document.hidden || isPaused()) return;
  live.busy = true;
  live.due = 0;
  live.began = performance.now();
  try {
    const answer = await fetch(location.href, { headers: { "X-Live": "refresh" }, redirect: "manual" });
    if (answer.type === "opaqueredirect" || answer.status === 401) return signedOut();
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!answer.ok) return void (answer.status === 404 && location.replace(location.pathname + location.search));
    if (isPaused()) return;
    for (const region of document.querySelectorAll("[data-live][id]")) {
      const fresh = page.getElementById(region.id);
      if (!fresh) continue;
      const before = region.dataset.liveSay;
      morph(region, fresh);
      const after = document.getElementById(region.id);
      if (after) window.htmx?.process(after);
      if (after?.dataset.liveSay && after.dataset.liveSay !== before) tell(after.dataset.liveSay);
    }
    if (shape(page) !== shape(document) && !isInUse()) return loadAgain();
    live.heard = Date.now();
    document.dispatchEvent(new CustomEvent("live:refreshed"));
  } catch {
    // Away for a moment: the stream's own state says so, and the next notice or the clock tries again.
  } finally {
    live.cost = performance.now() - live.began;
    live.busy = false;
    show();
  }
}

// A page that is slow to make is not asked for all the time.
function soon(after = Math.max(SOONEST, 3 * live.cost) * Math.random()) {
  if (!live.due) live.due = Date.now() + after;
}

// ------------------------------------------------------------ the stream

function open() {
  if (live.source || document.hidden || isPaused() || live.state === "signed out") return;
  // What happened since the page was made comes first.
  const query = new URLSearchParams([...scopes.map((scope) => ["scope", scope]), ["seen", stamp.dataset.seen]]);
  const source = new EventSource(`${stamp.dataset.url}?${query}`);
  live.source = source;
  live.beat = Date.now();
  source.addEventListener("hello", () => {
    if (live.attempts) soon(); // for what was missed meanwhile
    live.attempts = 0;
    turn("live");
  });
  source.addEventListener("beat", () => turn("live"));
  source.addEventListener("changed", () => {
    turn("live");
    const rest = live.began + 3 * live.cost - performance.now();
    if (rest > 0 || live.busy) return soon(Math.max(rest, 0));
    refresh();
  });
  source.addEventListener("signed-out", signedOut);
  source.addEventListener("error", lost);
}

function lost() {
  if (live.state === "signed out") return;
  close();
  live.attempts += 1;
  turn(live.attempts > 3 || !navigator.onLine ? "offline" : "reconnecting");
  const wait = Math.min(LONGEST_WAIT, SOONEST * 2 ** live.attempts);
  clearTimeout(live.again);
  live.again = setTimeout(open, wait * (0.5 + Math.random() / 2));
}

function resume() {
  open();
  soon(0);
}

function close() {
  live.source?.close();
  live.source = null;
}

function signedOut() {
  close();
  turn("signed out");
  tell("Your session has ended. Sign in again.");
}

// ------------------------------------------------------------ what the masthead says of it

function turn(state) {
  if (state === "live") live.heard = live.beat = Date.now();
  live.state = state;
  show();
}

function since() {
  const seconds = Math.round((Date.now() - live.heard) / 1000);
  return seconds < 60 ? `${seconds} s ago` : `${Math.floor(seconds / 60)} min ago`;
}

function show() {
  const paused = isPaused();
  const at = new Date(live.heard).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const words = {
    live: ["Live", since()],
    connecting: ["Connecting…", ""],
    reconnecting: ["Reconnecting…", ""],
    offline: ["Offline", `showing ${at}`],
    "signed out": ["Signed out", `showing ${at}`],
  };
  const [word, detail] = paused ? ["Paused", `showing ${at}`] : words[live.state];
  stamp.dataset.state = paused ? "paused" : live.state;
  stamp.querySelector(".oc-live__text").innerHTML = `<b>${word}</b>${detail ? ` · ${detail}` : ""}`;
  const label = paused ? "Live updates are paused. Resume" : `${word}. Pause live updates`;
  if (stamp.getAttribute("aria-label") !== label) {
    stamp.setAttribute("aria-label", label);
    stamp.title = label;
  }
}

if (stamp && scopes.length) {
  stamp.hidden = false;
  document.querySelector("main").insertAdjacentHTML("afterbegin", sessionStorage.getItem(saidHere) ?? "");
  sessionStorage.removeItem(saidHere);
  stamp.addEventListener("click", () => {
    const paused = !isPaused();
    sessionStorage.setItem("paused", paused ? "yes" : "no");
    tell(paused ? "Live updates are paused." : "Live updates are on.");
    if (paused) close();
    else resume();
    show();
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) close();
    else resume();
  });
  addEventListener("offline", lost);
  addEventListener("online", resume);
  addEventListener("pagehide", close);
  setInterval(() => {
    if (!live.due && Date.now() - live.heard > FALLBACK && !["live", "signed out"].includes(live.state)) live.due = Date.now();
    // What goes on in the background leaves no notice when it fails.
    const rested = performance.now() - live.began > Math.max(SOONEST, 3 * live.cost);
    if (!live.due && rested && live.state !== "signed out" && document.querySelector("[data-live-unfinished]")) soon(0);
    if (live.due && Date.now() >= live.due) refresh();
    if (live.source && Date.now() - live.beat > SILENCE) lost();
    show();
  }, 250);
  // What only time changes, such as Late, no notice says.
  setInterval(() => soon(), FALLBACK);
  open();
  show();
}
