// Searches ENTRIES, which search.js holds: every word must be in a section or its headings.
const MOST = 12;
const input = document.getElementById("search");
const found = document.getElementById("found");

function matches(entry, words) {
  const all = `${entry.title} ${entry.section} ${entry.text}`.toLowerCase();
  if (!words.every((word) => all.includes(word))) return 0;
  const head = `${entry.title} ${entry.section}`.toLowerCase();
  return 1 + words.filter((word) => head.includes(word)).length;
}

function row(entry) {
  const item = document.createElement("li");
  const link = document.createElement("a");
  link.href = entry.page;
  link.textContent = entry.section ? `${entry.title} · ${entry.section}` : entry.title;
  item.append(link);
  return item;
}

input.addEventListener("input", () => {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const hits = words.length ? ENTRIES.map((entry) => [matches(entry, words), entry]) : [];
  const best = hits.filter(([score]) => score).sort((a, b) => b[0] - a[0]);
  found.replaceChildren(...best.slice(0, MOST).map(([, entry]) => row(entry)));
  if (words.length && !best.length) found.textContent = "Nothing has all of these words.";
});
