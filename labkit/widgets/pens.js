// A few strokes on a canvas, sharp on every screen; lengths are CSS pixels.
const pens = (() => {
  const FONT = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace';

  function prepare(canvas, width, height) {
    const scale = lk.density(canvas);
    if (
      canvas.width !== Math.round(width * scale) ||
      canvas.height !== Math.round(height * scale)
    ) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    return pen;
  }
  // Centred on (x, y) unless align says otherwise; cut with "…" where it is wider than `width`.
  function words(pen, text, x, y, { size = 12, fill, width = 1e4, align = "center", weight = "" }) {
    pen.font = `${weight} ${size}px ${FONT}`;
    pen.fillStyle = fill;
    pen.textAlign = align;
    pen.textBaseline = "middle";
    const fits = Math.max(1, Math.floor(width / (size * 0.61)));
    pen.fillText(text.length > fits ? `${text.slice(0, Math.max(0, fits - 1))}…` : text, x, y);
  }
  function hatch(pen, x, y, width, height, fill) {
    pen.save();
    pen.beginPath();
    pen.rect(x, y, width, height);
    pen.clip();
    pen.strokeStyle = fill;
    pen.lineWidth = 1.5;
    pen.beginPath();
    for (let at = -height; at < width; at += 6) {
      pen.moveTo(x + at, y + height);
      pen.lineTo(x + at + height, y);
    }
    pen.stroke();
    pen.restore();
  }
  function frameCell(pen, x, y, width, height, stroke, thick, dash = []) {
    pen.strokeStyle = stroke;
    pen.lineWidth = thick;
    pen.setLineDash(dash);
    pen.strokeRect(x + thick / 2, y + thick / 2, width - thick, height - thick);
    pen.setLineDash([]);
  }

  return { prepare, words, hatch, frameCell };
})();
