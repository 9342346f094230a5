// The buttons that copy a command. Browsers offer the clipboard by HTTPS and on this machine alone; elsewhere an older way is
// tried, and where that fails too the command is left selected, to be copied by hand.
const SHOWN = 2000; // ms
document.documentElement.classList.add("scripted");

async function copied(code) {
  if (navigator.clipboard !== undefined && window.isSecureContext) {
    const done = await navigator.clipboard.writeText(code.textContent).then(() => true, () => false);
    if (done) return true;
  }
  getSelection().selectAllChildren(code);
  return document.execCommand("copy");
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("button.copy");
  if (!button) return;
  const code = button.parentElement.querySelector("code");
  const done = await copied(code);
  if (done) getSelection().removeAllRanges();
  button.textContent = done ? "Copied" : "Selected: press Ctrl+C";
  setTimeout(() => (button.textContent = "Copy"), SHOWN);
});
