// Menus are <details>, which open and close by themselves; this closes them on Escape and on a click elsewhere.
const open = () => document.querySelectorAll("details.oc-menu[open]");

document.addEventListener("click", (event) => {
  for (const menu of open()) if (!menu.contains(event.target)) menu.open = false;
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of open()) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});
