// Warns two minutes before the session ends and lets it go on (WCAG 2.2.1). A page that nobody touches keeps nothing alive.
const WARNING = 120;
const AGAIN = 30; // seconds after which a hub that did not answer is asked again
const cookie = /(?:^|; )ocmconsole_csrf=([^;]+)/;
const login = `/login/?next=${encodeURIComponent(location.pathname + location.search)}`;
let dialog;
let timer;

class SignedOut extends Error {}

function token() {
  return decodeURIComponent(document.cookie.match(cookie)?.[1] ?? "");
}

async function ask(path, options) {
  const answer = await fetch(path, { redirect: "manual", headers: { Accept: "application/json" }, ...options });
  // Who is signed out is sent to the page that signs in. A failed connection or a server in trouble says nothing of that.
  if (answer.type === "opaqueredirect" || [401, 403].includes(answer.status)) throw new SignedOut();
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.json();
}

function lookIn(seconds) {
  clearTimeout(timer);
  timer = setTimeout(look, seconds * 1000);
}

function wait({ seconds, at_last: atLast }) {
  dialog?.remove();
  // Another page may have made it longer meanwhile, so the server is asked again.
  if (seconds > WARNING) return lookIn(Math.min(seconds - WARNING, 600));
  warn(seconds, atLast);
  return lookIn(seconds + 0.5);
}

function button(text, tone, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = `pf-v6-c-button pf-m-${tone}`;
  made.textContent = text;
  made.addEventListener("click", act);
  return made;
}

function notNow() {
  return button("Not now", "secondary", () => dialog.close());
}

function warn(seconds, atLast) {
  const canGoOn = atLast > seconds + 5;
  const ends = new Date(Date.now() + seconds * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  dialog = document.createElement("dialog");
  dialog.className = "oc-dialog";
  dialog.setAttribute("aria-labelledby", "session-title");
  const title = document.createElement("h2");
  title.id = "session-title";
  title.textContent = `You will be signed out at ${ends}`;
  const text = document.createElement("p");
  text.textContent = canGoOn
    ? "Nobody has done anything here for a while."
    : "A session lasts no longer than this. Finish what you are writing, or sign in again now.";
  const loss = document.createElement("p");
  loss.textContent = "Signing in again leaves this page: what you have written here and not sent is lost.";
  const acts = document.createElement("div");
  acts.className = "oc-actions oc-below";
  acts.append(
    canGoOn ? button("Stay signed in", "primary", extend) : notNow(),
    button("Sign in again", canGoOn ? "link" : "primary", signInAgain),
  );
  dialog.append(title, text, loss, acts);
  document.body.append(dialog);
  dialog.showModal();
}

// The page that signs in sends away who is signed in still, so the session ends first.
function signInAgain() {
  const form = document.createElement("form");
  form.method = "post";
  form.action = "/logout/";
  for (const [name, value] of Object.entries({ csrfmiddlewaretoken: token(), next: login })) {
    form.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
  }
  document.body.append(form);
  form.submit();
}

async function extend() {
  try {
    wait(await ask("/session/extend/", { method: "POST", headers: { "X-CSRFToken": token() } }));
  } catch (error) {
    if (error instanceof SignedOut) sayThatItEnded();
    else dialog.querySelector("p").textContent = "The hub does not answer. Try again.";
  }
}

function sayThatItEnded() {
  clearTimeout(timer);
  if (!dialog?.open) return;
  dialog.querySelector("h2").textContent = "You are signed out";
  dialog.querySelector("p").textContent = "Keep a copy of what you have written and not sent.";
  const close = notNow();
  dialog.querySelector("button").replaceWith(close);
  close.focus();
}

async function look() {
  try {
    wait(await ask("/session/"));
  } catch (error) {
    if (error instanceof SignedOut) sayThatItEnded();
    else lookIn(AGAIN);
  }
}

look();
