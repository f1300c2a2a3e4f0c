/**
 * One WebSocket for the whole portal: every subscription of every page, resumed after a break.
 *
 * After a break each subscription goes on from the last `seq` that it saw, so nothing is missed and nothing comes twice. `onGap` tells
 * the subscriber to read its objects anew: older events are gone, or the server itself went back, as after a restored backup. `onBegin`
 * says from when on events come: what was read before may be older than the first of them.
 */

export interface LiveEvent {
  seq: number;
  kind: string;
  at: string;
  tenant_id: string | null;
  job_id: string | null;
  subject: { kind: string; id: string };
  data: Record<string, unknown>;
}

type Topic = { job: string } | { tenant: string } | { user: 'me' };
export type LiveState = 'connecting' | 'open' | 'lost';
export type LogMessage = Record<string, unknown>;

interface EventSubscription {
  kind: 'events';
  topic: Topic;
  after: number | null;
  onEvents: (events: LiveEvent[]) => void;
  onGap: () => void;
  onBegin: () => void;
}

interface LogSubscription {
  kind: 'logs';
  request: () => Record<string, unknown>;
  onMessages: (messages: LogMessage[]) => void;
  onEnd: (code: string) => void;
}

const BACKOFF_MS = [300, 1_000, 2_000, 4_000, 8_000, 15_000] as const;
const SILENT_MS = 45_000; // Three heartbeats missed: the connection is dead, whatever the browser thinks.
const HIDDEN_MS = 250; // How often a hidden page hears what came.
const SIGNED_OUT = 4401;

export class LiveConnection {
  private socket: WebSocket | null = null;
  private subscriptions = new Map<string, EventSubscription | LogSubscription>();
  private listeners = new Set<() => void>();
  private inbox = new Map<string, unknown[]>();
  private flushing: 'frame' | 'timer' | null = null;
  private frame = 0;
  private attempts = 0;
  private counter = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private silence: ReturnType<typeof setTimeout> | undefined;
  state: LiveState = 'connecting';
  onSignedOut: () => void = () => undefined;

  constructor(private readonly address: () => string) {}

  /** Follow events of a topic until the returned function is called. Events come in batches, at most one per frame. */
  events(topic: Topic, handlers: { onEvents: (events: LiveEvent[]) => void; onGap?: () => void; onBegin?: () => void; after?: number }): () => void {
    const { onEvents, onGap = () => undefined, onBegin = () => undefined, after = null } = handlers;
    return this.add({ kind: 'events', topic, after, onEvents, onGap, onBegin });
  }

  /** Follow a log. `request` is asked again at every connection, so that it can name the cursor to go on from. */
  logs(handlers: { request: () => Record<string, unknown>; onMessages: (messages: LogMessage[]) => void; onEnd?: (code: string) => void }): () => void {
    return this.add({ kind: 'logs', request: handlers.request, onMessages: handlers.onMessages, onEnd: handlers.onEnd ?? (() => undefined) });
  }

  /** For useSyncExternalStore. */
  watch = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** Try at once: the machine woke up, the network is back, somebody signed in. */
  retry(): void {
    if (this.socket && this.socket.readyState <= WebSocket.OPEN && this.state === 'open') return;
    this.attempts = 0;
    this.open();
  }

  close(): void {
    clearTimeout(this.timer);
    clearTimeout(this.silence);
    const socket = this.socket;
    this.socket = null;
    socket?.close();
  }

