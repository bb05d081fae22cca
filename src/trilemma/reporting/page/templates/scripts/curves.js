// The measured curves of one family: leakage, loss, bits and seconds against its strength.

const drawnHere = (panel) => panel.points.map(([x, place]) => ({ x, place, point: points[place] }));

function lines(point, panel) {
  const attacks = Object.entries(point.by_attack || {}).map(([name, hits]) => `${name} ${hits}`);
  return [
    `${panel.name}: ${panel.symbol} ${number(point.strength)}`,
    `leakage ${leaks(point)}; right in ${point.recovered} of ${point.units} games` +
      (attacks.length ? ` (${attacks.join(", ")})` : ""),
    ...(point.utility_loss === null ? [] : [`loss of ${data.metric} ${interval(point.utility_loss)}`]),
    ...(point.efficiency_reduction === null ? [] : [`a round takes ${lasts(point)} as long`]),
    ...(point.bits === null ? [] : [`${number(point.bits)} bits, ${number(point.seconds)} CPU seconds`]),
    ...(point.note ? [point.note] : []),
  ];
}

const path = (pairs) => pairs.map(([x, y], n) => `${n ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
const inside = (x) => Math.min(1, Math.max(0, x));

function curve(shown, estimate, x, y) {
  const drawn = shown.filter(({ point }) => estimate(point) !== null);
  const at = (end) => drawn.map((each) => [x(each.x), y(estimate(each.point)[end])]);
  return [
    svg("path", { class: "band", d: path([...at("high"), ...at("low").reverse()]) + "z" }),
    svg("path", { class: "line", d: path(at("value")) }),
    ...at("value").map(([px, py]) => marker("circle", px, py, 2.5, "point")),
  ];
}

function picked(panel, estimate, x, y) {
  const place = weakest(panel.family, wanted().budget);
  const here = drawnHere(panel).find((each) => each.place === place);
  const value = here && estimate(here.point);
  return value ? [svg("circle", { class: "pick", cx: x(here.x), cy: y(value.value), r: 6 })] : [];
}

// Marks that lie beyond the axis stand at its end, as an arrow.
function mark(each, x, y, inner) {
  const at = x(inside(each.x));
  const beyond = each.x < 0 ? "left" : each.x > 1 ? "right" : null;
  if (each.leakage !== null && ["verdict", "tested"].includes(each.kind) && !beyond) {
    return [
      svg("line", { class: `whisker ${each.kind}`, x1: at, x2: at, y1: y(each.leakage.low), y2: y(each.leakage.high) }),
      marker("diamond", at, y(each.leakage.value), 5, each.kind),
    ];
  }
  return [
    svg("line", { class: each.kind, x1: at, x2: at, y1: inner.top, y2: inner.bottom }),
    beyond && marker(beyond, at, inner.top + 7, 5, `${each.kind} arrow`),
  ];
}

function leakagePlot(panel) {
  const shown = drawnHere(panel);
  const leakage = (point) => point.leakage;
  return {
    title: "Leakage",
    x: { domain: [0, 1], ticks: panel.ticks, label: panel.symbol },
    y: { domain: [0, 1], ticks: ticks(0, 1) },
    layers: (x, y, inner) => {
      const budget = y(wanted().budget);
      return [
        curve(shown, leakage, x, y),
        svg("line", { class: "budget", x1: inner.left, x2: inner.right, y1: budget, y2: budget }),
        panel.marks.flatMap((each) => mark(each, x, y, inner)),
        picked(panel, leakage, x, y),
      ];
    },
    targets: [
      ...shown.filter(({ point }) => point.leakage !== null)
        .map(({ x, point }) => ({ x, y: point.leakage.value, lines: lines(point, panel) })),
      ...panel.marks.map((each) => ({
        x: inside(each.x), y: each.leakage === null ? 0.9 : each.leakage.value, lines: [each.text],
      })),
    ].sort((a, b) => a.x - b.x),
  };
}

function spanned(values) {
  const [low, high] = [Math.min(0, ...values), Math.max(0.001, ...values)];
  const room = 0.06 * (high - low);
  return [low < 0 ? low - room : 0, high + room];
}

const drawnPoints = data.panels.flatMap((panel) => panel.points.map(([, place]) => points[place]));
const losses = spanned(drawnPoints.flatMap((each) =>
  each.utility_loss === null ? [] : [each.utility_loss.low, each.utility_loss.high]));

function utilityPlot(panel) {
  const shown = drawnHere(panel).filter(({ point }) => point.utility_loss !== null);
  const loss = (point) => point.utility_loss;
  return {
    title: `Loss of ${data.metric}`,
    x: { domain: [0, 1], ticks: panel.ticks, label: panel.symbol },
    y: { domain: losses, ticks: ticks(...losses) },
    layers: (x, y) => [curve(shown, loss, x, y), picked(panel, loss, x, y)],
    targets: shown.map(({ x, point }) => ({ x, y: point.utility_loss.value, lines: lines(point, panel) })),
  };
}

// Bits and seconds of a round, in those of an unprotected one.
const bare = points.find((each) => each.family === "none");
const relative = (point, what) =>
  bare && bare[what] && point[what] ? point[what] / bare[what] : null;
const ratios = drawnPoints.flatMap((each) => ["bits", "seconds"].map((what) => relative(each, what)))
  .filter((each) => each !== null);
const spread = [Math.min(0.5, ...ratios) / 1.2, Math.max(2, ...ratios) * 1.2];

function costTicks() {
  const [low, high] = spread.map(Math.log10);
  const digits = high - low > 1.5 ? [1] : [1, 2, 5];
  const all = [];
  for (let power = Math.floor(low); power <= high; power++) {
    digits.forEach((digit) => all.push(Number(`${digit}e${power}`)));
  }
  const shown = all.filter((each) => each >= spread[0] && each <= spread[1]);
  const every = Math.ceil(shown.length / 5);
  return shown.filter((_, n) => n % every === 0).map((each) => [each, number(each)]);
}

function costPlot(panel) {
  const shown = drawnHere(panel).filter(({ point }) => relative(point, "seconds") !== null);
  const line = (what, shape, end, x, y) => {
    const at = shown.map((each) => [x(each.x), y(relative(each.point, what))]);
    return [
      svg("path", { class: `line ${what}`, d: path(at) }),
      ...at.map(([px, py]) => marker(shape, px, py, 2.5, "point")),
      at.length && svg("text", { class: "mark", x: at.at(end)[0], y: at.at(end)[1] + (end ? -7 : 16), "text-anchor": end ? "end" : "start" }, what === "seconds" ? "CPU seconds" : what),
    ];
  };
  return {
    title: "A round, × unprotected",
    x: { domain: [0, 1], ticks: panel.ticks, label: panel.symbol },
    y: { domain: spread, log: true, ticks: costTicks() },
    layers: (x, y) => [line("bits", "square", 0, x, y), line("seconds", "circle", -1, x, y)],
    targets: shown.map(({ x, point }) => ({ x, y: relative(point, "seconds"), lines: lines(point, panel) })),
  };
}
