// One lane's work: who waits for it, holding it, and handing out its nonces.
//
// Invariant: jobs are taken in the order in which they came; one that came back is the first again.
// Not here: bringing what is stored to its fate (flight.ts).

import type { LanesClient, LaneRecord, Lane, Opened } from "./contract.js";
import { LanesError, toBase64 } from "./contract.js";
import { Flight, type Hold } from "./flight.js";
import type { LaneKey, Ledger, Signed } from "./ledger.js";
import { NotExecuted, conflict, type BuildAndSend, type Settings, type Watch } from "./manager.js";
import { Turns, sleep } from "./time.js";

/** An execution that this process drives. */
export interface Job {
  idempotencyKey: string;
  digest: Promise<string>;
  buildAndSend: BuildAndSend;
  /** Its record, final; or why it was not executed. */
  ended: Promise<LaneRecord>;
  end(record: LaneRecord): void;
  refuse(why: unknown): void;
}

export interface LineParts {
  key: LaneKey;
  lane: string;
  client: LanesClient;
  ledger: Ledger;
  watch: Watch;
  holder: string;
  settings: Settings;
}

/** The lane is no longer ours, or it is not known whether it is: whatever it was, take it again. */
export class Lost extends Error {}

/** Pause before a lane that another has, or a server that does not answer, is asked for again. */
const RETRY_MS = 100;

export class Line {
  readonly lane: string;
  readonly client: LanesClient;
  readonly parts: LineParts;
  #waiting: Job[] = [];
  #running: Promise<void> | undefined;
  /** How far the lane is known to have come: a store that is behind has forgotten. */
  #mark: { nonce: number; seq: number } | undefined;
  #identity: { id: string; incarnation: string } | undefined;
  #isStopped = false;
  readonly #entered = new WeakSet<Job>();

  constructor(parts: LineParts) {
    this.parts = parts;
    this.lane = parts.lane;
    this.client = parts.client;
  }

  /** How many wait for their turn. */
  get length(): number {
    return this.#waiting.length;
  }

