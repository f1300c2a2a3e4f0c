/**
 * SHA-256 (FIPS 180-4) of a stream.
 *
 * The browser's own digest takes a whole buffer at once, which a data set does not fit into, and is missing where the page came
 * over plain HTTP.
 */

const BLOCK = 64;
const ROUNDS = 64;

// First 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2), and of the square roots of
// the first 8 (5.3.3).
const PRIMES = firstPrimes(ROUNDS);
const K = Int32Array.from(PRIMES, (prime) => fraction(prime, 3));
const H = Int32Array.from(PRIMES.slice(0, 8), (prime) => fraction(prime, 2));

export class Sha256 {
  private readonly state = Int32Array.from(H);
  private readonly words = new Int32Array(ROUNDS);
  private readonly rest = new Uint8Array(BLOCK);
  private restLength = 0;
  private length = 0;

  update(data: Uint8Array): this {
    this.length += data.length;
    let at = 0;
    if (this.restLength > 0) {
      at = Math.min(BLOCK - this.restLength, data.length);
      this.rest.set(data.subarray(0, at), this.restLength);
      this.restLength += at;
      if (this.restLength < BLOCK) return this;
      this.block(this.rest, 0);
      this.restLength = 0;
    }
    for (; at + BLOCK <= data.length; at += BLOCK) this.block(data, at);
    this.rest.set(data.subarray(at));
    this.restLength = data.length - at;
    return this;
  }

  /** Lower-case hexadecimal. Ends this digest: no `update` after it. */
  hex(): string {
    const bits = this.length * 8;
    const padding = new Uint8Array((this.restLength < 56 ? 56 : 120) - this.restLength + 8);
    padding[0] = 0x80;
    const view = new DataView(padding.buffer);
    view.setUint32(padding.length - 8, Math.floor(bits / 2 ** 32));
    view.setUint32(padding.length - 4, bits >>> 0);
    this.update(padding);
    return Array.from(this.state, (word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
  }

  private block(data: Uint8Array, at: number): void {
    const w = this.words;
    for (let t = 0; t < 16; t++) {
      const i = at + t * 4;
      w[t] = (data[i]! << 24) | (data[i + 1]! << 16) | (data[i + 2]! << 8) | data[i + 3]!;
    }
    for (let t = 16; t < ROUNDS; t++) {
      const x = w[t - 15]!;
      const y = w[t - 2]!;
      const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      w[t] = (w[t - 16]! + s0 + w[t - 7]! + s1) | 0;
    }
    const state = this.state;
    let a = state[0]!;
    let b = state[1]!;
    let c = state[2]!;
    let d = state[3]!;
    let e = state[4]!;
    let f = state[5]!;
    let g = state[6]!;
    let h = state[7]!;
    for (let t = 0; t < ROUNDS; t++) {
      const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const one = (h + s1 + ((e & f) ^ (~e & g)) + K[t]! + w[t]!) | 0;
      const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const two = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + one) | 0;
      d = c;
      c = b;
      b = a;
      a = (one + two) | 0;
    }
    state[0] = state[0]! + a;
    state[1] = state[1]! + b;
    state[2] = state[2]! + c;
    state[3] = state[3]! + d;
    state[4] = state[4]! + e;
    state[5] = state[5]! + f;
    state[6] = state[6]! + g;
    state[7] = state[7]! + h;
  }
}

function firstPrimes(count: number): number[] {
  const primes: number[] = [];
  for (let n = 2; primes.length < count; n++) if (primes.every((prime) => n % prime !== 0)) primes.push(n);
  return primes;
}

/** The first 32 bits of the fraction of a root, exactly: by whole numbers, not by a rounded power. */
function fraction(prime: number, root: 2 | 3): number {
  const scaled = BigInt(prime) << BigInt(32 * root);
  let low = 0n;
  let high = 1n << 40n;
  while (low < high) {
    const middle = (low + high + 1n) >> 1n;
    if (middle ** BigInt(root) <= scaled) low = middle;
    else high = middle - 1n;
  }
  return Number(BigInt.asIntN(32, low));
}
