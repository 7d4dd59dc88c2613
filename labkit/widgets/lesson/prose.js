// The little of Markdown that a task is written in, as nodes: paragraphs, lists, tables, code.
const prose = {
  words: (text) =>
    text.split(/(`[^`]+`|\*\*[^*]+\*\*|(?<!\w)\*[^*\s][^*]*\*(?!\w))/).map((part) => {
      if (part.startsWith("`")) return lk.h("code", {}, part.slice(1, -1));
      if (part.startsWith("**")) return lk.h("b", {}, ...prose.words(part.slice(2, -2)));
      return /^\*\S/.test(part) ? lk.h("em", {}, part.slice(1, -1)) : part;
    }),
  cells: (line) =>
    line
      .trim()
      .replace(/^\||\|$/g, "")
      .split(/(?<!\\)\|/)
      .map((cell) => prose.words(cell.trim().replaceAll("\\|", "|"))),
  table([head, , ...rows]) {
    const row = (kind, line) =>
      lk.h("tr", {}, ...prose.cells(line).map((cell) => lk.h(kind, {}, ...cell)));
    return lk.h(
      "table",
      { class: "lk-table" },
      lk.h("thead", {}, row("th", head)),
      lk.h("tbody", {}, ...rows.map((line) => row("td", line))),
    );
  },
  item: (line) => line.match(/^\s*(?:[*-]|\d+\.) +(.*)$/)?.[1],
  block(text) {
    const lines = text.split("\n");
    if (text.startsWith("```"))
      return lk.h("pre", { class: "lk-mono" }, lines.slice(1, -1).join("\n"));
    if (/^\|?\s*:?-+:?\s*\|/.test(lines[1] ?? "")) return prose.table(lines);
    if (text.startsWith("    ")) return lk.h("pre", { class: "lk-mono" }, text);
    if (prose.item(lines[0]) === undefined) return lk.h("p", {}, ...prose.words(lines.join(" ")));
    const items = [];
    for (const line of lines) {
      const start = prose.item(line);
      if (start !== undefined) items.push(start);
      else items[items.length - 1] += ` ${line.trim()}`;
    }
    return lk.h("ul", {}, ...items.map((item) => lk.h("li", {}, ...prose.words(item))));
  },
  blocks: (text) =>
    lk.h(
      "div",
      { class: "lk-prose" },
      ...(text.match(/^```[^]*?^```|^[^\n]+(?:\n(?!```)[^\n]+)*/gm) ?? []).map(prose.block),
    ),
};