  push(idempotencyKey: string, digest: Promise<string>, buildAndSend: BuildAndSend): Job {
    if (this.#isStopped) throw new NotExecuted("full", "this manager was stopped");
    let end!: Job["end"];
    let refuse!: Job["refuse"];
    const ended = new Promise<LaneRecord>((resolve, reject) => {
      [end, refuse] = [resolve, reject];
    });
    const job = { idempotencyKey, digest, buildAndSend, ended, end, refuse };
    this.#waiting.push(job);
    this.#tellDepth();
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
    });
    return job;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#running;
  }

  #tellDepth(): void {
    this.parts.watch.queued?.(this.lane, this.#waiting.length);
  }

  /** Until nobody waits. */
  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      try {
        const hold = await this.#take();
        if (hold !== null) await this.#turn(hold);
      } catch (error) {
        if (error instanceof LanesError && error.kind !== "unavailable") {
          // Never valid, or not to be believed: asking again does not help.
          for (const job of this.#waiting.splice(0)) job.refuse(error);
          this.#tellDepth();
        } else if (!(error instanceof Lost || error instanceof LanesError)) {
          // The ledger does not tell the nonce, say. Nothing was built.
          this.#waiting.shift()?.refuse(unbuilt(error));
          this.#tellDepth();
        }
        await sleep(RETRY_MS);
      }
    }
  }

  /** Asks for the lane; null if another has it. What that one brings to its end is heard of. */
  async #take(): Promise<(Hold & { lane: Lane }) | null> {
    const { holder, settings, watch } = this.parts;
    const askedMs = performance.now();
    const asked = { lane: this.lane, holder, ttl_ms: settings.leaseMs };
    const leased = await this.client.ask("lease", asked);
    if (leased.answer === "busy") {
      watch.contended?.(this.lane);
      // Whoever has the lane may have ended the first; one that is new is recorded before it waits.
      const isNew = this.#waiting.filter((job, at) => at === 0 || !this.#entered.has(job));
      await Promise.all(isNew.map((job) => this.#enter(job)));
      await sleep(Math.min(RETRY_MS, settings.leaseMs / 4));
      return null;
    }
    const { lane } = leased;
    const hold = { epoch: lane.epoch, untilMs: askedMs + settings.leaseMs, isLost: false };
    return { ...hold, lane };
  }

  /** The job's record; undefined if that ended it. */
  async #enter(job: Job): Promise<LaneRecord | undefined> {
    const { idempotencyKey: key } = job;
    const asked = { key, digest: await job.digest, at_ms: Date.now() };
    let record: LaneRecord | undefined;
    try {
      const entered = await this.client.ask("enter", asked);
      this.#entered.add(job);
      if (entered.answer === "conflict") job.refuse(conflict());
      else if (entered.record.status === "done" || entered.record.status === "failed") {
        job.end(entered.record);
      } else record = entered.record;
    } catch (error) {
      if (!(error instanceof LanesError) || error.kind === "unavailable") throw error;
      job.refuse(error);
    }
    if (record === undefined) {
      this.#waiting = this.#waiting.filter((other) => other !== job);
      this.#tellDepth();
    }
    return record;
  }

  /** One stay on the lane: what is open first, then whoever waits, for as long as a turn lasts. */
  async #turn(held: Hold & { lane: Lane }): Promise<void> {
    const { settings } = this.parts;
    const hold: Hold = held;
    const renewing = this.#renew(hold);
    const flights = new Map<number, Flight>();
    const stay = new Stay(this, hold, flights);
    try {
      if (!(await this.#reconcile(held.lane, stay))) return;
      const untilMs = performance.now() + settings.turnMs;
      while (this.#waiting.length > 0 && performance.now() < untilMs) {
        await this.#drive(stay);
      }
    } finally {
      await Promise.allSettled(Array.from(flights.values(), (flight) => flight.decided));
      const gone = hold.isLost;
      hold.isLost = true;
      await renewing.catch(() => undefined);
      // What is not given back ends by itself.
      const lanes = [{ lane: this.lane, epoch: hold.epoch }];
      if (!gone) await this.client.ask("release", { lanes }).catch(() => undefined);
    }
  }

  async #renew(hold: Hold): Promise<void> {
    const { renewMs, leaseMs } = this.parts.settings;
    let nextMs = performance.now() + renewMs;
    while (!hold.isLost) {
      await sleep(Math.min(50, renewMs));
      if (performance.now() > hold.untilMs) hold.isLost = true;
      if (hold.isLost || performance.now() < nextMs) continue;
      const askedMs = performance.now();
      nextMs = askedMs + renewMs;
      const lanes = [{ lane: this.lane, epoch: hold.epoch }];
      // Without an answer the lease runs out by our own clock.
      const answer = await this.client.ask("renew", { lanes, ttl_ms: leaseMs }).catch(() => null);
      if (answer?.renewed[0] === true) hold.untilMs = askedMs + leaseMs;
      else if (answer !== null) hold.isLost = true;
    }
  }

  /** Compares lane and ledger and takes up what is open; false if the lane stands still. */
  async #reconcile(lane: Lane, stay: Stay): Promise<boolean> {
    const { ledger, key, watch } = this.parts;
    const identity = await this.client.ask("identity", {});
    if (this.#identity !== undefined && this.#identity.id !== identity.id) {
      return this.#halt("the store is another one");
    }
    this.#identity = identity;
    stay.incarnation = identity.incarnation;
    if (lane.halted !== null) return this.#standStill(lane.halted.reason);
    const { attempts } = await this.client.ask("attempts", { lane: this.lane, open: true });
    const used = await ledger.lastNonce(key);
    if (lane.next_nonce === null) {
      const start = { lane: this.lane, epoch: lane.epoch, ledger_nonce: used };
      const { started } = await this.client.ask("start", start);
      if (!started) throw new Lost("the lane was started by another");
      stay.nextNonce = used + 1;
    } else if (used >= lane.next_nonce) {
      return this.#halt(`the ledger has used nonce ${used}, which no stored attempt explains`);
    } else {
      stay.nextNonce = lane.next_nonce;
    }
    if (attempts.length > 0) watch.tookOver?.(this.lane, attempts.length);
    const flights = attempts.map((attempt) => stay.fly(attempt, false));
    for (const flight of flights) await flight.included;
    return true;
  }

  async #halt(reason: string): Promise<false> {
    await this.client.ask("halt", { lane: this.lane, reason });
    return this.#standStill(reason);
  }

  #standStill(reason: string): false {
    this.parts.watch.halted?.(this.lane, reason);
    for (const job of this.#waiting.splice(0)) {
      job.refuse(new NotExecuted("halted", `${this.lane} is halted: ${reason}`));
    }
    this.#tellDepth();
    return false;
  }

  /** Has the first in line built, unless it is stored already, and sees it into a block. */
  async #drive(stay: Stay): Promise<void> {
    const job = this.#waiting[0];
    if (job === undefined) return;
    const record = await this.#enter(job);
    if (record === undefined) return;
    let built: Flight | "refused" | "moved" | undefined;
    if (record.status === "inflight") {
      built = stay.flights.get(record.id);
      // Another key of the same space has it: its record tells, in time.
      if (built === undefined) throw new Lost("an attempt that we do not know");
    } else {
      built = await stay.signing.take(() => stay.build(job, record));
    }
    // Still the first in line: what its record says now decides.
    if (built === "moved") return;
    this.#waiting.shift();
    this.#tellDepth();
    if (built === "refused") return;
    this.#hear(job, built);
    await built.included;
  }

  /** Ends the job with its flight; puts it first in line again where that is not its end. */
  #hear(job: Job, flight: Flight): void {
    flight.decided.then((end) => {
      if (end.end === "final") job.end(end.record);
      else if (end.end === "unsent") job.refuse(new NotExecuted("unsent", end.why));
      else {
        this.#waiting.unshift(job);
        this.#tellDepth();
      }
    }, (error) => job.refuse(error));
  }

  /** Stores what is signed under the lane's next nonce; null if the record has moved. */
  async open(stay: Stay, record: LaneRecord | null, signed: Signed): Promise<Flight | null> {
    const { hold, nextNonce: nonce, incarnation } = stay;
    const mark = this.#mark && { lane: this.lane, ...this.#mark };
    let opened: Opened | undefined;
    try {
      const { answers } = await this.client.ask("open", {
        attempts: [{
          lane: this.lane,
          epoch: hold.epoch,
          nonce,
          record: record && {
            id: record.id, version: record.version, updated_ms: record.updated_ms,
          },
          signed: {
            hash: signed.hash,
            bytes: toBase64(signed.bytes),
            base: signed.base ?? null,
            expires_height: signed.expiresHeight ?? null,
          },
          marks: mark ? [mark] : [],
          incarnation,
          at_ms: Date.now(),
        }],
      });
      opened = answers[0];
    } catch (error) {
      // It may be stored, now or later. A new epoch keeps it out, or finds it.
      hold.isLost = true;
      throw error;
    }
    if (opened?.answer === "stored") {
      const { attempt } = opened;
      this.#mark = { nonce: attempt.nonce, seq: attempt.seq };
      stay.nextNonce = nonce + 1;
      return stay.fly(attempt, true);
    }
    if (opened?.answer === "stale_record") return null;
    hold.isLost = true;
    if (opened?.answer === "behind") await this.#halt(opened.why);
    throw new Lost(opened?.answer ?? "no answer");
  }
}

