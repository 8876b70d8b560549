/**
 * The live stream. One tab of a browser holds it and passes events on to the others: HTTP/1.1 allows six connections
 * per browser, and a stream per tab would use them up.
 */
import { retryDelay } from "./reducer";

export type LiveEvent = { type: string; data: Record<string, unknown> };
export type StreamState = "connecting" | "live" | "lost";

const TYPES = [
  "hello",
  "runs",
  "points",
  "reload",
  "rewind",
  "evaluation",
  "checkpoint",
  "replay",
  "alert",
  "event",
  "store",
  "resources",
  "verify",
  "policy",
  "deleted",
  "reset",
];
const LOCK = "hotloop.stream";

type Message =
  | { kind: "event"; event: LiveEvent }
  | { kind: "state"; state: StreamState }
  | { kind: "topics"; tab: string; topics: string[] }
  | { kind: "who" }
  | { kind: "bye"; tab: string };

class Stream {
  private readonly tab = crypto.randomUUID();
  private readonly channel = new BroadcastChannel("hotloop.live");
  private readonly eventListeners = new Set<(event: LiveEvent) => void>();
  private readonly stateListeners = new Set<() => void>();
  /** Topics that each tab wants; only the tab with the stream needs those of others. */
  private readonly wanted = new Map<string, string[]>();
  private state: StreamState = "connecting";
  private source: EventSource | null = null;
  private open = "";
  private lastId = "";
  private attempt = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isHolder = false;

  start(): void {
    this.channel.onmessage = (message: MessageEvent<Message>) => this.receive(message.data);
    // The tab that holds the stream answers with its state.
    this.want([]);
    window.addEventListener("pagehide", () => this.send({ kind: "bye", tab: this.tab }));
    // Never resolves: the lock is released when the tab closes, and the next tab takes over.
    void navigator.locks.request(LOCK, () => {
      this.isHolder = true;
      this.send({ kind: "who" });
      this.connect();
      return new Promise<void>(() => {});
    });
  }

  /** Ask for the topics of this tab, beside those of all runs. */
  want(topics: string[]): void {
    this.wanted.set(this.tab, topics);
    this.send({ kind: "topics", tab: this.tab, topics });
    if (this.isHolder) this.connect();
  }

  onEvent(listener: (event: LiveEvent) => void): () => void {
    this.eventListeners.add(listener);
    return () => this.eventListeners.delete(listener);
  }

  readonly subscribeState = (listener: () => void): (() => void) => {
    this.stateListeners.add(listener);
    return () => this.stateListeners.delete(listener);
  };

  readonly getState = (): StreamState => this.state;

  private send(message: Message): void {
    this.channel.postMessage(message);
  }

  private receive(message: Message): void {
    if (message.kind === "event") this.deliver(message.event);
    else if (message.kind === "state") this.setState(message.state);
    else if (message.kind === "who")
      this.send({ kind: "topics", tab: this.tab, topics: this.wanted.get(this.tab) ?? [] });
    else if (message.kind === "topics") {
      this.wanted.set(message.tab, message.topics);
      if (this.isHolder) {
        this.send({ kind: "state", state: this.state });
        this.connect();
      }
    } else this.wanted.delete(message.tab);
  }

  private topics(): string {
    return [...new Set(["runs", "alerts", ...[...this.wanted.values()].flat()])].sort().join(",");
  }

  private connect(): void {
    const topics = this.topics();
    const isOpen = this.source !== null && this.source.readyState !== EventSource.CLOSED;
    if (isOpen && this.open === topics) return;
    clearTimeout(this.timer);
    // With other topics the old stream goes on until the new one speaks: events may come twice, but none is missed.
    const before = isOpen ? this.source : null;
    const after = !isOpen && this.lastId ? `&after=${encodeURIComponent(this.lastId)}` : "";
    const source = new EventSource(`/api/rl/events?topics=${encodeURIComponent(topics)}${after}`);
    this.open = topics;
    this.source = source;
    for (const type of TYPES) {
      source.addEventListener(type, (message: MessageEvent<string>) => {
        before?.close();
        if (message.lastEventId) this.lastId = message.lastEventId;
        this.attempt = 0;
        this.shareState("live");
        const event: LiveEvent = { type, data: JSON.parse(message.data) };
        this.send({ kind: "event", event });
        this.deliver(event);
      });
    }
    source.onerror = () => {
      // The browser's own retry knows neither our pace nor other topics.
      before?.close();
      source.close();
      if (this.source !== source) return;
      this.shareState("lost");
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.connect(), retryDelay(this.attempt, Math.random()));
      this.attempt += 1;
    };
  }

  private deliver(event: LiveEvent): void {
    for (const listener of this.eventListeners) listener(event);
  }

  private shareState(state: StreamState): void {
    if (state === this.state) return;
    this.send({ kind: "state", state });
    this.setState(state);
  }

  private setState(state: StreamState): void {
    if (state === this.state) return;
    this.state = state;
    for (const listener of this.stateListeners) listener();
  }
}

export const stream = new Stream();
