/** Which lines of a log tell of an error: what a reader would look for first. */

const TRACEBACK = /Traceback \(most recent call last\)|^\s*(?:[\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt)\b(?::|$)|^(?:thread '.*' )?panicked at |^panic: /;
const LEVEL = /(?:^|[\s[|(])(?:ERROR|FATAL|CRITICAL|PANIC|SEVERE)(?:[\s\]|:)]|$)/;
const WORDS = /^(?:error|fatal error|fatal)\b\s*[:[]|segmentation fault|core dumped|cuda out of memory|out of memory|CUDA error|NCCL (?:WARN|ERROR)|command not found|no such file or directory|permission denied|\bKilled\b|bus error/i;

export function isError(plain: string): boolean {
  const head = plain.length > 2_000 ? plain.slice(0, 2_000) : plain;
  return TRACEBACK.test(head) || LEVEL.test(head) || WORDS.test(head);
}
