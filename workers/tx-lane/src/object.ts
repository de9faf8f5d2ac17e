// The object of one signing key: the lane contract (docs/lanes.md) on durable storage.
//
//   lane                    who holds it, its epoch, its halt
//   nonce:lastCommitted     the last nonce that was stored
//   idem:{key}              a record; record:{id} names its key
//   attempt:{nonce}         what was signed under it; attempt-id:{id} names its nonce
//   open:{nonce}            there while it is neither landed nor sunk
//   taken:{id}              a request that was let in, until it could come again no more
//
// Invariant: a request is remembered, and what it asks for read, decided and written, in one
// transaction with nothing else awaited inside, and one at a time: calls to one object are serialized
// across storage alone.
// Invariant: nothing is sent, and no ledger asked, but by an alarm.

import { Gatekeeper, importSecret } from "../../../clients/typescript/src/auth.js";
import type { StoredAttempt } from "../../../clients/typescript/src/contract.js";
import { Turns } from "../../../clients/typescript/src/time.js";
import { Corrupt, Mistaken, failed } from "./answer.js";
import type { Env } from "./env.js";
import { ledgerOf } from "./ledgers.js";
import { OPERATIONS } from "./operations.js";
import { Space } from "./space.js";
import { lookAfter } from "./stuck.js";

const BODY_MAX_BYTES = 1 << 20;
const STUCK_MS = 30_000;
/** How many requests' ids are looked over at once to be forgotten. */
const FORGET_BATCH = 128;

/** A request that was signed well, and until when it must be remembered. */
interface Proof {
  id: string;
  untilMs: number;
}

class Replayed extends Error {}

export class TxLane {
  readonly #state: DurableObjectState;
  readonly #env: Env;
  readonly #turns = new Turns();
  #gate: Promise<Gatekeeper> | undefined;
  /** Whether an alarm is known to come. */
  #isAwake = false;

  constructor(state: DurableObjectState, env: Env) {
    this.#state = state;
    this.#env = env;
  }

  async fetch(request: Request): Promise<Response> {
    const { pathname, search } = new URL(request.url);
    const body = await request.text();
    if (body.length > BODY_MAX_BYTES) return failed(413, "too_large", "more than 1 MiB");
    const proof = await this.#proof(request, pathname + search, body);
    if (typeof proof === "string") return failed(401, "unauthenticated", proof);
    const perform = OPERATIONS.get(pathname.split("/").at(-1) ?? "");
    if (perform === undefined) return failed(404, "not_found", "there is no such operation");
    const name = decodeURIComponent(request.headers.get("tx-lane-name") ?? "");
    try {
      const asked: unknown = JSON.parse(body);
      const act = (space: Space): Promise<unknown> => perform(space, asked as never);
      return Response.json(await this.#turns.take(() => this.#perform(name, proof, act)));
    } catch (error) {
      if (error instanceof Replayed) return failed(401, "unauthenticated", error.message);
      const message = error instanceof Error ? error.message : String(error);
      if (error instanceof Mistaken || error instanceof SyntaxError) {
        return failed(400, "bad_request", message);
      }
      if (error instanceof Corrupt) return failed(500, "corrupt", message);
      return failed(503, "unavailable", message);
    }
  }

  /** Remembers the request and does what it asks for, both or neither. */
  async #perform(
    name: string,
    proof: Proof,
    act: (space: Space) => Promise<unknown>,
  ): Promise<unknown> {
    const { storage } = this.#state;
    const answer = await storage.transaction(async () => {
      const taken = `taken:${proof.id}`;
      if ((await storage.get(taken)) !== undefined) throw new Replayed("it was taken before");
      await storage.put(taken, proof.untilMs);
      return act(new Space(storage, name, Date.now()));
    });
    await this.#wake();
    return answer;
  }

  /** A request that is signed well; or why it is not let in. */
  async #proof(request: Request, path: string, body: string): Promise<Proof | string> {
    const { headers, method } = request;
    const timeMs = Number(headers.get("landfall-time") ?? NaN);
    const [id, signature] = [headers.get("landfall-id"), headers.get("landfall-signature")];
    if (!Number.isSafeInteger(timeMs) || id === null || signature === null) {
      return "landfall-time, landfall-id and landfall-signature are wanted";
    }
    this.#gate ??= this.#open();
    const gate = await this.#gate;
    const nowMs = Date.now();
    const refusal = await gate.refusal({ method, path, timeMs, id, body }, signature, nowMs);
    return refusal ?? { id, untilMs: Gatekeeper.untilMs(timeMs, nowMs) };
  }

  async #open(): Promise<Gatekeeper> {
    const secrets = this.#env.LANES_SECRET.split(",").map((one) => importSecret(one.trim()));
    return new Gatekeeper(await Promise.all(secrets), 0);
  }

  /** Sees to it that an alarm comes while there is something to look after. */
  async #wake(): Promise<void> {
    const { storage } = this.#state;
    if (this.#isAwake) return;
    if ((await storage.getAlarm()) === null) await storage.setAlarm(Date.now() + this.#stuckMs);
    this.#isAwake = true;
  }

  get #stuckMs(): number {
    return Number(this.#env.STUCK_MS ?? STUCK_MS);
  }

  /** Looks after what is stuck, whoever has left it, and forgets requests whose time is over. */
  async alarm(): Promise<void> {
    const { storage } = this.#state;
    this.#isAwake = false;
    const nowMs = Date.now();
    const forgotten = await this.#forget(nowMs);
    const open = await storage.list<number>({ prefix: "open:" });
    const ledger = ledgerOf(this.#env);
    if (ledger !== null) {
      for (const nonce of open.values()) {
        const attempt = await storage.get<StoredAttempt>(Space.attemptKey(nonce));
        if (attempt === undefined || attempt.opened_ms > nowMs - this.#stuckMs) continue;
        const landed = await lookAfter(ledger, attempt);
        if (landed === null) continue;
        // Asked again inside: it may have been settled while the ledger was asked.
        await this.#turns.take(() => storage.transaction(() =>
          new Space(storage, attempt.lane, Date.now()).settleAsObject(attempt.id, landed)));
      }
    }
    const isWanted = (open.size > 0 && ledger !== null) || forgotten > 0;
    if (isWanted) await storage.setAlarm(Date.now() + this.#stuckMs);
  }

  /** How many are still remembered, or might be. */
  async #forget(nowMs: number): Promise<number> {
    const { storage } = this.#state;
    let startAfter: string | undefined;
    let kept = 0;
    for (;;) {
      const options = { prefix: "taken:", limit: FORGET_BATCH };
      const page = await storage.list<number>(startAfter === undefined
        ? options : { ...options, startAfter });
      const over = Array.from(page).filter(([, untilMs]) => untilMs < nowMs).map(([key]) => key);
      if (over.length > 0) await storage.delete(over);
      kept += page.size - over.length;
      if (page.size < FORGET_BATCH) return kept;
      startAfter = Array.from(page.keys()).at(-1);
    }
  }
}
