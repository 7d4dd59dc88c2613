// Address arithmetic of strided layouts: { sizes, strides, offset }, all in elements.
// Nothing here walks a whole tensor: one address costs a few steps however large the view is.
const affine = (() => {
  const numel = (view) => view.sizes.reduce((product, size) => product * size, 1);
  const address = (view, index) =>
    index.reduce((sum, i, dim) => sum + i * view.strides[dim], view.offset);

  // Lowest and highest address; null when there is no element.
  function reach(view) {
    if (numel(view) === 0) return null;
    let [low, high] = [view.offset, view.offset];
    view.sizes.forEach((size, dim) => {
      const span = (size - 1) * view.strides[dim];
      if (span < 0) low += span;
      else high += span;
    });
    return [low, high];
  }

  // Calls found(index) for the elements whose address lies in [from, to), until it returns true.
  // Large strides first, so the address left over bounds every further index.
  function search(view, from, to, found, budget = 20000) {
    if (numel(view) === 0) return;
    const dims = view.sizes
      .map((_, dim) => dim)
      .filter((dim) => view.strides[dim] !== 0 || view.sizes[dim] > 1)
      .sort((a, b) => Math.abs(view.strides[b]) - Math.abs(view.strides[a]));
    const low = [0],
      high = [0]; // reach of the last n dims
    for (let n = dims.length - 1; n >= 0; n--) {
      const span = (view.sizes[dims[n]] - 1) * view.strides[dims[n]];
      low.unshift(low[0] + Math.min(0, span));
      high.unshift(high[0] + Math.max(0, span));
    }
    const index = view.sizes.map(() => 0);
    const down = (n, at) => {
      if (budget-- <= 0) return true;
      if (n === dims.length) return at >= from && at < to ? found(index) : false;
      const dim = dims[n],
        stride = view.strides[dim],
        size = view.sizes[dim];
      let first = 0,
        last = size - 1;
      if (stride !== 0) {
        const a = (from - at - high[n + 1]) / stride,
          b = (to - 1 - at - low[n + 1]) / stride;
        first = Math.max(first, Math.ceil(Math.min(a, b)));
        last = Math.min(last, Math.floor(Math.max(a, b)));
      }
      for (let i = first; i <= last; i++) {
        index[dim] = i;
        if (down(n + 1, at + i * stride)) return true;
      }
      index[dim] = 0;
      return false;
    };
    down(0, view.offset);
  }

  // Up to `limit` indices that land on one address.
  function indicesAt(view, at, limit = 64) {
    const list = [];
    search(view, at, at + 1, (index) => list.push([...index]) >= limit);
    return list;
  }
  function countAt(view, at, limit = 1000) {
    let count = 0;
    search(view, at, at + 1, () => ++count >= limit);
    return count;
  }
  function touches(view, from, to) {
    let hit = false;
    search(view, from, to, () => (hit = true));
    return hit;
  }

  // Distinct addresses, or null where counting would be slow (then the answer is not guessed).
  function distinct(view, limit = 1 << 20) {
    const count = numel(view);
    if (count === 0) return 0;
    const spread = view.sizes
      .map((size, dim) => [Math.abs(view.strides[dim]), size])
      .filter(([, size]) => size > 1)
      .sort((a, b) => a[0] - b[0]);
    let below = 0,
      separate = true;
    for (const [stride, size] of spread) {
      separate &&= stride > below;
      below += stride * (size - 1);
    }
    if (separate) return count;
    const kept = spread.filter(([stride]) => stride > 0);
    const real = {
      sizes: kept.map(([, size]) => size),
      strides: kept.map(([stride]) => stride),
      offset: 0,
    };
    if (numel(real) > limit || below >= 16 * limit) return null;
    const seen = new Uint8Array(below + 1);
    let total = 0;
    const walk = (dim, at) => {
      if (dim === real.sizes.length) {
        total += 1 - seen[at];
        seen[at] = 1;
        return;
      }
      for (let i = 0; i < real.sizes[dim]; i++) walk(dim + 1, at + i * real.strides[dim]);
    };
    walk(0, 0);
    return total;
  }

  function contiguous(view) {
    if (numel(view) === 0) return true;
    let expected = 1;
    for (let dim = view.sizes.length - 1; dim >= 0; dim--) {
      if (view.sizes[dim] === 1) continue;
      if (view.strides[dim] !== expected) return false;
      expected *= view.sizes[dim];
    }
    return true;
  }

  return { numel, address, reach, indicesAt, countAt, touches, distinct, contiguous };
})();
