// The composer beyond what its form does by itself: variables at the cursor, a count, uploads, and less to send
// for a preview.

const form = document.querySelector("#composer");
const message = form.querySelector("#message");
const count = form.querySelector("#message-count");
const LONGEST_PASTED = 12_000;
const changed = (field) => field.dispatchEvent(new Event("input", { bubbles: true }));

// With scripts the preview comes by itself, and the Enter key in a field is no wish to see it.
if (window.htmx || document.querySelector('script[src*="htmx"]')) {
  for (const button of document.querySelectorAll(".shows-preview")) button.hidden = true;
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.matches("input:not([type=submit], [type=file], [type=checkbox], [type=radio])")) event.preventDefault();
  });
}

const tellCount = () => {
  const written = message.value.length;
  count.textContent = written ? `${written.toLocaleString("en-US")} of ${Number(message.dataset.most).toLocaleString("en-US")} characters` : "";
};
message.addEventListener("input", tellCount);
tellCount();

form.addEventListener("click", (event) => {
  const button = event.target.closest("[data-insert]");
  if (!button) return;
  message.focus();
  message.setRangeText(button.dataset.insert, message.selectionStart, message.selectionEnd, "end");
  changed(message);
});

// Each brand has amounts of its own.
const brand = form.querySelector("#giftcard_brand");
const amount = form.querySelector("#giftcard_amount");
const offerAmounts = () => {
  const offered = brand.selectedOptions[0]?.dataset.amounts?.split(" ");
  for (const option of amount.options) option.hidden = option.disabled = Boolean(offered && option.value && !offered.includes(option.value));
  if (amount.selectedOptions[0]?.disabled) amount.value = "";
};
brand.addEventListener("change", offerAmounts);
offerAmounts();

// Thousands may be pasted: the preview needs the first few of them, and the rest stays here.
document.body.addEventListener("htmx:configRequest", (event) => {
  const { path, parameters } = event.detail;
  if (!path.endsWith("/preview")) return;
  const pasted = parameters.people;
  if (typeof pasted === "string" && pasted.length > LONGEST_PASTED) {
    parameters.people = pasted.slice(0, pasted.lastIndexOf("\n", LONGEST_PASTED));
  }
});

// What a busy service has not done yet is asked of it again a little later; meanwhile the page says that it is busy.
document.body.addEventListener("htmx:afterRequest", (event) => {
  const { elt, xhr } = event.detail;
  if (xhr.status === 503) setTimeout(() => htmx.trigger(elt, "again"), 1000 * (Number(xhr.getResponseHeader("Retry-After")) || 5));
});

// What is told of a field is told of it to those who do not see it, too.
document.body.addEventListener("htmx:afterSettle", () => {
  for (const field of form.querySelectorAll('[aria-describedby$="-told"]:not(fieldset)')) {
    const told = document.getElementById(field.getAttribute("aria-describedby").split(" ").at(-1));
    if (told?.textContent.trim()) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
  }
});

// A new image: kept by the API for the reader, and chosen.
const upload = form.querySelector("#upload");

async function token() {
  const { mode, membership } = form.dataset;
  const headers = { "X-CSRF-Token": form.elements.csrf.value, Accept: "application/json" };
  const answer = await fetch("/session/token", { method: "POST", headers, body: new URLSearchParams({ mode, membership }) });
  const found = await answer.json().catch(() => null);
  if (!answer.ok) throw new Error(answer.status === 401 ? "You are signed out. Load this page again, and sign in." : found?.message ?? "Try again.");
  return found.token;
}

const send = (key, body, progress) => new Promise((resolve, reject) => {
  const call = new XMLHttpRequest();
  call.open("POST", "/api/v2/image-templates");
  call.responseType = "json";
  call.setRequestHeader("Authorization", `Bearer ${key}`);
  call.setRequestHeader("Accept", "application/json");
  call.upload.onprogress = ({ loaded, total }) => { progress.value = loaded / total; };
  call.onerror = () => reject(new Error("The service does not answer. Try again in a moment."));
  call.onload = () => {
    const told = Object.values(call.response?.errors ?? {}).flat().join(" ");
    if (call.status < 300) resolve(call.response);
    else reject(new Error(told || call.response?.message || `The service answered ${call.status}.`));
  };
  call.send(body);
});

function showSaved(image) {
  const item = document.createElement("li");
  const label = document.createElement("label");
  const radio = Object.assign(document.createElement("input"), { type: "radio", name: "image_template_id", value: image.id, checked: true });
  const picture = Object.assign(document.createElement("img"), { src: new URL(image.image).pathname + new URL(image.image).search, alt: "" });
  const name = document.createElement("span");
  name.textContent = image.name;
  item.dataset.type = image.type;
  label.append(radio, picture, name);
  item.append(label);
  form.querySelector(".saved ul").prepend(item);
  radio.dispatchEvent(new Event("change", { bubbles: true }));
}

if (upload) {
  const progress = form.querySelector(".upload progress");
  const told = form.querySelector("#upload-told");
  form.querySelector(".upload").hidden = false;
  upload.addEventListener("change", async (event) => {
    event.stopPropagation();
    const [file] = upload.files;
    if (!file) return;
    told.replaceChildren();
    progress.hidden = false;
    upload.disabled = true;
    try {
      const body = new FormData();
      body.append("type", form.querySelector('[name="piece"]:checked').dataset.images);
      body.append("name", file.name.replace(/\.[^.]*$/, "").slice(0, 200) || "Image");
      body.append("image", file);
      const branch = form.elements.sub_account_id?.value;
      if (branch) body.append("sub_account_id", branch);
      const kept = await send(await token(), body, progress);
      showSaved(kept.data ?? kept);
    } catch (fault) {
      const line = document.createElement("p");
      line.className = "fault";
      line.textContent = fault.message;
      told.replaceChildren(line);
    }
    progress.hidden = true;
    upload.disabled = false;
    upload.value = "";
  });
}
