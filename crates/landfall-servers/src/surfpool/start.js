// Starts Surfpool, fills it with what setup.json says, and then serves it on the port that it is
// given: Surfpool itself takes any free one.

const fs = require("fs");
const http = require("http");

const [, , addon, port, setup] = process.argv;
const { Surfnet } = require(addon);
const { slotMs, programs, accounts } = JSON.parse(fs.readFileSync(setup, "utf8"));
const config = { offline: true, blockProductionMode: "clock", slotTimeMs: slotMs };
const surfnet = Surfnet.startWithConfig(config);

async function cheat(method, params) {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
  const headers = { "content-type": "application/json" };
  const answer = await (await fetch(surfnet.rpcUrl, { method: "POST", headers, body })).json();
  if (answer.error) throw new Error(`${method}: ${JSON.stringify(answer.error)}`);
}

const pass = (request, response) => {
  const { method, headers } = request;
  const inner = http.request(surfnet.rpcUrl, { method, headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  inner.on("error", () => response.destroy());
  request.pipe(inner);
};

(async () => {
  for (const { address, bytes } of programs) {
    surfnet.deploy({ programId: address, soBytes: Array.from(Buffer.from(bytes, "hex")) });
  }
  for (const { address, lamports, owner, data } of accounts) {
    await cheat("surfnet_setAccount", [address, { lamports, owner, data }]);
  }
  http.createServer(pass).listen(Number(port), "127.0.0.1");
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
