// Arrow keys walk the map of sets: up and down within a column, left and right along its lines, which light up.
// Without this every part of the map is an ordinary link, in the order of the columns.
const graph = () => document.getElementById("graph");
const node = (key) => graph().querySelector(`[data-node="${CSS.escape(key)}"]`);
const edges = (from, key) => [...graph().querySelectorAll(`path[data-${from}="${CSS.escape(key)}"]`)];

// The heaviest line first, as it is the one that the eye follows.
function along(key, from, to) {
  const best = edges(from, key).sort((a, b) => b.getAttribute("stroke-width") - a.getAttribute("stroke-width"))[0];
  return best && node(best.dataset[to]);
}

function within(current, step) {
  const column = [...current.closest("ul").querySelectorAll("[data-node]")];
  return column[column.indexOf(current) + step];
}

const GO = {
  ArrowRight: (current) => along(current.dataset.node, "from", "to"),
  ArrowLeft: (current) => along(current.dataset.node, "to", "from"),
  ArrowDown: (current) => within(current, 1),
  ArrowUp: (current) => within(current, -1),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || !(event.key in GO)) return;
  const current = event.target.closest?.("#graph [data-node]");
  const frame = !current && event.target.closest?.(".oc-graph-frame");
  const next = current ? GO[event.key](current) : frame?.querySelector("[data-node]");
  if (!next) return;
  event.preventDefault();
  next.focus();
});

function light(key) {
  for (const path of graph()?.querySelectorAll("path[data-from]") ?? []) {
    path.classList.toggle("is-lit", key !== undefined && [path.dataset.from, path.dataset.to].includes(key));
  }
}

document.addEventListener("focusin", (event) => light(event.target.closest?.("#graph [data-node]")?.dataset.node));
document.addEventListener("pointerover", (event) => {
  const over = event.target.closest?.("#graph [data-node]");
  if (over) light(over.dataset.node);
});
