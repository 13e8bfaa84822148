// Theme switch: system, light, dark. The choice is a cookie, so that the server sends the page in the right theme.
const CHOICES = ["system", "light", "dark"];
const YEAR = 365 * 24 * 60 * 60;

function chosen() {
  return document.documentElement.dataset.theme ?? "system";
}

function apply(choice) {
  if (choice === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = choice;
  const age = choice === "system" ? 0 : YEAR;
  document.cookie = `theme=${choice}; Path=/; Max-Age=${age}; SameSite=Lax${location.protocol === "https:" ? "; Secure" : ""}`;
}

function show(button) {
  button.dataset.choice = chosen();
  button.title = `Theme: ${chosen()}`;
  button.setAttribute("aria-label", button.title);
}

for (const button of document.querySelectorAll("[data-theme-switch]")) {
  show(button);
  button.hidden = false;
  button.addEventListener("click", () => {
    apply(CHOICES[(CHOICES.indexOf(chosen()) + 1) % CHOICES.length]);
    show(button);
  });
}
