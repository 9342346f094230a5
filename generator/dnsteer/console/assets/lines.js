// Lines of rates: below each its scale, and instead of that what it was under the pointer, or where the arrow keys are.
const STEP = 5000, POINTS = 60, HIGH = 24;

// *pastOf* has the rates of a line by its name, *end* the time of the last one in ms.
export function watchLines(pastOf, end, number, clock) {
  let at = null; // the line that is looked at, and its point

  const axisOf = (svg) => svg.nextElementSibling;
  const past = (svg) => pastOf(svg.dataset.line) ?? [];

  function write(axis, words) {
    if (axis.textContent === words.join("")) return;
    axis.replaceChildren(...words.map((word) => Object.assign(document.createElement("span"), { textContent: word })));
  }

  function scale(svg) {
    const known = past(svg).filter((rate) => rate !== null && rate !== undefined);
    const most = known.length ? `0 to ${number(Math.max(...known))} queries/s` : "not known yet";
    write(axisOf(svg), ["5 min ago", most, "now"]);
  }

  function dress() {
    for (const svg of document.querySelectorAll("[data-line]")) {
      if (axisOf(svg)?.matches(".axis")) continue;
      const axis = Object.assign(document.createElement("p"), { className: "axis quiet" });
      svg.after(axis);
      svg.setAttribute("tabindex", "0");
      svg.setAttribute("role", "application");
      scale(svg);
    }
  }

  function show(svg, point) {
    if (at !== null && at.svg !== svg) hide();
    let cursor = svg.querySelector(".cursor");
    if (cursor === null) {
      cursor = document.createElementNS("http://www.w3.org/2000/svg", "path");
      cursor.classList.add("cursor");
      svg.append(cursor);
    }
    const x = Math.max(0, Math.min(POINTS - 1, point));
    at = { svg, point: x };
    cursor.setAttribute("d", `M${x} 0V${HIGH}`);
    const rate = past(svg)[x] ?? null;
    const time = clock(new Date(end() - (POINTS - 1 - x) * STEP));
    write(axisOf(svg), [`${rate === null ? "not known" : `${number(rate)} queries/s`} at ${time} UTC`]);
  }

  function hide() {
    const { svg } = at;
    at = null;
    svg.querySelector(".cursor")?.remove();
    if (svg.isConnected) scale(svg);
  }

  function under(event) {
    const svg = event.target.closest?.("[data-line]");
    if (svg) {
      const box = svg.getBoundingClientRect();
      show(svg, Math.round(((event.clientX - box.left) / box.width) * (POINTS - 1)));
    } else if (at !== null && at.svg !== document.activeElement) hide();
  }

  document.addEventListener("pointermove", under);
  document.addEventListener("pointerdown", under);
  document.addEventListener("focusin", (event) => {
    if (!event.target.matches("[data-line]")) return;
    axisOf(event.target).setAttribute("aria-live", "polite");
    show(event.target, at?.svg === event.target ? at.point : POINTS - 1);
  });
  document.addEventListener("focusout", (event) => {
    if (!event.target.matches("[data-line]")) return;
    axisOf(event.target).removeAttribute("aria-live");
    if (at !== null) hide();
  });
  document.addEventListener("keydown", (event) => {
    const svg = event.target;
    if (at?.svg !== svg || event.ctrlKey || event.altKey || event.metaKey) return;
    const to = { ArrowLeft: at.point - 1, ArrowRight: at.point + 1, Home: 0, End: POINTS - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    show(svg, to);
  });
  document.addEventListener("part", dress);
  document.addEventListener("drawn", () => {
    for (const svg of document.querySelectorAll("[data-line]")) if (axisOf(svg)?.matches(".axis") && at?.svg !== svg) scale(svg);
    if (at !== null && at.svg.isConnected) show(at.svg, at.point);
  });
  dress();
}
