// A snapshot, as read from a pickle, in the columns that the memory map draws: what
// labkit.memory.snapshots.columns and labkit.widgets.memory.memory_trace make of it in Python.
// `words` holds what both must agree on: the names of actions and states, and sizes in bytes.
const snapshotColumns = (() => {
  const MOST_BYTES = 2 ** 62;
  const NO_LINE = 2n ** 64n - 1n; // what PyTorch writes where Python says -1
  const MOST_SETTINGS = 1000,
    DEEPEST = 4;
  const OLD_STATE = "active_awaiting_free";

  const shown = (value) => {
    if (value === undefined || value === null) return "missing";
    if (value instanceof Map) return "a dict";
    return Array.isArray(value) ? "a list" : JSON.stringify(String(value).slice(0, 60));
  };
  const isWhole = (value) => typeof value === "bigint" || Number.isInteger(value);
  const refuse = (where, key, value, wanted) => {
    throw new Refused(`${where}: ${key} is ${shown(value)}, not ${wanted}`);
  };
  const number = (row, key, where, fallback) => {
    const value = row.get(key) ?? fallback;
    if (!isWhole(value)) refuse(where, key, value, "a whole number");
    return Number(value);
  };
  const size = (row, key, where) => {
    const value = number(row, key, where);
    if (value < 0 || value >= MOST_BYTES) refuse(where, key, value, "a size that a device has");
    return value;
  };
  const string = (row, key, where, fallback) => {
    const value = row.get(key) ?? fallback;
    if (typeof value !== "string") refuse(where, key, value, "a text");
    return value;
  };
  const rows = (value, name) => {
    if (!Array.isArray(value)) throw new Refused(`${name} is ${shown(value)}, not a list`);
    const wrong = value.findIndex((row) => !(row instanceof Map));
    if (wrong >= 0) throw new Refused(`${name}[${wrong}] is ${shown(value[wrong])}, not a dict`);
    return value;
  };

  const stream = (row, where) => {
    number(row, "stream", where, 0); // which may have 64 bits: its digits stay
    return String(row.get("stream") ?? 0);
  };

  // Small numbers for values, in the order in which they first appear.
  function codes(...known) {
    const numbers = new Map(known.map((value, i) => [value, i]));
    const of = (value) => {
      if (!numbers.has(value)) numbers.set(value, numbers.size);
      return numbers.get(value);
    };
    return { of, all: () => [...numbers.keys()] };
  }

  function pool(row, where) {
    const value = row.get("pool_id") ?? row.get("segment_pool_id") ?? [0, 0];
    const isPair = Array.isArray(value) && value.length === 2 && value.every(isWhole);
    if (!isPair) refuse(where, "pool_id", value, "a pair of numbers");
    return value.join();
  }

  function stackTable() {
    const frames = codes(),
      stacks = codes(""),
      ofFrame = new Map(),
      ofList = new Map();
    const frame = (one) => {
      const name = one instanceof Map ? one.get("name") : null,
        file = one instanceof Map ? one.get("filename") : null,
        line = one instanceof Map ? one.get("line") : null;
      if (typeof name !== "string" || typeof file !== "string" || !isWhole(line))
        throw new Refused(`a frame is ${shown(one)}; it needs name, filename and line`);
      return frames.of(JSON.stringify([name, file, line === NO_LINE ? 0 : Number(line)]));
    };
    const of = (list) => {
      if (list === undefined || list === null) return 0;
      if (!Array.isArray(list)) throw new Refused(`frames is ${shown(list)}, not a list`);
      if (!ofList.has(list)) {
        for (const one of list) if (!ofFrame.has(one)) ofFrame.set(one, frame(one));
        ofList.set(list, stacks.of(list.map((one) => ofFrame.get(one)).join()));
      }
      return ofList.get(list);
    };
    const table = () => {
      const members = stacks.all().map((key) => (key ? key.split(",").map(Number) : []));
      const starts = [0];
      for (const each of members) starts.push(starts.at(-1) + each.length);
      return { frames: frames.all().map(JSON.parse), starts, members: members.flat() };
    };
    return { of, table };
  }

  function settings(value, where = "allocator_settings", depth = 0, seen = { count: 0 }) {
    seen.count++;
    if (depth > DEEPEST || seen.count > MOST_SETTINGS)
      throw new Refused(`${where}: settings are nested too deep, or too many`);
    const inside = (one, name) => settings(one, `${where}.${shown(name)}`, depth + 1, seen);
    if (value instanceof Map)
      return Object.fromEntries([...value].map(([name, one]) => [name, inside(one, name)]));
    if (Array.isArray(value)) return value.map(inside);
    return typeof value === "bigint" ? String(value) : value;
  }

  // Blocks of older formats: without address (they adjoin), with their frames in `history`.
  function completed(segment, number) {
    let address = segment.get("address") ?? 0;
    return rows(segment.get("blocks") ?? [], `segments[${number}].blocks`).map((block) => {
      const latest = block.get("history")?.[0],
        old = latest instanceof Map ? latest : new Map(),
        bytes = block.get("size");
      const whole = new Map([
        ["address", address],
        ["requested_size", old.get("real_size") ?? bytes],
        ["frames", old.get("frames") ?? []],
        ["state", "inactive"],
        ...block,
      ]);
      address = Number(whole.get("address")) + Number(bytes);
      return whole;
    });
  }

  function chosenDevice(segments, traces) {
    const lengths = traces.map((trace) => (Array.isArray(trace) ? trace.length : 0));
    const longest = lengths.reduce((best, n, i) => (n > lengths[best] ? i : best), 0);
    if (lengths[longest]) return longest;
    const devices = segments.map((segment) => number(segment, "device", "segments", 0));
    return devices.reduce((least, device) => Math.min(least, device), devices[0] ?? 0);
  }

  function checked(found) {
    const isBare = Array.isArray(found) && found.every((row) => row?.has?.("total_size"));
    const snapshot = isBare ? new Map([["segments", found]]) : found;
    if (!(snapshot instanceof Map))
      throw new Refused(`the pickle holds ${shown(found)}; a snapshot is a dict`);
    if (!snapshot.has("segments") && !snapshot.has("device_traces"))
      throw new Refused("a snapshot has segments and device_traces; this has neither");
    return snapshot;
  }

  // {device, devices, part, columns}: what `encode` returns in Python.
  function read(found, words) {
    const snapshot = checked(found);
    const all = rows(snapshot.get("segments") ?? [], "segments"),
      traces = snapshot.get("device_traces") ?? [];
    if (!Array.isArray(traces)) throw new Refused("device_traces is no list of traces");
    const device = chosenDevice(all, traces);
    const segments = all.filter((row) => number(row, "device", "segments", 0) === device);
    const entries = rows(traces[device] ?? [], `device_traces[${device}]`);
    const actions = codes(...words.actions),
      streams = codes("0"),
      pools = codes("0,0"),
      notes = codes(""),
      states = [...words.states],
      stacks = stackTable();

    const columns = {};
    const column = (name, count) => (columns[name] = new Float64Array(count));
    const fill = (prefix, list, fields) => {
      for (const [name, value] of Object.entries(fields)) {
        const filled = column(prefix + name, list.length);
        list.forEach((row, i) => (filled[i] = value(row, i)));
      }
    };
    const at = (i) => `entry ${i}`;
    const lacksOne = (row) => row.get("action") === "oom" || row.get("action") === "snapshot";
    const isAddressed = (row) => row.has("addr") || !lacksOne(row);
    const addressOf = (row, i) =>
      isAddressed(row)
        ? number(row, "addr", at(i), row.get("device_free"))
        : number(row, "device_free", at(i), 0);
    fill("", entries, {
      action: (row, i) => actions.of(string(row, "action", at(i))),
      address: addressOf,
      size: (row, i) => size(row, "size", at(i)),
      stream: (row, i) => streams.of(stream(row, at(i))),
      pool: (row, i) => pools.of(pool(row, at(i))),
      note: (row, i) => notes.of(string(row, "user_metadata", at(i), "")),
      time: (row, i) => number(row, "time_us", at(i), 0),
      stack: (row) => stacks.of(row.get("frames")),
    });
    const from = columns.time[0];
    columns.time.forEach((time, i) => (columns.time[i] = time - from));
    const segment = (i) => `segments[${i}]`;
    fill("segment_", segments, {
      address: (row, i) => number(row, "address", segment(i)),
      size: (row, i) => size(row, "total_size", segment(i)),
      stream: (row, i) => streams.of(stream(row, segment(i))),
      pool: (row, i) => pools.of(pool(row, segment(i))),
      large: (row, i) => Number(string(row, "segment_type", segment(i), "small") !== "small"),
      expandable: (row) => Number(row.get("is_expandable") === true),
      stack: (row) => stacks.of(row.get("frames")),
    });
    const owners = [],
      blocks = segments.flatMap((row, i) => {
        const inside = completed(row, i);
        inside.forEach(() => owners.push(i));
        return inside;
      });
    const block = (i) => `block ${i}`;
    fill("block_", blocks, {
      address: (row, i) => number(row, "address", block(i)),
      size: (row, i) => size(row, "size", block(i)),
      requested: (row, i) => size(row, "requested_size", block(i)),
      state: (row, i) => {
        const name = string(row, "state", block(i));
        const known = name === OLD_STATE ? 2 : states.indexOf(name);
        if (known < 0) refuse(block(i), "state", name, states.join(", "));
        return known;
      },
      segment: (_, i) => owners[i],
      stack: (row) => stacks.of(row.get("frames")),
    });
    return {
      device,
      devices: traces.length,
      ...encoded(columns, stacks.table(), {
        actions: actions.all(),
        streams: streams.all(),
        pools: pools.all().map((pair) => pair.split(",").map(Number)),
        notes: notes.all(),
        settings: settings(snapshot.get("allocator_settings") ?? new Map()),
        sizes: words.sizes,
        entries: entries.length,
        decisions: {},
        regions: [],
      }),
    };
  }

  // Addresses become ranks in one sorted table, so that a reader can index arrays with them.
  function encoded(columns, stacks, part) {
    const oom = part.actions.indexOf("oom");
    const isPlace = (i) => columns.action[i] !== oom;
    const used = columns.address.filter((_, i) => isPlace(i));
    const table = Float64Array.from(new Set([...used, ...columns.block_address])).sort();
    const rank = new Map([...table].map((address, i) => [address, i]));
    const ooms = {};
    columns.address.forEach((free, i) => isPlace(i) || (ooms[i] = free));
    columns.place = columns.address.map((address, i) => (isPlace(i) ? rank.get(address) : 0));
    columns.block_place = columns.block_address.map((address) => rank.get(address));
    columns.addresses = table;
    delete columns.address;
    delete columns.block_address;
    const strings = codes();
    const ofFrames = (value) => Float64Array.from(stacks.frames.map(value));
    columns.frame_name = ofFrames(([name]) => strings.of(name));
    columns.frame_file = ofFrames(([, file]) => strings.of(file));
    columns.frame_line = ofFrames(([, , line]) => line);
    columns.stack_starts = Float64Array.from(stacks.starts);
    columns.stack_members = Float64Array.from(stacks.members);
    return { columns, part: { ...part, strings: strings.all(), ooms } };
  }

  // The state of a memory map that shows it, under a title.
  function state(found, words, title) {
    const { device, devices, part, columns } = read(found, words);
    const schema = {};
    let length = 0;
    for (const [name, values] of Object.entries(columns)) {
      schema[`0.${name}`] = ["f8", 8 * length, values.length];
      length += values.length;
    }
    const packed = new Float64Array(length);
    for (const [name, values] of Object.entries(columns))
      packed.set(values, schema[`0.${name}`][1] / 8);
    const remarks = [];
    if (devices > 1)
      remarks.push(`Device ${device} of ${devices} is shown: the one with the longest trace.`);
    if (!part.entries) remarks.push("It holds no trace, so only the final map can be shown.");
    return {
      meta: {
        title,
        titles: [],
        remarks,
        can_replay: false,
        traces: [part],
        schema,
        live: "",
        whole: part.entries,
      },
      data: new DataView(packed.buffer),
      frame: part.entries,
      what_if: [],
      tables: [],
      autopsy: [],
      simple: false,
    };
  }

  return { state };
})();
