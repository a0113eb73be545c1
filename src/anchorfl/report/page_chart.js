// Charts of a page: curves by round that can be hovered over, zoomed into and hidden.
const SVG = "http://www.w3.org/2000/svg", W = window.innerWidth < 600 ? 360 : 640, H = 300, L = 96, R = 12, T = 10, B = 30;

function add(parent, tag, text, attributes) {
  const svg = parent instanceof SVGElement || tag === "svg";
  const node = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  if (text !== undefined && text !== null) node.textContent = text;
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  parent.append(node);
  return node;
}
function quantity(x, digits = 3) {  // as in numbers.py
  if (x === null || x === undefined) return "-";
  const size = Math.abs(x);
  if (size >= 1e12 || (size && size < 1e-4)) return (+x.toPrecision(digits)).toExponential();
  const places = size >= 10 ** (digits - 1) ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: digits };
  return x.toLocaleString("en-US", places);
}
function labels(values, digits = 3) {  // more digits where these do not tell them apart
  const found = values.map(x => quantity(x, digits));
  return digits > 9 || new Set(found).size === found.length ? found : labels(values, digits + 1);
}
function ticks(low, high, log) {
  if (log) {
    const first = Math.floor(low), last = Math.ceil(high), every = Math.max(1, Math.ceil((last - first) / 7));
    for (const within of [[1], [1, 2, 5]]) {
      const found = [];
      for (let k = first; k <= last; k += every) found.push(...within.map(m => k + Math.log10(m)));
      const inside = found.filter(y => y >= low && y <= high);
      if (inside.length > 2) return inside;
    }
    return ticks(10 ** low, 10 ** high, false).filter(x => x > 0).map(Math.log10);
  }
  const raw = (high - low) / 5 || 1, unit = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(m => m * unit).find(s => s >= raw * .999);
  const found = [];
  for (let x = Math.ceil(low / step) * step; x <= high + 1e-9; x += step) found.push(+x.toPrecision(12));
  return found;
}

