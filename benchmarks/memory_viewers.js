// Runs in the pages of memory_viewer_page.py: opens one snapshot and steps through it, timed.
// Times are milliseconds. `painted` waits until the frame with the change has been handed over.
const painted = () =>
  new Promise((done) => {
    requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())));
  });

async function timed(list, run) {
  const began = performance.now();
  run();
  const ran = performance.now() - began;
  list.push({ ran, painted: (await painted()) - began });
}

export async function openMemoryViz(view) {
  const plain = window.fetch;
  let arrived, shown;
  const done = new Promise((resolve) => { shown = resolve; });
  const arrayBuffer = async (reply) => {
    const bytes = await reply.arrayBuffer();
    arrived = performance.now();
    setTimeout(() => painted().then(shown));  // after the viewer's own work on the bytes
    return bytes;
  };
  window.fetch = (url) => plain(url).then((reply) => ({ arrayBuffer: () => arrayBuffer(reply) }));
  console.log = () => {};
  const viewer = await import("/MemoryViz.js");
  const offers = (select) => [...select.options].some((option) => option.text === view);
  [...document.querySelectorAll("select")].find(offers).value = view;
  const began = performance.now();
  viewer.add_remote_files([{ name: "snapshot", url: "/snapshot" }]);
  const end = await done;
  return { total: end - began, browser: end - arrived };
}

export async function stepMemoryViz(count) {
  const rows = [...document.querySelectorAll("pre")].filter((row) => row.textContent.length > 8);
  const times = { jump: [], step: [] };
  for (let i = 0; i < count; i++) {
    const row = rows[Math.floor(rows.length * ((0.3 + i * 0.618) % 1))];
    await timed(times.jump, () => {
      for (const kind of ["mouseover", "mousedown", "mouseup", "click"]) {
        row.dispatchEvent(new MouseEvent(kind, { bubbles: true }));
      }
    });
    await timed(times.step, () => {
      document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowUp", bubbles: true }));
    });
  }
  return times;
}

export async function openMemoryMap() {
  const widget = (await import("/memory_map.js")).default;
  const style = document.createElement("style");
  style.textContent = await (await fetch("/memory_map.css")).text();
  document.head.append(style);
  const began = performance.now();
  const reply = await fetch("/columns");
  const python = Number(reply.headers.get("X-Python-Ms"));
  const body = await reply.arrayBuffer(), text = Number(reply.headers.get("X-Meta-Bytes"));
  const meta = JSON.parse(new TextDecoder().decode(new Uint8Array(body, 0, text)));
  const data = new DataView(body, text);
  const arrived = performance.now();
  const state = { meta, data, frame: meta.whole, what_if: [], autopsy: [], tables: [] };
  const nothing = () => {};
  const set = (name, value) => { state[name] = value; };
  const model = { get: (name) => state[name], set, on: nothing, off: nothing, send: nothing };
  model.save_changes = nothing;
  const el = document.body.appendChild(document.createElement("div"));
  widget.render({ model, el });
  const end = await painted();
  return { total: end - began, browser: end - arrived, python, bytes: data.byteLength };
}

export async function stepMemoryMap(count) {
  const canvas = document.querySelector(".lk canvas"), box = canvas.getBoundingClientRect();
  const times = { jump: [], step: [], zoom: [] };
  const key = (name) => () => {
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
  };
  const clickAt = (share) => () => {
    const clientX = box.left + box.width * share;
    canvas.dispatchEvent(new MouseEvent("click", { clientX, clientY: box.top + 5, bubbles: true }));
  };
  for (let i = 0; i < count; i++) {
    await timed(times.jump, clickAt((0.3 + i * 0.618) % 1));
    await timed(times.step, key("ArrowRight"));
    await timed(times.step, key("ArrowLeft"));
    if (i % 4 === 0) for (const zoom of ["+", "-"]) await timed(times.zoom, key(zoom));
  }
  return times;
}
