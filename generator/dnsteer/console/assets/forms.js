// Pages with forms: reads a chosen file into the text of a spec, and looks again at a change that is under way.
import "./copy.js";

const chosen = document.querySelector("[data-chosen]");
if (chosen !== null) {
  const most = 1 << 20;
  const text = document.querySelector("textarea");
  const input = chosen.querySelector("input");
  chosen.hidden = false;
  input.addEventListener("change", async () => {
    const file = input.files[0];
    if (file === undefined) return;
    input.setCustomValidity(file.size > most ? "The file has more than 1 MiB" : "");
    if (!input.reportValidity()) return;
    text.value = await file.text();
    document.querySelector("[data-name]").value = file.name;
  });
}

if (document.querySelector("[data-reload]") !== null) setTimeout(() => location.reload(), 2000);
