// What one request of a warp costs; warp_request.py is the same in Python.
// `lanes` is an array of 32 addresses in bytes, null where a lane takes no part.
const kernelMemory = (() => {
  const SECTOR = 32,
    BANKS = 32,
    WORD = 4;

  const taking = (lanes) => lanes.flatMap((at, lane) => (at === null ? [] : [lane]));
  function units(addresses, size, unit) {
    const found = new Set();
    for (const at of addresses) {
      const last = Math.floor((at + Math.max(size, 1) - 1) / unit);
      for (let n = Math.floor(at / unit); n <= last; n++) found.add(n);
    }
    return [...found].sort((a, b) => a - b);
  }
  const asked = (lanes) => lanes.filter((at) => at !== null);
  const sectors = (lanes, size) => units(asked(lanes), size, SECTOR);
  const idealSectors = (lanes, size) =>
    Math.ceil(
      (new Set(asked(lanes).map((at) => Math.floor(at / Math.max(size, 1)))).size * size) / SECTOR,
    );

  // Lanes that shared memory serves together.
  function groups(lanes, size) {
    const all = taking(lanes);
    if (size <= WORD) return all.length ? [all] : [];
    const part = size > 8 ? 8 : 16,
      found = [];
    const pairs = (group, apart) =>
      group.every((lane) => lanes[lane ^ apart] === null || lanes[lane ^ apart] === lanes[lane]);
    for (let first = 0; first < 32; first += 2 * part) {
      const both = all.filter((lane) => lane >= first && lane < first + 2 * part);
      if (pairs(both, 1) || pairs(both, 2)) found.push(both);
      else
        found.push(
          both.filter((lane) => lane < first + part),
          both.filter((lane) => lane >= first + part),
        );
    }
    return found.filter((group) => group.length);
  }
  // Per pass, an array of 32 banks: the lanes answered, or null.
  function passes(lanes, size) {
    return groups(lanes, size).flatMap((group) => {
      const words = Array.from({ length: BANKS }, () => new Map());
      for (const lane of group)
        for (const word of units([lanes[lane]], size, WORD)) {
          const bank = words[((word % BANKS) + BANKS) % BANKS];
          bank.set(word, [...(bank.get(word) || []), lane]);
        }
      const wanted = words.map((bank) => [...bank.values()]);
      const most = Math.max(...wanted.map((bank) => bank.length));
      return Array.from({ length: most }, (_, n) => wanted.map((bank) => bank[n] || null));
    });
  }

  return { SECTOR, taking, units, sectors, idealSectors, groups, passes };
})();
