// Rows with a box: one box for the page, perhaps one for all pages, and how many are selected. Both of these concern the
// rows that fit the selector in data-select-all, or every row. Without scripts the boxes work as they are.
import { tell } from "./tell.js";

const head = () => document.querySelector("[data-select-all]");
const boxes = () => [...document.querySelectorAll('tbody input[type="checkbox"][form]:not(:disabled)')];
const meant = () => boxes().filter((box) => box.matches(head()?.dataset.selectAll || "*"));
const matching = () => document.querySelector("[data-select-matching]");
const isRow = (target) => target.matches('tbody input[type="checkbox"][form]');

function show(say) {
  const ticked = boxes().filter((box) => box.checked);
  for (const box of boxes()) box.closest("tr").classList.toggle("is-sel", box.checked);
  const ofPage = meant();
  const those = ofPage.filter((box) => box.checked);
  if (head()) {
    head().hidden = false;
    head().disabled = ofPage.length === 0;
    head().checked = those.length > 0 && those.length === ofPage.length;
    head().indeterminate = those.length > 0 && those.length < ofPage.length;
  }
  const everywhere = matching()?.checked ? Number(matching().dataset.selectMatching) - those.length : 0;
  const text = `${(ticked.length + everywhere).toLocaleString("en")} selected`;
  const selected = document.querySelector("[data-selected]");
  if (selected) selected.textContent = text;
  if (say) tell(text);
}

document.addEventListener("change", ({ target }) => {
  if (target.matches("[data-select-all], [data-select-matching]")) {
    for (const box of meant()) box.checked = target.checked;
    if (target !== matching() && matching()) matching().checked = false;
  } else if (isRow(target)) {
    // One that is left out: then it is not all of them any more.
    if (!target.checked && matching() && meant().includes(target)) matching().checked = false;
  } else return;
  show(true);
});
document.addEventListener("live:refreshed", () => {
  // What came meanwhile on this page is one of all.
  if (matching()?.checked) for (const box of meant()) box.checked = true;
  show(false);
});
show(false);
