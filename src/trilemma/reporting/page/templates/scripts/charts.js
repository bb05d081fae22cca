// Plots as inline SVG: axes, layers, and points whose values show on hover and by arrow keys.
// Text enters by textContent only; colours and strokes are in style.css.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const points = data.document.curves || data.document.points;

function put(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const html = (name, attributes = {}, ...children) =>
  put(document.createElement(name), attributes, children);
const svg = (name, attributes = {}, ...children) =>
  put(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

// Three significant digits, as number() of words/numbers.py writes them.
function number(value) {
  if (value === null || value === undefined) return "–";
  const rounded = Number(value.toPrecision(3));
  if (rounded === 0) return "0";
  const exponent = Number(rounded.toExponential().split("e")[1]);
  if (exponent < -4 || exponent >= 6) return rounded.toExponential().replace("e+", "e");
  return String(rounded);
}

const interval = (estimate) =>
  estimate === null
    ? "–"
    : `${number(estimate.value)} [${number(estimate.low)}, ${number(estimate.high)}]`;

// Round steps of 1, 2 or 5 times a power of ten between low and high, about `count` of them.
function ticks(low, high, count = 5) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + 1e-9 * step; n++) {
    found.push(Number((n * step).toPrecision(12)));
  }
  return found.map((each) => [each, number(each)]);
}

