// From a file to a list in three steps: which file, what its columns are, and how it went.

const page = document.querySelector("[data-api]");
const api = page.dataset.api;
const find = (selector) => page.querySelector(selector);
const trouble = find(".trouble");
const FIRST_BYTES = 1_000_000;

let held = null;  // a token of the reader's session, and until when it is good
let file = null;
let running = null;

function show(...ids) {
  for (const step of page.querySelectorAll(".step")) step.hidden = !ids.includes(step.id);
}

function complain(text) {
  trouble.hidden = !text;
  trouble.textContent = text;
}

// Every answer that is no success has a message, and perhaps what is wrong by field.
function said(body, status) {
  const faults = Object.entries(body?.errors ?? {}).flatMap(([field, told]) => told.map((one) => `${field}: ${one}`));
  return faults.length ? faults.join("\n") : body?.message ?? `The service answered ${status}.`;
}

const SIGNED_OUT = "You are signed out. Load this page again, and sign in.";
const MARGIN = 60_000;

// Good for a quarter of an hour: fetched anew before it runs out, as a large file takes longer.
async function token() {
  if (held && Date.now() < held.until - MARGIN) return held.token;
  const { csrf, mode, membership } = page.dataset;
  const headers = { "X-CSRF-Token": csrf, Accept: "application/json" };
  const answer = await fetch("/session/token", { method: "POST", headers, body: new URLSearchParams({ mode, membership }) });
  const found = await answer.json().catch(() => null);
  if (answer.status === 401) throw new Error(SIGNED_OUT);
  if (!answer.ok) throw new Error(said(found, answer.status));
  held = { token: found.token, until: Date.now() + found.expires_in * 1000 };
  return held.token;
}

// A token ends with its session, and when another account is looked at: asking for the next one tells which.
async function whyEnded() {
  held = null;
  await token();
  throw new Error("The service did not know this page any more. Try again.");
}

async function call(method, path, body) {
  const isForm = body instanceof FormData;
  const headers = { Authorization: `Bearer ${await token()}`, Accept: "application/json" };
  if (body && !isForm) headers["Content-Type"] = "application/json";
  const answer = await fetch(api + path, { method, headers, body: isForm ? body : body && JSON.stringify(body) });
  const found = await answer.json().catch(() => null);
  if (answer.status === 401) await whyEnded();
  if (!answer.ok) throw new Error(said(found, answer.status));
  return found;
}

// What fails says why, and can be tried again.
async function attempt(work) {
  complain("");
  try {
    await work();
  } catch (fault) {
    complain(fault instanceof TypeError ? "The service does not answer. Try again in a moment." : fault.message);
    return false;
  }
  return true;
}

function step(form, work) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("button");
    button.disabled = true;
    await attempt(work);
    button.disabled = false;
  });
}

function option(value, text) {
  return new Option(text, value);
}

const TITLES = {
  address: "Street address", address2: "Apartment or suite", province: "State or province",
  postal_code: "ZIP or postal code", email: "E-mail", dob: "Date of birth", full_address: "Whole address on one line",
};

function title(field) {
  const words = field.replaceAll("_", " ").replace(/(\d+)$/, " $1").replace("  ", " ");
  return TITLES[field] ?? words.charAt(0).toUpperCase() + words.slice(1);
}

async function listsOf() {
  const found = [];
  for (let number = 1, last = 1; number <= last; number += 1) {
    const { data, meta } = await call("GET", `/mailing-lists?items_per_page=100&page=${number}`);
    found.push(...data);
    last = meta.last_page;
  }
  return found;
}

async function begin() {
  const lists = await listsOf();
  find("#list").replaceChildren(option("", "A new list"), ...lists.map((list) => option(list.id, named(list))));
  nameIt();
  show("what");
}
step(find("#who"), begin);

function named(list) {
  const what = list.is_suppression_list ? `${list.description}: nobody on it is mailed to` : list.description;
  return `${what} (${list.total_recipients.toLocaleString()})`;
}

function nameIt() {
  const isNew = !find("#list").value;
  find("#named").hidden = !isNew;
  find("#name").required = isNew;
}
find("#list").addEventListener("change", nameIt);

find("#file").addEventListener("change", () => {
  const [chosen] = find("#file").files;
  if (chosen && !find("#name").value) find("#name").value = chosen.name.replace(/\.[^.]+$/, "");
});

step(find("#what"), async () => {
  [file] = find("#file").files;
  await look();
  show("how");
});

async function look(header) {
  const form = new FormData();
  if (header !== undefined) form.append("header", header);
  // The first rows tell; a workbook can only be read as a whole.
  const isText = !/\.xlsx$/i.test(file.name) && file.size > FIRST_BYTES;
  form.append("file", isText ? file.slice(0, FIRST_BYTES) : file, file.name);
  const looked = await call("POST", "/imports/preview", form);
  find("#how tbody").replaceChildren(...looked.columns.map((column, place) => row(column, place, looked)));
  find("#header").checked = looked.header;
  const warnings = (looked.warnings ?? []).map((told) => Object.assign(document.createElement("li"), { textContent: told }));
  find(".warnings").replaceChildren(...warnings);
  find(".warnings").hidden = !warnings.length;
  complain(looked.error ?? "");
}

