// Charts above tables. `data-chart` names the element that holds the table: a row for each day, a column for each
// line, with a `data-color` in its head and a `data-n` in its cells. When the table changes, so does the chart.

const HEIGHT = 260;
const NIGHT = matchMedia("(prefers-color-scheme: dark)");
const counted = new Intl.NumberFormat("en-US");
const rough = new Intl.NumberFormat("en-US", { notation: "compact" });

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function read(table) {
  const heads = [...table.querySelectorAll("thead th")].slice(1);
  const rows = [...table.querySelectorAll("tbody tr")];
  return {
    days: rows.map((row) => row.cells[0].textContent.trim()),
    lines: heads.map((head, column) => ({
      name: head.textContent.trim(),
      color: head.dataset.color,
      values: rows.map((row) => Number(row.cells[column + 1].dataset.n)),
    })),
  };
}

class Chart {
  constructor(place) {
    this.source = document.getElementById(place.dataset.chart);
    this.told = document.createElement("p");
    this.told.className = "chart-told";
    this.told.setAttribute("role", "status");
    this.drawing = document.createElement("div");
    this.drawing.className = "drawing";
    this.drawing.tabIndex = 0;
    this.drawing.setAttribute("role", "group");
    this.drawing.setAttribute("aria-label", place.dataset.label);
    place.replaceChildren(this.told, this.drawing);

    this.drawing.addEventListener("keydown", (event) => this.step(event));
    this.drawing.addEventListener("blur", () => this.point(null));
    // Whoever points at it sees what is told: only whoever steps through it by keys hears it.
    this.drawing.addEventListener("pointermove", () => this.told.setAttribute("aria-live", "off"));
    new MutationObserver(() => this.draw()).observe(this.source, { childList: true });
    new ResizeObserver(() => this.fit()).observe(place);
    NIGHT.addEventListener("change", () => this.draw());
    this.draw();
  }

  draw() {
    const table = this.source.querySelector("table");
    if (!table) return;
    const readDay = this.shown?.days[this.plot.cursor.idx];
    this.plot?.destroy();
    this.shown = read(table);
    const { days, lines } = this.shown;
    // New numbers do not take away the day that somebody is reading.
    const here = days.indexOf(readDay);
    const most = Math.max(4, ...lines.flatMap((line) => line.values));
    const ink = { stroke: color("faded"), font: "12px system-ui, sans-serif" };
    const grid = { stroke: color("line"), width: 1 };
    const options = {
      width: this.width(),
      height: HEIGHT,
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 8 } },
      scales: { x: { time: false, range: [-0.3, days.length - 0.7] }, y: { range: [0, most * 1.08] } },
      axes: [
        {
          ...ink,
          grid: { show: false },
          ticks: { ...grid, size: 4 },
          space: 56,
          incrs: [1, 2, 3, 5, 7, 10, 15, 30],
          values: (_, places) => places.map((place) => days[place] ?? ""),
        },
        {
          ...ink,
          grid,
          ticks: { show: false },
          size: 48,
          incrs: [1, 2, 5].flatMap((n) => [0, 1, 2, 3, 4, 5, 6].map((power) => n * 10 ** power)).sort((a, b) => a - b),
          values: (_, heights) => heights.map((height) => rough.format(height)),
        },
      ],
      series: [
        {},
        ...lines.map((line, place) => ({
          label: line.name,
          stroke: color(line.color),
          width: 2,
          // Told apart by more than their colors.
          dash: [[], [8, 4], [2, 4]][place] ?? [],
          points: { show: days.length <= 31, size: 5, fill: color(line.color) },
        })),
      ],
      hooks: {
        setCursor: [(plot) => this.tell(plot.cursor.idx)],
        ready: [() => here >= 0 && this.point(here)],
      },
    };
    this.plot = new uPlot(options, [days.map((_, place) => place), ...lines.map((line) => line.values)], this.drawing);
    this.tell(null);
  }

  width() {
    return Math.max(200, this.drawing.clientWidth);
  }

  fit() {
    if (this.plot && this.plot.width !== this.width()) this.plot.setSize({ width: this.width(), height: HEIGHT });
  }

  step(event) {
    const last = this.shown.days.length - 1;
    const here = this.plot.cursor.idx;
    const there = {
      ArrowLeft: here == null ? last : Math.max(0, here - 1),
      ArrowRight: here == null ? 0 : Math.min(last, here + 1),
      Home: 0,
      End: last,
    }[event.key];
    if (there === undefined) return;
    event.preventDefault();
    this.told.setAttribute("aria-live", "polite");
    this.point(there);
  }

  point(place) {
    const left = place === null ? -10 : this.plot.valToPos(place, "x");
    this.plot.setCursor({ left, top: place === null ? -10 : 10 });
  }

  // Of the day that somebody points at; of no day, what the lines are.
  tell(place) {
    const { days, lines } = this.shown;
    const said = lines.map((line) => {
      const words = document.createElement("span");
      words.className = "key";
      words.dataset.color = line.color;
      words.textContent = place == null ? line.name : `${line.name} ${counted.format(line.values[place])}`;
      return words;
    });
    const day = document.createElement("strong");
    const isEmpty = lines.every((line) => line.values.every((value) => value === 0));
    day.textContent = place == null ? "Nothing in this time yet." : days[place];
    this.told.replaceChildren(...(place == null && !isEmpty ? said : [day, ...said]));
  }
}

for (const place of document.querySelectorAll("[data-chart]")) new Chart(place);