class Chart {
  constructor(parent, spec) {
    this.spec = spec; this.hidden = new Set();
    const figure = add(parent, "figure");
    const caption = add(figure, "figcaption");
    if (spec.colour) add(caption, "span", null, { class: "swatch" }).style.background = spec.colour;
    explained(caption, spec.title);
    this.svg = add(figure, "svg", null, { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": spec.title });
    this.tip = add(figure, "div", "", { class: "tip" });
    const legend = add(figure, "div", null, { class: "legend" });
    spec.series.forEach((series, index) => {
      if (!series.legend) return;
      const button = add(legend, "button", null, { type: "button" });
      const key = add(button, "span", null, { class: "key" });
      key.style.borderTopColor = series.colour; key.style.borderTopStyle = series.dash ? "dashed" : "solid";
      button.append(series.legend);
      button.onclick = () => {
        const name = series.group || series.name;
        this.hidden.has(name) ? this.hidden.delete(name) : this.hidden.add(name);
        button.classList.toggle("off"); this.draw();
      };
    });
    this.svg.addEventListener("pointermove", event => this.hover(event));
    this.svg.addEventListener("pointerleave", () => { this.tip.textContent = ""; this.mark(null); });
    this.svg.addEventListener("pointerdown", event => { this.from = this.at(event); });
    this.svg.addEventListener("pointerup", event => {
      const to = this.at(event);
      if (this.from !== undefined && Math.abs(to - this.from) > .02 * (this.range[1] - this.range[0])) {
        this.zoom([Math.min(this.from, to), Math.max(this.from, to)]);
      }
      this.from = undefined;
    });
    this.svg.addEventListener("dblclick", () => this.zoom(this.full()));
  }
  full() {
    const every = this.beside.flatMap(chart => chart.spec.series).flatMap(series => series.x);
    const low = Math.min(...every), high = Math.max(...every);
    return low === high ? [low - .5, high + .5] : [low, high];
  }
  zoom(range) {
    for (const chart of this.beside) { chart.range = range; chart.draw(); }
  }
  scaled() {  // what the height is for: hiding a curve leaves a scale that is shared as it is
    const scale = this.spec.scale;
    return scale ? this.beside.filter(chart => chart.spec.scale === scale).flatMap(chart => chart.spec.series) : this.shown();
  }
  shown() { return this.spec.series.filter(series => !this.hidden.has(series.group || series.name)); }
  height(y) { return this.spec.log ? (y > 0 ? Math.log10(y) : null) : y; }
  at(event) {
    const box = this.svg.getBoundingClientRect(), x = (event.clientX - box.left) / box.width * W;
    return this.range[0] + (x - L) / (W - L - R) * (this.range[1] - this.range[0]);
  }
  draw() {
    this.svg.replaceChildren();
    const [x0, x1] = this.range, inside = [];
    for (const series of this.scaled())
      for (const values of [series.y, series.low || [], series.high || []])
        values.forEach((value, i) => {
          const y = value === null ? null : this.height(value);
          if (y !== null && series.x[i] >= x0 && series.x[i] <= x1) inside.push(y);
        });
    let low = Math.min(...inside), high = Math.max(...inside);
    if (!inside.length) { low = 0; high = 1; }
    if (low === high) { low -= .5; high += .5; }
    const pad = .04 * (high - low); low -= pad; high += pad;
    this.px = x => L + (x - x0) / (x1 - x0) * (W - L - R);
    this.py = y => H - B - (y - low) / (high - low) * (H - B - T);
    const heights = ticks(low, high, this.spec.log), texts = labels(heights.map(y => this.spec.log ? 10 ** y : y));
    heights.forEach((y, i) => {
      add(this.svg, "line", null, { class: "grid", x1: L, x2: W - R, y1: this.py(y), y2: this.py(y) });
      add(this.svg, "text", texts[i], { x: L - 6, y: this.py(y) + 4, "text-anchor": "end" });
    });
    for (const x of ticks(x0, x1, false).filter(Number.isInteger))
      add(this.svg, "text", x, { x: this.px(x), y: H - B + 16, "text-anchor": "middle" });
    add(this.svg, "text", "round", { x: W - R, y: H - 2, "text-anchor": "end" });
    for (const series of this.shown().filter(series => series.low)) this.band(series);
    for (const series of this.shown()) {
      let path = "", pen = false, points = 0;
      series.x.forEach((x, i) => {
        const y = series.y[i] === null ? null : this.height(series.y[i]);
        if (y === null || x < x0 || x > x1) { pen = false; return; }
        path += `${pen ? "L" : "M"}${this.px(x).toFixed(1)} ${this.py(y).toFixed(1)}`; pen = true; points += 1;
        if (series.x.length === 1) add(this.svg, "circle", null, { cx: this.px(x), cy: this.py(y), r: 3, fill: series.colour });
      });
      if (points) add(this.svg, "path", null, { d: path, fill: "none", stroke: series.colour, "stroke-width": series.width || 1.8,
        "stroke-dasharray": series.dash || "none", "stroke-linejoin": "round", class: "curve" });
    }
    this.cross = add(this.svg, "line", null, { class: "cross", y1: T, y2: H - B, x1: -9, x2: -9 });
  }
  band(series) {
    const edge = values => series.x.map((x, i) => [x, this.height(values[i])])
      .filter(([x, y]) => y !== null && x >= this.range[0] && x <= this.range[1])
      .map(([x, y]) => `${this.px(x).toFixed(1)},${this.py(y).toFixed(1)}`);
    const points = [...edge(series.low), ...edge(series.high).reverse()].join(" ");
    add(this.svg, "polygon", null, { points, fill: series.colour, class: "band" });
  }
  mark(x) { const at = x === null ? -9 : this.px(x); this.cross.setAttribute("x1", at); this.cross.setAttribute("x2", at); }
  hover(event) {
    const wanted = this.at(event), every = this.shown().flatMap(series => series.x);
    if (!every.length) return;
    const x = every.reduce((best, each) => Math.abs(each - wanted) < Math.abs(best - wanted) ? each : best);
    this.mark(x);
    const values = this.shown().map(series => [series.name, series.y[series.x.indexOf(x)]]).filter(pair => pair[1] !== undefined);
    this.tip.textContent = `round ${x}: ` + values.map(([name, y]) => `${name} ${quantity(y)}`).join(", ");
  }
}
function drawCharts(parent, specs) {  // those with a scale lie side by side: they share one zoom
  const charts = specs.map(spec => new Chart(parent, spec)), together = charts.filter(chart => chart.spec.scale);
  for (const chart of charts) chart.beside = chart.spec.scale ? together : [chart];
  for (const chart of charts) { chart.range = chart.full(); chart.draw(); }
}