find("#header").addEventListener("change", async (event) => {
  try {
    await look(event.target.checked);
  } catch (fault) {
    complain(fault.message);
  }
});

find("#back").addEventListener("click", () => {
  complain("");
  show("what");
});

function row(column, place, looked) {
  const line = document.createElement("tr");
  const name = document.createElement("th");
  name.scope = "row";
  name.textContent = column.column;
  const samples = document.createElement("td");
  samples.textContent = looked.rows.map((cells) => cells[place]).filter(Boolean).slice(0, 3).join(" · ");
  const choice = document.createElement("select");
  choice.ariaLabel = `What ${column.column} is`;
  choice.dataset.column = place;
  choice.append(option("", "Left out"), ...looked.fields.map((field) => option(field, title(field))));
  choice.value = column.field;
  const cell = document.createElement("td");
  cell.append(choice);
  line.append(name, samples, cell);
  return line;
}

function mapping() {
  return Object.fromEntries([...page.querySelectorAll("[data-column]")].map((each) => [each.dataset.column, each.value]));
}

async function listToFill() {
  const chosen = find("#list").value;
  if (chosen) return { id: chosen, isNew: false };
  const made = await call("POST", "/mailing-lists", { description: find("#name").value, type: "csv" });
  return { id: made.id, isNew: true };
}

function choose(list) {
  if (!list.isNew) return;
  const added = option(list.id, find("#name").value);
  find("#list").append(added);
  added.selected = true;  // a second file goes there too
  nameIt();
}

// Not fetch: only this tells how much of a large file has left.
async function send(path, form, moved) {
  const bearer = `Bearer ${await token()}`;
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", api + path);
    request.setRequestHeader("Authorization", bearer);
    request.responseType = "json";
    request.upload.addEventListener("progress", moved);
    request.addEventListener("error", () => reject(new TypeError("unreachable")));
    request.addEventListener("load", () => {
      if (request.status === 202) resolve(request.response);
      else if (request.status === 401) whyEnded().catch(reject);
      else reject(new Error(said(request.response, request.status)));
    });
    request.send(form);
  });
}

step(find("#how"), async () => {
  const list = await listToFill();
  const form = new FormData();
  form.append("mapping", JSON.stringify(mapping()));
  form.append("header", find("#header").checked);
  form.append("file", file, file.name);
  tell("Sending the file", 0);
  find("#cancel").hidden = true;
  show("how", "progress");
  try {
    running = await send(`/mailing-lists/${list.id}/import`, form, (event) => tell("Sending the file", event.loaded / event.total));
  } catch (fault) {
    show("how");
    if (list.isNew) await call("DELETE", `/mailing-lists/${list.id}`);  // nothing is left behind
    throw fault;
  }
  choose(list);
  find("#cancel").hidden = false;
  show("progress");
  await follow();
});

function tell(text, share) {
  find("#progress [data-slot=told]").textContent = text;
  const bar = find("progress");
  if (share === null) bar.removeAttribute("value");
  else bar.value = share;
}

async function follow() {
  while (running.status === "waiting" || running.status === "running") {
    const read = `${running.rows_read.toLocaleString()} rows read`;
    tell(running.status === "waiting" ? "Waiting for its turn" : read, running.status === "waiting" ? null : running.progress);
    await new Promise((done) => setTimeout(done, 500));
    try {
      running = await call("GET", `/imports/${running.id}`);
      complain("");
    } catch (fault) {
      if (!(fault instanceof TypeError)) throw fault;
      complain("The service does not answer; the import goes on, and we ask again.");
    }
  }
  finish();
}

const OUTCOMES = { done: "Imported", failed: "Not imported", cancelled: "Stopped" };

function finish() {
  const counts = [["Added to the list", running.rows_imported], ["Rejected", running.rows_rejected]];
  if (running.duplicates) counts.push(["Of these twice", running.duplicates]);
  find(".counts").replaceChildren(...counts.flatMap(([name, number]) => {
    const entry = document.createElement("div");
    const term = document.createElement("dt");
    const value = document.createElement("dd");
    term.textContent = name;
    value.textContent = number.toLocaleString();
    entry.append(term, value);
    return [entry];
  }));
  find("[data-slot=outcome]").textContent = OUTCOMES[running.status];
  find("[data-slot=advice]").textContent = running.error
    ?? (running.rows_rejected ? "Each rejected row says why. Mend them and import that file: the others are not doubled." : "");
  find("#rejected").hidden = !running.rejected_url;
  show("done");
  find("[data-slot=outcome]").focus();
}

find("#cancel").addEventListener("click", async () => {
  try {
    await call("POST", `/imports/${running.id}/cancel`);
  } catch (fault) {
    complain(fault.message);
  }
});

find("#rejected").addEventListener("click", () => attempt(async () => {
  const headers = { Authorization: `Bearer ${await token()}` };
  const answer = await fetch(`${api}/imports/${running.id}/rejected.csv`, { headers });
  if (answer.status === 401) await whyEnded();
  if (!answer.ok) throw new Error(said(await answer.json().catch(() => null), answer.status));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await answer.blob());
  link.download = `import-${running.id}-rejected.csv`;
  link.click();
  URL.revokeObjectURL(link.href);
}));

find("#again").addEventListener("click", () => {
  find("#file").value = "";
  show("what");
});

if (!(await attempt(begin))) show("who");
