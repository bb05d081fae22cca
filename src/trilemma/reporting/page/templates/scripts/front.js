// The Pareto front: leakage against utility loss, the length of a round as colour.

const LENGTHS = [0.5, 0.9, 1.1, 2, 10];
const LENGTH_TEXT = ["below 0.5 ×", "0.5 to 0.9 ×", "0.9 to 1.1 ×", "1.1 to 2 ×", "2 to 10 ×", "over 10 ×"];
const lengthClass = (point) => {
  const ratio = 1 + point.efficiency_reduction.value;
  const bin = LENGTHS.findIndex((edge) => ratio < edge);
  return `c${bin === -1 ? LENGTHS.length : bin}`;
};
const families = [...new Set(points.map((each) => each.family))];
const shapeOf = (name) => shapeAt(families.indexOf(name));

const verdictAt = (x, y) => [
  marker("diamond", x, y, 7, "verdict"),
  svg("text", { class: "mark", x: x + 12, y: y - 8 }, "verdict"),
];

function frontPlot() {
  const chosen = data.front.verdict;
  const best = new Set(data.front.places);
  const able = points.map((point, place) => ({ point, place }))
    .filter(({ point }) => point.utility_loss !== null && point.efficiency_reduction !== null);
  const at = ({ point }) => [point.leakage === null ? 0 : point.leakage.value, point.utility_loss.value];
  const span = spanned([...able.map((each) => at(each)[1]), ...(chosen ? [chosen.loss] : [])]);
  const ordered = [...able].sort((a, b) => best.has(a.place) - best.has(b.place));
  return {
    title: `Loss of ${data.metric} against leakage`,
    height: 360,
    x: { domain: [-0.02, 1.02], ticks: ticks(0, 1, 5), label: "leakage" },
    y: { domain: span, ticks: ticks(...span) },
    layers: (x, y) => [...ordered.map((each) => {
      const [leak, loss] = at(each);
      const on = best.has(each.place);
      return [
        each.place === data.front.knee && svg("circle", { class: "knee", cx: x(leak), cy: y(loss), r: 13 }),
        marker(shapeOf(each.point.family), x(leak), y(loss), on ? 7 : 4,
          on ? `on ${lengthClass(each.point)}` : "off"),
      ];
    }).flat(), ...(chosen ? verdictAt(x(chosen.leakage), y(chosen.loss)) : [])],
    targets: able.map(({ point, place }) => ({
      x: at({ point })[0], y: at({ point })[1],
      lines: [
        `${data.names[point.family]}${point.strength === null ? "" : `: ${point.symbol} ${number(point.strength)}`}` +
          (place === data.front.knee ? ", the knee" : best.has(place) ? ", on the front" : ", dominated"),
        `leakage ${leaks(point)}`, `loss of ${data.metric} ${interval(point.utility_loss)}`,
        `a round takes ${lasts(point)} as long`,
      ],
    })).sort((a, b) => a.x - b.x),
  };
}

const frontHost = document.getElementById("front-plot");
if (frontHost) {
  new Plot(frontHost, frontPlot);
  legend("front-legend", families.map((name) => key(shapeOf(name), "off", data.names[name])),
    [html("li", {}, "filled: on the front; a round takes"),
      ...LENGTH_TEXT.map((text, n) => key("circle", `on c${n}`, text))]);
}
