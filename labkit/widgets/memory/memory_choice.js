// Which lives are shown, and in which colour: what the filters and "colour by" choose.
function memoryChoice({ ui, store, root }) {
  let shown = [],
    categories = null;

  function chooseShown() {
    const wanted = ui.text.trim().toLowerCase();
    const plain = !wanted && !ui.stream && !ui.pool && !ui.least;
    shown = store.traces.map((each) => {
      const { lives, meta } = each,
        stacks = new Uint8Array(each.columns.stack_starts.length - 1).fill(1);
      if (wanted)
        stacks.forEach((_, s) => {
          stacks[s] = memory
            .frames(each, s)
            .some((f) => `${f.file}:${f.line} ${f.name}`.toLowerCase().includes(wanted))
            ? 1
            : 0;
        });
      const chosen = new Uint8Array(lives.count).fill(plain ? 1 : 0);
      if (!plain)
        for (let l = 0; l < lives.count; l++) {
          chosen[l] =
            stacks[lives.stack[l]] &&
            (!ui.stream || meta.streams[lives.stream[l]] === ui.stream) &&
            (!ui.pool || String(meta.pools[lives.pool[l]]) === ui.pool) &&
            lives.size[l] >= ui.least
              ? 1
              : 0;
        }
      return chosen;
    });
  }
  function chooseColours() {
    // one list of names, so that a name has one colour in both traces
    const names = [],
      code = new Map(),
      bytes = [];
    const category = (name) => {
      if (!code.has(name)) {
        code.set(name, names.length);
        names.push(name);
        bytes.push(0);
      }
      return code.get(name);
    };
    categories = {
      names,
      bytes,
      of: store.traces.map((each) => {
        const { lives, columns, meta } = each;
        const byStack = Array.from({ length: columns.stack_starts.length - 1 }, (_, s) =>
          ownLine(memory.frames(each, s)),
        );
        const name = {
          stack: (l) => byStack[lives.stack[l]],
          stream: (l) => `stream ${meta.streams[lives.stream[l]]}`,
          pool: (l) => poolName(meta.pools[lives.pool[l]]),
          size: (l) => sizeClass(lives.size[l]),
          phase: (l) =>
            lives.event[l] < 0
              ? "before the recording"
              : meta.notes[columns.note[lives.event[l]]] || "no phase",
        }[ui.colour];
        const found = new Uint32Array(lives.count);
        for (let l = 0; l < lives.count; l++)
          bytes[(found[l] = category(name(l)))] += lives.block[l];
        return found;
      }),
    };
    // The heaviest names get the colours; all others share the last one, a grey.
    const rank = names.map((_, c) => c).sort((a, b) => bytes[b] - bytes[a]);
    categories.colour = new Uint8Array(names.length).fill(lk.palette.length - 1);
    rank.slice(0, lk.palette.length - 1).forEach((c, place) => {
      categories.colour[c] = place;
    });
    categories.heaviest = rank;
    categories.of = categories.of.map((found) =>
      Uint8Array.from(found, (c) => categories.colour[c]),
    );
    // Two shades of each, by the number of the life: neighbours of one colour stay apart.
    ui.palette = lk.palette.flatMap((colour) => [
      timelines.rgba(colour),
      timelines.rgba(colour, 215),
    ]);
  }
  const paintOf = (index, life, grey) =>
    shown[index][life] ? ui.palette[2 * categories.of[index][life] + (life & 1)] : grey;
  const look = (index) => {
    const t = lk.theme(root),
      dark = isDark(t.paper),
      dimmed = dark ? "#39414a" : "#d9dee4",
      { lives } = store.traces[index];
    const colour = (block) =>
      shown[index][block.life] ? lk.palette[categories.of[index][block.life]] : dimmed;
    return {
      ...t,
      colour,
      dimmed,
      free: dark ? "#22272e" : "#f1f3f5",
      rounding: dark ? "rgba(0,0,0,.45)" : "rgba(255,255,255,.6)",
      onColour: (block) => {
        const c = colour(block);
        return c === dimmed ? t.ink : DARK_COLOURS.includes(c) ? "#ffffff" : "#111111";
      },
      requested: (block) => (block.life < 0 ? block.size : lives.size[block.life]),
    };
  };
  return {
    chooseShown,
    chooseColours,
    paintOf,
    look,
    isShown: (index, life) => shown[index][life],
    categories: () => categories,
  };
}
