// As much of Cloudflare's runtime as is used here.

interface DurableObjectStorage {
  get<T>(key: string): Promise<T | undefined>;
  get<T>(keys: string[]): Promise<Map<string, T>>;
  put(entries: { [key: string]: unknown }): Promise<void>;
  put(key: string, value: unknown): Promise<void>;
  delete(keys: string[]): Promise<number>;
  list<T>(options: {
    prefix?: string;
    start?: string;
    startAfter?: string;
    limit?: number;
    reverse?: boolean;
  }): Promise<Map<string, T>>;
  transaction<T>(act: () => Promise<T>): Promise<T>;
  getAlarm(): Promise<number | null>;
  setAlarm(atMs: number): Promise<void>;
}

interface DurableObjectState {
  readonly storage: DurableObjectStorage;
  blockConcurrencyWhile<T>(act: () => Promise<T>): Promise<T>;
}

interface DurableObjectId {
  toString(): string;
}

interface DurableObjectNamespace {
  idFromName(name: string): DurableObjectId;
  get(id: DurableObjectId): { fetch(request: Request): Promise<Response> };
}
