// A recorded step as the lanes ask for it: what happened at an event, and what belongs together.
const stepRecord = (() => {
  function decode(meta, data) {
    const columns = lk.columns(meta.schema, data),
      own = {},
      memoryColumns = {};
    for (const [name, values] of Object.entries(columns)) {
      const [group, key] = name.split(/\.(.*)/);
      (group === "event" ? own : memoryColumns)[key] = values;
    }
    const { kinds, phases } = meta.words;
    const count = own.kind.length;
    const calls = meta.calls.map(([operator, parent, begin, end, hops]) => ({
      operator,
      parent,
      begin,
      end,
      hops: hops.map(([slot, kernel, seen, event]) => ({ slot, kernel, seen: !!seen, event })),
      inner: [],
      launches: [],
    }));
    calls.forEach((call, i) => call.parent >= 0 && calls[call.parent].inner.push(i));
    const names = ["name", "kind", "stream", "grid", "block", "reads", "writes", "queued", "ran"];
    const launches = meta.launches.map((row) => {
      const launch = Object.fromEntries(names.map((name, i) => [name, row[i]]));
      return { ...launch, call: row[9], phase: phases[own.phase[launch.queued]] };
    });
    launches.forEach(({ call }, i) => call >= 0 && calls[call].launches.push(i));
    const record = { meta, count, own, calls, launches, trace: null };
    record.trace = memory.build(memoryColumns, meta.memory);
    record.kind = (i) => kinds[own.kind[i]];
    record.phase = (i) => phases[own.phase[i]];
    Object.assign(record, nodes(record), entries(record));
    return record;
  }

  // Which event recorded each node, the node that each call recorded, and when nodes ran.
  function nodes({ own, count, kind }) {
    const recordedAt = new Map(),
      ranAt = new Map(),
      nodeOf = new Map();
    for (let i = 0; i < count; i++) {
      const node = own.node[i];
      if (node < 0) continue;
      if (kind(i) === "node recorded") {
        recordedAt.set(node, i);
        nodeOf.set(own.call[i], node);
      } else if (kind(i) === "node runs" && !ranAt.has(node)) ranAt.set(node, i);
    }
    return { recordedAt, ranAt, nodeOf };
  }

  // The event at which each entry of the allocator's trace was made.
  function entries({ own, count }) {
    const eventOf = [];
    for (let i = 0; i < count; i++) while (eventOf.length < own.memory[i]) eventOf.push(i);
    return { eventOf };
  }

  // A call, the one around it, and so on.
  function around(record, call) {
    const chain = [];
    for (; call >= 0; call = record.calls[call].parent) chain.push(call);
    return chain;
  }

  // What stands in the light at an event.
  function focus(record, i) {
    const { own, launches, nodeOf, recordedAt } = record;
    const launch = own.kernel[i] >= 0 ? launches[own.kernel[i]] : null;
    const call = launch && launch.call >= 0 ? launch.call : own.call[i];
    const chain = around(record, call);
    // What a kernel belongs to is what was true when it was queued.
    const from = launch ? launch.queued : i;
    let node = own.node[from];
    if (node < 0) node = chain.map((each) => nodeOf.get(each)).find((n) => n !== undefined) ?? -1;
    const made = recordedAt.get(node);
    const inForward = record.phase(from) === "forward";
    return {
      event: i,
      kind: record.kind(i),
      line: own.line[from],
      madeAt: !inForward && made !== undefined ? own.line[made] : -1,
      call,
      top: chain.at(-1) ?? -1,
      hop: own.hop[i],
      node,
      edge: own.edge[i],
      kernel: own.kernel[i],
      launch,
      blocks: launch ? blocksOf(record, launch) : { reads: [], writes: touched(record, i) },
    };
  }

  // The block of the entry that was made at this event: handed out, or given back.
  function touched({ own, trace, kind }, i) {
    const k = own.memory[i];
    if (kind(i) !== "allocation" && kind(i) !== "free") return [];
    const life = trace.lifeOf[k - 1];
    return life >= 0 ? [lifeBlock(trace, life)] : [];
  }
  const lifeBlock = (trace, life) => ({
    life,
    address: trace.addresses[trace.lives.place[life]],
    size: trace.lives.block[life],
  });

  // The blocks that a piece of work reads and writes, as they were when it was queued.
  function blocksOf({ own, trace }, launch) {
    launch.blocks ??= (() => {
      const k = own.memory[launch.queued];
      const find = (address) => blockAt(trace, k, address);
      const writes = launch.writes.map(find).filter(Boolean);
      const written = new Set(writes.map(({ life }) => life));
      const reads = launch.reads.map(find).filter((b) => b && !written.has(b.life));
      return { reads, writes };
    })();
    return launch.blocks;
  }
  function blockAt(trace, k, address) {
    const { lives } = trace;
    for (let life = 0; life < lives.count; life++) {
      if (lives.start[life] > k || lives.end[life] < k) continue;
      const block = lifeBlock(trace, life);
      if (block.address <= address && address < block.address + block.size) return block;
    }
    return null;
  }

  // Whose a block is: what lay there before the step, else the operator that asked for it.
  function owner(record, life) {
    const { trace, meta, own, calls, eventOf } = record;
    const entry = trace.lives.event[life];
    if (entry < 0)
      return { name: meta.names[trace.addresses[trace.lives.place[life]]] ?? "", phase: "before" };
    const event = eventOf[entry],
      call = own.call[event];
    const name = call < 0 ? "" : calls[call].operator.replace(/^\w+::/, "").split(".")[0];
    return { name, phase: record.phase(event), event };
  }

  return { decode, focus, around, owner, blocksOf };
})();

// The colour of what belongs to a part of the step; "now" and "read" stand out from all of them.
const stepColours = {
  before: lk.palette[7],
  forward: lk.palette[0],
  backward: lk.palette[2],
  update: lk.palette[3],
  now: lk.palette[1],
  read: lk.palette[4],
};
