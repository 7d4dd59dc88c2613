// A line of source text as coloured spans: comments, strings, numbers, keywords.
// One line at a time is enough here.
const coloured = (() => {
  const words = (text) => new Set(text.split(" "));
  const WORDS = {
    python: words(
      "and as assert async await break class continue def del elif else except finally for " +
        "from global if import in is lambda None True False nonlocal not or pass raise return " +
        "try while with yield self",
    ),
    cpp: words(
      "alignas auto bool break case char class const constexpr continue default delete do " +
        "double else enum explicit extern false float for friend if inline int long mutable " +
        "namespace new noexcept nullptr operator override private protected public return " +
        "short signed sizeof static struct switch template this throw true typedef typename " +
        "union unsigned using virtual void volatile while size_t int64_t __global__ " +
        "__device__ __host__ __shared__ __constant__ __restrict__ __syncthreads __syncwarp",
    ),
  };
  const FAMILY = { python: "python", cpp: "cpp", c: "cpp", cuda: "cpp", ptx: "ptx", sass: "sass" };
  // One group per kind: comment, string, number, word.
  const tokens = (...kinds) => new RegExp(kinds.map((kind) => `(${kind.source})`).join("|"), "g");
  const STRING = /"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'/;
  const TOKENS = {
    python: tokens(/#.*$/, STRING, /\b\d[\w.]*\b/, /[A-Za-z_]\w*/),
    cpp: tokens(
      /\/\/.*$|\/\*.*?(?:\*\/|$)|^\s*\*.*$|^\s*#\s*\w+/,
      STRING,
      /\b\d[\w.']*\b/,
      /[A-Za-z_]\w*/,
    ),
    ptx: tokens(
      /\/\/.*$/,
      /"(?:\\.|[^"\\])*"/,
      /(?<![\w$%])-?\d\w*\b/,
      /(?<=^\s*(?:@!?%\w+\s+)?)[a-z][\w.]*/,
    ),
    sass: tokens(
      /\/\*.*?\*\/|\/\/.*$/,
      /`\([^)]*\)/,
      /(?<![\w.])-?(?:0x[\da-f]+|\d[\d.]*)\b/,
      /(?<=^[\s{]*(?:\/\*\w+\*\/)?\s*(?:@!?U?P\w+\s+)?)[A-Z][A-Z\d_.]*/,
    ),
  };
  return (line, language) => {
    const family = FAMILY[language];
    if (!family) return [line];
    const parts = [];
    let from = 0;
    for (const match of line.matchAll(TOKENS[family])) {
      const keyword = match[4] && (WORDS[family]?.has(match[4]) ?? true);
      const kind = match[1]
        ? "comment"
        : match[2]
          ? "string"
          : match[3]
            ? "number"
            : keyword && "keyword";
      if (!kind) continue;
      parts.push(line.slice(from, match.index), lk.h("span", { class: `lk-${kind}` }, match[0]));
      from = match.index + match[0].length;
    }
    return [...parts, line.slice(from)];
  };
})();
