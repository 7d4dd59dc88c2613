// The traces of a model: built from its columns, and loaded in chunks where they are long.
const stores = new WeakMap(); // model -> the traces built from it, shared by its views

function storeOf(model) {
  if (stores.has(model)) return stores.get(model);
  const store = {
    traces: [],
    complete: false,
    progress: "",
    changed: new Set(),
    answers: new Set(),
    chunks: [],
  };
  stores.set(model, store);
  const tell = () => store.changed.forEach((run) => run());
  const read = (meta, view) => {
    const began = performance.now();
    const columns = lk.columns(meta.schema, view);
    store.traces = meta.traces.map((part, i) => {
      const prefix = `${i}.`;
      const own = Object.entries(columns).filter(([name]) => name.startsWith(prefix));
      return memory.build(
        Object.fromEntries(own.map(([name, values]) => [name.slice(prefix.length), values])),
        part,
      );
    });
    store.buildMs = performance.now() - began;
    tell();
  };
  const reload = () => {
    const meta = model.get("meta");
    if (!meta.schema) return;
    store.complete = !meta.held;
    read(meta, model.get("data"));
    if (!meta.held) return;
    store.progress = `asking the kernel for ${megabytes(meta.held)}`;
    tell();
    // A static page and a stopped kernel cannot answer; the reduced trace stays and says so.
    setTimeout(() => {
      if (!store.heard) {
        store.progress = "no-kernel";
        tell();
      }
    }, 3000);
    send(model, { kind: "need" });
  };
  model.on("change:data", reload);
  model.on("msg:custom", (message, buffers) => {
    if (message.kind === "chunk") {
      store.heard = true;
      if (message.index === 0) {
        store.chunks = [];
        store.began = performance.now();
      }
      store.chunks[message.index] = buffers[0];
      const got = store.chunks.reduce((sum, chunk) => sum + chunk.byteLength, 0);
      store.progress = `loading ${megabytes(got)} of ${megabytes(message.total)}`;
      tell();
      if (message.index + 1 < message.count) return;
      const whole = new Uint8Array(message.total);
      let at = 0;
      for (const chunk of store.chunks) {
        whole.set(new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength), at);
        at += chunk.byteLength;
      }
      store.chunks = [];
      store.progress = "";
      store.complete = true;
      read(message.meta, new DataView(whole.buffer));
    } else if (message.kind === "what_if") store.answers.forEach((run) => run(message));
  });
  reload();
  return store;
}
function send(model, message) {
  try {
    model.send(message);
  } catch {
    /* a static page has no kernel */
  }
}
const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;