const SHAPES = {
  circle: (r) => `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
  square: (r) => `M${-0.88 * r} ${-0.88 * r}h${1.76 * r}v${1.76 * r}h${-1.76 * r}z`,
  up: (r) => `M0 ${-1.2 * r}L${1.1 * r} ${0.8 * r}H${-1.1 * r}z`,
  diamond: (r) => `M0 ${-1.25 * r}L${1.25 * r} 0L0 ${1.25 * r}L${-1.25 * r} 0z`,
  down: (r) => `M0 ${1.2 * r}L${1.1 * r} ${-0.8 * r}H${-1.1 * r}z`,
  plus: (r) =>
    [[0.4, -1.1], [0.4, -0.4], [1.1, -0.4], [1.1, 0.4], [0.4, 0.4], [0.4, 1.1]]
      .concat([[-0.4, 1.1], [-0.4, 0.4], [-1.1, 0.4], [-1.1, -0.4], [-0.4, -0.4], [-0.4, -1.1]])
      .map(([x, y], n) => `${n ? "L" : "M"}${x * r} ${y * r}`)
      .join("") + "z",
  left: (r) => `M${-1.2 * r} 0L${0.8 * r} ${-1.1 * r}V${1.1 * r}z`,
  right: (r) => `M${1.2 * r} 0L${-0.8 * r} ${-1.1 * r}V${1.1 * r}z`,
  hexagon: (r) => `M${r} 0L${r / 2} ${0.87 * r}H${-r / 2}L${-r} 0L${-r / 2} ${-0.87 * r}H${r / 2}z`,
};

const marker = (shape, x, y, r, name) =>
  svg("path", { class: name, d: SHAPES[shape](r), transform: `translate(${x} ${y})` });

const tip = document.getElementById("tip");
const said = document.getElementById("said");

function showTip(lines, x, y) {
  tip.replaceChildren(...lines.map((line) => html("p", {}, line)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const room = document.documentElement.clientWidth - box.width - 8;
  tip.style.left = `${Math.max(8, Math.min(x + 12, room))}px`;
  tip.style.top = `${y + 14 + box.height > window.innerHeight ? y - box.height - 10 : y + 14}px`;
}

// So many of the ticks as have room for their labels.
function thinned(ticks, x) {
  const gaps = ticks.slice(1).map(([value], n) => Math.abs(x(value) - x(ticks[n][0])));
  const stride = Math.max(1, Math.ceil(46 / Math.min(...gaps, 1e9)));
  return ticks.filter((_, n) => n % stride === 0);
}

const PAPER = 0.6; // a sheet is narrower than a screen; letters should not shrink with it

// A plot in `host`; `describe()` returns what to draw now: title, axes, layers and targets.
// Layers are functions of the two scales; a target is {x, y, lines}, in the axes' own units.
class Plot {
  constructor(host, describe) {
    this.host = host;
    this.describe = describe;
    this.at = null;
    this.root = svg("svg", {
      class: "chart", tabindex: 0, role: "application", "aria-roledescription": "chart",
    });
    host.append(this.root);
    this.root.addEventListener("pointermove", (event) => this.hover(event));
    this.root.addEventListener("pointerdown", (event) => this.hover(event));
    for (const name of ["pointerleave", "blur"]) {
      this.root.addEventListener(name, () => this.select(null));
    }
    this.root.addEventListener("focus", () => {
      if (this.root.matches(":focus-visible")) this.select(0, true);
    });
    this.root.addEventListener("keydown", (event) => this.step(event));
    new ResizeObserver(() => this.draw()).observe(host);
    window.addEventListener("beforeprint", () => this.draw(PAPER));
    window.addEventListener("afterprint", () => this.draw());
  }

  draw(share = 1) {
    const width = Math.max(200, share * this.host.clientWidth);
    const { title, x, y, height = 210, margin = 20, layers, targets } = this.describe(width);
    const inner = { left: 46, right: width - margin, top: 38, bottom: height - 38 };
    const scale = (axis, from, to) => {
      const map = axis.log ? Math.log10 : (value) => value;
      const [low, high] = axis.domain.map(map);
      return (value) => from + ((map(value) - low) / (high - low)) * (to - from);
    };
    this.x = scale(x, inner.left, inner.right);
    this.y = scale(y, inner.bottom, inner.top);
    this.targets = targets;
    this.root.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.root.setAttribute("aria-label", `${title}. Arrow keys step through the values.`);
    this.focus = svg("g", { class: "focus" });
    this.root.replaceChildren(
      svg("text", { class: "title", x: 2, y: 14 }, title),
      ...y.ticks.map(([value, label]) =>
        svg("g", { class: "tick" },
          svg("line", { x1: inner.left, x2: inner.right, y1: this.y(value), y2: this.y(value) }),
          svg("text", { x: inner.left - 6, y: this.y(value) + 4, "text-anchor": "end" }, label))),
      ...thinned(x.ticks, this.x).map(([value, label]) =>
        svg("text", {
          class: "tick", x: this.x(value), y: inner.bottom + 16, "text-anchor": "middle",
        }, label)),
      svg("text", { class: "axis", x: (inner.left + inner.right) / 2, y: height - 4, "text-anchor": "middle" }, x.label),
      ...layers(this.x, this.y, inner).flat().filter(Boolean),
      this.focus,
    );
  }

  hover(event) {
    const box = this.root.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    const far = this.targets.map(
      (each) => Math.abs(this.x(each.x) - px) + 0.4 * Math.abs(this.y(each.y) - py));
    this.select(far.indexOf(Math.min(...far)));
  }

  step(event) {
    const last = this.targets.length - 1;
    const now = this.at === null ? 0 : this.at;
    const to = {
      ArrowRight: Math.min(last, now + 1), ArrowLeft: Math.max(0, now - 1),
      ArrowUp: Math.min(last, now + 1), ArrowDown: Math.max(0, now - 1),
      Home: 0, End: last, Escape: null,
    };
    if (!(event.key in to)) return;
    event.preventDefault();
    this.select(to[event.key], true);
  }

  select(place, aloud = false) {
    this.at = place;
    this.focus.replaceChildren();
    if (place === null || !this.targets.length) {
      tip.hidden = true;
      return;
    }
    const { x, y, lines } = this.targets[place];
    this.focus.append(svg("circle", { cx: this.x(x), cy: this.y(y), r: 8 }));
    const box = this.root.getBoundingClientRect();
    showTip(lines, box.left + this.x(x), box.top + this.y(y));
    if (aloud) said.textContent = lines.join("; ");
  }
}

// One entry of a legend below a plot; `own` is the class that says its colour.
function key(shape, name, text, own = "") {
  const picture = svg("svg", { width: 20, height: 20, "aria-hidden": "true" }, marker(shape, 10, 10, 6, name));
  return html("li", { class: own }, picture, ` ${text}`);
}

// The legend in the block below a plot: one list for each row of entries.
const legend = (id, ...rows) => document.getElementById(id)
  .append(...rows.map((entries) => html("ul", { class: "legend" }, ...entries)));

const shapeAt = (n) => Object.keys(SHAPES)[n % Object.keys(SHAPES).length];
