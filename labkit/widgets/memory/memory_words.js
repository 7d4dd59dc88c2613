// Names that the memory map gives to what it shows: lines of code, size classes, requests.
const poolName = (pool) =>
  pool[0] === 0 && pool[1] === 0 ? "default pool" : `private pool (${pool.join(", ")})`;
// Not toLocaleString: its first call would load the tables of every language while a page opens.
const thousands = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ",");
const DARK_COLOURS = ["#0072B2", "#666666", "#D55E00", "#009E73"];
const isDark = (paper) => {
  const n = parseInt(paper.slice(1), 16);
  return (n >> 16) + ((n >> 8) & 255) + (n & 255) < 380;
};
// Powers of two below `top`: three to six of one distance.
function ticks(top) {
  const step = 2 ** Math.max(0, Math.floor(Math.log2(top / 3)));
  return Array.from({ length: Math.ceil(top / step) - 1 }, (_, i) => (i + 1) * step);
}
const sizeClass = (size) =>
  size <= 1 << 20
    ? "up to 1 MiB"
    : size < 10 << 20
      ? "up to 10 MiB"
      : size < 100 << 20
        ? "up to 100 MiB"
        : "100 MiB and more";
function reservedIn(trace, from, to) {
  return [
    memory.reservedAt(trace, from),
    ...trace.reserved.bytes.filter(
      (_, i) => trace.reserved.at[i] > from && trace.reserved.at[i] <= to,
    ),
  ];
}
// The file of a notebook cell has a random name.
const CELL = /ipykernel_\d+\/\d+\.py$|^<ipython-input/;
const fileName = (file, parts = 1) =>
  CELL.test(file) ? "cell" : file.split("/").slice(-parts).join("/");
const isPython = (f) => /\.py$|^</.test(f.file); // the latter is generated code; C++ has neither
const LIBRARY = new RegExp(
  String.raw`(^|[\\/])(torch|torchvision|lib[\\/]python[^\\/]*|` +
    String.raw`labkit[\\/](nn|optim|autograd|amp|vision|graph))[\\/]`,
);
// The innermost line that is the user's own: Python, and not PyTorch's or labkit's layers.
function ownFrame(frames) {
  return (
    frames.find((f) => isPython(f) && !LIBRARY.test(f.file)) ?? frames.find(isPython) ?? frames[0]
  );
}
function ownLine(frames) {
  const own = ownFrame(frames);
  return own ? `${fileName(own.file)}:${own.line} ${own.name}` : "no stack";
}
function stackList(frames) {
  if (!frames.length) return lk.h("p", { class: "lk-muted" }, "no stack was recorded");
  const own = ownFrame(frames),
    python = frames.filter(isPython),
    native = frames.filter((f) => !isPython(f));
  const list = (some) =>
    lk.h(
      "ol",
      { class: "lk-mm-stack" },
      some.map((f) =>
        lk.h(
          "li",
          { class: f === own ? "own" : "", title: f.file },
          `${fileName(f.file, 2) || "?"}:${f.line} `,
          lk.h("b", {}, f.name),
        ),
      ),
    );
  if (!python.length || !native.length) return list(frames);
  return lk.h(
    "div",
    {},
    list(python),
    lk.h(
      "details",
      {},
      lk.h("summary", { class: "lk-muted" }, `${native.length} C++ frames`),
      list(native),
    ),
  );
}
const regionsAt = (trace, i) =>
  (trace.meta.regions ?? [])
    .filter(([, first, last]) => first <= i && i < last)
    .map(([name]) => name);
const isRequest = (trace, i) => {
  const a = trace.columns.action[i];
  return a === trace.code.alloc || a === trace.code.free_requested || a === trace.code.oom;
};
function requestsAt(trace, k) {
  let count = 0;
  for (let i = 0; i < k; i++) if (isRequest(trace, i)) count++;
  return count;
}
function stepAtRequest(trace, requests) {
  let count = 0;
  for (let i = 0; i < trace.n; i++) {
    if (isRequest(trace, i) && ++count > requests) return i;
  }
  return trace.n;
}
