// The filter of the overview: shows the VIPs that pass it while it is being typed. The agent makes the list, as it does for a
// browser without scripts, which sends the form.
const PAUSE = 150; // ms

export function watchFilter(took) {
  const form = document.getElementById("filter");
  if (form === null) return;
  let timer = 0;
  let wanted = "";

  async function show() {
    const fields = [...new FormData(form)].filter(([, value]) => value.trim() !== "");
    const address = `/${fields.length ? "?" : ""}${new URLSearchParams(fields)}`;
    wanted = address;
    const answer = await fetch(address).catch(() => null);
    if (answer === null || answer.redirected || !answer.ok) return location.assign(address); // signed out, or no agent
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (wanted !== address) return; // something else was typed meanwhile
    history.replaceState(null, "", address);
    took(page);
  }

  const later = (pause) => {
    clearTimeout(timer);
    timer = setTimeout(show, pause);
  };
  form.addEventListener("input", (event) => later(event.target.type === "search" ? PAUSE : 0));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    later(0);
  });
}
