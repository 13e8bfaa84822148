// Rows with a box: one box for the whole page, and how many are ticked. Without scripts the boxes work as they are.
import { tell } from "./tell.js";

const all = () => document.querySelector("[data-select-all]");
const boxes = () => [...document.querySelectorAll('tbody input[type="checkbox"][form]')];
const selected = document.querySelector("[data-selected]");

function show(say) {
  const every = boxes();
  const ticked = every.filter((box) => box.checked);
  for (const box of every) box.closest("tr").classList.toggle("is-sel", box.checked);
  const head = all();
  if (head) {
    head.hidden = false;
    head.checked = ticked.length > 0 && ticked.length === every.length;
    head.indeterminate = ticked.length > 0 && ticked.length < every.length;
  }
  const matching = document.querySelector("[data-select-matching]");
  const count = matching?.checked ? Number(matching.dataset.selectMatching).toLocaleString("en") : ticked.length;
  if (selected) selected.textContent = `${count} selected`;
  if (say) tell(`${count} selected`);
}

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-select-all]")) for (const box of boxes()) box.checked = event.target.checked;
  else if (!event.target.matches('[data-select-matching], tbody input[type="checkbox"][form]')) return;
  show(true);
});
document.addEventListener("live:refreshed", () => show(false));
show(false);
