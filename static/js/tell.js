// Says something to who cannot see it happen: counts and results of one's own acts, never a heartbeat (WCAG 4.1.3).
export function tell(text) {
  const log = document.querySelector("#live-log");
  if (log && log.textContent !== text) log.textContent = text;
}
