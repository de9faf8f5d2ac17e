// The Worker: finds the object of the key that the address names, and hands the request over.
//
// Nothing is decided here, and nobody is let in: the object asks for the proof itself, so that a
// mistake in a route is no open door.

import { sha256 } from "../../../clients/typescript/src/auth.js";
import { laneOf } from "../../../clients/typescript/src/ledger.js";
import { failed } from "./answer.js";
import type { Env } from "./env.js";

export { TxLane } from "./object.js";

const ADDRESS = /^\/v1\/([^/]+)\/([^/]+)\/([a-z]+)$/;

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const { pathname } = new URL(request.url);
    const found = ADDRESS.exec(pathname);
    if (found === null || request.method !== "POST") {
      return failed(404, "not_found", "there is no such operation");
    }
    let lane: string;
    try {
      const [accountId, publicKey] = [found[1], found[2]].map((part) => decodeURIComponent(part ?? ""));
      lane = laneOf({ accountId: accountId ?? "", publicKey: publicKey ?? "" });
    } catch {
      return failed(400, "bad_request", "an address that is not well encoded");
    }
    const id = env.TX_LANE.idFromName(await sha256(lane));
    const handed = new Request(request);
    // Set, never added to: whatever a stranger wrote there is gone.
    handed.headers.set("tx-lane-name", encodeURIComponent(lane));
    return env.TX_LANE.get(id).fetch(handed);
  },
};
