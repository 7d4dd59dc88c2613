// A snapshot's file that is dropped on the page, or chosen, takes the place of the example. It is
// read here: the page's Content-Security-Policy lets nothing out.
(() => {
  const MIB = 1 << 20;
  const MOST_BYTES = 256 * MIB;
  const EXPANDED_TIMES = 60, // gzip makes a snapshot 10 to 20 times smaller, and zeros 1000 times
    EXPANDED_AT_LEAST = 64 * MIB;
  const words = JSON.parse(document.getElementById("snapshot-words").textContent);
  const said = document.getElementById("snapshot-said"),
    input = document.getElementById("snapshot-file"),
    place = document.querySelector("[data-widget]");
  let turn = 0;

  async function expanded(bytes) {
    const most = Math.min(MOST_BYTES, Math.max(EXPANDED_AT_LEAST, EXPANDED_TIMES * bytes.length));
    const reader = new Blob([bytes])
      .stream()
      .pipeThrough(new DecompressionStream("gzip"))
      .getReader();
    const parts = [];
    let length = 0;
    for (;;) {
      const { done, value } = await reader.read().catch(() => {
        throw new Refused("the gzip file is damaged");
      });
      if (done) break;
      parts.push(value);
      length += value.length;
      if (length > most) {
        reader.cancel().catch(() => {});
        throw new Refused(`it decompresses to more than ${most / MIB} MiB`);
      }
    }
    return new Uint8Array(await new Blob(parts).arrayBuffer());
  }

  async function read(file) {
    if (file.size > MOST_BYTES)
      throw new Refused(`it has ${file.size} bytes; here ${MOST_BYTES} are the most`);
    const bytes = new Uint8Array(await file.arrayBuffer().catch(() => {
      throw new Refused("it cannot be read; a folder cannot be shown");
    }));
    const begins = (...start) => start.every((value, i) => bytes[i] === value);
    if (begins(0x50, 0x4b, 3, 4))
      throw new Refused("a zip archive, as torch.save writes; it is no snapshot");
    return begins(0x1f, 0x8b) ? expanded(bytes) : bytes;
  }

  async function show(file) {
    const mine = ++turn;
    said.textContent = `Reading ${file.name} …`;
    try {
      const bytes = await read(file);
      await new Promise((done) => setTimeout(done)); // the line above is drawn first
      const state = snapshotColumns.state(snapshotPickle.read(bytes), words, file.name);
      if (mine !== turn) return;
      await lkRedraw(place, state);
      said.textContent = `${file.name}: read in this page, and sent nowhere.`;
    } catch (error) {
      if (mine !== turn) return;
      const why = error instanceof Refused ? error.message : `no whole snapshot (${error.message})`;
      said.textContent = `${file.name} is not shown: ${why}.`;
    }
  }

  const over = (is) => document.body.classList.toggle("lk-over", is);
  input.addEventListener("change", () => input.files[0] && show(input.files[0]));
  addEventListener("dragover", (event) => {
    event.preventDefault();
    over(true);
  });
  addEventListener("dragleave", () => over(false));
  addEventListener("drop", (event) => {
    event.preventDefault();
    over(false);
    if (event.dataTransfer.files[0]) show(event.dataTransfer.files[0]);
  });
})();