/** What is known while the lane is held. */
export class Stay {
  readonly signing = new Turns();
  nextNonce = 0;
  incarnation = "";

  constructor(
    readonly line: Line,
    readonly hold: Hold,
    /** By record; fences are under their attempt's number, below zero. */
    readonly flights: Map<number, Flight>,
  ) {}

  fly(attempt: import("./contract.js").StoredAttempt, isFresh: boolean): Flight {
    const flight = new Flight(this, attempt, isFresh);
    this.flights.set(attempt.record ?? -attempt.id, flight);
    return flight;
  }

  /** Asks the builder; `refused` if nothing came of it, which the job is told. */
  async build(job: Job, record: LaneRecord): Promise<Flight | "refused" | "moved"> {
    const { key, settings } = this.line.parts;
    let state: "building" | "sending" | "closed" = "building";
    let sending: Promise<Flight | null> | undefined;
    const send = async (signed: Signed): Promise<{ txHash: string }> => {
      if (state !== "building") throw new Error("a turn sends once, and before it is over");
      state = "sending";
      sending = this.line.open(this, record, signed);
      const flight = await sending;
      if (flight === null) throw new Error("it was executed meanwhile");
      await flight.sent;
      return { txHash: signed.hash };
    };
    const timer = new AbortController();
    const late = sleep(settings.buildMs, timer.signal);
    // On a microtask of its own: one that throws at once is one that throws.
    const building = Promise.resolve().then(() => job.buildAndSend({ key, nonce: this.nextNonce, send }));
    let why: unknown = new Error(`not built within ${settings.buildMs} ms`);
    await Promise.race([building.then(() => {
      why = new Error("it returned without turn.send");
    }, (error) => {
      why = error;
    }), late]);
    timer.abort();
    building.catch(() => undefined);
    // What is being stored is waited for, whatever its builder says.
    if (sending !== undefined) return (await sending) ?? "moved";
    state = "closed";
    job.refuse(unbuilt(why));
    return "refused";
  }

  /** Lands what does nothing above all that is open, so that it is decided. */
  async fence(): Promise<Flight | null> {
    const { ledger, key } = this.line.parts;
    if (ledger.fence === undefined) return null;
    return this.signing.take(async () => {
      const signed = await ledger.fence?.({ key, nonce: this.nextNonce });
      return signed ? this.line.open(this, null, signed) : null;
    });
  }
}

function unbuilt(cause: unknown): NotExecuted {
  return new NotExecuted("unbuilt", `not built: ${String(cause)}`, { cause });
}
