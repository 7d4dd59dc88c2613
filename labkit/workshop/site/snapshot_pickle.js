// Reads a pickle of plain containers: dict (as Map), list and tuple (as Array), str, int, float,
// bool and None. An opcode that would look up or call anything is refused, so nothing in a file
// can run. Whole numbers beyond 2^53 are BigInts.
class Refused extends Error {}

const snapshotPickle = (() => {
  const MOST_OBJECTS = 16e6; // a million entries of a trace need about eight million
  const LONGEST_NUMBER = 9; // bytes: 64 bits without a sign
  const CALLS = new Map([
    ...[..."cioRbPQ"].map((letter) => [letter.charCodeAt(0), letter]),
    ...[0x81, 0x82, 0x83, 0x84, 0x92, 0x93].map((code) => [code, `0x${code.toString(16)}`]),
  ]);
  const CONSTANTS = new Map([
    [0x4e, null],
    [0x88, true],
    [0x89, false],
  ]);
  const TUPLES = new Map([
    [0x85, 1],
    [0x86, 2],
    [0x87, 3],
  ]);

  function read(bytes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const decoder = new TextDecoder();
    const memo = [],
      below = [];
    let stack = [],
      at = 0,
      made = 0;

    const refuse = (what) => {
      throw new Refused(`byte ${at - 1}: ${what}`);
    };
    const count = (more = 1) => {
      made += more;
      if (made > MOST_OBJECTS) refuse(`more than ${MOST_OBJECTS} objects; no snapshot has so many`);
    };
    const skip = (length) => {
      const from = at;
      if (length > bytes.length - at) refuse("the file is cut short");
      at += length;
      return from;
    };
    const byte = () => bytes[skip(1)];
    const unsigned = () => view.getUint32(skip(4), true);
    const push = (value) => stack.push(value);
    const fresh = (value) => {
      count();
      push(value);
    };
    const pop = () => {
      if (!stack.length) refuse("takes a value where there is none");
      return stack.pop();
    };
    const popToMark = () => {
      const items = stack;
      if (!below.length) refuse("takes values up to a mark where there is none");
      stack = below.pop();
      return items;
    };
    const text = (length) => {
      const from = skip(length);
      push(decoder.decode(bytes.subarray(from, from + length)));
    };
    const long = (length) => {
      if (length > LONGEST_NUMBER) refuse(`a number of ${length} bytes; 64 bits are the most`);
      const from = skip(length);
      let value = 0n;
      for (let i = length - 1; i >= 0; i--) value = (value << 8n) | BigInt(bytes[from + i]);
      value = BigInt.asIntN(8 * length, value);
      push(Number.isSafeInteger(Number(value)) ? Number(value) : value);
    };
    const put = (place) => {
      if (place > bytes.length) refuse(`place ${place} in a file of ${bytes.length} bytes`);
      if (!stack.length) refuse("remembers a value where there is none");
      count();
      memo[place] = stack.at(-1);
    };
    const get = (place) => {
      if (!(place in memo)) refuse(`recalls value ${place}, which was never remembered`);
      push(memo[place]);
    };
    const under = (Kind, name) => {
      const found = stack.at(-1);
      if (!(found instanceof Kind)) refuse(`adds to something that is no ${name}`);
      return found;
    };
    const setItems = (items) => {
      const dict = under(Map, "dict");
      if (items.length % 2) refuse("a key without a value");
      for (let i = 0; i < items.length; i += 2) {
        if (items[i] !== null && typeof items[i] === "object") refuse("a container as a key");
        dict.set(items[i], items[i + 1]);
      }
    };
    const append = (items) => {
      const list = under(Array, "list");
      for (const item of items) list.push(item);
    };
    const tuple = (length) => {
      if (length > stack.length) refuse("a tuple of more than there is");
      fresh(stack.splice(stack.length - length, length));
    };
    const opcodes = new Map([
      [0x80, () => skip(1)], // PROTO
      [0x95, () => skip(8)], // FRAME
      [0x28, () => (below.push(stack), (stack = []))], // MARK
      [0x7d, () => fresh(new Map())],
      [0x5d, () => fresh([])],
      [0x29, () => fresh([])], // EMPTY_TUPLE
      [0x94, () => put(memo.length)],
      [0x71, () => put(byte())],
      [0x72, () => put(unsigned())],
      [0x68, () => get(byte())],
      [0x6a, () => get(unsigned())],
      [0x4b, () => push(byte())],
      [0x4d, () => push(view.getUint16(skip(2), true))],
      [0x4a, () => push(view.getInt32(skip(4), true))],
      [0x8a, () => long(byte())],
      [0x8b, () => long(unsigned())],
      [0x47, () => push(view.getFloat64(skip(8)))],
      [0x8c, () => text(byte())],
      [0x58, () => text(unsigned())],
      [0x74, () => fresh(popToMark())], // TUPLE
      [0x6c, () => fresh(popToMark())], // LIST
      [0x65, () => append(popToMark())],
      [0x61, () => append([pop()])],
      [0x75, () => setItems(popToMark())],
      [0x73, () => setItems([pop(), pop()].reverse())],
    ]);
    for (;;) {
      const code = byte();
      if (code === 0x2e) return pop();
      if (CONSTANTS.has(code)) push(CONSTANTS.get(code));
      else if (TUPLES.has(code)) tuple(TUPLES.get(code));
      else if (opcodes.has(code)) opcodes.get(code)();
      else if (CALLS.has(code))
        refuse(
          `the pickle asks for a class or a function (${CALLS.get(code)}); a snapshot holds ` +
            "only dict, list, tuple, str, int, float, bool and None, and nothing of it was run",
        );
      else refuse(`0x${code.toString(16)} is no step of a snapshot's pickle`);
    }
  }

  return { read };
})();
