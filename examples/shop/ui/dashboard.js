// The refunds of the user's conversations: the events `shop.refunded` of the tool `shop.refund`.
// docs/how-to/bundle-dashboard.md describes the port, through which every call goes.
const waiting = new Map();
let port;
let last = 0;

function call(method, path, body) {
  return new Promise((resolve) => {
    waiting.set(++last, resolve);
    port.postMessage({ id: last, method, path, body });
  });
}

async function refundsOf(conversation) {
  const { status, body } = await call("GET", `/v1/conversations/${conversation}/events?turns=50`);
  const events = status === 200 ? body.events.flatMap((frame) => frame.events ?? []) : [];
  const sent = events.filter((event) => event.type === "react.tool.event").map((event) => event.data);
  return sent.filter((event) => event.type === "shop.refunded").map((event) => event.data);
}

async function show() {
  const total = document.querySelector("#total");
  const { status, body } = await call("GET", "/v1/conversations?limit=50");
  if (status !== 200) {
    total.textContent = `not available: ${body.code}`;
    return;
  }
  let eur = 0;
  for (const { conversation } of body.items) {
    for (const refund of await refundsOf(conversation)) {
      eur += refund.eur;
      const row = document.createElement("li");
      row.textContent = `${refund.number}: ${refund.eur.toFixed(2)} euros. ${refund.reason}`;
      document.querySelector("#rows").append(row);
    }
  }
  total.textContent = `${eur.toFixed(2)} euros in ${body.items.length} conversations`;
}

addEventListener("message", (event) => {
  if (event.source !== parent || event.data?.stepline !== 1) return;
  [port] = event.ports;
  port.onmessage = ({ data }) => {
    waiting.get(data.id)?.(data);
    waiting.delete(data.id);
  };
  show();
});
