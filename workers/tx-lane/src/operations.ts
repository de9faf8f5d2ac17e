// The contract's operations: checks what is asked, lets the space decide.

import type {
  Fate, Held, OpenOne, Operations, Sighting, SignedBytes,
} from "../../../clients/typescript/src/contract.js";
import { Mistaken } from "./answer.js";
import { LEASE_MAX_MS, type Space } from "./space.js";

const KEY_MAX_BYTES = 256;
/** Attempts, records or leases that one question may be about. */
const MANY_MAX = 1_000;

type Asked = { [field: string]: unknown };

function text(asked: Asked, field: string, maxBytes = 65_536): string {
  const value = asked[field];
  if (typeof value !== "string" || value === "") throw new Mistaken(`${field} is a text`);
  if (new TextEncoder().encode(value).length > maxBytes) {
    throw new Mistaken(`${field} has at most ${maxBytes} bytes`);
  }
  return value;
}

function number(asked: Asked, field: string): number {
  const value = asked[field];
  if (!Number.isSafeInteger(value) || (value as number) < 0) {
    throw new Mistaken(`${field} is a whole number of at most 2^53 - 1`);
  }
  return value as number;
}

function many<T>(asked: Asked, field: string): T[] {
  const value = asked[field];
  if (!Array.isArray(value)) throw new Mistaken(`${field} is a list`);
  if (value.length > MANY_MAX) throw new Mistaken(`no more than ${MANY_MAX} at once`);
  return value as T[];
}

function object(value: unknown, what: string): Asked {
  if (typeof value !== "object" || value === null) throw new Mistaken(`${what} is an object`);
  return value as Asked;
}

function ttl(asked: Asked): number {
  const value = number(asked, "ttl_ms");
  if (value < 1 || value > LEASE_MAX_MS) throw new Mistaken(`ttl_ms is 1 to ${LEASE_MAX_MS}`);
  return value;
}

function signed(asked: Asked): SignedBytes {
  const one = object(asked["signed"], "signed");
  const bytes = text(one, "bytes", 1 << 20);
  try {
    atob(bytes);
  } catch {
    throw new Mistaken("bytes are base64");
  }
  const height = one["expires_height"] ?? null;
  return {
    hash: text(one, "hash"),
    bytes,
    base: (one["base"] ?? null) as SignedBytes["base"],
    expires_height: height === null ? null : number(one, "expires_height"),
  };
}

function held(asked: Asked): Held {
  return { lane: text(asked, "lane", KEY_MAX_BYTES), epoch: number(asked, "epoch") };
}

function openOne(asked: Asked): OpenOne {
  const record = asked["record"] ?? null;
  const carried = record === null ? null : object(record, "record");
  return {
    ...held(asked),
    nonce: number(asked, "nonce"),
    record: carried && {
      id: number(carried, "id"),
      version: number(carried, "version"),
      updated_ms: number(carried, "updated_ms"),
    },
    signed: signed(asked),
    marks: many(asked, "marks"),
    incarnation: text(asked, "incarnation"),
    at_ms: number(asked, "at_ms"),
  };
}

function fate(asked: Asked): Fate {
  const one = object(asked["fate"], "fate");
  if (one["fate"] === "landed") {
    number(one, "block_height");
    many(one, "outcomes");
  } else if (one["fate"] === "sunk") {
    text(one, "kind");
    text(one, "summary");
  } else throw new Mistaken("a fate is landed or sunk");
  return one as unknown as Fate;
}

async function attempts(space: Space, asked: Asked): Promise<Operations["attempts"][1]> {
  if (asked["attempt"] !== undefined) {
    const found = await space.attempt(number(asked, "attempt"));
    return { attempts: found === null ? [] : [found] };
  }
  const lane = await space.lane();
  const isOurs = lane !== null && lane.id === text(asked, "lane", KEY_MAX_BYTES);
  if (!isOurs) return { attempts: [] };
  if (asked["open"] === true) return { attempts: await space.openAttempts() };
  if (asked["nonce"] !== undefined) {
    const found = await space.attemptAt(number(asked, "nonce"));
    return { attempts: found === null ? [] : [found] };
  }
  const limit = asked["limit"] === undefined ? MANY_MAX : number(asked, "limit");
  const above = number(asked, "above");
  return { attempts: await space.attemptsAfter(above, Math.min(limit, MANY_MAX)) };
}

type Perform = (space: Space, asked: Asked) => Promise<unknown>;

const ALL: { [operation in keyof Operations]: Perform } = {
  lease: (space, asked) => space.lease(
    text(asked, "lane", KEY_MAX_BYTES), text(asked, "holder"), ttl(asked)),
  renew: async (space, asked) => {
    const renewed: boolean[] = [];
    for (const one of many<Asked>(asked, "lanes").map(held)) {
      renewed.push(await space.renew(one.lane, one.epoch, ttl(asked)));
    }
    return { renewed };
  },
  release: async (space, asked) => {
    for (const { lane, epoch } of many<Asked>(asked, "lanes").map(held)) {
      await space.release(lane, epoch);
    }
    return {};
  },
  start: async (space, asked) => {
    const { lane, epoch } = held(asked);
    return { started: await space.start(lane, epoch, number(asked, "ledger_nonce")) };
  },
  halt: async (space, asked) => {
    await space.halt(text(asked, "lane"), text(asked, "reason"));
    return {};
  },
  adopt: async (space, asked) => {
    await space.adopt(text(asked, "lane"), number(asked, "ledger_nonce"));
    return {};
  },
  lanes: async (space) => {
    const lane = await space.lane();
    return { lanes: lane === null ? [] : [lane] };
  },
  identity: (space) => space.identity(),
  enter: (space, asked) => {
    const digest = text(asked, "digest").toLowerCase();
    if (!/^[0-9a-f]{64}$/.test(digest)) throw new Mistaken("a digest has 64 hex digits");
    return space.enter(text(asked, "key", KEY_MAX_BYTES), digest, number(asked, "at_ms"));
  },
  record: async (space, asked) => ({ record: await space.record(text(asked, "key")) }),
  records: async (space, asked) => {
    const found = await Promise.all(many<number>(asked, "ids").map((id) => space.recordOf(id)));
    return { records: found.filter((record) => record !== null) };
  },
  forget: async (space, asked) => {
    const limit = Math.min(number(asked, "limit"), MANY_MAX);
    return { forgotten: await space.forget(number(asked, "before_ms"), limit) };
  },
  open: async (space, asked) => {
    const answers = [];
    for (const one of many<Asked>(asked, "attempts").map(openOne)) {
      answers.push(await space.open(one));
    }
    return { answers };
  },
  vary: (space, asked) => {
    const kind = asked["kind"];
    if (kind !== "replaces" && kind !== "cancels") throw new Mistaken("kind is replaces or cancels");
    return space.vary({
      ...held(asked), attempt: number(asked, "attempt"), number: number(asked, "number"), kind,
      signed: signed(asked), marks: many(asked, "marks"), incarnation: text(asked, "incarnation"),
      at_ms: number(asked, "at_ms"),
    });
  },
  sight: async (space, asked) => {
    const { lane, epoch } = held(asked);
    const sightings = many<Sighting>(asked, "sightings");
    return { noted: await space.sight(lane, epoch, number(asked, "attempt"), sightings) };
  },
  settle: (space, asked) => {
    const { lane, epoch } = held(asked);
    const attempt = number(asked, "attempt");
    return space.settle(lane, epoch, attempt, fate(asked), number(asked, "at_ms"));
  },
  attempts,
};

export const OPERATIONS: ReadonlyMap<string, Perform> = new Map(Object.entries(ALL));
