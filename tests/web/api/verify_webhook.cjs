// Verifies deliveries as a receiver in Node.js does: reads [[secret, headers, body], ...] and prints, for each,
// the event that it tells of, or null where the package of npm does not believe it.
const { Webhook, WebhookVerificationError } = require("standardwebhooks");

const believed = ([secret, headers, body]) => {
  try {
    return new Webhook(secret).verify(body, headers);
  } catch (refused) {
    if (refused instanceof WebhookVerificationError) return null;
    throw refused;
  }
};
const told = JSON.parse(require("fs").readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(told.map(believed)));
