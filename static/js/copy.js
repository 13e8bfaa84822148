// Copy buttons. CSS hides them until this runs, because without it they do nothing: also those that a live page adds
// later. The clipboard needs HTTPS or localhost.
const SHOWN_FOR = 2000;

async function copy(button) {
  if (button.classList.contains("is-done")) return;
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
  document.documentElement.dataset.clipboard = "";
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) copy(button);
  });
}
