// Warns two minutes before the session ends and lets it go on (WCAG 2.2.1). A page that nobody touches keeps nothing alive.
const WARNING = 120;
const cookie = /(?:^|; )ocmconsole_csrf=([^;]+)/;
const login = `/login/?next=${encodeURIComponent(location.pathname + location.search)}`;
let dialog;

async function ask(path, options) {
  const answer = await fetch(path, { redirect: "error", headers: { Accept: "application/json" }, ...options });
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.json();
}

function wait({ seconds, at_last: atLast }) {
  dialog?.remove();
  if (seconds <= WARNING) return warn(seconds, atLast);
  // Another page may have made it longer meanwhile, so the server is asked again.
  return setTimeout(look, Math.min(seconds - WARNING, 600) * 1000);
}

function button(text, tone, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = `pf-v6-c-button pf-m-${tone}`;
  made.textContent = text;
  made.addEventListener("click", act);
  return made;
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
  const acts = document.createElement("div");
  acts.className = "oc-actions oc-below";
  acts.append(
    canGoOn ? button("Stay signed in", "primary", extend) : button("Not now", "secondary", () => dialog.close()),
    button("Sign in again", canGoOn ? "link" : "primary", () => location.assign(login)),
  );
  dialog.append(title, text, acts);
  document.body.append(dialog);
  dialog.showModal();
  setTimeout(look, seconds * 1000 + 500);
}

async function extend() {
  const token = decodeURIComponent(document.cookie.match(cookie)?.[1] ?? "");
  try {
    wait(await ask("/session/extend/", { method: "POST", headers: { "X-CSRFToken": token } }));
  } catch {
    location.assign(login);
  }
}

async function look() {
  try {
    wait(await ask("/session/"));
  } catch {
    if (dialog?.open) dialog.querySelector("h2").textContent = "You are signed out";
  }
}

look();
