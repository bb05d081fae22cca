// Success rate against accuracy lost: a curve for each knowledge, the proof above them.

// Labels at the right ends of curves, moved apart where they would touch.
function apart(labels, gap, bottom) {
  const order = labels.slice().sort((a, b) => a.y - b.y);
  order.forEach((each, n) => { each.at = n ? Math.max(each.y, order[n - 1].at + gap) : each.y; });
  let most = bottom;
  for (const each of order.reverse()) {
    each.at = Math.min(each.at, most);
    most = each.at - gap;
  }
  return labels;
}

const LOWEST_RATE = 0.01;
const tradeOffX = (value) => data.trade_off.in_percent ? 100 * value : value;

function tradeOffPlot(width) {
  const { curves, budget, blind, chosen, x_ends: ends, x_label: label, y_label: title } = data.trade_off;
  const low = Math.min(LOWEST_RATE, blind / 1.5);
  const tall = (rate) => Math.max(low, rate);
  const [from, to] = ends.map(tradeOffX);
  const rates = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1].filter((each) => each >= low);
  return {
    title,
    height: width < 500 ? 360 : 400,
    margin: 128,
    x: { domain: [from, to], ticks: ticks(from, to, width < 500 ? 4 : 8), label },
    y: { domain: [low, 1], log: true, ticks: rates.map((each) => [each, `${number(100 * each)} %`]) },
    layers: (x, y, inner) => {
      const place = (at, rate) => [x(tradeOffX(at)), y(tall(rate))];
      const across = (rate, name, text) => [
        svg("line", { class: name, x1: inner.left, x2: inner.right, y1: y(rate), y2: y(rate) }),
        svg("text", { class: "mark", x: inner.right - 4, y: y(rate) - 5, "text-anchor": "end" }, text),
      ];
      const drawn = curves.map(({ line, points, band, proved, knows }, n) => svg("g", { class: `m${n}` },
        ...(knows === "rest"
          ? [svg("path", { class: "band", d: path([
            ...band.map(([at, , high]) => place(at, high)),
            ...band.map(([at, least]) => place(at, least)).reverse()]) + "z" })]
          : []),
        svg("path", { class: proved ? "line proof-line" : "line", d: path(line.map(([at, rate]) => place(at, rate))) }),
        ...points.map(([at, rate]) => marker(shapeAt(n), ...place(at, rate), proved ? 4.5 : 3.5, "point"))));
      const labels = apart(curves.map(({ name, points }, n) => {
        const [at, rate] = points[points.length - 1];
        return { name, n, x: x(tradeOffX(at)), y: y(tall(rate)) };
      }), 15, inner.bottom - 2);
      const [at, rate] = curves[0].points[chosen];
      const [px, py] = place(at, rate);
      return [
        ...across(budget, "budget", `limit ${Number((100 * budget).toPrecision(2))} %`),
        svg("line", { class: "blind", x1: inner.left, x2: inner.right, y1: y(blind), y2: y(blind) }),
        ...drawn,
        ...labels.flatMap((each) => [
          svg("path", { class: `leader m${each.n}`, d: `M${each.x + 6} ${each.y}L${inner.right + 4} ${each.at}` }),
          svg("text", { class: `own m${each.n}`, x: inner.right + 7, y: each.at + 4 }, each.name),
        ]),
        svg("circle", { class: "pick", cx: px, cy: py, r: 8 }),
        svg("text", { class: "mark", x: px + 13, y: py - 7 }, "chosen"),
      ];
    },
    targets: curves.flatMap(({ name, points, said }) => points.map(([at, rate], n) => ({
      x: tradeOffX(at), y: tall(rate), lines: [name, said[n]],
    }))),
  };
}

const tradeOffHost = document.getElementById("trade-off-plot");
if (tradeOffHost) new Plot(tradeOffHost, tradeOffPlot);
