// min η_u·ε_u + η_e·ε_e over the families: which measured points keep a budget, in order.

const found = data.explorer;
const NAMES = ["budget", "utility_weight", "efficiency_weight"];

function objective(point, want) {
  const end = (name) =>
    want.utility_weight * point.utility_loss[name] +
    want.efficiency_weight * point.efficiency_reduction[name];
  return { value: end("value"), low: end("low"), high: end("high") };
}

// The weakest point at which, and at every stronger one, the upper limit of the leakage is within
// the budget. What cannot be run has no protection, and was not attacked.
function weakest(family, budget) {
  const places = points.map((_, place) => place).filter((n) => points[n].family === family);
  places.sort((a, b) => (points[b].place || 0) - (points[a].place || 0));
  let last = null;
  for (const place of places) {
    const point = points[place];
    if (point.protection === null) continue;
    if (point.leakage !== null && point.leakage.high > budget) break;
    if (point.utility_loss !== null && point.efficiency_reduction !== null) last = place;
  }
  return last;
}

function withinCaps(point) {
  const { max_utility_loss: loss, max_cost: cost } = found;
  return (
    (loss === null || point.utility_loss.value <= loss) &&
    (cost === null || point.efficiency_reduction.value <= cost));
}

function recommend(want) {
  const options = [];
  for (const family of new Set(points.map((each) => each.family))) {
    const place = weakest(family, want.budget);
    if (place === null || found.barred.includes(family) || !withinCaps(points[place])) continue;
    options.push({ place, objective: objective(points[place], want) });
  }
  options.sort((a, b) => a.objective.value - b.objective.value);
  options.forEach((each, rank) => {
    each.tied = rank > 0 && each.objective.value <= options[0].objective.high;
  });
  const own = found.verdict !== null && NAMES.every((name) => want[name] === found.verdict[name]);
  return { own, options };
}
