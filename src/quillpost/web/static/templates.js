// Forms of templates: words that are put into the message by a click, and pictures that are uploaded.

for (const words of document.querySelectorAll("[data-into]")) {
  const field = document.getElementById(words.dataset.into);
  for (const code of words.querySelectorAll("code")) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: code.textContent });
    button.ariaLabel = `Put in ${code.textContent}`;
    button.addEventListener("click", () => {
      field.setRangeText(code.textContent, field.selectionStart, field.selectionEnd, "end");
      field.dispatchEvent(new Event("input", { bubbles: true }));
      field.focus();
    });
    code.replaceWith(button);
  }
}

// With the script that fetches parts of pages the picture comes by itself.
if (window.htmx) for (const each of document.querySelectorAll(".unscripted")) each.hidden = true;

// Forms whose files go to the API, with a token of the reader's session: `data-call` says where, `data-sends` which of
// their fields go along, `data-leads-to` what is opened then.
for (const form of document.querySelectorAll("form[data-call]")) {
  const inputs = [...form.querySelectorAll("input[type=file]")];
  const trouble = form.querySelector(".upload-trouble");
  const wait = form.querySelector(".upload-wait");
  for (const each of form.querySelectorAll(".scripted")) each.hidden = false;

  const complain = (text) => {
    trouble.textContent = text;
    trouble.hidden = !text;
    if (text) trouble.scrollIntoView({ block: "center" });
  };

  const said = (body, status) => {
    const faults = Object.values(body?.errors ?? {}).flat();
    return faults.length ? faults.join(" ") : body?.message ?? `The service answered ${status}.`;
  };

  const token = async () => {
    const { csrf, mode, membership } = form.dataset;
    const headers = { "X-CSRF-Token": csrf, Accept: "application/json" };
    const answer = await fetch("/session/token", { method: "POST", headers, body: new URLSearchParams({ mode, membership }) });
    const found = await answer.json().catch(() => null);
    if (answer.status === 401) throw new Error("You are signed out. Load this page again, and sign in.");
    if (!answer.ok) throw new Error(said(found, answer.status));
    return found.token;
  };

  const fields = () => Object.fromEntries(
    form.dataset.sends.split(" ").map((name) => [name, form.elements[name]?.value]).filter(([, value]) => value),
  );

  const upload = async () => {
    const chosen = inputs.filter((input) => input.files.length);
    const headers = { Authorization: `Bearer ${await token()}`, Accept: "application/json" };
    let body = new FormData();
    if (chosen.length) {
      for (const [name, value] of Object.entries(fields())) body.append(name, value);
      for (const input of chosen) body.append(input.dataset.field, input.files[0]);
    } else {
      body = JSON.stringify({ ...fields(), ...form.drawnFields });
      headers["Content-Type"] = "application/json";
    }
    const [method, path] = form.dataset.call.split(" ");
    const answer = await fetch(path, { method, headers, body });
    const found = await answer.json().catch(() => null);
    if (!answer.ok) throw new Error(said(found, answer.status));
    location.assign(form.dataset.leadsTo.replace(/\{(\w+)\}/, (_, name) => found[name]));
  };

  for (const input of inputs) input.addEventListener("change", () => complain(""));
  form.addEventListener("submit", async (event) => {
    // Without a file the image form is an ordinary one: it may name a web address.
    const isOrdinary = !inputs.some((input) => input.files.length) && "unscripted" in form.dataset;
    if (isOrdinary) return;
    event.preventDefault();
    const button = form.querySelector("button.first");
    button.disabled = true;
    if (wait) wait.hidden = false;
    complain("");
    try {
      await upload();
    } catch (fault) {
      complain(fault instanceof TypeError ? "The service does not answer. Try again in a moment." : fault.message);
      button.disabled = false;
      if (wait) wait.hidden = true;
    }
  });
}
