// The ladder: what is left of the metric at the strength that each rung takes, family by family.

const marksOf = { tested: "tested", proved: "tested", key: "tested", fails: "fails" };
const stepClass = (step) => marksOf[step.mark] || "estimate";

function ladderPlot() {
  const { rungs, families, steps, unprotected } = data.ladder;
  const known = [...steps.map((each) => each.metric), ...(unprotected === null ? [] : [unprotected])];
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const room = Math.max(0.08 * (high - low), 1e-3);
  const span = [low - room, high + room];
  const at = (step) => step.rung + (families.length > 1 ? 0.5 * (step.family / (families.length - 1) - 0.5) : 0);
  const shares = data.metric === "accuracy";
  const label = (value) => (shares ? `${number(100 * value)} %` : number(value));
  const line = (family, x, y) => {
    const own = steps.filter((each) => each.family === family && stepClass(each) !== "fails");
    return svg("path", { class: "line thin", d: path(own.map((each) => [x(at(each)), y(each.metric)])) });
  };
  return {
    title: `What is left of ${data.metric}`,
    height: 320,
    x: { domain: [-0.5, rungs.length - 0.5], ticks: rungs.map((name, n) => [n, name]), label: "what the attacker knows" },
    y: { domain: span, ticks: ticks(...span).map(([value]) => [value, label(value)]) },
    layers: (x, y, inner) => [
      unprotected !== null && svg("line", {
        class: "budget", x1: inner.left, x2: inner.right, y1: y(unprotected), y2: y(unprotected),
      }),
      ...families.map((_, n) => svg("g", { class: `m${n % 8}` }, line(n, x, y),
        ...steps.filter((each) => each.family === n).map((each) =>
          marker(shapeAt(n), x(at(each)), y(each.metric), 5.5, `step ${stepClass(each)}`)))),
    ],
    targets: [...steps].sort((a, b) => at(a) - at(b))
      .map((each) => ({ x: at(each), y: each.metric, lines: each.lines })),
  };
}

const ladderHost = document.getElementById("ladder-plot");
if (ladderHost && data.ladder) {
  new Plot(ladderHost, ladderPlot);
  legend("ladder-legend",
    data.ladder.families.map((name, n) => key(shapeAt(n), "step tested", name, `m${n % 8}`)),
    [html("li", {}, "filled: tested, proved, or resting on a key; open: an estimate; faint: leaks more than the budget; dotted line: no protection")]);
}
