// Copy buttons. They are hidden until this runs, because without it they do nothing. The clipboard needs HTTPS or localhost.
const SHOWN_FOR = 2000;

async function copy(button) {
  const label = button.getAttribute("aria-label");
  await navigator.clipboard.writeText(button.dataset.copy);
  button.classList.add("is-done");
  button.setAttribute("aria-label", "Copied");
  setTimeout(() => {
    button.classList.remove("is-done");
    button.setAttribute("aria-label", label);
  }, SHOWN_FOR);
}

if (navigator.clipboard) {
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(button));
  }
}
