// The picture of a pool's slots: what is under the pointer or the keyboard's cell, in words; what has just moved flashes.
const CELL = 10, SIDE = 9;

export function watchSlots(valueOf, number) {
  for (const figure of document.querySelectorAll("figure.map")) watch(figure, valueOf, number);
}

function watch(figure, valueOf, number) {
  const readout = figure.querySelector(".readout");
  const hint = readout.textContent;
  let at = null;

  const svg = () => figure.querySelector("svg");
  const list = (name) => svg().dataset[name].trim().split(" ").map(Number);

  function show(slot) {
    const picture = svg();
    const count = Number(picture.dataset.slots), wide = Number(picture.dataset.wide);
    at = slot === null || slot < 0 || slot >= count ? null : slot;
    const marker = picture.querySelector(".at");
    if (at === null) {
      marker.setAttribute("d", "");
      readout.textContent = hint;
      return;
    }
    const x = (at % wide) * CELL, y = Math.floor(at / wide) * CELL;
    marker.setAttribute("d", `M${x} ${y}h${SIDE}v${SIDE}h-${SIDE}z`);
    const names = JSON.parse(picture.dataset.names);
    const name = (n) => (n ? names[n - 1] : "no backend");
    const now = list("owners")[at] ?? 0, own = list("own")[at] ?? 0;
    const rate = valueOf(`s-${figure.dataset.pool}`)?.[at];
    const words = [`Slot ${at}: ${name(now)}`, now === own ? "as when all are up" : `instead of ${name(own)}`];
    if (rate !== undefined && rate !== null) words.push(`${number(rate)} packets/s`);
    const text = words.join(", ");
    if (readout.textContent !== text) readout.textContent = text;
  }

  function under(event) {
    const picture = svg(), box = picture.getBoundingClientRect(), view = picture.viewBox.baseVal;
    const x = Math.floor((view.x + ((event.clientX - box.left) / box.width) * view.width) / CELL);
    const y = Math.floor((view.y + ((event.clientY - box.top) / box.height) * view.height) / CELL);
    const wide = Number(picture.dataset.wide);
    return x < 0 || x >= wide || y < 0 ? null : y * wide + x;
  }

  figure.addEventListener("pointermove", (event) => {
    if (event.target.closest("svg")) show(under(event));
    else if (document.activeElement !== svg()) show(null);
  });
  figure.addEventListener("pointerleave", () => {
    if (document.activeElement !== svg()) show(null);
  });
  figure.addEventListener("focusin", () => show(at ?? 0));
  figure.addEventListener("focusout", () => show(null));
  figure.addEventListener("keydown", (event) => {
    const wide = Number(svg().dataset.wide), last = Number(svg().dataset.slots) - 1;
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: wide, ArrowUp: -wide };
    let to = event.key in steps ? (at ?? 0) + steps[event.key] : event.key === "Home" ? 0 : event.key === "End" ? last : null;
    if (to === null || event.ctrlKey || event.altKey || event.metaKey) return;
    if (to < 0 || to > last) to = at;
    event.preventDefault();
    show(to);
  });
  figure.addEventListener("part", () => {
    figure.classList.remove("fresh");
    void figure.offsetWidth; // begins the animation again
    figure.classList.add("fresh");
    show(at);
  });
}
