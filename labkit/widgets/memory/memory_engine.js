// The memory map after any number of a trace's entries: every life with start <= k <= end, one pass
// over the lives in address order, the same cost wherever one jumps.
const memory = (() => {
  // The map after k entries: segments by address, each with its blocks; free ones have life -1.
  function state(trace, k) {
    const { lives, byAddress, addresses } = trace;
    const segments = [];
    const pieces = trace.pieces
      .filter((s) => s.start <= k && k <= s.end)
      .sort((a, b) => a.address - b.address);
    for (const p of pieces) {
      const last = segments.at(-1);
      if (
        last?.expandable &&
        p.expandable &&
        last.end === p.address &&
        last.stream === p.stream &&
        last.pool === p.pool &&
        last.large === p.large
      ) {
        last.end += p.size;
        last.size += p.size;
      } else
        segments.push({
          address: p.address,
          size: p.size,
          end: p.address + p.size,
          stream: p.stream,
          pool: p.pool,
          large: p.large,
          expandable: p.expandable,
          stack: p.stack,
          blocks: [],
        });
    }
    const totals = {
      reserved: 0,
      allocated: 0,
      pending: 0,
      requested: 0,
      free: 0,
      largest: 0,
      live: 0,
      segments: segments.length,
    };
    const { start, end, asked, place } = lives;
    const limit =
      trace.meta.settings?.max_split_size > 0 ? trace.meta.settings.max_split_size : Infinity;
    let s = 0,
      at = segments.length ? segments[0].address : 0;
    const gap = (segment, to) => {
      if (to <= at) return;
      const before = segment.blocks.at(-1),
        size = to - at;
      // No free fragment of a large pool is that small: it belongs to the block before it.
      if (
        before &&
        before.life >= 0 &&
        segment.large &&
        !segment.expandable &&
        !lives.exact[before.life] &&
        (size <= trace.meta.sizes.large_remainder || before.size >= limit)
      ) {
        before.size += size;
        totals[before.state] += size;
        return;
      }
      segment.blocks.push({ address: at, size, life: -1, state: "free" });
      totals.free += size;
      if (size > totals.largest) totals.largest = size;
    };
    const close = () => {
      gap(segments[s], segments[s].end);
      s++;
      if (s < segments.length) at = segments[s].address;
    };
    for (let j = 0; j < byAddress.length; j++) {
      const life = byAddress[j];
      if (start[life] > k || end[life] < k) continue;
      const address = addresses[place[life]];
      while (s < segments.length && address >= segments[s].end) close();
      // outside every known segment
      if (s >= segments.length || address < segments[s].address) continue;
      gap(segments[s], address);
      const state = asked[life] <= k ? "pending" : "allocated",
        size = lives.block[life];
      segments[s].blocks.push({ address, size, life, state });
      totals[state] += size;
      totals.requested += lives.size[life];
      totals.live++;
      at = address + size;
    }
    while (s < segments.length) close();
    for (const segment of segments) totals.reserved += segment.size;
    return { k, segments, totals };
  }

  function reservedAt(trace, k) {
    const { at, bytes } = trace.reserved;
    let low = 0,
      high = at.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (at[middle] <= k) low = middle;
      else high = middle;
    }
    return bytes[low];
  }

  // How often the map rebuilt after the last entry differs from the recorded one.
  function differences(trace) {
    const { columns, lives } = trace;
    const rebuilt = new Map();
    for (const segment of state(trace, trace.n).segments) {
      for (const block of segment.blocks) if (block.life >= 0) rebuilt.set(block.address, block);
    }
    let wrong = 0,
      recorded = 0;
    for (let b = 0; b < columns.block_place.length; b++) {
      if (!columns.block_state[b]) continue;
      recorded++;
      const block = rebuilt.get(columns.addresses[columns.block_place[b]]);
      const state = columns.block_state[b] === 2 ? "pending" : "allocated";
      if (!block || block.state !== state || lives.size[block.life] !== columns.block_requested[b])
        wrong++;
    }
    return wrong + Math.abs(rebuilt.size - recorded);
  }

  const frames = (trace, stack) => {
    const {
      stack_starts: starts,
      stack_members: members,
      frame_name,
      frame_file,
      frame_line,
    } = trace.columns;
    const found = [];
    for (let i = starts[stack]; i < starts[stack + 1]; i++) {
      const f = members[i];
      found.push({
        name: trace.meta.strings[frame_name[f]],
        file: trace.meta.strings[frame_file[f]],
        line: frame_line[f],
      });
    }
    return found;
  };

  const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
  function bytes(count) {
    let unit = 0,
      value = count;
    while (Math.abs(value) >= 1024 && unit < 4) {
      value /= 1024;
      unit++;
    }
    // 2047.5 KiB is not "2.00 MiB": what would read as a round number is said in a smaller unit.
    const text = () => value.toFixed(value < 10 ? 2 : 1);
    const seemsWhole = () => !Number.isInteger(value) && /\.0+$/.test(text());
    if (value < 10)
      while (unit > 0 && seemsWhole()) {
        value *= 1024;
        unit--;
      }
    if (unit === 0) return `${value.toLocaleString("en")} ${UNITS[0]}`;
    return `${Number.isInteger(value) ? value : text()} ${UNITS[unit]}`;
  }
  const hex = (address) => `0x${address.toString(16)}`;

  return { ...memoryLives, state, reservedAt, differences, frames, bytes, hex };
})();
