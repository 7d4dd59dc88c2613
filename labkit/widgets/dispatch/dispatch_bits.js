// Words arrive as decimal text: as numbers they would be rounded.
const big = (text) => (text === null || text === undefined ? null : BigInt(text));

// Key sets as BigInt words, and the dispatcher's own arithmetic on them.
//
// rows, columns   the functionalities and backends to draw: those of the slots shown, or all
function dispatchBits({ functionalities, backends, per_backend }, shown = []) {
  const count = backends.length;
  const backendMask = (1n << BigInt(count)) - 1n;
  const full = (1n << BigInt(count + functionalities.length)) - 1n;
  const severally = functionalities.map((name) => per_backend.includes(name));
  const firstSlot = [0];
  functionalities.reduce(
    (slot, _, f) => (firstSlot.push(slot), slot + (severally[f] ? count : 1)),
    1,
  );
  const bit = (place) => 1n << BigInt(place);
  const has = (word, place) => ((word >> BigInt(place)) & 1n) === 1n;
  const bitLength = (word) => (word > 0n ? word.toString(2).length : 0);
  const placeOf = (f) => count + f;
  const highest = (word) => bitLength(word >> BigInt(count)) - 1;
  const backendOf = (word) => Math.max(0, bitLength(word & backendMask) - 1);
  // The highest functionality joined with the highest backend; -1 as functionality is Undefined.
  const slotOf = (word) => {
    const f = highest(word);
    return f < 0 ? 0 : firstSlot[f + 1] + (severally[f] ? backendOf(word) : 0);
  };
  const slotAt = (f, backend) => firstSlot[f + 1] + (severally[f] ? backend : 0);
  // The place of the bit that wins, -1 when none does.
  const winnerOf = (word) => (highest(word) < 0 ? -1 : placeOf(highest(word)));
  const drawn = (names, isShown) =>
    names.map((_, i) => i).filter((i) => !shown.length || isShown(i));
  const rows = drawn(functionalities, (f) =>
    shown.some((slot) => slot >= slotAt(f, 0) && slot <= slotAt(f, severally[f] ? count - 1 : 0)),
  );
  const columns = drawn(backends, (b) =>
    rows.some((f) => severally[f] && shown.includes(slotAt(f, b))),
  );
  // Removing keys takes functionality bits only: nobody owns a backend bit.
  const minus = (word, other) => word & (backendMask | (full & ~other));
  const names = (word, slots) =>
    functionalities.flatMap((_, f) =>
      !has(word, placeOf(f))
        ? []
        : !severally[f]
          ? [slots[slotAt(f, 0)]]
          : backends.flatMap((_, b) => (has(word, b) ? [slots[slotAt(f, b)]] : [])),
    );
  const written = (word, slots) => `${hex(word)} = ${names(word, slots).join(", ") || "nothing"}`;
  const hex = (word) => `0x${word.toString(16)}`;
  return {
    functionalities,
    backends,
    severally,
    count,
    rows,
    columns,
    bit,
    has,
    placeOf,
    winnerOf,
    backendOf,
    slotOf,
    slotAt,
    minus,
    names,
    hex,
    written,
  };
}
