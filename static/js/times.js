// Ages count on by themselves: <time data-age> says how long ago, <time data-ago> the same in a sentence.
const UNITS = [[86_400, "d"], [3_600, "h"], [60, "min"], [1, "s"]];

function span(seconds) {
  const [size, unit] = UNITS.find(([each]) => seconds >= each) ?? [1, "s"];
  return `${Math.floor(seconds / size)} ${unit}`;
}

function words(element, now) {
  const seconds = (now - Date.parse(element.dateTime)) / 1000;
  if ("age" in element.dataset) return span(Math.max(0, seconds));
  if (Math.abs(seconds) < 1) return "just now";
  return seconds > 0 ? `${span(seconds)} ago` : `in ${span(-seconds)}`;
}

function count() {
  if (document.hidden) return;
  const now = Date.now() + skew;
  for (const element of document.querySelectorAll("time[data-age], time[data-ago]")) {
    const text = words(element, now);
    if (element.textContent !== text) element.textContent = text;
  }
}

// The server's clock counts, not the reader's.
const served = Date.parse(document.querySelector('meta[name="served"]')?.content ?? "");
const answered = performance.timeOrigin + (performance.getEntriesByType("navigation")[0]?.responseStart ?? 0);
const skew = Number.isNaN(served) ? 0 : served - answered;

function absolute() {
  for (const element of document.querySelectorAll("time[title]")) {
    if (element.textContent !== element.title) element.textContent = element.title;
  }
}

if (document.documentElement.dataset.times === "utc") {
  absolute();
  document.addEventListener("live:refreshed", absolute);
  document.addEventListener("htmx:afterSettle", absolute);
} else {
  setInterval(count, 1_000);
}
