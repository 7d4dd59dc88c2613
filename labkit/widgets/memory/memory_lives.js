// A trace in typed arrays. A life is one block from its alloc to its free_completed; lives are
// numbered in the order of their birth, those older than the recording first.
const memoryLives = (() => {
  const NEVER = 0x7fffffff;

  function rounder(settings, sizes) {
    const least = sizes.min_block;
    const divisions = new Array(16).fill(0);
    const table = settings?.roundup_power2_divisions;
    if (typeof table === "number") divisions.fill(table);
    else if (table)
      Object.entries(table).forEach(([mib, d]) => {
        divisions[Math.round(Math.log2(mib))] = d;
      });
    return (size) => {
      const plain = Math.max(least, Math.ceil(size / least) * least);
      const log = Math.floor(Math.log2(size));
      const d = divisions[Math.max(0, Math.min(15, log - 20))];
      if (!(d > 1) || size <= least * d) return plain;
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
    const round = rounder(meta.settings, meta.sizes);
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
    const pieces = segmentPieces(columns, meta.sizes, code, n);
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
  function segmentPieces(columns, sizes, code, n) {
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
        large: size > sizes.small_segment,
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

  return { build, NEVER };
})();
