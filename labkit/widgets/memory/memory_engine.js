// A trace in typed arrays, and the memory map after any number of its entries.
// A life is one block from its alloc to its free_completed. Lives are numbered in the order of
// their birth, those older than the recording first; the state after k entries is every life with
// start <= k <= end: one pass over the lives in address order, the same cost wherever one jumps.
const memory = (() => {
  const MIB = 1 << 20,
    NEVER = 0x7fffffff;

  function rounder(settings) {
    const divisions = new Array(16).fill(0);
    const table = settings?.roundup_power2_divisions;
    if (typeof table === "number") divisions.fill(table);
    else if (table)
      Object.entries(table).forEach(([mib, d]) => {
        divisions[Math.round(Math.log2(mib))] = d;
      });
    return (size) => {
      const plain = Math.max(512, Math.ceil(size / 512) * 512);
      const log = Math.floor(Math.log2(size));
      const d = divisions[Math.max(0, Math.min(15, log - 20))];
      if (!(d > 1) || size <= 512 * d) return plain;
      const floor = 2 ** log,
        part = floor / d;
      return floor === size ? size : floor + Math.ceil((size - floor) / part) * part;
    };
  }

  function build(columns, meta) {
    const n = columns.action.length,
      places = columns.addresses.length,
      blocks = columns.block_place.length;
    const code = Object.fromEntries(meta.actions.map((name, i) => [name, i]));
    const ALLOC = code.alloc,
      ASKED = code.free_requested,
      FREED = code.free_completed;
    const round = rounder(meta.settings);
    const { action, place, size } = columns;

    const seen = new Uint8Array(places); // 1: born in the trace, 2: older than it
    let older = 0,
      allocs = 0;
    for (let i = 0; i < n; i++) {
      const a = action[i];
      if (a === ALLOC) {
        allocs++;
        if (!seen[place[i]]) seen[place[i]] = 1;
      } else if ((a === FREED || a === ASKED) && !seen[place[i]]) {
        seen[place[i]] = 2;
        older++;
      }
    }
    for (let b = 0; b < blocks; b++) {
      if (columns.block_state[b] && !seen[columns.block_place[b]]) {
        seen[columns.block_place[b]] = 2;
        older++;
      }
    }
    const count = older + allocs;
    const lives = {
      count,
      older,
      start: new Int32Array(count),
      asked: new Int32Array(count).fill(NEVER),
      end: new Int32Array(count).fill(NEVER),
      place: new Int32Array(count),
      size: new Float64Array(count),
      block: new Float64Array(count),
      stack: new Int32Array(count),
      event: new Int32Array(count).fill(-1),
      stream: new Uint16Array(count),
      pool: new Uint16Array(count),
      exact: new Uint8Array(count),
    };
    const open = new Int32Array(places).fill(-1),
      lifeOf = new Int32Array(n).fill(-1);
    let next = 0;
    for (let p = 0; p < places; p++)
      if (seen[p] === 2) {
        lives.place[next] = p;
        lives.start[next] = 0;
        open[p] = next++;
      }
    const describe = (life, i) => {
      lives.size[life] = size[i];
      lives.block[life] = round(size[i]);
      lives.stack[life] = columns.stack[i];
      lives.stream[life] = columns.stream[i];
      lives.pool[life] = columns.pool[i];
    };
    for (let i = 0; i < n; i++) {
      const a = action[i];
      if (a !== ALLOC && a !== ASKED && a !== FREED) continue;
      const p = place[i];
      let life = open[p];
      if (a === ALLOC) {
        if (life >= 0) lives.end[life] = i; // its free was not recorded
        life = next++;
        lives.place[life] = p;
        lives.start[life] = i + 1;
        lives.event[life] = i;
        open[p] = life;
        describe(life, i);
      } else if (life >= 0) {
        if (life < older && lives.size[life] === 0) describe(life, i);
        if (a === ASKED) lives.asked[life] = i + 1;
        else {
          lives.end[life] = i;
          if (lives.asked[life] === NEVER) lives.asked[life] = i + 1;
          open[p] = -1;
        }
      }
      lifeOf[i] = life;
    }
    for (let b = 0; b < blocks; b++) {
      const life = columns.block_state[b] ? open[columns.block_place[b]] : -1;
      if (life < 0) continue;
      const owner = columns.block_segment[b];
      if (lives.size[life] === 0) lives.size[life] = columns.block_requested[b];
      lives.block[life] = columns.block_size[b];
      lives.exact[life] = 1;
      if (life < older) {
        lives.stack[life] = columns.block_stack[b];
        lives.stream[life] = columns.segment_stream[owner];
      }
      lives.pool[life] = columns.segment_pool[owner]; // traces before 2.13 do not name the pool
      if (columns.block_state[b] === 2 && lives.asked[life] === NEVER) lives.asked[life] = 0;
    }
    // Counting sort: places are ranks of addresses.
    const first = new Int32Array(places + 1);
    for (let l = 0; l < count; l++) first[lives.place[l] + 1]++;
    for (let p = 0; p < places; p++) first[p + 1] += first[p];
    const byAddress = new Int32Array(count);
    for (let l = 0; l < count; l++) byAddress[first[lives.place[l]]++] = l;

    const live = new Float64Array(n + 1);
    let bytes = 0,
      peak = 0;
    for (let l = 0; l < older; l++) bytes += lives.block[l];
    live[0] = bytes;
    for (let i = 0; i < n; i++) {
      const life = lifeOf[i];
      if (life >= 0) {
        if (action[i] === ALLOC) bytes += lives.block[life];
        else if (action[i] === FREED) bytes -= lives.block[life];
      }
      live[i + 1] = bytes;
      if (bytes > live[peak]) peak = i + 1;
    }
    const pieces = segmentPieces(columns, code, n);
    const reserved = {
      at: [0],
      bytes: [pieces.filter((s) => s.start === 0).reduce((sum, s) => sum + s.size, 0)],
    };
    const changes = new Map();
    for (const s of pieces) {
      if (s.start > 0) changes.set(s.start, (changes.get(s.start) ?? 0) + s.size);
      if (s.end < NEVER) changes.set(s.end + 1, (changes.get(s.end + 1) ?? 0) - s.size);
    }
    for (const [at, change] of [...changes].sort((a, b) => a[0] - b[0])) {
      reserved.at.push(at);
      reserved.bytes.push(reserved.bytes.at(-1) + change);
    }
    return {
      n,
      columns,
      meta,
      code,
      lives,
      lifeOf,
      byAddress,
      live,
      peak,
      pieces,
      reserved,
      chain: null,
      addresses: columns.addresses,
    };
  }

  // Mapped ranges with the entries between which they exist. A plain segment is one piece; an
  // expandable one grows and shrinks by pieces that touch.
  function segmentPieces(columns, code, n) {
    const pieces = [],
      open = new Map(); // by start address
    const add = (address, size, start, i, expandable) => {
      const piece = {
        address,
        size,
        start,
        end: NEVER,
        stream: columns.stream[i],
        pool: columns.pool[i],
        large: size > 2 * MIB,
        expandable,
        stack: columns.stack[i],
      };
      pieces.push(piece);
      open.set(address, piece);
      return piece;
    };
    const unmap = (address, size, i) => {
      // ends what covers [address, address + size)
      const covered = [];
      for (const piece of [...open.values()]) {
        const from = Math.max(piece.address, address),
          to = Math.min(piece.address + piece.size, address + size);
        if (from >= to) continue;
        covered.push([from, to]);
        piece.end = i;
        open.delete(piece.address);
        for (const [a, b] of [
          [piece.address, from],
          [to, piece.address + piece.size],
        ]) {
          if (b > a) {
            const rest = { ...piece, address: a, size: b - a, start: i + 1, end: NEVER };
            pieces.push(rest);
            open.set(a, rest);
          }
        }
      }
      let at = address; // the rest was mapped before the recording
      for (const [from, to] of [...covered.sort((a, b) => a[0] - b[0]), [address + size, 0]]) {
        if (from > at) {
          add(at, from - at, 0, i, true).end = i;
          open.delete(at);
        }
        at = to;
      }
    };
    for (let i = 0; i < n; i++) {
      const a = columns.action[i];
      if (
        a !== code.segment_alloc &&
        a !== code.segment_free &&
        a !== code.segment_map &&
        a !== code.segment_unmap
      )
        continue;
      const address = columns.addresses[columns.place[i]],
        size = columns.size[i];
      if (a === code.segment_alloc) add(address, size, i + 1, i, false);
      else if (a === code.segment_map) add(address, size, i + 1, i, true);
      else if (a === code.segment_unmap) unmap(address, size, i);
      else if (open.has(address)) {
        open.get(address).end = i;
        open.delete(address);
      } else {
        add(address, size, 0, i, false).end = i;
        open.delete(address);
      }
    }
    // What is there at the end and was never seen to come has been there all along.
    const known = [...open.values()].sort((a, b) => a.address - b.address);
    for (let s = 0; s < columns.segment_address.length; s++) {
      const address = columns.segment_address[s],
        end = address + columns.segment_size[s];
      let at = address;
      const fresh = (to) => {
        if (to > at)
          pieces.push({
            address: at,
            size: to - at,
            start: 0,
            end: NEVER,
            stream: columns.segment_stream[s],
            pool: columns.segment_pool[s],
            large: !!columns.segment_large[s],
            expandable: !!columns.segment_expandable[s],
            stack: columns.segment_stack[s],
          });
      };
      for (const piece of known) {
        if (piece.address + piece.size <= address || piece.address >= end) continue;
        piece.large = !!columns.segment_large[s];
        piece.pool = columns.segment_pool[s];
        fresh(piece.address);
        at = Math.max(at, piece.address + piece.size);
      }
      fresh(end);
    }
    return pieces;
  }

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
        (size <= MIB || before.size >= limit)
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
    // 2047.5 KiB is not "2.00 MiB": what would read as a round number is said in the smaller unit.
    if (unit > 0 && value < 10 && value.toFixed(2).endsWith("00") && !Number.isInteger(value)) {
      value *= 1024;
      unit--;
    }
    const whole = unit === 0 || Number.isInteger(value);
    return `${whole ? value : value.toFixed(value < 10 ? 2 : 1)} ${UNITS[unit]}`;
  }
  const hex = (address) => `0x${address.toString(16)}`;

  return { build, state, reservedAt, differences, frames, bytes, hex, NEVER };
})();