  private add(subscription: EventSubscription | LogSubscription): () => void {
    const id = `s${++this.counter}`;
    this.subscriptions.set(id, subscription);
    if (!this.socket) this.open();
    else if (this.socket.readyState === WebSocket.OPEN) this.subscribe(id, subscription);
    return () => {
      if (!this.subscriptions.delete(id)) return;
      this.inbox.delete(id);
      if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ unsubscribe: id }));
    };
  }

  private open(): void {
    clearTimeout(this.timer);
    this.socket?.close();
    const socket = new WebSocket(this.address());
    this.socket = socket;
    socket.onopen = () => {
      if (this.socket !== socket) return;
      this.attempts = 0;
      this.become('open');
      this.listen(socket);
      for (const [id, subscription] of this.subscriptions) this.subscribe(id, subscription);
    };
    socket.onmessage = (message) => {
      if (this.socket !== socket) return;
      this.listen(socket);
      this.receive(String(message.data));
    };
    socket.onclose = (event) => {
      if (this.socket !== socket) return;
      clearTimeout(this.silence);
      this.socket = null;
      this.become('lost');
      if (event.code === SIGNED_OUT) {
        this.onSignedOut();
        return;
      }
      const wait = BACKOFF_MS[Math.min(this.attempts++, BACKOFF_MS.length - 1)] ?? 15_000;
      this.timer = setTimeout(() => this.open(), wait * (0.7 + Math.random() * 0.6));
    };
  }

  private listen(socket: WebSocket): void {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => socket.close(), SILENT_MS);
  }

  private subscribe(id: string, subscription: EventSubscription | LogSubscription): void {
    if (subscription.kind === 'logs') this.tellWaiting(id, subscription); // First, or the cursor of `request` would lie before what has come already.
    const command =
      subscription.kind === 'events'
        ? { subscribe: subscription.topic, id, ...(subscription.after === null ? {} : { after: subscription.after }) }
        : { subscribe_logs: subscription.request(), id };
    this.socket?.send(JSON.stringify(command));
  }

  private receive(text: string): void {
    const message = JSON.parse(text) as { type: string; id?: string; seq?: number; event?: LiveEvent; code?: string };
    const subscription = message.id ? this.subscriptions.get(message.id) : undefined;
    if (!message.id || !subscription) return;
    if (subscription.kind === 'logs') {
      if (message.type === 'log') this.queue(message.id, message);
      else if (message.type === 'ended' || message.type === 'error') {
        this.tellWaiting(message.id, subscription); // The last lines and the end often come within one frame.
        subscription.onEnd(message.code ?? message.type);
      }
      return;
    }
    if (message.type === 'subscribed') this.begin(subscription, message.seq ?? null);
    else if (message.type === 'gap') subscription.onGap();
    else if (message.type === 'event' && message.event && message.event.seq > (subscription.after ?? -1)) {
      subscription.after = message.event.seq;
      this.queue(message.id, message.event);
    }
  }

  /** The server says from where it goes on: before what was seen only where a backup was restored, and its numbers are given anew. */
  private begin(subscription: EventSubscription, seq: number | null): void {
    const before = subscription.after;
    if (before === null) {
      subscription.after = seq;
      subscription.onBegin();
    } else if (seq !== null && seq < before) {
      subscription.after = seq;
      subscription.onGap();
    }
  }

  private tellWaiting(id: string, subscription: LogSubscription): void {
    const waiting = this.inbox.get(id);
    if (!waiting) return;
    this.inbox.delete(id);
    subscription.onMessages(waiting as LogMessage[]);
  }

  /** Handlers run once per frame with all that came meanwhile: a hundred changes a second are sixty calls at most. */
  private queue(id: string, item: unknown): void {
    const waiting = this.inbox.get(id);
    if (waiting) waiting.push(item);
    else this.inbox.set(id, [item]);
    this.flushSoon();
  }

  /** A hidden page draws no frames, also not the one that was asked for before it was hidden; its lists would grow without end. */
  private flushSoon(): void {
    if (this.flushing === 'frame' && document.hidden) {
      cancelAnimationFrame(this.frame);
      this.flushing = null;
    }
    if (this.flushing) return;
    if (document.hidden) {
      this.flushing = 'timer';
      setTimeout(this.flush, HIDDEN_MS);
    } else {
      this.flushing = 'frame';
      this.frame = requestAnimationFrame(this.flush);
    }
  }

  private flush = (): void => {
    this.flushing = null;
    const all = this.inbox;
    this.inbox = new Map();
    for (const [name, items] of all) {
      const subscription = this.subscriptions.get(name);
      if (subscription?.kind === 'events') subscription.onEvents(items as LiveEvent[]);
      else subscription?.onMessages(items as LogMessage[]);
    }
  };

  private become(state: LiveState): void {
    if (this.state === state) return;
    this.state = state;
    for (const listener of this.listeners) listener();
  }
}

export const live = new LiveConnection(() => `${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/ws/v1/live`);
