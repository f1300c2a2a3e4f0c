/** Some answers also come as a file, and are described as either; asked without a format they are JSON. */

export function json<T>(answer: T): Exclude<T, string> {
  if (typeof answer === 'string') throw new Error('A file came where JSON was asked for.');
  return answer as Exclude<T, string>;
}
