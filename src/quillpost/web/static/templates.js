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

const form = document.querySelector("#image-form");
if (form) {
  const file = form.querySelector("#file");
  const trouble = form.querySelector("#upload-trouble");
  form.querySelector(".scripted").hidden = false;

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

  const upload = async () => {
    const body = new FormData();
    for (const name of ["name", "type", "sub_account_id"]) {
      const value = form.elements[name]?.value;
      if (value) body.append(name, value);
    }
    body.append("image", file.files[0]);
    const [method, path] = form.dataset.call.split(" ");
    const headers = { Authorization: `Bearer ${await token()}`, Accept: "application/json" };
    const answer = await fetch(path, { method, headers, body });
    if (!answer.ok) throw new Error(said(await answer.json().catch(() => null), answer.status));
    location.assign(form.dataset.leadsTo);
  };

  file.addEventListener("change", () => complain(""));
  form.addEventListener("submit", async (event) => {
    if (!file.files.length) return;
    event.preventDefault();
    const button = form.querySelector("button");
    button.disabled = true;
    complain("");
    try {
      await upload();
    } catch (fault) {
      complain(fault instanceof TypeError ? "The service does not answer. Try again in a moment." : fault.message);
      button.disabled = false;
    }
  });
}
