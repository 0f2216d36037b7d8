// A client of the Scanner's ingestion that cannot disturb the application it lives in: calls return at once and never
// throw, the queue is bounded, and what does not get through is dropped and counted.

export type Hook =
  | "appendPurchaseRecord"
  | "executePurchase"
  | "redeemWalletBundle"
  | "applyGameOutcome"
  | "getPlayerWallet"
  | "persistSnapshotReturningRev"
  | "trackEvent"
  | "indexWalletBalance"
  | "upsertNode";

export interface ScannerClientOptions {
  /** Where Cairn listens, without a path. */
  url: string;
  /** The ingestion token. */
  token: string;
  /** The host of the application; the server's own unless given. */
  hostId?: string;
  /** Operations kept while the server is away; the oldest is dropped beyond that. */
  queueMax?: number;
  /** Operations of one request. */
  batchMax?: number;
  /** Time of one request, milliseconds. */
  timeoutMs?: number;
  /** Told about what went wrong; must not throw. */
  onProblem?: (message: string) => void;
}

interface Operation {
  op: Hook;
  body: unknown;
}

const RETRY_MIN_MS = 250;
const RETRY_MAX_MS = 30_000;

export class ScannerClient {
  /** Operations that were dropped because the queue was full. */
  dropped = 0;
  /** Operations that the server refused: a programming error of the caller. */
  refused = 0;

  private readonly queue: Operation[] = [];
  private readonly target: string;
  private readonly options: Required<Omit<ScannerClientOptions, "hostId" | "onProblem">> & ScannerClientOptions;
  private running = false;

  constructor(options: ScannerClientOptions) {
    this.options = { queueMax: 10_000, batchMax: 200, timeoutMs: 1_000, ...options };
    const host = options.hostId === undefined ? "" : `?hostId=${encodeURIComponent(options.hostId)}`;
    this.target = `${options.url.replace(/\/$/, "")}/api/ingest/batch${host}`;
  }

  appendPurchaseRecord(body: unknown): void {
    this.tell("appendPurchaseRecord", body);
  }

  executePurchase(body: unknown): void {
    this.tell("executePurchase", body);
  }

  redeemWalletBundle(body: unknown): void {
    this.tell("redeemWalletBundle", body);
  }

  applyGameOutcome(body: unknown): void {
    this.tell("applyGameOutcome", body);
  }

  getPlayerWallet(body: unknown): void {
    this.tell("getPlayerWallet", body);
  }

  persistSnapshotReturningRev(body: unknown): void {
    this.tell("persistSnapshotReturningRev", body);
  }

  /** Any call by its name. Returns at once and never throws. */
  tell(op: Hook, body: unknown): void {
    if (this.queue.length >= this.options.queueMax) {
      this.queue.shift();
      this.dropped += 1;
    }
    this.queue.push({ op, body });
    if (!this.running) {
      this.running = true;
      void this.run();
    }
  }

  /** Waits until everything is sent, at most so long. Gives the number of operations that are left. */
  async drain(atMostMs: number): Promise<number> {
    const end = Date.now() + atMostMs;
    while (this.running && Date.now() < end) {
      // Keeps the process alive: somebody waits for this.
      await new Promise((done) => setTimeout(done, 20));
    }
    return this.queue.length;
  }

  private async run(): Promise<void> {
    let wait = RETRY_MIN_MS;
    while (this.queue.length > 0) {
      const batch = this.queue.slice(0, this.options.batchMax);
      if (await this.send(batch)) {
        // What was dropped meanwhile is no longer in front.
        const sent = new Set(batch);
        while (this.queue.length > 0 && sent.has(this.queue[0])) {
          this.queue.shift();
        }
        wait = RETRY_MIN_MS;
      } else {
        await pause(wait + Math.random() * wait);
        wait = Math.min(wait * 2, RETRY_MAX_MS);
      }
    }
    this.running = false;
  }

  /** Whether the server has answered for these operations, be it with a refusal: then they are not sent again. */
  private async send(ops: Operation[]): Promise<boolean> {
    try {
      const answer = await fetch(this.target, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: `Bearer ${this.options.token}` },
        body: JSON.stringify({ ops, mode: "continue" }),
        signal: AbortSignal.timeout(this.options.timeoutMs),
      });
      if (answer.status >= 500 || answer.status === 429 || answer.status === 408) {
        this.problem(`the Scanner answered ${answer.status}; trying again`);
        return false;
      }
      if (!answer.ok) {
        this.refused += ops.length;
        this.problem(`the Scanner refused ${ops.length} operations with ${answer.status}: ${await answer.text()}`);
        return true;
      }
      const { results } = (await answer.json()) as { results: { index: number; status: string; code?: string }[] };
      for (const result of results) {
        if (result.status === "invalid" || result.status === "conflict") {
          this.refused += 1;
          this.problem(`${ops[result.index].op} was refused: ${JSON.stringify(result)}`);
        }
      }
      return true;
    } catch (error) {
      this.problem(`the Scanner cannot be reached: ${String(error)}; trying again`);
      return false;
    }
  }

  private problem(message: string): void {
    try {
      this.options.onProblem?.(message);
    } catch {
      // A listener that throws is no reason to stop.
    }
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((done) => {
    const timer = setTimeout(done, ms);
    // Does not keep a process alive that wants to end.
    (timer as { unref?: () => void }).unref?.();
  });
}
