// Leakage against rounds, on a scale of decades: measured with its interval, and what is proved.

function roundsPlot() {
  const { budget, series } = data.rounds;
  const last = Math.max(2, ...series.flatMap((each) => each.points.map(([rounds]) => rounds)));
  const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].filter((each) => each < last / 1.3);
  return {
    title: "Leakage",
    height: 340,
    x: { domain: [1, last], log: true, ticks: [...steps, last].map((each) => [each, String(each)]), label: "rounds" },
    y: { domain: [0, 1], ticks: ticks(0, 1) },
    layers: (x, y, inner) => [
      svg("line", { class: "budget", x1: inner.left, x2: inner.right, y1: y(budget), y2: y(budget) }),
      ...series.map(({ certified, points: own }, n) => {
        const at = (end) => own.map(([rounds, leakage]) => [x(rounds), y(leakage[end])]);
        const ends = certified ? "high" : "value";
        return svg("g", { class: `m${n % 8}` },
          ...(certified ? [] : [svg("path", { class: "band", d: path([...at("high"), ...at("low").reverse()]) + "z" })]),
          svg("path", { class: certified ? "line proved" : "line", d: path(at(ends)) }),
          ...at(ends).map(([px, py]) => marker(shapeAt(n), px, py, 3.5, "point")));
      }),
    ],
    targets: series.flatMap(({ name, certified, points: own }) => own.map(([rounds, leakage]) => ({
      x: rounds, y: certified ? leakage.high : leakage.value,
      lines: [name, `${rounds} round${rounds === 1 ? "" : "s"}: ` +
        (certified ? `at most ${number(leakage.high)}` : `leakage ${interval(leakage)}`)],
    }))).sort((a, b) => a.x - b.x),
  };
}

const roundsHost = document.getElementById("rounds-plot");
if (roundsHost) {
  new Plot(roundsHost, roundsPlot);
  legend("rounds-legend",
    data.rounds.series.map(({ name }, n) => key(shapeAt(n), "point", name, `m${n % 8}`)));
}
