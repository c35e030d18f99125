// A button beside what is shown once, that copies it. Browsers allow it over https and on this machine alone:
// elsewhere there is none, and the text is selected by one click.

const WAIT = 4_000;

function lines(secret) {
  return [...secret.querySelectorAll("code")].map((each) => each.textContent).join("\n");
}

function add(secret) {
  const button = document.createElement("button");
  const told = document.createElement("span");
  button.type = "button";
  button.className = "button small";
  button.textContent = "Copy";
  told.setAttribute("role", "status");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(lines(secret));
      told.textContent = "Copied.";
    } catch {
      told.textContent = "Your browser does not allow it. Select the text and copy it yourself.";
    }
    setTimeout(() => { told.textContent = ""; }, WAIT);
  });
  const line = document.createElement("p");
  line.className = "copy unprinted";
  line.append(button, told);
  secret.after(line);
}

if (navigator.clipboard) document.querySelectorAll(".secret").forEach(add);
