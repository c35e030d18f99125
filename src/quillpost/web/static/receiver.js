// Asks for new events every second and puts them on top of the list.

const page = document.querySelector("[data-events]");
const list = page.querySelector(".events");
const empty = page.querySelector(".empty");
const listening = page.querySelector(".listening");
const shape = document.querySelector("#event");
const most = Number(page.dataset.most);
let last = 0;

function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function scanned(event) {
  const times = Number(event.scans);
  const what = event.name ? `Scanned: the piece to ${event.name}` : "Scanned";
  return times > 1 ? `${what}, ${times} scans now` : what;
}

function change(event) {
  if (event.event_type === "scans.scan_update") return scanned(event);
  if (!event.current) return event.event_type;
  return event.previous ? `${capital(event.previous)} → ${capital(event.current)}` : capital(event.current);
}

function card(event, isNew) {
  const item = shape.content.firstElementChild.cloneNode(true);
  const fill = (name, text) => { item.querySelector(`[data-slot=${name}]`).textContent = text; };
  item.dataset.type = event.event_type;
  item.classList.toggle("arriving", isNew);
  fill("change", change(event));
  fill("type", event.event_type);
  fill("order", event.order_id ? `Order ${event.order_id}` : "");
  fill("item", event.item_id ? `Item ${event.item_id}` : "");
  fill("place", event.event_type === "scans.scan_update" && event.leads_to ? `Led to ${event.leads_to}` : "");
  fill("verified", event.verified ? "✓ Signature verified" : "Signature not verified");
  fill("body", event.body);
  const time = item.querySelector("time");
  time.dateTime = event.received_at;
  time.textContent = new Date(event.received_at).toLocaleTimeString();
  return item;
}

function say(state, text) {
  listening.className = `listening ${state}`;
  listening.textContent = text;
}

async function look() {
  try {
    const answer = await fetch(`${page.dataset.events}?after=${last}`);
    if (!answer.ok) throw new Error(answer.status);
    const { events } = await answer.json();
    const isNew = last > 0 || events.length === 1;
    for (const event of events) {
      list.prepend(card(event, isNew));
      last = event.id;
    }
    while (list.children.length > most) list.lastElementChild.remove();
    empty.hidden = list.children.length > 0;
    say("on", "Listening");
  } catch {
    say("lost", "The service does not answer; trying again");
  }
  setTimeout(look, 1000);
}

look();
