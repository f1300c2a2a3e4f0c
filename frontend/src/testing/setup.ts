/** Runs before each file of tests: what a browser does and Node does not. */

// A page asks for `/api/...`; Node wants the whole address. The client takes this class as it is read, so it must stand there before.
globalThis.Request = class extends Request {
  constructor(input: RequestInfo | URL, init?: RequestInit) {
    super(typeof input === 'string' ? new URL(input, location.href) : input, init);
  }
};
