// The explorer: sliders move the recommendation; the state is in the address, to be shared.
const sliders = Object.fromEntries(NAMES.map((name) => [name, document.getElementById(name)]));

const wanted = () =>
  Object.fromEntries(NAMES.map((name) => [name, found.stops[name][sliders[name].value]]));

const say = (id, text) => { document.getElementById(id).textContent = text; };
const leaks = (point) => (point.leakage === null ? "nothing without the key" : interval(point.leakage));
const lasts = (point) => `${number(1 + point.efficiency_reduction.value)} ×`;

function command(want) {
  return `trilemma tune --budget ${want.budget} --utility-weight ${want.utility_weight} ` +
    `--efficiency-weight ${want.efficiency_weight}`;
}

function showPick(want, { own, options }) {
  const box = document.getElementById("recommendation");
  const best = options.length ? points[options[0].place] : null;
  box.dataset.own = own;
  box.dataset.places = options.map((each) => each.place).join(" ");
  box.dataset.tied = options.filter((each) => each.tied).map((each) => each.place).join(" ");
  box.dataset.objectives = options.map((each) => each.objective.value).join(" ");
  if (own) {
    say("status", `The verdict: ${data.own.proof}`);
    say("pick", data.own.headline);
    say("reading", data.document.statement);
    say("how", data.document.basis !== "measured" ? "" : "It was tested with games of its own, so " +
      "that it may be weaker than what the curves alone allow, which the table shows.");
    return;
  }
  say("status", "An estimate, no verdict");
  if (best === null) {
    say("pick", `No measured point keeps a budget of ${number(want.budget)}.`);
    say("reading", "Raise the budget, or measure stronger protections.");
    say("how", "");
    return;
  }
  say("pick", `Use ${found.phrases[options[0].place]}.`);
  const ties = options.filter((each) => each.tied).map((each) => data.names[points[each.place].family]);
  say("reading",
    `Leakage ${leaks(best)}, budget ${number(want.budget)}; loss of ${data.metric} ` +
    `${interval(best.utility_loss)}; a round takes ${lasts(best)} as long.` +
    (ties.length ? ` Tied with ${ties.join(", ")}.` : ""));
  const units = best.units ? `An estimate from ${best.units} games at this point; ` : "";
  say("how", `${units}for a verdict, run the command below with: ${command(want)}`);
}

function showTable({ own, options }) {
  const labels = [...document.querySelectorAll("#options th[scope=col]")].slice(1).map((each) => each.textContent);
  const rows = options.map(({ place, objective: cost, tied }, rank) => {
    const point = points[place];
    const cells = [
      point.strength === null ? "–" : number(point.strength), leaks(point),
      interval(point.utility_loss), lasts(point), interval(cost) + (tied ? " =" : ""),
    ];
    return html("tr", rank || own ? {} : { class: "chosen" },
      html("th", { scope: "row" }, data.names[point.family]), ...cells.map((cell, n) => html("td", { "data-label": labels[n] }, cell)));
  });
  document.querySelector("#options tbody").replaceChildren(...rows);
  const there = new Set(options.map((each) => points[each.place].family));
  const out = [...new Set(points.map((each) => each.family))]
    .filter((name) => !there.has(name)).map((name) => data.names[name]);
  say("out", out.length
    ? `Out at this setting (nothing measured keeps the budget or a cap, measured for one round only, or not to be deployed): ${out.join(", ")}.`
    : "");
}

// A round twice as long costs η_e; so does a loss of η_e / η_u of the metric.
function exchange(want) {
  if (want.utility_weight === 0) return `A loss of ${data.metric} does not count.`;
  if (want.efficiency_weight === 0) return "The length of a round does not count.";
  const rate = number(want.efficiency_weight / want.utility_weight);
  return `A round twice as long counts as much as ${rate} of ${data.metric} lost.`;
}

function update(remember = true) {
  const want = wanted();
  const now = recommend(want);
  for (const name of NAMES) {
    say(`${name}-value`, number(want[name]));
    sliders[name].setAttribute("aria-valuetext", number(want[name]));
  }
  say("allowed", `The budget allows right guesses in ${found.allowed[sliders.budget.value]} games.`);
  say("exchange", exchange(want));
  showPick(want, now);
  showTable(now);
  plots.forEach((plot) => plot.draw());
  document.getElementById("reset").disabled = NAMES.every((name) => want[name] === found.start[name]);
  if (remember) {
    const state = new URLSearchParams(NAMES.map((name) => [name, want[name]]));
    history.replaceState(null, "", `#${state}`);
  }
}

// The stop nearest to a value.
function set(name, value) {
  const far = found.stops[name].map((each) => Math.abs(each - value));
  sliders[name].value = far.indexOf(Math.min(...far));
}

function restore() {
  const state = new URLSearchParams(location.hash.slice(1));
  const given = NAMES.filter((name) => Number.isFinite(parseFloat(state.get(name))));
  given.forEach((name) => set(name, parseFloat(state.get(name))));
  update(false);
  return given.length > 0;
}

const plots = [];
if (sliders.budget) {
  const kinds = { leakage: leakagePlot, utility: utilityPlot, cost: costPlot };
  for (const host of document.querySelectorAll("[data-panel]")) {
    const panel = data.panels[host.dataset.panel];
    plots.push(new Plot(host, () => kinds[host.dataset.kind](panel)));
  }
  for (const name of NAMES) sliders[name].addEventListener("input", () => update());
  document.getElementById("reset").addEventListener("click", () => {
    NAMES.forEach((name) => set(name, found.start[name]));
    update();
  });
  window.addEventListener("hashchange", restore);
  if (restore()) document.getElementById("explorer").scrollIntoView();
}
